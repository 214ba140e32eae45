"""Output that is never half written: files appear when they are complete."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from graphattn.exceptions import DataError


@contextmanager
def new_file(path: Path, *, binary: bool = False) -> Iterator[Any]:
    """A file to write to, beside ``path``; it takes the place of ``path`` when all went well.

    A link stays one: its target is written. A pipe or a device is written to as it is.

    Parameters
    ----------
    path : where it will be
    binary : bytes instead of text

    Raises
    ------
    DataError
        when it cannot be written
    """
    place = path if _is_stream(path) else Path(os.path.realpath(path))  # a pipe's link leads nowhere
    beside = place if _is_stream(place) else _beside(place)
    try:
        with open(beside, "wb") if binary else open(beside, "w", encoding="utf-8") as stream:
            yield stream
        if beside != place:
            os.replace(beside, place)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        if beside != place:
            with suppress(OSError):  # there may be no folder at all
                beside.unlink()


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """An empty folder to fill, beside ``path``; it takes the place of ``path`` when all went well.

    Parameters
    ----------
    path : where it will be
    replace : remove what is there, in the end

    Raises
    ------
    DataError
        when it cannot be written, or ``path`` is there already, not empty and not to be replaced
    """
    if not replace and path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise DataError("is there already", path=path, hint="Choose another --out, or remove it.")
    beside = _beside(path)
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        yield beside
        if replace:
            shutil.rmtree(path, ignore_errors=True)
        os.replace(beside, path)
    except OSError as error:
        raise _unwritable(path, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


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
    if _is_stream(path):
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
    raise _unwritable(path, OSError(code, os.strerror(code)))


def _same_file(path: Path, other: str | Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # one is not there, or is no path
        return False


def files_of_model(model: Path) -> list[Path]:
    """What a model is read from."""
    from graphattn.models.saving import CONFIG, LABELS, TOKENIZER, WEIGHTS

    return [model / name for name in (CONFIG, LABELS, TOKENIZER, WEIGHTS)]


def _is_stream(path: Path) -> bool:
    """Whether this is a pipe or a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.new")


def _unwritable(path: Path, error: OSError) -> DataError:
    reason = error.strerror or str(error)
    return DataError(f"cannot be written ({reason})", path=path, hint="Check the folder and the space on the disk.")
