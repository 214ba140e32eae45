"""Decorators that compile kernels with Numba at their first call, and cache them on disk if possible."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from filelock import FileLock

from graphattn._backends.cpu.simd.llvm import BYTES
from graphattn.exceptions import BackendError

EXACT, REORDERED = {"contract", "nsz"}, {"contract", "nsz", "reassoc", "arcp"}
"""Fast-math flags of LLVM. NaN and infinity keep their meaning: a score of -inf hides an edge."""
MESSAGE_DELAY = 1.0
"""Seconds of compilation before the message."""
MESSAGE = "GraphAttn is compiling its attention kernels, once after installation; this takes about 20 seconds ..."

READY: set[object] = set()
"""Compiled versions of kernels, and the message once it is printed."""


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function when it is called; it must not allocate arrays.

    Without allocation there is no reference counting (``_nrt``), whose atomic operations cost up to half the time of a
    kernel that takes arrays out of records.
    """
    return _compile(function, EXACT, _nrt=False)


def inline_kernel(function: Callable[..., Any]) -> Any:
    """Like :func:`kernel`; the compiler inlines each call, which is faster for functions with large records."""
    return _compile(function, EXACT, _nrt=False, forceinline=True)


def loop_kernel(function: Callable[..., Any]) -> Any:
    """Like :func:`kernel`, for plain loops, which may allocate; the compiler may reorder sums to vectorise them."""
    return _compile(function, REORDERED)


def plan_kernel(function: Callable[..., Any]) -> Any:
    """Like :func:`kernel`, for functions that allocate what they return."""
    return _compile(function, EXACT)


def _compile(function: Callable[..., Any], fastmath: set[str], **options: Any) -> Any:
    if getattr(numba.config, "DISABLE_JIT", 0):
        return _refuse
    options |= {"no_cfunc_wrapper": True, "nogil": True, "error_model": "numpy", "fastmath": fastmath}
    try:
        compiled = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # there is no writable folder for the cache
        return numba.njit(**options)(function)
    if disk_cache := getattr(compiled, "_cache", None):
        disk_cache._cache_file._source_stamp = (disk_cache._cache_file._source_stamp, _source_digest())
        _lock_cache_file(disk_cache._cache_file)
    return compiled


def _refuse(*arguments: Any) -> None:
    """Stand in for kernels, which use registers and have no form in Python."""
    raise BackendError("Numba is not to compile (NUMBA_DISABLE_JIT=1), which the kernels for CPUs need; unset it")


@cache
def _source_digest() -> tuple[str, int]:
    """Digest of this folder's files, and the size of a register.

    Numba recompiles a kernel when its own file changes, but not when a file changes whose functions it calls.
    """
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest(), BYTES


def _lock_cache_file(file: Any) -> None:
    """Lock a kernel's cache file while a process loads or saves it.

    When two processes compile a kernel for different types at once, Numba may store the code of one under the types of
    the other.
    """
    lock = os.path.join(file._cache_path, "graphattn.lock")
    load = partial(_load_or_reset, file.load, file.flush)
    file.load, file.save = (partial(_with_file_lock, lock, function) for function in (load, file.save))


def _load_or_reset(load: Callable[[Any], Any], flush: Callable[[], None], key: Any) -> Any:
    """The compiled kernel of a key; None, so that Numba compiles it again, when the file or its index is damaged."""
    try:
        return load(key)
    except Exception:  # unpickling damaged files, such as those that a full disk cut short, raises all kinds
        flush()
        return None


def _with_file_lock(lock: str, function: Callable[..., Any], *arguments: Any) -> Any:
    file_lock = FileLock(lock, mode=0o666)
    try:
        file_lock.acquire()
    except OSError:  # in a read-only folder no process writes
        return function(*arguments)
    try:
        return function(*arguments)
    finally:
        file_lock.release()


@contextmanager
def announce_compilation(*versions: object) -> Iterator[None]:
    """Print a message on a terminal when the first call of these versions of kernels takes long."""
    if READY.issuperset(versions) or sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    timer = threading.Timer(MESSAGE_DELAY, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    READY.update(versions)


def _announce() -> None:
    if MESSAGE not in READY:
        READY.add(MESSAGE)
        print(MESSAGE, file=sys.stderr, flush=True)
