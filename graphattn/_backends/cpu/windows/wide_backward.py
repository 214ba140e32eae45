"""Backward kernel of :mod:`graphattn._backends.cpu.windows.wide_forward`, from row max and row sum."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphattn._backends.cpu.compiling import inline_kernel, kernel
from graphattn._backends.cpu.distance_kernels import add_bias_gradients
from graphattn._backends.cpu.records import Strided, offset
from graphattn._backends.cpu.simd.blocks import BLOCK_ROWS
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors,
    dropout_threshold,
    fetch_add,
    fma,
    load,
    load_masked,
    mul,
    reduce_add,
    simd_width,
    store,
    store_masked,
    sub,
)
from graphattn._backends.cpu.windows.packing import (
    accumulate_partial,
    clear,
    first_aligned,
    pack_panels,
    pack_rows,
    partial_of_keys,
    partial_of_values,
    round_up,
    scatter_rows,
    transpose_panels,
)
from graphattn._backends.cpu.windows.wide_tiles import (
    TILE,
    TileBlock,
    accumulate_rows,
    multiply_panels,
    multiply_rows,
    recompute_weights,
    union_of_ranges,
)


class Upstream(NamedTuple):
    """Outputs of the forward pass, see ``records.Outputs``, and the outputs' gradients."""

    out: Strided
    row_max: np.ndarray
    inverse_sum: np.ndarray
    grad_out: Strided


class Positions(NamedTuple):
    """Offsets in scratch memory."""

    queries: int  # (rows, features) queries of the block
    grads: int  # (rows, features) gradients of its outputs
    grad_queries: int  # (rows, features) gradients of its queries
    keys: int  # keys of the chunk
    panels: int  # its keys, transposed
    value_panels: int  # its values, transposed
    grad_keys: int  # gradients of its keys
    grad_values: int  # gradients of its values
    means: int  # (rows,) gradients of the outputs times the outputs
    scores: int  # (rows, TILE)
    slopes: int  # (rows, TILE)


@kernel
def backward(counter, ranges, inputs, terms, upstream, grads, rule, group, work):  # type: ignore[no-untyped-def]
    """Fill ``grads`` and, unless it is empty, ``terms.grad_bias``; ``terms.weights`` are gradients of weights."""
    heads = len(upstream.row_max)
    groups = (heads + group - 1) // group
    query, key, value, out, grad_out = inputs.query, inputs.key, inputs.value, upstream.out, upstream.grad_out
    count = simd_width(work)
    wide, value_wide = round_up(query.width, count), round_up(value.width, count)
    one = work.dtype.type(1)
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
        scores = staging + count * task_heads * value_wide
        slopes = scores + ranges.block * TILE
        keys = slopes + ranges.block * TILE
        panels = keys + task_heads * padded_keys * wide
        value_panels = panels + task_heads * padded_keys * wide
        grad_keys = value_panels + task_heads * padded_keys * value_wide
        grad_values = grad_keys + task_heads * padded_keys * wide
        queries = grad_values + task_heads * padded_keys * value_wide
        grad_outs = queries + task_heads * padded_rows * wide
        grad_queries = grad_outs + task_heads * padded_rows * value_wide
        means = grad_queries + task_heads * padded_rows * wide
        clean = pack_rows(key, offset(key, begin, first_head), end - begin, task_heads, one, work, keys, padded_keys)
        clean &= pack_panels(
            value, offset(value, begin, first_head), end - begin, task_heads, work, staging, value_panels
        )
        position = offset(query, first, first_head)
        clean &= pack_rows(query, position, stop - first, task_heads, rule.scale, work, queries, padded_rows)
        clean &= pack_rows(
            grad_out, offset(grad_out, first, first_head), stop - first, task_heads, one, work, grad_outs, padded_rows
        )
        transpose_panels(work, keys, panels, task_heads * padded_keys, wide)
        if grads.has_key or grads.has_value:
            clear(work, grad_keys, queries)
        clear(work, grad_queries, means)
        for r in range(stop - first):
            for member in range(task_heads):
                product = broadcast(work.dtype.type(0))
                for c in range(0, value.width, count):
                    position = offset(out, first + r, first_head + member) + c
                    part = load_masked(out.memory, position, 0, value.width - c)
                    product = fma(load(work, grad_outs + (member * padded_rows + r) * value_wide + c), part, product)
                work[means + member * padded_rows + r] = reduce_add(product)
        for member in range(task_heads):
            first_key = member * padded_keys
            step = ranges.block if clean else 1
            row = first
            while row < stop:
                rows = min(step, stop - row)
                lo, hi = union_of_ranges(ranges.low, ranges.high, row, rows)
                line = member * padded_rows + row - first
                if lo < hi:
                    positions = Positions(
                        queries + line * wide,
                        grad_outs + line * value_wide,
                        grad_queries + line * wide,
                        keys + first_key * wide,
                        panels + first_key * wide,
                        value_panels + first_key * value_wide,
                        grad_keys + first_key * wide,
                        grad_values + first_key * value_wide,
                        means + line,
                        scores,
                        slopes,
                    )
                    block = TileBlock(row, rows, lo - begin, hi - begin, begin, first_head + member)
                    _differentiate_block(work, positions, block, ranges, terms, upstream, grads, rule, not clean)
                row += rows
        members = ranges.heads[first_head : first_head + task_heads]
        position = first * grads.query.node
        scatter_rows(work, grad_queries, padded_rows, grads.query, position, stop - first, members, rule.scale)
        if grads.has_key:
            partial = partial_of_keys(grads, heads)
            accumulate_partial(work, grad_keys, padded_keys, chunk, members, first_head, grads.key, partial)
        if grads.has_value:
            partial = partial_of_values(grads, heads)
            accumulate_partial(work, grad_values, padded_keys, chunk, members, first_head, grads.value, partial)


@inline_kernel
def _differentiate_block(  # type: ignore[no-untyped-def]
    work, positions, block, ranges, terms, upstream, grads, rule, exact
):
    """Compute gradients of a block's queries, and add those of its keys and values.

    ``exact``: do not add zeros times features to keys that no row sees, nor to other rows.
    """
    count = simd_width(work)
    width, value_width = grads.key.width, grads.value.width
    wide, value_wide = round_up(width, count), round_up(value_width, count)
    row, rows, head, scores, slopes = block.row, block.rows, block.head, positions.scores, positions.slopes
    slots = head * ranges.starts[-1]
    base = block.lo // count * count
    columns = round_up(block.hi - base, count)
    limit, gain = dropout_threshold(rule.dropout, work)
    of_weights = (positions.queries, positions.panels, scores)
    if len(terms.weights) > 0:  # the gradient of the softmax needs the sum over the row first
        for tile in range(0, columns, TILE):
            at, here = base + tile, min(TILE, columns - tile)
            recompute_weights(work, of_weights, block, (at, here), ranges, terms, upstream, (wide, width))
            for r in range(rows):
                left, right = ranges.low[row + r] - block.begin - at, ranges.high[row + r] - block.begin - at
                product = broadcast(work.dtype.type(0))
                for c in range(max(left, 0) // count * count, min(right, here), count):
                    position = slots + ranges.starts[row + r] - left + c
                    part = load_masked(terms.weights, position, left - c, right - c)
                    product = fma(load(work, scores + r * TILE + c), part, product)
                work[positions.means + r] += reduce_add(product)
    for tile in range(0, columns, TILE):
        at, here = base + tile, min(TILE, columns - tile)
        recompute_weights(work, of_weights, block, (at, here), ranges, terms, upstream, (wide, width))
        panels = positions.value_panels + at * value_wide
        multiply_panels(work, slopes, rows, positions.grads, value_wide, panels, here, value_width)
        for r in range(rows):
            i = row + r
            left, right = ranges.low[i] - block.begin - at, ranges.high[i] - block.begin - at
            first, last = max(left, 0) // count * count, round_up(min(right, here), count)
            if first >= last:
                first = last = 0
            line, slope_line = scores + r * TILE, slopes + r * TILE
            slot = ranges.starts[i] - left
            clear(work, slope_line, slope_line + first)
            clear(work, slope_line + last, slope_line + here)
            mean = broadcast(work[positions.means + r])
            for c in range(first, last, count):
                weight, slope = load(work, line + c), load(work, slope_line + c)
                if rule.dropout > 0:
                    factor = dropout_factors(weight, slot + c, rule.seeds[head], limit, gain)
                    slope = mul(slope, factor)
                    store(work, line + c, mul(weight, factor))
                if len(terms.weights) > 0:
                    slope = add(slope, load_masked(terms.weights, slots + slot + c, left - c, right - c))
                slope = mul(weight, sub(slope, mean))
                store(work, slope_line + c, slope)
                if len(terms.grad_bias) > 0:
                    store_masked(terms.grad_bias, slots + slot + c, slope, left - c, right - c)
            if len(terms.distances.rows) > 0:
                edges = terms.distances.rows[:0], 0, block.begin + at
                left, right = max(left, 0), min(right, here)
                add_bias_gradients(work, slope_line, left, right, edges, i, head, terms.distances)
        start, stop = max(block.lo - at, 0), min(block.hi - at, here)
        features = (positions.keys + (at + start) * wide, wide)
        if exact:
            accumulate_rows(work, positions.grad_queries, rows, slopes + start, TILE, 1, features, stop - start, True)
        else:
            multiply_rows(
                work, positions.grad_queries, rows, slopes + start, TILE, 1, features, stop - start, tile == 0
            )
        start = start if exact else start // BLOCK_ROWS * BLOCK_ROWS
        position = at + start
        if grads.has_key:
            target, features = positions.grad_keys + position * wide, (positions.queries, wide)
            accumulate_rows(work, target, stop - start, slopes + start, 1, TILE, features, rows, exact)
        if grads.has_value:
            target, features = positions.grad_values + position * value_wide, (positions.grads, value_wide)
            accumulate_rows(work, target, stop - start, scores + start, 1, TILE, features, rows, exact)
