"""Helpers of both kernels for narrow ranges: records, ranges of a register of rows, scores, prefetching, copies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.records import offset
from graphattn._backends.cpu.simd.blocks import multiply_panel
from graphattn._backends.cpu.simd.registers import (
    broadcast,
    fma,
    load,
    load_masked,
    mask_key,
    mul,
    prefetch,
    simd_width,
    store,
)
from graphattn._backends.cpu.windows.packing import first_aligned


class NarrowRanges(NamedTuple):
    """Ranges of keys along R relations."""

    chunks: np.ndarray  # (C, 7), see :class:`~graphattn._backends.cpu.plan.RangePlan`
    lows: np.ndarray  # (R, N) first key of each destination
    highs: np.ndarray  # (R, N) the key after the last
    slots: np.ndarray  # (R, N + 1) first slot of each destination; (R, 0) when neither dropout nor weights need it


class Heads(NamedTuple):
    """K heads that a kernel computes together."""

    heads: np.ndarray  # (K,) numbers of the heads
    scored: np.ndarray  # (K,) columns among the queries and the keys
    relations: np.ndarray  # (K,) relations of the heads


class LaneBlock(NamedTuple):
    """``rows`` rows from ``row`` on, one lane each, and the keys from ``begin`` to before ``end``, of one head."""

    row: int
    rows: int
    begin: int
    end: int
    head: int
    scored: int


@kernel
def scratch_start(work):  # type: ignore[no-untyped-def]
    """Where scratch memory begins after the ranges of the lanes, which :func:`load_ranges` writes."""
    return first_aligned(work) + 3 * simd_width(work)


@kernel
def load_ranges(lanes, low, high, slots, row, count):  # type: ignore[no-untyped-def]
    """Fill ``lanes`` for :func:`~graphattn._backends.cpu.simd.registers.mask_key`; lanes without a row see no key.

    Returns the first key that one of the rows sees, and the one after the last.
    """
    size = len(lanes) // 3
    begin, end = high[row], low[row]
    empty = True
    for r in range(size):
        first = stop = 0
        if r < count:
            first, stop = low[row + r], high[row + r]
            if first < stop:
                begin = first if empty else min(begin, first)
                end = stop if empty else max(end, stop)
                empty = False
            if len(slots) > 0:
                lanes[2 * size + r] = slots[row + r] - first
        lanes[r], lanes[size + r] = first, stop
    return (0, 0) if empty else (begin, end)


@kernel
def multiply_and_mask(  # type: ignore[no-untyped-def]
    work, target, transposed, features, head, lanes, block, factor, other
):
    """Write (keys, lanes) products of the keys' features with transposed rows, times a factor; ``other`` where masked.

    Returns a register of zeros, with NaN where a product is not finite.
    """
    count, keys = simd_width(work), block.end - block.begin
    position = offset(features, block.begin, head)
    multiply_panel(work, target, keys, features.memory, position, features.node, 1, transposed, features.width)
    zero, factors = broadcast(work.dtype.type(0)), broadcast(factor)
    nonfinite = zero
    for j in range(keys):
        score = mul(load(work, target + j * count), factors)
        nonfinite = fma(score, zero, nonfinite)
        store(work, target + j * count, mask_key(score, lanes, block.begin + j, other))
    return nonfinite


@kernel
def prefetch_rows(tensor, first, stop, heads):  # type: ignore[no-untyped-def]
    """Prefetch the rows from first to before stop, from the first to the last of some heads."""
    end = heads[0]  # no heads.max(): Numba can compile it only where arrays may be allocated
    for number in heads:
        end = max(end, number)
    begin = end
    for number in heads:
        begin = min(begin, number)
    for row in range(first, stop):
        for c in range(begin * tensor.head, end * tensor.head + tensor.width, simd_width(tensor.memory)):
            prefetch(tensor.memory, row * tensor.node + c)


@kernel
def lowest_finite(work):  # type: ignore[no-untyped-def]
    """The smallest finite number."""
    return work.dtype.type(-3.4028234663852886e38 if work.itemsize == 4 else -1.7976931348623157e308)


@kernel
def copy_rows(source, target, rows, width):  # type: ignore[no-untyped-def]
    """Copy rows of ``width`` numbers into rows of whole registers, padded with zeros."""
    for r in range(rows):
        for c in range(0, width, simd_width(source.memory)):
            part = load_masked(source.memory, source.start + r * source.row + c, 0, width - c)
            store(target.memory, target.start + r * target.row + c, part)
