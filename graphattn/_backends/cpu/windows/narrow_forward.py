"""Forward kernel for contiguous keys in narrow ranges, for all heads of a layer.

Each lane of a register is one destination. The kernel computes the scores of one key with all lanes at once, then row
max, exponentials and row sums lane by lane; lanes are never combined. It reads keys and values in place and transposes
queries and outputs. A lane adds its keys in order, and zeros for masked ones, so that the bits of a destination do not
depend on its neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.records import offset
from graphattn._backends.cpu.simd.blocks import Matrix, multiply_panel, transpose
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors_of_key,
    dropout_threshold,
    exp,
    fetch_add,
    fma,
    load,
    maximum,
    mul,
    reciprocal,
    reduce_add,
    simd_width,
    store,
    store_masked,
    sub,
)
from graphattn._backends.cpu.windows.narrow_rows import (
    LaneBlock,
    load_ranges,
    lowest_finite,
    multiply_and_mask,
    prefetch_rows,
    scratch_start,
)
from graphattn._backends.cpu.windows.packing import first_aligned, round_up


class Weights(NamedTuple):
    """Memory for the weights of all heads, and where the weights of each of the K heads begin; empty without weights.

    Weights are not available under dropout.
    """

    memory: np.ndarray
    starts: np.ndarray


@kernel
def forward(counter, ranges, heads, inputs, outputs, weights, rule, work):  # type: ignore[no-untyped-def]
    """Fill ``outputs`` and ``weights``; take chunks from ``counter`` until none is left."""
    count = simd_width(work)
    lanes = work[first_aligned(work) :].view(np.int32)[: 3 * count]  # for load_ranges
    while True:
        task = fetch_add(counter)
        if task >= len(ranges.chunks):
            break
        row, stop = ranges.chunks[task, 0], ranges.chunks[task, 1]
        while row < stop:
            rows = min(count, stop - row)
            loaded, begin, end = -1, 0, 0
            for number in range(len(heads.heads)):
                head, scored, relation = heads.heads[number], heads.scored[number], heads.relations[number]
                ahead = row + rows + number * rows // len(heads.heads)
                after = row + rows + (number + 1) * rows // len(heads.heads)
                prefetch_rows(inputs.query, ahead, after, heads.scored)
                prefetch_rows(inputs.key, ahead, after, heads.scored)
                prefetch_rows(inputs.value, ahead, after, heads.heads)
                at, step = row, rows
                while at < row + rows:
                    if relation != loaded or step < rows:
                        low, high, slots = ranges.lows[relation], ranges.highs[relation], ranges.slots[relation]
                        begin, end = load_ranges(lanes, low, high, slots, at, step)
                        loaded = relation if step == rows else -1
                    block = LaneBlock(at, step, begin, end, head, scored)
                    clean = _attend_rows(work, lanes, block, inputs, outputs, rule)
                    if clean or step == 1:
                        if len(weights.memory) > 0:
                            _write_weights(work, lanes, block, ranges.slots[relation], inputs, outputs, weights, number)
                        at += step
                    else:
                        step = 1  # NaN and infinity must not reach rows that do not see their key
            row += rows


@kernel
def _attend_rows(work, lanes, block, inputs, outputs, rule):  # type: ignore[no-untyped-def]
    """Compute the attention of a block of rows; return whether all intermediate results are finite."""
    query, value, out = inputs.query, inputs.value, outputs.out
    row, here, head = block.row, block.rows, block.head
    count, keys = simd_width(work), block.end - block.begin
    queries = scratch_start(work)
    outs = queries + round_up(query.width, count) * count
    scores = outs + round_up(value.width, count) * count
    hidden, zero = work.dtype.type(-np.inf), broadcast(work.dtype.type(0))
    for c in range(0, query.width, count):
        source = Matrix(query.memory, offset(query, row, block.scored) + c, query.node, 1)
        transpose(Matrix(work, queries + c * count, count, 1), count, count, source, here, query.width - c)
    nonfinite = multiply_and_mask(work, scores, queries, inputs.key, block.scored, lanes, block, rule.scale, hidden)
    row_max = broadcast(hidden)
    for j in range(keys):
        row_max = maximum(load(work, scores + j * count), row_max)
    shift, row_sum = maximum(row_max, broadcast(lowest_finite(work))), zero
    limit, gain = dropout_threshold(rule.dropout, work)
    for j in range(keys):
        weight = exp(sub(load(work, scores + j * count), shift))
        row_sum = add(row_sum, weight)
        if rule.dropout > 0:
            key = block.begin + j
            weight = mul(weight, dropout_factors_of_key(weight, lanes, key, rule.seeds[head], limit, gain))
        store(work, scores + j * count, weight)
    inverse = reciprocal(row_sum)
    store_masked(outputs.row_max[head], row, row_max, 0, here)
    store_masked(outputs.inverse_sum[head], row, inverse, 0, here)
    position = offset(value, block.begin, head)
    multiply_panel(work, outs, value.width, value.memory, position, 1, value.node, scores, keys)
    for c in range(value.width):
        part = mul(load(work, outs + c * count), inverse)
        nonfinite = fma(part, zero, nonfinite)
        store(work, outs + c * count, part)
    for c in range(0, value.width, count):
        target = Matrix(out.memory, offset(out, row, head) + c, out.node, 1)
        transpose(target, here, value.width - c, Matrix(work, outs + c * count, count, 1), count, count)
    return reduce_add(nonfinite) == 0


@kernel
def _write_weights(work, lanes, block, slots, inputs, outputs, weights, number):  # type: ignore[no-untyped-def]
    """Write the weights of a block from the exponentials that :func:`_attend_rows` left in scratch memory.

    They are transposed into the memory of the outputs, which have been copied: one row for each destination.
    """
    count = simd_width(work)
    rows = scratch_start(work) + round_up(inputs.query.width, count) * count
    exponentials = rows + round_up(inputs.value.width, count) * count
    inverse_sum, start = outputs.inverse_sum[block.head], weights.starts[number]
    for j in range(block.begin, block.end, count):
        source = Matrix(work, exponentials + (j - block.begin) * count, count, 1)
        transpose(Matrix(work, rows, count, 1), count, count, source, min(count, block.end - j), count)
        for r in range(block.rows):
            low, high = lanes[r], lanes[count + r]
            part = mul(load(work, rows + r * count), broadcast(inverse_sum[block.row + r]))
            store_masked(weights.memory, start + slots[block.row + r] + j - low, part, low - j, high - j)
