"""Forward kernel for contiguous keys in wide ranges, as in FlashAttention.

A task is some heads and one chunk of destinations, with the keys that they see. For each block of destinations and tile
of keys the kernel computes scores as a matrix product, an online softmax over the range of each row, and a product with
the values. It reads no index and needs no memory of the size of the edges.
"""

from __future__ import annotations

import numpy as np

from graphattn._backends.cpu.compiling import inline_kernel, kernel
from graphattn._backends.cpu.distance_kernels import add_biases
from graphattn._backends.cpu.records import offset
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors,
    dropout_threshold,
    exp,
    fetch_add,
    load,
    load_masked,
    mul,
    reduce_add,
    simd_width,
    store,
    store_masked,
    sub,
)
from graphattn._backends.cpu.windows.packing import clear, first_aligned, pack_panels, pack_rows, round_up
from graphattn._backends.cpu.windows.wide_tiles import (
    TILE,
    TileBlock,
    has_nan,
    mask_scores,
    multiply_panels,
    multiply_rows,
    union_of_ranges,
)


@kernel
def forward(counter, ranges, inputs, terms, outputs, rule, group, work):  # type: ignore[no-untyped-def]
    """Fill ``outputs`` and, unless they are empty, ``terms.weights``.

    Takes tasks (chunk, ``group`` heads) from ``counter`` until none is left.
    """
    query, key, value, out = inputs.query, inputs.key, inputs.value, outputs.out
    heads = len(outputs.row_max)
    groups = (heads + group - 1) // group
    count = simd_width(work)
    wide, value_wide = round_up(query.width, count), round_up(value.width, count)
    while True:
        task = fetch_add(counter)
        if task >= len(ranges.chunks) * groups:
            break
        first_head = task % groups * group
        task_heads = min(group, heads - first_head)
        chunk = ranges.chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        padded_keys, padded_rows = round_up(end - begin, count), round_up(stop - first, count)
        staging = first_aligned(work)
        sums = staging + count * task_heads * wide
        scores = sums + ranges.block * value_wide
        panels = scores + ranges.block * TILE
        values = panels + task_heads * padded_keys * wide
        queries = values + task_heads * padded_keys * value_wide
        clean = pack_panels(key, offset(key, begin, first_head), end - begin, task_heads, work, staging, panels)
        one = work.dtype.type(1)
        clean &= pack_rows(
            value, offset(value, begin, first_head), end - begin, task_heads, one, work, values, padded_keys
        )
        pack_rows(
            query, offset(query, first, first_head), stop - first, task_heads, rule.scale, work, queries, padded_rows
        )
        for member in range(task_heads):
            head = first_head + member
            step = ranges.block if clean else 1  # NaN and infinity must not reach rows that do not see their key
            row = first
            while row < stop:
                rows = min(step, stop - row)
                lo, hi = union_of_ranges(ranges.low, ranges.high, row, rows)
                if lo < hi:
                    positions = (
                        queries + (member * padded_rows + row - first) * wide,
                        panels + member * padded_keys * wide,
                        values + member * padded_keys * value_wide,
                        sums,
                        scores,
                    )
                    block = TileBlock(row, rows, lo - begin, hi - begin, begin, head)
                    _attend_block(work, positions, block, ranges, terms, outputs, rule, (wide, query.width))
                for r in range(rows):
                    inverse = outputs.inverse_sum[head, row + r]
                    for c in range(0, value.width, count):
                        part = mul(load(work, sums + r * value_wide + c), broadcast(inverse))
                        if inverse == 0:
                            part = broadcast(inverse)
                        store_masked(out.memory, offset(out, row + r, head) + c, part, 0, value.width - c)
                row += rows


@inline_kernel
def _attend_block(work, positions, block, ranges, terms, outputs, rule, widths):  # type: ignore[no-untyped-def]
    """Compute the attention of a block of rows over its keys, tile by tile (online softmax).

    Requested weights are written as exponentials, scaled down when the row max grows, and divided by the row sum at the
    end.
    """
    queries, panels, values, sums, scores = positions
    wide, width = widths
    row_max, inverse_sum, weights = outputs.row_max, outputs.inverse_sum, terms.weights
    count = simd_width(work)
    value_wide = round_up(outputs.out.width, count)
    row, rows, head, lo, hi = block.row, block.rows, block.head, block.lo, block.hi
    slots = head * ranges.starts[-1]
    base = lo // count * count
    columns = round_up(hi - base, count)
    hidden = work.dtype.type(-np.inf)
    limit, gain = dropout_threshold(rule.dropout, work)
    for tile in range(0, columns, TILE):
        here = min(TILE, columns - tile)
        at = base + tile
        multiply_panels(work, scores, rows, queries, wide, panels + at * wide, here, width)
        for r in range(rows):
            i = row + r
            left, right = ranges.low[i] - block.begin - at, ranges.high[i] - block.begin - at
            first, last = max(left, 0) // count * count, round_up(min(right, here), count)
            line = scores + r * TILE
            before = hidden if tile == 0 else row_max[head, i]
            top = before
            slot = ranges.starts[i] - left
            if first < last:
                if len(terms.distances.rows) > 0:
                    edges = terms.distances.rows[:0], 0, block.begin + at
                    add_biases(work, line, max(left, 0), min(right, here), edges, i, head, terms.distances)
                top = max(top, mask_scores(work, line, first, last, left, right, terms.bias, slots + slot))
                if top == hidden and has_nan(work, line, max(left, 0), min(right, here)):
                    top = work.dtype.type(np.nan)
            if first >= last or top == hidden:
                first = last = 0
            clear(work, line, line + first)
            clear(work, line + last, line + here)
            if tile == 0:
                inverse_sum[head, i] = 0
            row_max[head, i] = top
            if first >= last:
                continue
            if top > before and before > hidden:
                shrink = work.dtype.type(np.exp(before - top))
                inverse_sum[head, i] *= shrink
                for c in range(0, value_wide, count):
                    position = sums + r * value_wide + c
                    store(work, position, mul(load(work, position), broadcast(shrink)))
                if len(weights) > 0:
                    _scale_weights(weights, slots + ranges.starts[i], max(-left, 0), shrink)
            shift, row_sum = broadcast(top), broadcast(work.dtype.type(0))
            for c in range(first, last, count):
                weight = exp(sub(load(work, line + c), shift))
                row_sum = add(row_sum, weight)
                if len(weights) > 0:
                    store_masked(weights, slots + slot + c, weight, left - c, right - c)
                if rule.dropout > 0:
                    weight = mul(weight, dropout_factors(weight, slot + c, rule.seeds[head], limit, gain))
                store(work, line + c, weight)
            inverse_sum[head, i] += reduce_add(row_sum)
        start, stop = max(lo - at, 0), min(hi - at, here)
        features = (values + (at + start) * value_wide, value_wide)
        multiply_rows(work, sums, rows, scores + start, TILE, 1, features, stop - start, tile == 0)
    for i in range(row, row + rows):
        if inverse_sum[head, i] != 0:
            inverse_sum[head, i] = work.dtype.type(1) / inverse_sum[head, i]
            if len(weights) > 0:
                length = ranges.starts[i + 1] - ranges.starts[i]
                _scale_weights(weights, slots + ranges.starts[i], length, inverse_sum[head, i])


@kernel
def _scale_weights(weights, start, length, factor):  # type: ignore[no-untyped-def]
    for c in range(0, length, simd_width(weights)):
        part = load_masked(weights, start + c, 0, length - c)
        store_masked(weights, start + c, mul(part, broadcast(factor)), 0, length - c)
