"""Gradients of :mod:`graphattn.backends.cpu.windows.narrow_forward`, from the row max and row sum of each softmax."""

from __future__ import annotations

import numpy as np

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import ROWS, products, turn
from graphattn.backends.cpu.simd.registers import (
    add,
    draw_lots,
    exponential,
    fill,
    kept_between,
    lanes,
    larger,
    load,
    load_part,
    multiply_add,
    next_number,
    store,
    subtract,
    times,
    total,
)
from graphattn.backends.cpu.windows.narrow_rows import copy_rows, erase, fetch_rows, look, lowest, pass_on, scores_of
from graphattn.backends.cpu.windows.shared_keys import hand_over
from graphattn.backends.cpu.windows.wide_tiles import add_against_rows, clear, padded


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
    count = lanes(work)
    wide, value_wide = padded(width, count), padded(value_width, count)
    groups = (len(heads) + group - 1) // group
    rows = np.zeros(3 * count, np.int32)
    while True:
        task = next_number(counter)
        if task >= len(chunks) * groups:
            break
        member = task % groups * group
        taken = min(group, len(heads) - member)
        own, own_lines = heads[member : member + taken], lines[member : member + taken]
        chunk = chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        strip = end - begin + ROWS  # products make whole numbers of rows
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
                fetch_rows(query, ahead, after, q_node, q_head, own_lines, width)
                fetch_rows(key, ahead, after, k_node, k_head, own_lines, width)
                fetch_rows(value, ahead, after, v_node, v_head, own, value_width)
                fetch_rows(grad_out, ahead, after, g_node, g_head, own, value_width)
                if relation < 0:
                    place = grad_values + (number * strip + row - begin) * value_wide
                    for r in range(row, row + here if line >= 0 else row):
                        erase(grad_query, r * gq_node + line * gq_head, width)
                    if wanted[1]:
                        pass_on(grad_out, row * g_node + head * g_head, g_node, work, place, value_wide, here,
                                value_width, row, dropout, seeds[head])  # fmt: skip
                    continue
                at, step = row, here
                while at < row + here:
                    if relation != seen or step < here:
                        lo, hi = look(rows, lows[relation], highs[relation], slots[relation], at, step)
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
            hand_over(work, grad_keys, chunk, strip, place, grad_key, gk_node, gk_head, width, partial, both, 0)
        place = (own, len(heads), member)
        if wanted[1]:
            hand_over(
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
    count, keys = lanes(work), end - begin
    wide, value_wide, one = padded(width, count), padded(value_width, count), work.dtype.type(1)
    queries = scratch
    grads = queries + count * wide
    turned = grads + count * value_wide
    turned_grads = turned + count * wide
    scores = turned_grads + count * value_wide
    slopes = scores + padded(keys, ROWS) * count
    copy_rows(query, row * q_node + line * q_head, q_node, work, queries, wide, here, width)
    copy_rows(grad_out, row * g_node + head * g_head, g_node, work, grads, value_wide, here, value_width)
    for c in range(0, wide, count):
        turn(work, turned + c * count, count, count, count, work, queries + c, wide, here, count)
    for c in range(0, value_wide, count):
        turn(work, turned_grads + c * count, count, count, count, work, grads + c, value_wide, here, count)
    odd = scores_of(
        work, scores, rows, turned, width, key, begin * k_node + line * k_head, k_node, keys, begin, scale,
        work.dtype.type(-np.inf),
    )  # fmt: skip
    odd = add(odd, scores_of(
        work, slopes, rows, turned_grads, value_width, value, begin * v_node + head * v_head, v_node, keys, begin, one,
        work.dtype.type(0),
    ))  # fmt: skip
    exact = total(odd) != 0
    if exact and here > 1:
        return False
    _slopes(work, scores, slopes, rows, tops[head], sums[head], row, here, begin, keys, scale, dropout, seed)
    products(work, turned, width, key, begin * k_node + line * k_head, 1, k_node, work, slopes, keys)
    for c in range(0, width, count):
        place = row * gq_node + line * gq_head + c
        turn(grad_query, place, gq_node, here, width - c, work, turned + c * count, count, count, count)
    if wanted[0]:
        add_against_rows(work, grad_keys, keys, slopes, count, 1, queries, wide, here, exact)
    if wanted[1]:
        add_against_rows(work, grad_values, keys, scores, count, 1, grads, value_wide, here, exact)
    return True


@kernel
def _slopes(  # type: ignore[no-untyped-def]
    work, scores, slopes, rows, tops, sums, row, here, begin, keys, scale, dropout, seed
):
    """Turn scores into weights and the weights' gradients into those of the scores, times the scale; pad with zeros."""
    count = lanes(work)
    shift = larger(load_part(tops, row, 0, here), fill(lowest(work)))
    inverse = load_part(sums, row, 0, here)
    mean = fill(work.dtype.type(0))
    limit, gain = draw_lots(dropout, work)
    for j in range(keys):
        share = times(exponential(subtract(load(work, scores + j * count), shift)), inverse)
        slope = load(work, slopes + j * count)
        if dropout > 0:
            slope = times(slope, kept_between(share, rows, begin + j, seed, limit, gain))
            store(work, slopes + j * count, slope)
        store(work, scores + j * count, share)
        mean = multiply_add(share, slope, mean)
    factor = fill(scale)
    for j in range(keys):
        share, slope = load(work, scores + j * count), load(work, slopes + j * count)
        store(work, slopes + j * count, times(times(share, factor), subtract(slope, mean)))
        if dropout > 0:
            store(work, scores + j * count, times(share, kept_between(share, rows, begin + j, seed, limit, gain)))
    clear(work, scores + keys * count, scores + padded(keys, ROWS) * count)
    clear(work, slopes + keys * count, slopes + padded(keys, ROWS) * count)


def work_size(strip: int, keys: int, group: int, width: int, value_width: int, count: int) -> int:
    """Numbers of scratch memory that a task of either kernel needs at most, for ``keys`` keys of a register of rows."""
    both = sum(-(-number // count) * count for number in (width, value_width))
    return count + group * (strip + ROWS) * both + 2 * count * (both + keys + ROWS)
