"""Gradients of :mod:`graphattn.backends.cpu.windows.wide_forward`, from the row max and row sum of each softmax."""

from __future__ import annotations

import numpy as np

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import BLOCK_ROWS
from graphattn.backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors,
    dropout_threshold,
    fetch_add,
    fma,
    load,
    masked_load,
    masked_store,
    mul,
    reduce_add,
    simd_width,
    store,
    sub,
)
from graphattn.backends.cpu.windows.shared_keys import accumulate_partial
from graphattn.backends.cpu.windows.wide_tiles import (
    TILE,
    accumulate_rows,
    clear,
    multiply_panels,
    multiply_rows,
    pack_panels,
    pack_rows,
    recompute_weights,
    round_up,
    transpose_panels,
    union_of_ranges,
    unpack_rows,
)


@kernel
def backward(  # type: ignore[no-untyped-def]
    counter, chunks, block, low, high, starts, query, key, value, bias, out, tops, sums, grad_out,
    grad_weights, grad_query, grad_key, grad_value, grad_bias, partial, steps, scale, dropout, seeds, wanted, group,
    work,
):  # fmt: skip
    """Fill the gradients; those of keys that several chunks see go to ``partial``, for :func:`merge`.

    ``wanted`` tells whether keys and whether values have any.
    """
    heads = len(tops)
    groups = (heads + group - 1) // group
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps[:10]
    g_node, g_head, gq_node, gq_head, gk_node, gk_head, gv_node, gv_head = steps[10:]
    count = simd_width(work)
    wide, value_wide = round_up(width, count), round_up(value_width, count)
    one = work.dtype.type(1)
    while True:
        task = fetch_add(counter)
        if task >= len(chunks) * groups:
            break
        first_head = task % groups * group
        taken = min(group, heads - first_head)
        chunk = chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        strip, lines = round_up(end - begin, count), round_up(stop - first, count)
        staging = (-(work.ctypes.data // work.itemsize)) % count
        scores = staging + count * taken * value_wide
        slopes = scores + block * TILE
        keys = slopes + block * TILE
        panels = keys + taken * strip * wide
        value_panels = panels + taken * strip * wide
        grad_keys = value_panels + taken * strip * value_wide
        grad_values = grad_keys + taken * strip * wide
        queries = grad_values + taken * strip * value_wide
        grads = queries + taken * lines * wide
        grad_queries = grads + taken * lines * value_wide
        inner = grad_queries + taken * lines * wide
        place = begin * k_node + first_head * k_head
        clean = pack_rows(key, place, k_node, k_head, end - begin, taken, width, one, work, keys, strip)
        place = begin * v_node + first_head * v_head
        clean &= pack_panels(value, place, v_node, v_head, end - begin, taken, value_width, work, staging, value_panels)
        place = first * q_node + first_head * q_head
        clean &= pack_rows(query, place, q_node, q_head, stop - first, taken, width, scale, work, queries, lines)
        place = first * g_node + first_head * g_head
        clean &= pack_rows(grad_out, place, g_node, g_head, stop - first, taken, value_width, one, work, grads, lines)
        transpose_panels(work, keys, panels, taken * strip, wide)
        if wanted[0] or wanted[1]:
            clear(work, grad_keys, queries)
        clear(work, grad_queries, inner)
        for r in range(stop - first):
            for member in range(taken):
                product = broadcast(work.dtype.type(0))
                for c in range(0, value_width, count):
                    place = (first + r) * o_node + (first_head + member) * o_head + c
                    part = masked_load(out, place, 0, value_width - c)
                    product = fma(load(work, grads + (member * lines + r) * value_wide + c), part, product)
                work[inner + member * lines + r] = reduce_add(product)
        for member in range(taken):
            head, own = first_head + member, member * strip
            step = block if clean else 1
            row = first
            while row < stop:
                rows = min(step, stop - row)
                lo, hi = union_of_ranges(low, high, row, rows)
                line = member * lines + row - first
                if lo < hi:
                    _differentiate_block(
                        work, queries + line * wide, keys + own * wide, panels + own * wide,
                        value_panels + own * value_wide, grads + line * value_wide, grad_queries + line * wide,
                        grad_keys + own * wide, grad_values + own * value_wide, inner + line, scores, slopes, row, rows,
                        lo - begin, hi - begin, begin, low, high, starts, bias, head * starts[-1], tops, sums, head,
                        wide, width, value_wide, value_width, grad_weights, grad_bias, dropout, seeds[head], wanted,
                        not clean,
                    )  # fmt: skip
                row += rows
        own = np.arange(first_head, first_head + taken)
        unpack_rows(
            work, grad_queries, grad_query, first * gq_node, gq_node, gq_head, stop - first, own, width, scale, lines
        )
        both = width + value_width
        place = (own, heads, first_head)
        if wanted[0]:
            accumulate_partial(
                work, grad_keys, chunk, strip, place, grad_key, gk_node, gk_head, width, partial, both, 0
            )
        if wanted[1]:
            accumulate_partial(
                work, grad_values, chunk, strip, place, grad_value, gv_node, gv_head, value_width, partial, both, width
            )


@kernel
def _differentiate_block(  # type: ignore[no-untyped-def]
    work, queries, keys, panels, value_panels, grads, grad_queries, grad_keys, grad_values, inner, scores, slopes, row,
    rows, lo, hi, begin, low, high, starts, bias, bias_at, tops, sums, head, wide, width, value_wide, value_width,
    grad_weights, grad_bias, dropout, seed, wanted, exact,
):  # fmt: skip
    """Gradients of a block of rows: of its queries, and added to those of the strip's keys and values.

    ``exact``: nothing may reach keys that no row sees, nor other rows.
    """
    count = simd_width(work)
    base = lo // count * count
    columns = round_up(hi - base, count)
    limit, gain = dropout_threshold(dropout, work)
    if len(grad_weights) > 0:  # the softmax's gradient needs the whole row's sum first
        for tile in range(0, columns, TILE):
            at, here = base + tile, min(TILE, columns - tile)
            recompute_weights(
                work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops,
                sums, head, wide, width,
            )  # fmt: skip
            for r in range(rows):
                left, right = low[row + r] - begin - at, high[row + r] - begin - at
                product = broadcast(work.dtype.type(0))
                for c in range(max(left, 0) // count * count, min(right, here), count):
                    place = bias_at + starts[row + r] - left + c
                    part = masked_load(grad_weights, place, left - c, right - c)
                    product = fma(load(work, scores + r * TILE + c), part, product)
                work[inner + r] += reduce_add(product)
    for tile in range(0, columns, TILE):
        at, here = base + tile, min(TILE, columns - tile)
        recompute_weights(
            work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops, sums,
            head, wide, width,
        )  # fmt: skip
        multiply_panels(work, slopes, rows, grads, value_wide, value_panels + at * value_wide, here, value_width)
        for r in range(rows):
            i = row + r
            left, right = low[i] - begin - at, high[i] - begin - at
            first, last = max(left, 0) // count * count, round_up(min(right, here), count)
            if first >= last:
                first = last = 0
            line, slope_line = scores + r * TILE, slopes + r * TILE
            clear(work, slope_line, slope_line + first)
            clear(work, slope_line + last, slope_line + here)
            mean = broadcast(work[inner + r])
            for c in range(first, last, count):
                share, slope = load(work, line + c), load(work, slope_line + c)
                if dropout > 0:
                    factor = dropout_factors(share, starts[i] + c - left, seed, limit, gain)
                    slope = mul(slope, factor)
                    store(work, line + c, mul(share, factor))
                if len(grad_weights) > 0:
                    slope = add(slope, masked_load(grad_weights, bias_at + starts[i] - left + c, left - c, right - c))
                slope = mul(share, sub(slope, mean))
                store(work, slope_line + c, slope)
                if len(grad_bias) > 0:
                    masked_store(grad_bias, bias_at + starts[i] - left + c, slope, left - c, right - c)
        start, stop = max(lo - at, 0), min(hi - at, here)
        place, features = slopes + start, keys + (at + start) * wide
        if exact:
            accumulate_rows(work, grad_queries, rows, place, TILE, 1, features, wide, stop - start, True)
        else:
            multiply_rows(work, grad_queries, rows, place, TILE, 1, features, wide, stop - start, tile == 0)
        start = start if exact else start // BLOCK_ROWS * BLOCK_ROWS
        place = at + start
        if wanted[0]:
            accumulate_rows(
                work, grad_keys + place * wide, stop - start, slopes + start, 1, TILE, queries, wide, rows, exact
            )
        if wanted[1]:
            place = grad_values + place * value_wide
            accumulate_rows(work, place, stop - start, scores + start, 1, TILE, grads, value_wide, rows, exact)
