"""Threads for compiled kernels that release the interpreter lock.

They run in PyTorch's OpenMP threads if possible, because these spin for a while after each PyTorch operation and would
compete with other threads for the cores. Otherwise, and after a fork, which PyTorch's threads do not survive, they run
in Python threads.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from graphattn._backends.cpu import IMPORT_PID

_TEAM = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def run_in_threads(work: Callable[[int], None], *, alone: bool = False) -> None:
    """Call ``work`` in each of PyTorch's threads, including this one, with the number of the thread.

    There may be fewer threads, so ``work`` must take tasks until none is left. ``alone``: only this thread.
    """
    count = 1 if alone else torch.get_num_threads()
    if count == 1:
        work(0)
    elif os.getpid() == IMPORT_PID and (openmp := find_openmp()) is not None:
        _run_in_openmp(openmp, work, count)
    else:
        futures = [_pool(os.getpid(), count - 1).submit(work, number) for number in range(1, count)]
        try:
            work(0)
        finally:
            for future in futures:
                future.result()


def _run_in_openmp(openmp: Any, work: Callable[[int], None], count: int) -> None:
    numbers = itertools.count()
    errors: list[BaseException] = []

    def run_member(_: object) -> None:
        try:
            work(next(numbers))
        except BaseException as error:
            errors.append(error)

    openmp.GOMP_parallel(_TEAM(run_member), None, count, 0)
    if errors:
        raise errors[0]


@lru_cache(maxsize=1)
def find_openmp() -> Any | None:
    """The GNU OpenMP library that PyTorch has loaded; None if it uses another."""
    libraries = sorted(Path(torch.__file__).parent.glob("lib/libgomp*.so*"))
    if not libraries or "OpenMP" not in torch.__config__.parallel_info():
        return None
    try:
        library = ctypes.CDLL(str(libraries[0]))
        library.GOMP_parallel.argtypes = [_TEAM, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        library.GOMP_parallel.restype = None
    except (OSError, AttributeError):
        return None
    return library


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Worker threads of one process; a forked process creates its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphattn")
