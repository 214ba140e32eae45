"""Kernels of dropout on numbers and on rows: the mask depends only on seed and index, so it is not kept."""

from __future__ import annotations

import itertools

import numpy as np
from torch import Tensor

from graphattn._backends.cpu.buffer_pool import empty
from graphattn._backends.cpu.compiling import announce_compilation, kernel
from graphattn._backends.cpu.records import as_strided, offset
from graphattn._backends.cpu.simd.registers import (
    broadcast,
    dropout_factors,
    dropout_threshold,
    load,
    load_masked,
    mask_lanes,
    mul,
    reduce_max,
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


def drop_rows(inputs: Tensor, out: Tensor, probability: float, seeds: np.ndarray) -> None:
    """Fill ``out`` (N, H, D) with rows that are zero, or the inputs divided by ``1 - probability``; one seed a head."""
    _drop_rows(as_strided(inputs), as_strided(out), len(inputs), probability, seeds)


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


@kernel
def _drop_rows(source, target, rows, probability, seeds):  # type: ignore[no-untyped-def]
    """Multiply the rows of each head with a factor that is drawn with the row's number."""
    array = source.memory
    count, zero = simd_width(array), array.dtype.type(0)
    limit, gain = dropout_threshold(probability, array)
    like = broadcast(zero)
    for r in range(rows):
        for h in range(len(seeds)):
            first_lane = mask_lanes(dropout_factors(like, r, seeds[h], limit, gain), 0, 1, zero)
            factor = broadcast(reduce_max(first_lane))
            here, there = offset(source, r, h), offset(target, r, h)
            for c in range(0, source.width, count):
                part = mul(load_masked(array, here + c, 0, source.width - c), factor)
                store_masked(target.memory, there + c, part, 0, source.width - c)
