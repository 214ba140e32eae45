"""Kernel of backend ``fused`` for destinations whose keys lie side by side in wide ranges.

A task is a few heads and one chunk of destinations with the strip of keys that they see. Blocks of destinations meet
their part of the strip as matrix products: scores in tiles, softmax over each row's own range as the tiles come,
products with the values. No index is read and nothing of the edges' size is made.

Arrays are one-dimensional; query, key, value and the like come with the distances between nodes and between heads in
``steps``, features lie side by side. ``work`` is scratch memory. Bias and weights are (H, E), head after head. ``low``
and ``high`` (N,) are the ends of the ranges, ``starts`` (N + 1,) the first slot of each destination; ``block``
destinations meet the keys at once.
"""

from __future__ import annotations

import numpy as np

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors,
    dropout_threshold,
    exp,
    fetch_add,
    load,
    masked_load,
    masked_store,
    mul,
    reduce_add,
    simd_width,
    store,
    sub,
)
from graphattn.backends.cpu.windows.wide_tiles import (
    TILE,
    clear,
    has_nan,
    mask_scores,
    multiply_panels,
    multiply_rows,
    pack_panels,
    pack_rows,
    round_up,
    union_of_ranges,
)


@kernel
def forward(  # type: ignore[no-untyped-def]
    counter, chunks, block, low, high, starts, query, key, value, bias, out, tops, sums, weights, steps, scale,
    dropout, seeds, group, work,
):  # fmt: skip
    """Fill ``out``, the rows' largest scores ``tops`` and inverse sums ``sums`` (H, N), and ``weights`` if it has room.

    Takes tasks (chunk, group of heads) from ``counter`` until none is left.
    """
    heads = len(tops)
    groups = (heads + group - 1) // group
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps
    count = simd_width(work)
    wide, value_wide = round_up(width, count), round_up(value_width, count)
    while True:
        task = fetch_add(counter)
        if task >= len(chunks) * groups:
            break
        first_head = task % groups * group
        taken = min(group, heads - first_head)
        chunk = chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        strip, lines = round_up(end - begin, count), round_up(stop - first, count)
        staging = (-(work.ctypes.data // work.itemsize)) % count  # registers do not cross cache lines
        sums_at = staging + count * taken * wide
        scores = sums_at + block * value_wide
        panels = scores + block * TILE
        values = panels + taken * strip * wide
        queries = values + taken * strip * value_wide
        place = begin * k_node + first_head * k_head
        clean = pack_panels(key, place, k_node, k_head, end - begin, taken, width, work, staging, panels)
        place = begin * v_node + first_head * v_head
        one = work.dtype.type(1)
        clean &= pack_rows(value, place, v_node, v_head, end - begin, taken, value_width, one, work, values, strip)
        place = first * q_node + first_head * q_head
        pack_rows(query, place, q_node, q_head, stop - first, taken, width, scale, work, queries, lines)
        for member in range(taken):
            head = first_head + member
            own_values = values + member * strip * value_wide
            bias_at = head * starts[-1]
            own_panels = panels + member * strip * wide
            step = block if clean else 1  # what is not finite must not reach rows that do not see it
            row = first
            while row < stop:
                rows = min(step, stop - row)
                lo, hi = union_of_ranges(low, high, row, rows)
                own_queries = queries + (member * lines + row - first) * wide
                if lo < hi:
                    _attend_block(
                        work, own_queries, own_panels, own_values, sums_at, scores, row, rows, lo - begin, hi - begin,
                        begin, low, high, starts, bias, bias_at, tops, sums, weights, head, wide, width, value_wide,
                        dropout, seeds[head],
                    )  # fmt: skip
                for r in range(rows):
                    inverse = sums[head, row + r]
                    for c in range(0, value_width, count):
                        part = mul(load(work, sums_at + r * value_wide + c), broadcast(inverse))
                        if inverse == 0:
                            part = broadcast(inverse)
                        place = (row + r) * o_node + head * o_head + c
                        masked_store(out, place, part, 0, value_width - c)
                row += rows


@kernel
def _attend_block(  # type: ignore[no-untyped-def]
    work, queries, panels, values, sums_at, scores, row, rows, lo, hi, begin, low, high, starts, bias, bias_at, tops,
    sums, weights, head, wide, width, value_wide, dropout, seed,
):  # fmt: skip
    """Attention of a block of rows over the keys from lo to hi of the strip, tile by tile (online softmax).

    ``weights``, where wanted, follow the softmax: written as its shares come, they shrink with the sums and are divided
    by them.
    """
    count = simd_width(work)
    base = lo // count * count
    columns = round_up(hi - base, count)
    hidden = work.dtype.type(-np.inf)
    limit, gain = dropout_threshold(dropout, work)
    for tile in range(0, columns, TILE):
        here = min(TILE, columns - tile)
        at = base + tile
        multiply_panels(work, scores, rows, queries, wide, panels + at * wide, here, width)
        for r in range(rows):
            i = row + r
            left, right = low[i] - begin - at, high[i] - begin - at
            first, last = max(left, 0) // count * count, round_up(min(right, here), count)
            line = scores + r * TILE
            before = hidden if tile == 0 else tops[head, i]
            top = before
            if first < last:
                slot = bias_at + starts[i] - left
                top = max(top, mask_scores(work, line, first, last, left, right, bias, slot))
                if top == hidden and has_nan(work, line, max(left, 0), min(right, here)):
                    top = work.dtype.type(np.nan)
            if first >= last or top == hidden:
                first = last = 0
            clear(work, line, line + first)
            clear(work, line + last, line + here)
            if tile == 0:
                sums[head, i] = 0
            tops[head, i] = top
            if first >= last:
                continue
            if top > before and before > hidden:
                shrink = work.dtype.type(np.exp(before - top))
                sums[head, i] *= shrink
                for c in range(0, value_wide, count):
                    place = sums_at + r * value_wide + c
                    store(work, place, mul(load(work, place), broadcast(shrink)))
                if len(weights) > 0:
                    _scale_weights(weights, bias_at + starts[i], max(-left, 0), shrink)
            shift, collected = broadcast(top), broadcast(work.dtype.type(0))
            for c in range(first, last, count):
                share = exp(sub(load(work, line + c), shift))
                collected = add(collected, share)
                if len(weights) > 0:
                    masked_store(weights, bias_at + starts[i] + c - left, share, left - c, right - c)
                if dropout > 0:
                    share = mul(share, dropout_factors(share, starts[i] + c - left, seed, limit, gain))
                store(work, line + c, share)
            sums[head, i] += reduce_add(collected)
        start, stop = max(lo - at, 0), min(hi - at, here)
        multiply_rows(
            work, sums_at, rows, scores + start, TILE, 1, values + (at + start) * value_wide, value_wide,
            stop - start, tile == 0,
        )  # fmt: skip
    for i in range(row, row + rows):
        if sums[head, i] != 0:
            sums[head, i] = work.dtype.type(1) / sums[head, i]
            if len(weights) > 0:
                _scale_weights(weights, bias_at + starts[i], starts[i + 1] - starts[i], sums[head, i])


@kernel
def _scale_weights(weights, place, length, factor):  # type: ignore[no-untyped-def]
    """Multiply some weights that lie side by side."""
    for c in range(0, length, simd_width(weights)):
        part = masked_load(weights, place + c, 0, length - c)
        masked_store(weights, place + c, mul(part, broadcast(factor)), 0, length - c)
