"""Name, recognize and resolve paths of files and folders."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from graphattn.exceptions import DataError

FilePath = str | os.PathLike[str]
_DIRECTORIES = {
    "store.json": "a store, for Store, graphattn train, evaluate and predict, or for graphattn build --append",
    "model.safetensors": "a model, for graphattn.load, graphattn evaluate and predict",
}


def is_standard_input(path: FilePath) -> bool:
    """Whether ``path`` is ``"-"``, which stands for standard input."""
    return os.fspath(path) == "-"


def display_name(path: FilePath) -> str:
    """The file's name in errors.

    Examples
    --------
    >>> display_name("-"), display_name("train.tsv")
    ('standard input', 'train.tsv')
    """
    return "standard input" if is_standard_input(path) else os.fspath(path)


def describe_directory(path: FilePath) -> str | None:
    """Describe one of our directories; None for any other."""
    return next((description for file, description in _DIRECTORIES.items() if (Path(path) / file).exists()), None)


def is_store(path: str | Path) -> bool:
    """Whether ``graphattn build`` wrote this folder; False also for a text that cannot be a path."""
    return os.path.isfile(os.path.join(path, "store.json"))


def is_stream(path: FilePath) -> bool:
    """Whether a path is standard input, a pipe or a device, so that it can be read only once."""
    return is_standard_input(path) or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def cache_folder() -> Path:
    """The folder for what can be computed again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphattn"


def resolve_path(path: FilePath) -> Path:
    """The path without links and ``..``, which the system calls of a write would follow; an OSError for a NUL in it."""
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:
        raise OSError(errno.EINVAL, "a file name cannot contain a NUL character", os.fspath(path)) from error


def write_error(path: FilePath, error: OSError) -> DataError:
    """The error of a file that cannot be written."""
    reason = error.strerror or str(error)
    return DataError(f"cannot be written ({reason})", path=path, hint="Check the folder and the space on the disk.")
