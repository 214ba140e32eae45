"""Backward kernel of :mod:`graphattn._backends.cpu.windows.narrow_forward`, from row max and row sum."""

from __future__ import annotations

import numpy as np

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.records import offset
from graphattn._backends.cpu.simd.blocks import BLOCK_ROWS, Matrix, multiply_panel, transpose
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors_of_key,
    dropout_threshold,
    exp,
    fetch_add,
    fma,
    load,
    load_masked,
    maximum,
    mul,
    reduce_add,
    simd_width,
    store,
    sub,
)
from graphattn._backends.cpu.windows.narrow_rows import (
    LaneBlock,
    copy_rows,
    load_ranges,
    lowest_finite,
    multiply_and_mask,
    prefetch_rows,
    scratch_start,
)
from graphattn._backends.cpu.windows.packing import (
    accumulate_partial,
    clear,
    first_aligned,
    partial_of_keys,
    partial_of_values,
    round_up,
)
from graphattn._backends.cpu.windows.wide_tiles import accumulate_rows


@kernel
def backward(counter, ranges, heads, inputs, upstream, grads, rule, group, work):  # type: ignore[no-untyped-def]
    """Fill ``grads``; ``upstream`` holds the gradients of the outputs, row max and inverse row sum.

    Takes tasks (chunk, ``group`` heads) from ``counter`` until none is left.
    """
    width, value_width = inputs.query.width, inputs.value.width
    count = simd_width(work)
    wide, value_wide = round_up(width, count), round_up(value_width, count)
    groups = (len(heads.heads) + group - 1) // group
    lanes = work[first_aligned(work) :].view(np.int32)[: 3 * count]  # for load_ranges
    while True:
        task = fetch_add(counter)
        if task >= len(ranges.chunks) * groups:
            break
        member = task % groups * group
        task_heads = min(group, len(heads.heads) - member)
        head_numbers, scored_numbers = (
            heads.heads[member : member + task_heads],
            heads.scored[member : member + task_heads],
        )
        chunk = ranges.chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        padded_keys = end - begin + BLOCK_ROWS  # products write whole numbers of rows
        grad_keys = scratch_start(work)
        grad_values = grad_keys + task_heads * padded_keys * wide
        scratch = grad_values + task_heads * padded_keys * value_wide
        if grads.has_key or grads.has_value:
            clear(work, grad_keys, scratch)
        row = first
        while row < stop:
            here = min(count, stop - row)
            loaded, lo, hi = -1, 0, 0
            for number in range(task_heads):
                head, scored, relation = head_numbers[number], scored_numbers[number], heads.relations[member + number]
                ahead = row + here + number * here // task_heads
                after = row + here + (number + 1) * here // task_heads
                prefetch_rows(inputs.query, ahead, after, scored_numbers)
                prefetch_rows(inputs.key, ahead, after, scored_numbers)
                prefetch_rows(inputs.value, ahead, after, head_numbers)
                prefetch_rows(upstream.out, ahead, after, head_numbers)
                at, step = row, here
                while at < row + here:
                    if relation != loaded or step < here:
                        low, high, slots = ranges.lows[relation], ranges.highs[relation], ranges.slots[relation]
                        lo, hi = load_ranges(lanes, low, high, slots, at, step)
                        loaded = relation if step == here else -1
                    position = number * padded_keys + lo - begin
                    positions = (scratch, grad_keys + position * wide, grad_values + position * value_wide)
                    block = LaneBlock(at, step, lo, hi, head, scored)
                    if _differentiate_rows(work, positions, lanes, block, inputs, upstream, grads, rule):
                        at += step
                    else:
                        step = 1  # NaN and infinity must not reach rows that do not see their key
            row += here
        if grads.has_key:
            partial = partial_of_keys(grads, len(heads.heads))
            accumulate_partial(work, grad_keys, padded_keys, chunk, scored_numbers, member, grads.key, partial)
        if grads.has_value:
            partial = partial_of_values(grads, len(heads.heads))
            accumulate_partial(work, grad_values, padded_keys, chunk, head_numbers, member, grads.value, partial)


@kernel
def _differentiate_rows(work, positions, lanes, block, inputs, upstream, grads, rule):  # type: ignore[no-untyped-def]
    """Compute the gradients of a block of rows, and add those of their keys and values in scratch memory.

    If there are several rows and an intermediate result is not finite, add nothing and return False.
    """
    query, grad_out, grad_query = inputs.query, upstream.out, grads.query
    row, here, head, scored = block.row, block.rows, block.head, block.scored
    width, value_width = query.width, inputs.value.width
    queries, grad_keys, grad_values = positions
    count, keys = simd_width(work), block.end - block.begin
    wide, value_wide = round_up(width, count), round_up(value_width, count)
    grad_outs = queries + count * wide
    transposed = grad_outs + count * value_wide
    transposed_grads = transposed + count * wide
    scores = transposed_grads + count * value_wide
    slopes = scores + round_up(keys, BLOCK_ROWS) * count
    source = Matrix(query.memory, offset(query, row, scored), query.node, 1)
    copy_rows(source, Matrix(work, queries, wide, 1), here, width)
    source = Matrix(grad_out.memory, offset(grad_out, row, head), grad_out.node, 1)
    copy_rows(source, Matrix(work, grad_outs, value_wide, 1), here, value_width)
    for c in range(0, wide, count):
        target = Matrix(work, transposed + c * count, count, 1)
        transpose(target, count, count, Matrix(work, queries + c, wide, 1), here, count)
    for c in range(0, value_wide, count):
        target = Matrix(work, transposed_grads + c * count, count, 1)
        transpose(target, count, count, Matrix(work, grad_outs + c, value_wide, 1), here, count)
    kind = work.dtype.type
    nonfinite = multiply_and_mask(work, scores, transposed, inputs.key, scored, lanes, block, rule.scale, kind(-np.inf))
    nonfinite = add(
        nonfinite, multiply_and_mask(work, slopes, transposed_grads, inputs.value, head, lanes, block, kind(1), kind(0))
    )
    exact = reduce_add(nonfinite) != 0
    if exact and here > 1:
        return False
    _differentiate_softmax(work, scores, slopes, lanes, block, upstream, rule)
    position = offset(inputs.key, block.begin, scored)
    multiply_panel(work, transposed, width, inputs.key.memory, position, 1, inputs.key.node, slopes, keys)
    for c in range(0, width, count):
        target = Matrix(grad_query.memory, offset(grad_query, row, scored) + c, grad_query.node, 1)
        transpose(target, here, width - c, Matrix(work, transposed + c * count, count, 1), count, count)
    if grads.has_key:
        accumulate_rows(work, grad_keys, keys, slopes, count, 1, (queries, wide), here, exact)
    if grads.has_value:
        accumulate_rows(work, grad_values, keys, scores, count, 1, (grad_outs, value_wide), here, exact)
    return True


@kernel
def _differentiate_softmax(work, scores, slopes, lanes, block, upstream, rule):  # type: ignore[no-untyped-def]
    """Turn scores into weights, and gradients of weights into those of scores, times the scale; pad with zeros."""
    count, keys, head = simd_width(work), block.end - block.begin, block.head
    row_max = load_masked(upstream.row_max[head], block.row, 0, block.rows)
    shift = maximum(row_max, broadcast(lowest_finite(work)))
    inverse = load_masked(upstream.inverse_sum[head], block.row, 0, block.rows)
    mean = broadcast(work.dtype.type(0))
    seed = rule.seeds[head]
    limit, gain = dropout_threshold(rule.dropout, work)
    for j in range(keys):
        weight = mul(exp(sub(load(work, scores + j * count), shift)), inverse)
        slope = load(work, slopes + j * count)
        if rule.dropout > 0:
            slope = mul(slope, dropout_factors_of_key(weight, lanes, block.begin + j, seed, limit, gain))
            store(work, slopes + j * count, slope)
        store(work, scores + j * count, weight)
        mean = fma(weight, slope, mean)
    factor = broadcast(rule.scale)
    for j in range(keys):
        weight, slope = load(work, scores + j * count), load(work, slopes + j * count)
        store(work, slopes + j * count, mul(mul(weight, factor), sub(slope, mean)))
        if rule.dropout > 0:
            factors = dropout_factors_of_key(weight, lanes, block.begin + j, seed, limit, gain)
            store(work, scores + j * count, mul(weight, factors))
    clear(work, scores + keys * count, scores + round_up(keys, BLOCK_ROWS) * count)
    clear(work, slopes + keys * count, slopes + round_up(keys, BLOCK_ROWS) * count)


def work_size(padded_keys: int, keys: int, group: int, width: int, value_width: int, count: int) -> int:
    """Scratch memory of a task of either kernel, in numbers, for up to ``keys`` keys of a register of rows."""
    both = sum(-(-number // count) * count for number in (width, value_width))
    return 4 * count + group * (padded_keys + BLOCK_ROWS) * both + 2 * count * (both + keys + BLOCK_ROWS)
