"""Kernels are compiled by Numba when they are first called, and cached on disk where that can be written."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba

EXACT, REORDERED = {"contract", "nsz"}, {"contract", "nsz", "reassoc", "arcp"}
"""What the compiler may change in arithmetic. NaN and infinity keep their meaning: a score of -inf hides an edge."""
PATIENCE = 1.0
"""Seconds of silence before users are told that something is being compiled."""
NEWS = "GraphAttn is compiling its attention kernels for this computer, once after installation; about 20 seconds ..."

_ready: set[object] = set()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is called; without a cache where no folder for one can be written."""
    return _compiled(function, EXACT)


def loop_kernel(function: Callable[..., Any]) -> Any:
    """Like :func:`kernel`, for plain loops: sums may be taken in another order, so that they fill vector registers."""
    return _compiled(function, REORDERED)


def _compiled(function: Callable[..., Any], changes: set[str]) -> Any:
    rules: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": changes}
    try:
        return numba.njit(cache=True, **rules)(function)
    except RuntimeError:
        return numba.njit(**rules)(function)


@contextmanager
def announced(*kinds: object) -> Iterator[None]:
    """Say on a terminal that kernels are being compiled, when calling those of new ``kinds`` takes a while."""
    if _ready.issuperset(kinds) or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(PATIENCE, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    _ready.update(kinds)


def _announce() -> None:
    if NEWS not in _ready:
        _ready.add(NEWS)
        print(NEWS, file=sys.stderr, flush=True)
