"""Write files and folders atomically, with a checksum on request."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graphattn.builders._locks import LOCK, file_lock
from graphattn.builders._paths import FilePath, is_stream, resolve_path
from graphattn.builders._regular_files import WEIGHTS, UnsuitableFileError, open_regular

_LEFTOVER_SECONDS = 24 * 3600
_TEMPORARY = re.compile(r"\..+\.(new|lock)", re.DOTALL)
_CHECKSUM_BYTES = hashlib.sha256().digest_size


@contextmanager
def atomic_file(path: FilePath, *, sync: bool = False) -> Iterator[Path]:
    """Write a temporary file next to ``path`` and rename it to ``path`` at the end; on errors, ``path`` is unchanged.

    A symbolic link is kept and its target replaced. A pipe or device is written to directly.

    Yields the path to write to.

    Examples
    --------
    >>> with atomic_file(getfixture("tmp_path") / "labels.txt") as temporary:
    ...     _ = temporary.write_text("neg pos")
    """
    if is_stream(path):
        yield Path(path)
        return
    target = resolve_path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.new")
    remove_leftovers(target)
    try:
        yield temporary
        if sync:
            _sync(temporary)
        os.replace(temporary, target)
    except OSError as error:
        error.filename = error.filename or str(target)  # a failing write names no file
        raise
    finally:
        with suppress(OSError):  # the folder may be missing, too
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8; half surrogates, such as those of file names that are not UTF-8, become the escapes of JSON."""
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def seal(content: bytes) -> bytes:
    """The content with its checksum at the end, for :func:`unseal`."""
    return content + _checksum(content)


def unseal(sealed: bytes) -> bytes | None:
    """The content that was sealed; None if it was damaged since."""
    content = sealed[:-_CHECKSUM_BYTES]
    return content if _checksum(content) == sealed[-_CHECKSUM_BYTES:] else None


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def write_with_checksum(path: Path, content: bytes) -> None:
    """Write a file atomically, flushed to the disk and with its checksum at the end, for :func:`read_sealed`.

    Formats whose readers start from the last bytes, such as ZIP, can still be read as what they are.
    """
    with atomic_file(path, sync=True) as temporary, open(temporary, "wb") as file:
        file.writelines((content, _checksum(content)))  # no copy of a large checkpoint


def read_sealed(path: Path) -> bytes | None:
    """The content of a file that :func:`write_with_checksum` wrote; None if it is missing or was damaged since."""
    if not path.exists():
        return None
    try:
        with open_regular(path, WEIGHTS) as file:
            size = os.fstat(file.fileno()).st_size - _CHECKSUM_BYTES
            if size < 0:
                return None
            file.seek(size)
            checksum = file.read()
            if not any(checksum):  # a sparse file, whose zeros would fill the memory
                return None
            file.seek(0)
            content = file.read(size)
    except UnsuitableFileError:
        return None
    return content if _checksum(content) == checksum else None


def remove_leftovers(target: Path, seconds: float = _LEFTOVER_SECONDS) -> None:
    """Remove the temporary files of killed writers: those that nobody has written to for a day, or some seconds."""
    with suppress(OSError):
        for leftover in target.parent.glob(f".{glob.escape(target.name)}.[0-9]*.new"):
            if time.time() - leftover.stat().st_mtime > seconds:
                leftover.unlink()


def is_vacant(folder: FilePath) -> bool:
    """Whether a folder is empty, but for temporary files and locks of our own writers, which were killed.

    The folder that :func:`locate_replaced_folder` names is no temporary one: it may be the only copy of its content.
    """
    return all(name == LOCK or _TEMPORARY.fullmatch(name) for name in os.listdir(folder))


@contextmanager
def atomic_folder(path: FilePath, *, sync: bool = False) -> Iterator[Path]:
    """Fill a temporary folder next to ``path`` and rename it to ``path`` at the end; on errors, ``path`` is unchanged.

    A symbolic link is kept and its target replaced. Writers of the same folder wait for each other. What a killed
    writer left behind is removed by the next one.

    Yields the empty folder to fill.
    """
    target = resolve_path(path)
    temporary, previous = target.with_name(f".{target.name}.new"), locate_replaced_folder(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(target.with_name(f".{target.name}.lock"), timeout=-1):
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield temporary
            if sync:
                for file in temporary.iterdir():
                    _sync(file)
            _replace_folder(temporary, target, previous)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(source: Path, target: Path, previous: Path) -> None:
    if target.exists():
        shutil.rmtree(previous, ignore_errors=True)
        os.rename(target, previous)
    try:
        os.rename(source, target)
    except OSError:
        if previous.exists():
            os.rename(previous, target)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def locate_replaced_folder(path: Path) -> Path:
    """The path at which :func:`atomic_folder` keeps the old folder between its two renames, for concurrent readers."""
    return path.with_name(f".{path.name}.old")


def _sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
