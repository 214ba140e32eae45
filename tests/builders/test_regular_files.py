"""Files of ours are regular and of a plausible size; opening another path neither waits nor fills the memory."""

import errno
import hashlib
import os
import socket

import pytest

from graphattn.builders._regular_files import (
    WEIGHTS,
    UnsuitableFileError,
    file_sha256,
    open_regular,
    read_bytes,
    read_text,
)

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n"


def test_a_regular_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes("é\r\n".encode())
    assert read_bytes(path, 4) == "é\r\n".encode()
    assert read_text(os.fspath(path), WEIGHTS) == "é\n"
    assert file_sha256(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"")
    assert read_bytes(path, 0) == b""
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_bytes(link, 0) == b""


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def large(path):
    """A file of a hundred gigabytes that takes no space."""
    with open(path, "wb") as file:
        file.truncate(10**11)


def pointer(path):
    path.write_bytes(POINTER)


@pytest.mark.parametrize(
    ("make", "reason", "number"),
    [
        (pipe, "a named pipe, not a regular file", errno.EINVAL),
        (device, "a device, not a regular file", errno.EINVAL),
        (large, "100,000,000,000 bytes, and such a file has at most 1,000", errno.EFBIG),
        (pointer, "a pointer of Git LFS, not the file itself; fetch it: git lfs pull", errno.EINVAL),
    ],
)
def test_what_is_not_read(tmp_path, make, reason, number):
    path = tmp_path / "a"
    make(path)
    for read in (open_regular, read_bytes, read_text, file_sha256):
        with pytest.raises(UnsuitableFileError) as caught:
            read(path, 1000)
        assert (caught.value.strerror, caught.value.filename, caught.value.errno) == (reason, str(path), number)


def test_a_pipe_that_somebody_writes_to(tmp_path):
    pipe(tmp_path / "a")
    both = os.open(tmp_path / "a", os.O_RDWR)
    os.write(both, b"text")
    with pytest.raises(UnsuitableFileError):
        read_bytes(tmp_path / "a", None)
    os.close(both)


def test_what_the_system_does_not_open(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "missing", None)
    with pytest.raises(IsADirectoryError) as caught:
        read_bytes(tmp_path, None)
    assert caught.value.filename == os.fspath(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(tmp_path / "s"))
        with pytest.raises(OSError, match="No such device"):
            read_bytes(tmp_path / "s", None)
