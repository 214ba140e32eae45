"""Read files of safetensors as copies, one tensor at a time.

The readers of the package ``safetensors`` map the file into memory, so that whoever changes it later changes the
tensors, and whoever truncates it ends the process. Here each tensor is read into memory of its own, once: the peak is
the memory of the tensors alone, without a second copy of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from graphattn.builders._paths import FilePath
from graphattn.builders._regular_files import WEIGHTS, open_regular

_DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
_LENGTH_BYTES = 8
_MOST_HEADER_BYTES = 100_000_000
"""As for the package ``safetensors``."""


@dataclass(frozen=True)
class _Entry:
    """A tensor in a file; ``start`` and ``stop`` count from the first byte of the file."""

    dtype: torch.dtype | None  # None for one that PyTorch lacks
    shape: tuple[int, ...]
    start: int
    stop: int


class TensorFile:
    """An open file of safetensors; a context manager.

    Raises
    ------
    ValueError
        when the file is no file of safetensors, or not a whole one
    OSError
        when it cannot be read; see :func:`~graphattn.builders._regular_files.open_regular`
    """

    def __init__(self, path: FilePath):
        self._file = open_regular(path, WEIGHTS)
        self._digest = hashlib.sha256()
        try:
            self._opened = self._stamp()
            self._entries = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def read(self, name: str) -> Tensor:
        """A tensor of its own memory on the CPU."""
        tensor, buffer = self._allocate(self._entries[name])
        self._file.seek(self._entries[name].start)
        self._fill(buffer)
        if self._stamp() != self._opened:
            raise ValueError("it was changed while it was read")
        return tensor

    def read_all(self) -> tuple[dict[str, Tensor], str]:
        """All tensors, and the SHA-256 of the bytes that were read, which are those of the whole file."""
        ordered = sorted(self._entries.items(), key=lambda item: item[1].start)
        tensors = {}
        self._file.seek(self._data)
        for name, entry in ordered:
            tensors[name], buffer = self._allocate(entry)
            self._fill(buffer)
            self._digest.update(buffer)
        if self._file.read(1):
            raise ValueError("it was changed while it was read")
        return tensors, self._digest.hexdigest()

    def _stamp(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns

    def _read_header(self) -> dict[str, _Entry]:
        length = self._file.read(_LENGTH_BYTES)
        size = int.from_bytes(length, "little")
        start = self._data = _LENGTH_BYTES + size
        if len(length) < _LENGTH_BYTES or size > _MOST_HEADER_BYTES or start > self._opened[0]:
            raise ValueError("its header is incomplete")
        text = self._file.read(size)
        self._digest.update(length + text)
        try:
            header = json.loads(text.decode("utf-8"))
            header.pop("__metadata__", None)
            entries = {name: _parse_entry(values, start) for name, values in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"its header is damaged: {error}") from None
        stop = start
        for entry in sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)):
            if entry.start != stop:
                raise ValueError("its tensors overlap, or leave gaps")
            stop = entry.stop
        if stop != self._opened[0]:
            raise ValueError(f"it has {self._opened[0]:,} bytes, and its header lists {stop:,}")
        return entries

    def _allocate(self, entry: _Entry) -> tuple[Tensor, memoryview]:
        if entry.dtype is None:
            raise ValueError("it has a tensor of a type that PyTorch lacks")
        try:
            tensor = torch.empty(entry.shape, dtype=entry.dtype, device="cpu")
        except RuntimeError:
            raise ValueError(f"a tensor of {entry.stop - entry.start:,} bytes does not fit into memory") from None
        return tensor, tensor.reshape(-1).view(torch.uint8).numpy().data

    def _fill(self, buffer: memoryview) -> None:
        done = 0
        while done < len(buffer):
            count = self._file.readinto(buffer[done:])  # type: ignore[attr-defined]
            if not count:
                raise ValueError("it ends too early")
            done += count


def _parse_entry(values: Mapping[str, Any], data: int) -> _Entry:
    kind, shape, (first, last) = values["dtype"], tuple(values["shape"]), values["data_offsets"]
    dtype = getattr(torch, _DTYPES.get(kind, ""), None)
    if any(type(number) is not int or number < 0 for number in (*shape, first, last)):
        raise ValueError("a shape or a position is no number")
    if last < first or (dtype is not None and last - first != math.prod(shape) * dtype.itemsize):
        raise ValueError("the shape of a tensor does not fit its bytes")
    return _Entry(dtype, shape, data + first, data + last)
