"""Open the files of models, pretrained directories, stores, caches and settings: regular ones, of a plausible size.

Other paths, such as named pipes and devices, would block or give bytes without end.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from typing import BinaryIO

from graphattn.builders._foreign import LFS_POINTER, is_lfs_pointer
from graphattn.builders._paths import FilePath

SETTINGS = 1 << 26
"""Most bytes of a file of settings: ``config.json``, a YAML file, 64 MiB."""
NAMES = 1 << 30
"""Most bytes of a tokenizer, of labels, of the manifest of a store, 1 GiB."""
WEIGHTS = None
"""Weights and shards have any size: they are read in parts, or their digest is compared first."""

_POINTER_BYTES = 1024
_HASHED_BYTES = 1 << 20
_OTHER_TYPES = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class UnsuitableFileError(OSError):
    """A path that cannot be a file of ours, as ``strerror`` says; callers treat it like any file they cannot read."""


def open_regular(path: FilePath, most: int | None) -> BinaryIO:
    """Open a regular file of at most ``most`` bytes to read it.

    Raises
    ------
    UnsuitableFileError
        for a named pipe, socket or device, a larger file, or a pointer of Git LFS
    OSError
        when the file is missing, is a folder, or cannot be opened
    """
    file = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 (the caller closes it)
    try:
        _check_file(file, os.fspath(path), most)
    except BaseException:
        file.close()
        raise
    return file


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; without O_NONBLOCK, opening a pipe waits for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _check_file(file: io.BufferedReader, path: str, most: int | None) -> None:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        found = _OTHER_TYPES.get(stat.S_IFMT(status.st_mode), "something else")
        raise UnsuitableFileError(errno.EINVAL, f"{found}, not a regular file", path)
    if most is not None and status.st_size > most:
        sizes = f"{status.st_size:,} bytes, and such a file has at most {most:,}"
        raise UnsuitableFileError(errno.EFBIG, sizes, path)
    if status.st_size <= _POINTER_BYTES and is_lfs_pointer(file.peek(_POINTER_BYTES)):
        raise UnsuitableFileError(errno.EINVAL, f"{LFS_POINTER}; fetch it: git lfs pull", path)


def read_bytes(path: FilePath, most: int | None) -> bytes:
    """The content of a regular file of at most ``most`` bytes; errors are those of :func:`open_regular`."""
    with open_regular(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def read_text(path: FilePath, most: int | None, errors: str = "strict") -> str:
    """The content of a regular file in UTF-8, with any line ends as ``\\n``."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(path, most)), encoding="utf-8", errors=errors).read()


def file_sha256(path: FilePath, most: int | None = WEIGHTS) -> str:
    """SHA-256 of a regular file of at most ``most`` bytes."""
    digest = hashlib.sha256()
    with open_regular(path, most) as file:
        while block := file.read(_HASHED_BYTES):
            digest.update(block)
    return digest.hexdigest()
