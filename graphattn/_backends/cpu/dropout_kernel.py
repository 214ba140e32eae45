"""Kernel of :mod:`graphattn.layers._dropout`: the mask depends only on seed and index, so it is not kept."""

from __future__ import annotations

import itertools

import numpy as np
from torch import Tensor

from graphattn._backends.cpu.buffer_pool import empty
from graphattn._backends.cpu.compiling import announce_compilation, kernel
from graphattn._backends.cpu.simd.registers import (
    dropout_factors,
    dropout_threshold,
    load,
    load_masked,
    mul,
    simd_width,
    store,
    store_masked,
)
from graphattn._backends.cpu.threads import run_in_threads

TASK_SIZE = 1 << 16
"""Numbers per task."""


def apply_dropout(inputs: Tensor, probability: float, seed: int) -> Tensor:
    """Zero some numbers and divide the others by ``1 - probability``; equal seeds drop the same indices."""
    inputs = inputs.detach().contiguous()
    out = empty(inputs.shape, inputs.dtype)
    source, target = inputs.view(-1).numpy(), out.view(-1).numpy()
    starts = itertools.count(0, TASK_SIZE)  # next() is atomic

    def work(_: int) -> None:
        while (start := next(starts)) < len(source):
            _drop(source, target, start, min(start + TASK_SIZE, len(source)), probability, np.uint32(seed))

    with announce_compilation((_drop, source.dtype)):
        run_in_threads(work, alone=len(source) <= TASK_SIZE)
    return out


@kernel
def _drop(source, target, start, stop, probability, seed):  # type: ignore[no-untyped-def]
    """Fill ``target`` from start to before stop."""
    count = simd_width(target)
    limit, gain = dropout_threshold(probability, target)
    whole = start + (stop - start) // count * count
    for c in range(start, whole, count):
        part = load(source, c)
        store(target, c, mul(part, dropout_factors(part, c, seed, limit, gain)))
    if whole < stop:
        part = load_masked(source, whole, 0, stop - whole)
        store_masked(target, whole, mul(part, dropout_factors(part, whole, seed, limit, gain)), 0, stop - whole)
