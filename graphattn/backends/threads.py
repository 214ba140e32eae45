"""Threads for compiled kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch


def together(work: Callable[[], None], *, alone: bool = False) -> None:
    """Call ``work`` in as many threads as PyTorch uses, this one among them; only in this one when ``alone``."""
    helpers = 0 if alone else torch.get_num_threads() - 1
    futures = [_pool(os.getpid(), helpers).submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        for future in futures:
            future.result()


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Worker threads of one process; a forked one makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphattn")
