"""Pieces of the kernels for wide ranges: packing, products of blocks of rows with strips of keys, scores in tiles."""

from __future__ import annotations

import numpy as np

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import BLOCK_ROWS, multiply_pair, multiply_row, multiply_single, transpose
from graphattn.backends.cpu.simd.registers import (
    add,
    broadcast,
    exp,
    fma,
    load,
    mask_lanes,
    masked_load,
    masked_store,
    maximum,
    mul,
    prefetch,
    reduce_add,
    reduce_max,
    simd_width,
    store,
    sub,
)

TILE = 256
"""Keys of one tile of scores."""
PREFETCH_ROWS = 16
"""Rows that are asked for before they are read: those of one head may lie a page apart, which no processor guesses."""


@kernel
def round_up(number, step):  # type: ignore[no-untyped-def]
    """The next multiple of step."""
    return (number + step - 1) // step * step


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
def pack_rows(  # type: ignore[no-untyped-def]
    source, place, node, head, rows, heads, width, factor, work, target, lines
):
    """Copy rows of features times a factor, head after head of ``lines`` rows each; whether all are finite.

    Features are padded with zeros to whole registers, rows to a multiple of a register's numbers. Rows are read as they
    lie in memory, all heads of one after the other, so that memory is read in order.
    """
    count = simd_width(work)
    wide = round_up(width, count)
    zero, scale = broadcast(work.dtype.type(0)), broadcast(factor)
    odd = zero
    for r in range(round_up(rows, count)):
        for h in range(heads):
            for c in range(0, wide, count):
                part = zero
                if r < rows:
                    prefetch(source, place + (r + PREFETCH_ROWS) * node + h * head + c)
                    part = mul(masked_load(source, place + r * node + h * head + c, 0, width - c), scale)
                store(work, target + (h * lines + r) * wide + c, part)
                odd = fma(part, zero, odd)
    return reduce_add(odd) == 0


@kernel
def pack_panels(  # type: ignore[no-untyped-def]
    source, place, node, head, rows, heads, width, work, staging, target
):
    """Rows transposed, a register's numbers of rows at a time: feature after feature, a register of rows each."""
    count = simd_width(work)
    wide, lines = round_up(width, count), round_up(rows, count)
    clean = True
    for r in range(0, rows, count):
        here = min(count, rows - r)
        one = work.dtype.type(1)
        clean &= pack_rows(source, place + r * node, node, head, here, heads, width, one, work, staging, count)
        for h in range(heads):
            transpose_panels(work, staging + h * count * wide, target + (h * lines + r) * wide, count, wide)
    return clean


@kernel
def transpose_panels(work, source, target, rows, wide):  # type: ignore[no-untyped-def]
    """Panels of one register's width of rows, transposed."""
    count = simd_width(work)
    for r in range(0, rows, count):
        for c in range(0, wide, count):
            transpose(
                work, target + r * wide + c * count, count, count, count,
                work, source + r * wide + c, wide, count, count,
            )  # fmt: skip


@kernel
def multiply_panels(work, target, rows, left, wide, panels, columns, length):  # type: ignore[no-untyped-def]
    """(rows, TILE) products of rows with ``columns`` transposed rows."""
    count = simd_width(work)
    for c in range(0, columns, 2 * count):
        panel = panels + c * wide
        for r in range(0, rows, BLOCK_ROWS):
            place = target + r * TILE + c
            if c + count < columns:
                multiply_pair(
                    work, place, TILE, work, left + r * wide, wide, 1, work, panel, count, count * wide, length, True
                )
            else:
                multiply_single(
                    work, place, TILE, work, left + r * wide, wide, 1, work, panel, count, count * wide, length, True
                )


@kernel
def multiply_rows(  # type: ignore[no-untyped-def]
    work, target, rows, left, row, column, right, wide, length, fresh
):
    """(rows, wide) products of rows of scores, ``row`` and ``column`` apart, with ``length`` rows of features."""
    count = simd_width(work)
    for r in range(0, rows, BLOCK_ROWS):
        for c in range(0, wide, 2 * count):
            place = target + r * wide + c
            if c + count < wide:
                multiply_pair(
                    work, place, wide, work, left + r * row, row, column, work, right + c, wide, count, length, fresh
                )
            else:
                multiply_single(
                    work, place, wide, work, left + r * row, row, column, work, right + c, wide, count, length, fresh
                )


@kernel
def accumulate_rows(  # type: ignore[no-untyped-def]
    work, target, rows, left, row, column, right, wide, length, exact
):
    """Add such products to ``target``; up to seven rows behind them get zeros times features, none when ``exact``."""
    if not exact:
        multiply_rows(work, target, rows, left, row, column, right, wide, length, False)
        return
    count = simd_width(work)
    for r in range(rows):
        for c in range(0, wide, count):
            place = target + r * wide + c
            multiply_row(
                work, place, wide, work, left + r * row, row, column, work, right + c, wide, count, length, False
            )


@kernel
def clear(work, start, stop):  # type: ignore[no-untyped-def]
    """Zeros from start to before stop."""
    zero = broadcast(work.dtype.type(0))
    for c in range(start, stop, simd_width(work)):
        store(work, c, zero)


@kernel
def mask_scores(work, line, first, last, left, right, bias, slot):  # type: ignore[no-untyped-def]
    """Add the bias to a line of scores, hide what the row does not see, return the largest."""
    count = simd_width(work)
    hidden = work.dtype.type(-np.inf)
    top = broadcast(hidden)
    for c in range(first, last, count):
        score = load(work, line + c)
        if len(bias) > 0:
            score = add(score, masked_load(bias, slot + c, left - c, right - c))
        if c < left or c + count > right:
            score = mask_lanes(score, left - c, right - c, hidden)
        store(work, line + c, score)
        top = maximum(score, top)
    return reduce_max(top)


@kernel
def has_nan(work, line, start, stop):  # type: ignore[no-untyped-def]
    """Whether a part of a line is not a number somewhere."""
    return np.isnan(work[line + start : line + stop]).any()


@kernel
def recompute_weights(  # type: ignore[no-untyped-def]
    work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops, sums, head, wide,
    width,
):  # fmt: skip
    """The weights of a tile, before dropout, from the known sums; zero where a row does not see."""
    count = simd_width(work)
    multiply_panels(work, scores, rows, queries, wide, panels + at * wide, here, width)
    for r in range(rows):
        i = row + r
        left, right = low[i] - begin - at, high[i] - begin - at
        first, last = max(left, 0) // count * count, round_up(min(right, here), count)
        line = scores + r * TILE
        if first >= last or sums[head, i] == 0:
            first = last = 0
        clear(work, line, line + first)
        clear(work, line + last, line + here)
        if first < last:
            mask_scores(work, line, first, last, left, right, bias, bias_at + starts[i] - left)
        shift, inverse = broadcast(tops[head, i]), broadcast(sums[head, i])
        for c in range(first, last, count):
            store(work, line + c, mul(exp(sub(load(work, line + c), shift)), inverse))


@kernel
def unpack_rows(  # type: ignore[no-untyped-def]
    work, source, target, place, node, head, rows, heads, width, factor, lines
):
    """Copy padded rows of some heads times a factor to where they belong, in the order in which they lie there.

    Those of a head -1 belong nowhere.
    """
    count = simd_width(work)
    wide = round_up(width, count)
    scale = broadcast(factor)
    for r in range(rows):
        for member in range(len(heads)):
            if heads[member] < 0:
                continue
            for c in range(0, width, count):
                part = mul(load(work, source + (member * lines + r) * wide + c), scale)
                masked_store(target, place + r * node + heads[member] * head + c, part, 0, width - c)


def work_size(strip: int, lines: int, block: int, group: int, width: int, value_width: int, count: int) -> int:
    """Numbers of scratch memory that a task of either kernel needs at most, for chunks of ``lines`` destinations."""
    wide, value_wide = (-(-number // count) * count for number in (width, value_width))
    strip, lines = -(-strip // count) * count, -(-lines // count) * count
    both = wide + value_wide
    own = 3 * strip * both + lines * (both + wide + 1)
    return count + 2 * block * (TILE + value_wide) + group * (count * both + own)
