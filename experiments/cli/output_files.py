"""Output that is never half written: files appear when they are complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphattn.builders.files import atomic_file, is_stream, write_error
from graphattn.exceptions import DataError


@contextmanager
def new_file(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """Open a stream to a temporary file, which replaces ``path`` at the end (see :func:`atomic_file`).

    Parameters
    ----------
    path : where it will be
    binary : bytes instead of text

    Raises
    ------
    DataError
        when it cannot be written
    """
    try:
        with (
            atomic_file(path) as temporary,
            open(temporary, "wb") if binary else open(temporary, "w", encoding="utf-8") as stream,
        ):
            yield stream
    except OSError as error:
        raise write_error(path, error) from error


def check_place(path: Path, *read: str | Path) -> None:
    """Refuse a file that cannot be written, or should not be, before work is done for it.

    Parameters
    ----------
    path : the file to write
    read : files that are read for it, and must not be lost; or ``-``, or texts

    Raises
    ------
    DataError
        when its folder is missing or closed, a folder stands in its place, or it is one of those that are read
    """
    if is_stream(path):
        return
    if any(_same_file(path, other) for other in read):
        raise DataError("would be written over what is read", path=path, hint="Choose another file.")
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        code = errno.EISDIR
    elif not folder.is_dir():
        code = errno.ENOENT
    elif not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EACCES
    else:
        return
    raise write_error(path, OSError(code, os.strerror(code)))


def _same_file(path: Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one is not there, or is no path
        return False


def files_of_model(model: Path) -> list[Path]:
    """What a model is read from."""
    from graphattn.models.saving import CONFIG, LABELS, TOKENIZER, WEIGHTS

    return [model / name for name in (CONFIG, LABELS, TOKENIZER, WEIGHTS)]
