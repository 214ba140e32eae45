"""Memory for large results, used again once nobody holds what it was lent for.

The system hands out new memory a page at a time, at the first touch of each page, and takes large pieces back as soon
as they are free. A layer that makes results and gradients of the same sizes over and over would spend much of its time
there.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

SMALLEST = 1 << 18
"""Bytes below which the system's own memory is as fast."""
KEPT = 1 << 26
"""Bytes that are kept for later at most."""

_LOCK = threading.Lock()
_FREE: dict[int, list[np.ndarray]] = {}
_kept = 0


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU with anything in it, float32 or float64."""
    kind = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if size < SMALLEST:
        return torch.from_numpy(np.empty(tuple(shape), kind))
    memory = _take(size)
    lent = memory[:size].view(kind).reshape(tuple(shape))
    weakref.finalize(lent, _give_back, memory).atexit = False
    return torch.from_numpy(lent)


def _take(size: int) -> np.ndarray:
    global _kept
    with _LOCK:
        free = _FREE.get(size)
        if free:
            _kept -= size
            return free.pop()
    return np.empty(size, np.uint8)


def _give_back(memory: np.ndarray) -> None:
    global _kept
    with _LOCK:
        if _kept + memory.nbytes <= KEPT:
            _FREE.setdefault(memory.nbytes, []).append(memory)
            _kept += memory.nbytes
