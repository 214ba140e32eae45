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

MIN_BYTES = 1 << 18
"""Bytes below which the system's own memory is as fast."""
MAX_KEPT_BYTES = 1 << 26
"""Bytes that are kept for later at most."""

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Memory that is lent and comes back.

    Parameters
    ----------
    most : bytes that are kept for later at most
    """

    def __init__(self, most: int):
        self._most = most
        self._free: list[np.ndarray] = []
        """What nobody holds, the longest free first."""
        self._start_anew()
        _pools.add(self)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """A tensor on the CPU with anything in it, float32 or float64."""
        kind = np.dtype(np.float32 if dtype == torch.float32 else np.float64)
        size = math.prod(shape) * kind.itemsize
        if size < MIN_BYTES:
            return torch.from_numpy(np.empty(tuple(shape), kind))
        memory = self._take(_round_up(size))
        lent = memory[:size].view(kind).reshape(tuple(shape))
        weakref.finalize(lent, self._give_back, memory).atexit = False
        return torch.from_numpy(lent)

    def clear(self) -> None:
        """Return to the system what nobody holds."""
        with self._lock:
            self._free.clear()

    def _take(self, size: int) -> np.ndarray:
        with self._lock:
            for number in reversed(range(len(self._free))):
                if self._free[number].nbytes == size:
                    return self._free.pop(number)
        return np.empty(size, np.uint8)

    def _give_back(self, memory: np.ndarray) -> None:
        with self._lock:
            self._free.append(memory)
            kept = 0
            for own in self._free:
                kept += own.nbytes
            while kept > self._most and self._free:
                kept -= self._free.pop(0).nbytes

    def _start_anew(self) -> None:
        """Also in a forked process: another thread may have held the lock at that moment."""
        self._lock = threading.RLock()  # the garbage collector may give memory back in the middle of taking some
        self._free.clear()


def empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor on the CPU with anything in it, float32 or float64, from the memory of all layers."""
    return _shared_pool.empty(shape, dtype)


def _round_up(size: int) -> int:
    """Bytes that are asked for instead, an eighth more at most: batches of nearly one size take the same memory."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def _reset_pools() -> None:
    for pool in _pools:
        pool._start_anew()


_shared_pool = Pool(MAX_KEPT_BYTES)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pools)
