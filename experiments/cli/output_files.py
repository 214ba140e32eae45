"""Output files, which appear when they are complete, and lines of JSON."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphattn.exceptions import DataError

_ENCODE = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@contextmanager
def new_file(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """Open a temporary file, which replaces ``path`` at the end (see :func:`atomic_file`)."""
    from graphattn.builders.files import atomic_file, write_error  # loads PyTorch

    try:
        with (
            atomic_file(path) as temporary,
            open(temporary, "wb") if binary else open(temporary, "w", encoding="utf-8") as stream,
        ):
            yield stream
    except OSError as error:
        raise write_error(path, error) from error


def check_place(path: Path, *read: str | Path) -> None:
    """Reject a file that cannot be written or is one of the inputs, before work is done for it.

    Parameters
    ----------
    path : the file to write
    read : inputs: files, ``-``, or texts
    """
    from graphattn.builders.files import is_stream, write_error  # loads PyTorch

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
    except (OSError, ValueError):  # one does not exist, or is no path
        return False


def files_of_model(model: Path) -> list[Path]:
    """The files of a model directory."""
    from graphattn.models.saving import CONFIG, LABELS, TOKENIZER, WEIGHTS

    return [model / name for name in (CONFIG, LABELS, TOKENIZER, WEIGHTS)]


def encode_line(row: Mapping[str, Any]) -> str:
    """A row as a line of JSON, which has no NaN."""
    try:
        return _ENCODE(row) + "\n"
    except ValueError as error:
        raise DataError("the model gives numbers that are not finite", hint="Train it again.") from error
