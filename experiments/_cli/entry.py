"""Entry point of the console script: handles Ctrl-C while the commands are being imported."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress

_KEPT = 2**30
"""Bytes."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's ``mallopt``."""
_FEW_COLLECTIONS = 5_000
"""New objects between collections of garbage: imports make many objects and no garbage."""


def keep_freed_memory() -> None:
    """Let glibc keep up to a gibibyte of freed memory, also in child processes.

    By default it returns the memory of large tensors to the system at once, and the next tensor faults it in again,
    page by page.
    """
    variables = {"MALLOC_TRIM_THRESHOLD_": _TRIM_THRESHOLD, "MALLOC_MMAP_THRESHOLD_": _MMAP_THRESHOLD}
    if sys.platform != "linux" or os.environ.keys() & variables.keys():
        return
    with suppress(AttributeError, OSError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for name, parameter in variables.items():
            os.environ[name] = str(_KEPT)
            mallopt(parameter, _KEPT)


def let_threads_sleep() -> None:
    """Let OpenMP's threads that wait for work sleep after microseconds instead of milliseconds.

    A thread that spins keeps a core from another process, or from the thread it waits for.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def main() -> None:
    """Run the command line; Ctrl-C before it handles errors exits without a traceback."""
    # PyTorch's matrix products keep a compiled kernel for each shape, and batches have many
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")
    let_threads_sleep()
    keep_freed_memory()
    gc.set_threshold(_FEW_COLLECTIONS)
    try:
        from graphattn.experiments._cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        gc.freeze()  # or the last collections of the interpreter visit every object of PyTorch and Numba
