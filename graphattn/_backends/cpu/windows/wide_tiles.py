"""Helpers of both kernels for wide ranges: records, products of blocks of rows with tiles of keys, masked scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphattn._backends.cpu.compiling import inline_kernel, kernel
from graphattn._backends.cpu.distance_kernels import DistanceTerms, add_biases
from graphattn._backends.cpu.simd.blocks import BLOCK_ROWS, Matrix, multiply_pair, multiply_row, multiply_single
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    exp,
    load,
    load_masked,
    mask_lanes,
    maximum,
    mul,
    reduce_max,
    simd_width,
    store,
    sub,
)
from graphattn._backends.cpu.windows.packing import clear, round_up

TILE = 256
"""Number of keys of a tile of scores."""


class WideRanges(NamedTuple):
    """Ranges of keys along one relation, as in :class:`~graphattn._backends.cpu.plan.RangePlan`, and its heads (K,)."""

    heads: np.ndarray
    chunks: np.ndarray
    block: int
    low: np.ndarray
    high: np.ndarray
    starts: np.ndarray


class EdgeTerms(NamedTuple):
    """Numbers of each edge, (H, E) as flat memory or empty: bias, weights or their gradients, gradients of the bias.

    ``distances`` are biases by distance.
    """

    bias: np.ndarray
    weights: np.ndarray
    grad_bias: np.ndarray
    distances: DistanceTerms


class TileBlock(NamedTuple):
    """``rows`` rows from ``row`` on, for one head."""

    row: int  # the first row
    rows: int  # number of rows
    lo: int  # first key that some of them see, counted from ``begin``
    hi: int  # the key after the last that some of them see, counted from ``begin``
    begin: int  # first key of the chunk
    head: int


@kernel
def union_of_ranges(low, high, row, rows):  # type: ignore[no-untyped-def]
    """The range of keys that some of the rows see."""
    lo, hi = high[row], low[row]
    empty = True
    for i in range(row, row + rows):
        if high[i] > low[i]:
            lo = low[i] if empty else min(lo, low[i])
            hi = high[i] if empty else max(hi, high[i])
            empty = False
    return (0, 0) if empty else (lo, hi)


@kernel
def multiply_panels(work, target, rows, left, wide, panels, columns, length):  # type: ignore[no-untyped-def]
    """Write (rows, TILE) products of rows with ``columns`` transposed rows."""
    count = simd_width(work)
    for c in range(0, columns, 2 * count):
        panel = Matrix(work, panels + c * wide, count, count * wide)
        for r in range(0, rows, BLOCK_ROWS):
            position, block = Matrix(work, target + r * TILE + c, TILE, 1), Matrix(work, left + r * wide, wide, 1)
            if c + count < columns:
                multiply_pair(position, block, panel, length, True)
            else:
                multiply_single(position, block, panel, length, True)


@kernel
def multiply_rows(work, target, rows, left, row, column, right, length, fresh):  # type: ignore[no-untyped-def]
    """Write, or add unless ``fresh``, products of rows of scores with ``length`` rows of features.

    ``right`` is the position and the width of the features. ``row`` and ``column``, the distances between scores, are
    positional, not a record: Numba compiles a version for each constant that callers pass.
    """
    features, wide = right
    count = simd_width(work)
    for r in range(0, rows, BLOCK_ROWS):
        for c in range(0, wide, 2 * count):
            position, block = Matrix(work, target + r * wide + c, wide, 1), Matrix(work, left + r * row, row, column)
            panel = Matrix(work, features + c, wide, count)
            if c + count < wide:
                multiply_pair(position, block, panel, length, fresh)
            else:
                multiply_single(position, block, panel, length, fresh)


@kernel
def accumulate_rows(work, target, rows, left, row, column, right, length, exact):  # type: ignore[no-untyped-def]
    """Add the products of :func:`multiply_rows`.

    Unless ``exact``, up to ``BLOCK_ROWS - 1`` rows after the last get zeros times features added.
    """
    if not exact:
        multiply_rows(work, target, rows, left, row, column, right, length, False)
        return
    features, wide = right
    count = simd_width(work)
    for r in range(rows):
        for c in range(0, wide, count):
            position, block = Matrix(work, target + r * wide + c, wide, 1), Matrix(work, left + r * row, row, column)
            multiply_row(position, block, Matrix(work, features + c, wide, count), length, False)


@kernel
def mask_scores(work, line, first, last, left, right, bias, slot):  # type: ignore[no-untyped-def]
    """Add the bias to a row of scores and mask those outside ``left`` to ``right``; return the largest."""
    count = simd_width(work)
    hidden = work.dtype.type(-np.inf)
    row_max = broadcast(hidden)
    for c in range(first, last, count):
        score = load(work, line + c)
        if len(bias) > 0:
            score = add(score, load_masked(bias, slot + c, left - c, right - c))
        if c < left or c + count > right:
            score = mask_lanes(score, left - c, right - c, hidden)
        store(work, line + c, score)
        row_max = maximum(score, row_max)
    return reduce_max(row_max)


@kernel
def has_nan(work, line, start, stop):  # type: ignore[no-untyped-def]
    """Whether a part of a row contains NaN."""
    for c in range(line + start, line + stop):  # noqa: SIM110 (kernels have no generators)
        if np.isnan(work[c]):
            return True
    return False


@inline_kernel
def recompute_weights(work, positions, block, tile, ranges, terms, saved, widths):  # type: ignore[no-untyped-def]
    """Write the weights of a tile, before dropout, from row max and inverse row sum; zero for masked keys.

    ``positions`` are those of queries, key panels and scores; ``tile`` is the tile's first key and its number of keys;
    ``widths`` is the number of features, padded and not.
    """
    queries, panels, scores = positions
    at, here = tile
    wide, width = widths
    row, head, slots = block.row, block.head, block.head * ranges.starts[-1]
    count = simd_width(work)
    multiply_panels(work, scores, block.rows, queries, wide, panels + at * wide, here, width)
    for r in range(block.rows):
        i = row + r
        left, right = ranges.low[i] - block.begin - at, ranges.high[i] - block.begin - at
        first, last = max(left, 0) // count * count, round_up(min(right, here), count)
        line = scores + r * TILE
        if first >= last or saved.inverse_sum[head, i] == 0:
            first = last = 0
        clear(work, line, line + first)
        clear(work, line + last, line + here)
        if first < last:
            if len(terms.distances.rows) > 0:
                edges = terms.distances.rows[:0], 0, block.begin + at
                add_biases(work, line, max(left, 0), min(right, here), edges, i, head, terms.distances)
            mask_scores(work, line, first, last, left, right, terms.bias, slots + ranges.starts[i] - left)
        shift, inverse = broadcast(saved.row_max[head, i]), broadcast(saved.inverse_sum[head, i])
        for c in range(first, last, count):
            store(work, line + c, mul(exp(sub(load(work, line + c), shift)), inverse))


def work_size(keys: int, rows: int, block: int, group: int, width: int, value_width: int, count: int) -> int:
    """Scratch memory of a task of either kernel, in numbers, for chunks of up to ``keys`` keys and ``rows`` rows."""
    wide, value_wide, padded_keys, padded_rows = (
        -(-number // count) * count for number in (width, value_width, keys, rows)
    )
    both = wide + value_wide
    per_head = 3 * padded_keys * both + padded_rows * (both + wide + 1)
    return count + 2 * block * (TILE + value_wide) + group * (count * both + per_head)
