"""Lock folders and files against other processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from graphattn.exceptions import DataError

LOCK = ".writing"
"""File in a folder that :func:`folder_lock` holds."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder; the lock ends with the process."""
    path = folder / LOCK
    try:
        with file_lock(path, timeout=0):
            path.write_text(f"{os.getpid()}\n", encoding="ascii")
            yield
    except Timeout as error:
        writer = ""
        with suppress(OSError, ValueError):
            writer = f" ({int(path.read_text(encoding='ascii'))})"
        problem = f"is being written by another process{writer}"
        raise DataError(problem, path=folder, hint="Wait for it, or choose another folder.") from error


def is_locked(folder: Path) -> bool:
    """Whether a process holds the :func:`folder_lock` of a folder."""
    path = folder / LOCK
    if not path.exists():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # a lock file on a read-only disk
        return False


@contextmanager
def file_lock(path: Path, timeout: float) -> Iterator[None]:
    """Hold a lock, a file that exists meanwhile; ``timeout`` are the seconds to wait for it, -1 for no limit."""
    with FileLock(path, timeout=timeout):
        try:
            yield
        finally:
            with suppress(OSError):  # Windows removes no open file
                path.unlink()
