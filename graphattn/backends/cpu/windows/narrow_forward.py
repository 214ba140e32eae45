"""Kernel of backend ``fused`` for destinations whose keys lie side by side in narrow ranges, all heads of a layer.

As many destinations as a register has lanes meet the keys that some of them see, one lane each: scores of a key with
all of them at once, largest score, exponentials and sums down the lanes, no result ever combined across a register.
Keys and values are read where they lie; queries and results are turned over on the way. A lane adds up its keys in
their order and zeros for those it does not see, so a destination's bits do not depend on its neighbours.

Arrays are one-dimensional; query, key, value and the like come with the distances between nodes and between heads in
``steps``, features lie side by side. ``heads`` (K,) are the heads to work on, ``lines`` (K,) their places among those
that have queries and keys, ``which`` (K,) the relation of each, or -1 where a head only looks at its own node;
``lows`` and ``highs`` (R, N) are the ends of the ranges, ``slots`` (R, N + 1) the first slot of each destination,
(R, 0) without dropout where nobody wants weights. Those of head ``heads[k]`` begin at ``places[k]``, relation after
relation; they are not to be had under dropout. ``work`` is scratch memory.
"""

from __future__ import annotations

import numpy as np

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import multiply_panel, transpose
from graphattn.backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors_of_key,
    dropout_threshold,
    exp,
    fetch_add,
    fma,
    load,
    masked_store,
    maximum,
    mul,
    reciprocal,
    reduce_add,
    simd_width,
    store,
    sub,
)
from graphattn.backends.cpu.windows.narrow_rows import (
    copy_values,
    load_ranges,
    lowest_finite,
    multiply_and_mask,
    prefetch_rows,
)
from graphattn.backends.cpu.windows.narrow_weights import write_weights
from graphattn.backends.cpu.windows.wide_tiles import round_up


@kernel
def forward(  # type: ignore[no-untyped-def]
    counter, chunks, heads, lines, which, lows, highs, slots, query, key, value, out, tops, sums, weights, places,
    steps, scale, dropout, seeds, work,
):  # fmt: skip
    """Fill ``out``, the rows' largest scores ``tops`` and inverse sums ``sums`` (H, N), and ``weights`` if it has room.

    Takes chunks from ``counter`` until none is left.
    """
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps
    count = simd_width(work)
    rows = np.zeros(3 * count, np.int32)
    while True:
        task = fetch_add(counter)
        if task >= len(chunks):
            break
        row, stop = chunks[task, 0], chunks[task, 1]
        while row < stop:
            taken = min(count, stop - row)
            seen, begin, end = -1, 0, 0
            for number in range(len(heads)):
                head, line, relation = heads[number], lines[number], which[number]
                ahead = row + taken + number * taken // len(heads)
                after = row + taken + (number + 1) * taken // len(heads)
                prefetch_rows(query, ahead, after, q_node, q_head, lines, width)
                prefetch_rows(key, ahead, after, k_node, k_head, lines, width)
                prefetch_rows(value, ahead, after, v_node, v_head, heads, value_width)
                if relation < 0:
                    copy_values(value, row * v_node + head * v_head, v_node, out, row * o_node + head * o_head, o_node,
                            taken, value_width, row, dropout, seeds[head])  # fmt: skip
                    if len(weights) > 0:
                        weights[places[number] + row : places[number] + row + taken] = 1
                    continue
                at, step = row, taken
                while at < row + taken:
                    if relation != seen or step < taken:
                        begin, end = load_ranges(rows, lows[relation], highs[relation], slots[relation], at, step)
                        seen = relation if step == taken else -1
                    clean = _attend_rows(
                        work, rows, at, step, begin, end, head, line, query, key, value, out, tops, sums, steps, scale,
                        dropout, seeds[head],
                    )  # fmt: skip
                    if clean or step == 1:
                        if len(weights) > 0:
                            write_weights(
                                work, width, value_width, rows, slots[relation], at, step, begin, end, sums[head],
                                weights, places[number],
                            )  # fmt: skip
                        at += step
                    else:
                        step = 1  # what is not finite must not reach rows that do not see it
            row += taken


@kernel
def _attend_rows(  # type: ignore[no-untyped-def]
    work, rows, row, here, begin, end, head, line, query, key, value, out, tops, sums, steps, scale, dropout, seed
):
    """Attention of the rows from ``row`` on, a lane each; whether all numbers on the way were finite."""
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps
    count, keys = simd_width(work), end - begin
    turned = (-(work.ctypes.data // work.itemsize)) % count  # registers do not cross cache lines
    outs = turned + round_up(width, count) * count
    scores = outs + round_up(value_width, count) * count
    hidden, zero = work.dtype.type(-np.inf), broadcast(work.dtype.type(0))
    for c in range(0, width, count):
        place = row * q_node + line * q_head + c
        transpose(work, turned + c * count, count, count, count, query, place, q_node, here, width - c)
    odd = multiply_and_mask(
        work, scores, rows, turned, width, key, begin * k_node + line * k_head, k_node, keys, begin, scale, hidden
    )
    top = broadcast(hidden)
    for j in range(keys):
        top = maximum(load(work, scores + j * count), top)
    shift, collected = maximum(top, broadcast(lowest_finite(work))), zero
    limit, gain = dropout_threshold(dropout, work)
    for j in range(keys):
        share = exp(sub(load(work, scores + j * count), shift))
        collected = add(collected, share)
        if dropout > 0:
            share = mul(share, dropout_factors_of_key(share, rows, begin + j, seed, limit, gain))
        store(work, scores + j * count, share)
    inverse = reciprocal(collected)
    masked_store(tops[head], row, top, 0, here)
    masked_store(sums[head], row, inverse, 0, here)
    multiply_panel(work, outs, value_width, value, begin * v_node + head * v_head, 1, v_node, work, scores, keys)
    for c in range(value_width):
        part = mul(load(work, outs + c * count), inverse)
        odd = fma(part, zero, odd)
        store(work, outs + c * count, part)
    for c in range(0, value_width, count):
        place = row * o_node + head * o_head + c
        transpose(out, place, o_node, here, value_width - c, work, outs + c * count, count, count, count)
    return reduce_add(odd) == 0
