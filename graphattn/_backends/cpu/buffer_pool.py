"""A pool of memory for large results, reused after their tensors are deleted.

The system maps new memory page by page on first access, and unmaps large blocks as soon as they are freed. A layer that
repeatedly allocates results and gradients of the same sizes would spend much of its time there.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MIN_BYTES = 1 << 18
"""Bytes below which the system allocator is as fast."""
MAX_UNUSED_BYTES = 1 << 26
"""Upper bound for unused memory in the shared pool."""

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


class Pool:
    """Memory for tensors, which returns to the pool when they are deleted, up to ``max_unused_bytes``."""

    def __init__(self, max_unused_bytes: int):
        self._max_unused_bytes = max_unused_bytes
        self.unused: list[np.ndarray] = []
        """Unused memory, oldest first."""
        self._reset()
        _pools.add(self)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """An uninitialised CPU tensor, float32 or float64."""
        return torch.from_numpy(self.empty_array(shape, np.float32 if dtype == torch.float32 else np.float64))

    def empty_array(self, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialised array, whose memory returns to the pool when it is deleted."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size < MIN_BYTES:
            return np.empty(tuple(shape), dtype)
        memory = self._take(round_up(size))
        array = memory[:size].view(dtype).reshape(tuple(shape))
        weakref.finalize(array, self._give_back, memory).atexit = False
        return array

    def clear(self) -> None:
        """Return unused memory to the system."""
        with self.lock:
            self.unused.clear()

    def _take(self, size: int) -> np.ndarray:
        with self.lock:
            for number in reversed(range(len(self.unused))):
                if self.unused[number].nbytes == size:
                    return self.unused.pop(number)
        return np.empty(size, np.uint8)

    def _give_back(self, memory: np.ndarray) -> None:
        with self.lock:
            self.unused.append(memory)
            total = 0
            for unused in self.unused:
                total += unused.nbytes
            while total > self._max_unused_bytes and self.unused:
                total -= self.unused.pop(0).nbytes

    def _reset(self) -> None:
        """A forked process needs a new lock, because another thread may have held the old one."""
        self.lock = threading.RLock()  # the garbage collector may call _give_back during _take
        self.unused.clear()


def round_up(size: int) -> int:
    """Round up by an eighth at most, so that batches of similar size reuse the same memory."""
    step = 1 << (size.bit_length() - 4)
    return -(-size // step) * step


def _reset_pools() -> None:
    for pool in _pools:
        pool._reset()


_shared_pool = Pool(MAX_UNUSED_BYTES)
empty, empty_array = _shared_pool.empty, _shared_pool.empty_array
"""Memory for results from the shared pool, see :meth:`Pool.empty`."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_pools)
