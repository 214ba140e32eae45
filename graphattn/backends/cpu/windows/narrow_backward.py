"""Gradients of :mod:`graphattn.backends.cpu.windows.narrow_forward`, from the row max and row sum of each softmax."""

from __future__ import annotations

import numpy as np

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import BLOCK_ROWS, multiply_panel, transpose
from graphattn.backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors_of_key,
    dropout_threshold,
    exp,
    fetch_add,
    fma,
    load,
    masked_load,
    maximum,
    mul,
    reduce_add,
    simd_width,
    store,
    sub,
)
from graphattn.backends.cpu.windows.narrow_rows import (
    copy_rows,
    copy_values,
    load_ranges,
    lowest_finite,
    multiply_and_mask,
    prefetch_rows,
    zero_fill,
)
from graphattn.backends.cpu.windows.shared_keys import accumulate_partial
from graphattn.backends.cpu.windows.wide_tiles import accumulate_rows, clear, round_up


@kernel
def backward(  # type: ignore[no-untyped-def]
    counter, chunks, heads, lines, which, lows, highs, slots, query, key, value, tops, sums, grad_out, grad_query,
    grad_key, grad_value, partial, steps, scale, dropout, seeds, wanted, group, work,
):  # fmt: skip
    """Fill the gradients; those of keys that several chunks see go to ``partial``, for ``merge``.

    ``wanted`` tells whether keys and whether values have any.
    Takes tasks (chunk, group of heads) from ``counter`` until none is left.
    """
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head = steps[:8]
    g_node, g_head, gq_node, gq_head, gk_node, gk_head, gv_node, gv_head = steps[8:]
    count = simd_width(work)
    wide, value_wide = round_up(width, count), round_up(value_width, count)
    groups = (len(heads) + group - 1) // group
    rows = np.zeros(3 * count, np.int32)
    while True:
        task = fetch_add(counter)
        if task >= len(chunks) * groups:
            break
        member = task % groups * group
        taken = min(group, len(heads) - member)
        own, own_lines = heads[member : member + taken], lines[member : member + taken]
        chunk = chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        strip = end - begin + BLOCK_ROWS  # products make whole numbers of rows
        grad_keys = (-(work.ctypes.data // work.itemsize)) % count
        grad_values = grad_keys + taken * strip * wide
        scratch = grad_values + taken * strip * value_wide
        if wanted[0] or wanted[1]:
            clear(work, grad_keys, scratch)
        row = first
        while row < stop:
            here = min(count, stop - row)
            seen, lo, hi = -1, 0, 0
            for number in range(taken):
                head, line, relation = own[number], own_lines[number], which[member + number]
                ahead = row + here + number * here // taken
                after = row + here + (number + 1) * here // taken
                prefetch_rows(query, ahead, after, q_node, q_head, own_lines, width)
                prefetch_rows(key, ahead, after, k_node, k_head, own_lines, width)
                prefetch_rows(value, ahead, after, v_node, v_head, own, value_width)
                prefetch_rows(grad_out, ahead, after, g_node, g_head, own, value_width)
                if relation < 0:
                    place = grad_values + (number * strip + row - begin) * value_wide
                    for r in range(row, row + here if line >= 0 else row):
                        zero_fill(grad_query, r * gq_node + line * gq_head, width)
                    if wanted[1]:
                        copy_values(grad_out, row * g_node + head * g_head, g_node, work, place, value_wide, here,
                                value_width, row, dropout, seeds[head])  # fmt: skip
                    continue
                at, step = row, here
                while at < row + here:
                    if relation != seen or step < here:
                        lo, hi = load_ranges(rows, lows[relation], highs[relation], slots[relation], at, step)
                        seen = relation if step == here else -1
                    place = number * strip + lo - begin
                    clean = _differentiate_rows(
                        work, scratch, grad_keys + place * wide, grad_values + place * value_wide, rows, at, step, lo,
                        hi, head, line, query, key, value, tops, sums, grad_out, grad_query, steps, scale, dropout,
                        seeds[head], wanted,
                    )  # fmt: skip
                    if clean:
                        at += step
                    else:
                        step = 1  # what is not finite must not reach rows that do not see it
            row += here
        both = width + value_width
        place = (own_lines, len(heads), member)
        if wanted[0]:
            accumulate_partial(
                work, grad_keys, chunk, strip, place, grad_key, gk_node, gk_head, width, partial, both, 0
            )
        place = (own, len(heads), member)
        if wanted[1]:
            accumulate_partial(
                work, grad_values, chunk, strip, place, grad_value, gv_node, gv_head, value_width, partial, both, width
            )


@kernel
def _differentiate_rows(  # type: ignore[no-untyped-def]
    work, scratch, grad_keys, grad_values, rows, row, here, begin, end, head, line, query, key, value, tops, sums,
    grad_out, grad_query, steps, scale, dropout, seed, wanted,
):  # fmt: skip
    """Gradients of the rows from ``row`` on, a lane each, added to those of their keys and values.

    Returns False, and has added nothing, when there are several rows and not all numbers on the way are finite.
    """
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head = steps[:8]
    g_node, g_head, gq_node, gq_head = steps[8:12]
    count, keys = simd_width(work), end - begin
    wide, value_wide, one = round_up(width, count), round_up(value_width, count), work.dtype.type(1)
    queries = scratch
    grads = queries + count * wide
    turned = grads + count * value_wide
    turned_grads = turned + count * wide
    scores = turned_grads + count * value_wide
    slopes = scores + round_up(keys, BLOCK_ROWS) * count
    copy_rows(query, row * q_node + line * q_head, q_node, work, queries, wide, here, width)
    copy_rows(grad_out, row * g_node + head * g_head, g_node, work, grads, value_wide, here, value_width)
    for c in range(0, wide, count):
        transpose(work, turned + c * count, count, count, count, work, queries + c, wide, here, count)
    for c in range(0, value_wide, count):
        transpose(work, turned_grads + c * count, count, count, count, work, grads + c, value_wide, here, count)
    odd = multiply_and_mask(
        work, scores, rows, turned, width, key, begin * k_node + line * k_head, k_node, keys, begin, scale,
        work.dtype.type(-np.inf),
    )  # fmt: skip
    odd = add(odd, multiply_and_mask(
        work, slopes, rows, turned_grads, value_width, value, begin * v_node + head * v_head, v_node, keys, begin, one,
        work.dtype.type(0),
    ))  # fmt: skip
    exact = reduce_add(odd) != 0
    if exact and here > 1:
        return False
    _differentiate_softmax(
        work, scores, slopes, rows, tops[head], sums[head], row, here, begin, keys, scale, dropout, seed
    )
    multiply_panel(work, turned, width, key, begin * k_node + line * k_head, 1, k_node, work, slopes, keys)
    for c in range(0, width, count):
        place = row * gq_node + line * gq_head + c
        transpose(grad_query, place, gq_node, here, width - c, work, turned + c * count, count, count, count)
    if wanted[0]:
        accumulate_rows(work, grad_keys, keys, slopes, count, 1, queries, wide, here, exact)
    if wanted[1]:
        accumulate_rows(work, grad_values, keys, scores, count, 1, grads, value_wide, here, exact)
    return True


@kernel
def _differentiate_softmax(  # type: ignore[no-untyped-def]
    work, scores, slopes, rows, tops, sums, row, here, begin, keys, scale, dropout, seed
):
    """Turn scores into weights and the weights' gradients into those of the scores, times the scale; pad with zeros."""
    count = simd_width(work)
    shift = maximum(masked_load(tops, row, 0, here), broadcast(lowest_finite(work)))
    inverse = masked_load(sums, row, 0, here)
    mean = broadcast(work.dtype.type(0))
    limit, gain = dropout_threshold(dropout, work)
    for j in range(keys):
        share = mul(exp(sub(load(work, scores + j * count), shift)), inverse)
        slope = load(work, slopes + j * count)
        if dropout > 0:
            slope = mul(slope, dropout_factors_of_key(share, rows, begin + j, seed, limit, gain))
            store(work, slopes + j * count, slope)
        store(work, scores + j * count, share)
        mean = fma(share, slope, mean)
    factor = broadcast(scale)
    for j in range(keys):
        share, slope = load(work, scores + j * count), load(work, slopes + j * count)
        store(work, slopes + j * count, mul(mul(share, factor), sub(slope, mean)))
        if dropout > 0:
            store(
                work, scores + j * count, mul(share, dropout_factors_of_key(share, rows, begin + j, seed, limit, gain))
            )
    clear(work, scores + keys * count, scores + round_up(keys, BLOCK_ROWS) * count)
    clear(work, slopes + keys * count, slopes + round_up(keys, BLOCK_ROWS) * count)


def work_size(strip: int, keys: int, group: int, width: int, value_width: int, count: int) -> int:
    """Numbers of scratch memory that a task of either kernel needs at most, for ``keys`` keys of a register of rows."""
    both = sum(-(-number // count) * count for number in (width, value_width))
    return count + group * (strip + BLOCK_ROWS) * both + 2 * count * (both + keys + BLOCK_ROWS)
