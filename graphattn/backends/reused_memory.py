"""Memory for large results, used again once nobody holds what it was lent for.

The system hands out new memory a page at a time, at the first touch of each page, and takes large pieces back as soon
as they are free. A layer that makes results and gradients of the same sizes over and over would spend much of its time
there.
"""

from __future__ import annotations

import math
import os
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

_lock = threading.RLock()  # the garbage collector may give memory back in the middle of taking some
_free: list[np.ndarray] = []
"""What nobody holds, the longest free first."""


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU with anything in it, float32 or float64."""
    kind = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
    size = math.prod(shape) * kind.itemsize
    if size < SMALLEST:
        return torch.from_numpy(np.empty(tuple(shape), kind))
    memory = _take(_room(size))
    lent = memory[:size].view(kind).reshape(tuple(shape))
    weakref.finalize(lent, _give_back, memory).atexit = False
    return torch.from_numpy(lent)


def _room(size: int) -> int:
    """Bytes that are asked for instead, an eighth more at most: batches of nearly one size take the same memory."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def _take(size: int) -> np.ndarray:
    with _lock:
        for number in reversed(range(len(_free))):
            if _free[number].nbytes == size:
                return _free.pop(number)
    return np.empty(size, np.uint8)


def _give_back(memory: np.ndarray) -> None:
    with _lock:
        _free.append(memory)
        kept = 0
        for own in _free:
            kept += own.nbytes
        while kept > KEPT and _free:
            kept -= _free.pop(0).nbytes


def _start_anew() -> None:
    """In a forked process: another thread may have held the lock at that moment."""
    global _lock
    _lock = threading.RLock()
    _free.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
