"""One writer at a time: a lock that goes away with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graphattn.exceptions import DataError

_LOCK = ".writing"


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Keep other writers out of a folder.

    Raises
    ------
    DataError
        when another process is writing there
    """
    path = folder / _LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(folder) from None
        if not path.exists() or os.fstat(descriptor).st_ino != path.stat().st_ino:
            raise _busy(folder)  # it was removed by a writer that ended just now
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def is_being_written(folder: Path) -> bool:
    """Whether some process holds the lock of a folder."""
    with suppress(FileNotFoundError), open(folder / _LOCK, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _busy(folder: Path) -> DataError:
    writer = ""
    with suppress(OSError, ValueError):
        writer = f" ({int((folder / _LOCK).read_text())})"
    return DataError(
        f"is being written by another process{writer}", path=folder, hint="Wait for it, or choose another --out."
    )
