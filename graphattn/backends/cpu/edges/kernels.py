"""Kernels of backend ``fused`` for any edges: one destination after the other, its sources looked up in ``indices``.

Arrays as in :mod:`graphattn.backends.cpu.windows.wide_forward`. A task is one head and one run of destinations; in the
backward pass the sources of different runs differ, so that runs do not write to the same place.
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
    fma,
    load,
    mask_lanes,
    masked_load,
    masked_store,
    maximum,
    mul,
    reduce_add,
    reduce_max,
    simd_width,
    store,
    sub,
)


@kernel
def forward(  # type: ignore[no-untyped-def]
    counter,
    runs,
    starts,
    indices,
    query,
    key,
    value,
    bias,
    out,
    tops,
    sums,
    weights,
    steps,
    scale,
    dropout,
    seeds,
    work,
):
    """Fill ``out``, ``tops`` and ``sums`` (H, N) and, if it has room, ``weights``; tasks come from ``counter``."""
    heads = len(tops)
    slots = starts[-1]
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps
    count = simd_width(work)
    while True:
        task = fetch_add(counter)
        if task >= (len(runs) - 1) * heads:
            break
        head = task % heads
        limit, gain = dropout_threshold(dropout, work)
        start = seeds[head]
        for i in range(runs[task // heads], runs[task // heads + 1]):
            first, edges = starts[i], starts[i + 1] - starts[i]
            place = i * q_node + head * q_head
            top = _scores(
                indices, first, edges, query, place, key, head * k_head, k_node, width, bias, head * slots, scale, work
            )
            if edges == 0 or top == -np.inf:
                for c in range(0, value_width, count):
                    masked_store(out, i * o_node + head * o_head + c, broadcast(work.dtype.type(0)), 0, value_width - c)
                continue
            collected, shift = broadcast(work.dtype.type(0)), broadcast(top)
            for t in range(0, edges, count):
                share = exp(sub(load(work, t), shift))
                collected = add(collected, share)
                store(work, t, share)
            inverse = work.dtype.type(1) / reduce_add(collected)
            tops[head, i], sums[head, i] = top, inverse
            if len(weights) > 0:
                for t in range(0, edges, count):
                    masked_store(
                        weights, head * slots + first + t, mul(load(work, t), broadcast(inverse)), 0, edges - t
                    )
            if dropout > 0:
                for t in range(0, edges, count):
                    share = load(work, t)
                    store(work, t, mul(share, dropout_factors(share, first + t, start, limit, gain)))
            for c in range(0, value_width, count):
                result = broadcast(work.dtype.type(0))
                for t in range(edges):
                    part = masked_load(value, indices[first + t] * v_node + head * v_head + c, 0, value_width - c)
                    result = fma(broadcast(work[t]), part, result)
                part = mul(result, broadcast(inverse))
                masked_store(out, i * o_node + head * o_head + c, part, 0, value_width - c)


@kernel
def backward(  # type: ignore[no-untyped-def]
    counter, runs, starts, indices, query, key, value, bias, out, tops, sums, grad_out, grad_weights, grad_query,
    grad_key, grad_value, grad_bias, steps, scale, dropout, seeds, wanted, work,
):  # fmt: skip
    """Add to the gradients, which start at zero; ``runs`` must have no source in common.

    ``wanted`` tells whether keys and whether values have any.
    """
    heads = len(tops)
    slots = starts[-1]
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head = steps[:8]
    g_node, g_head, gq_node, gq_head, gk_node, gk_head, gv_node, gv_head = steps[10:]
    count = simd_width(work)
    while True:
        task = fetch_add(counter)
        if task >= (len(runs) - 1) * heads:
            break
        head = task % heads
        limit, gain = dropout_threshold(dropout, work)
        start = seeds[head]
        for i in range(runs[task // heads], runs[task // heads + 1]):
            first, edges = starts[i], starts[i + 1] - starts[i]
            inverse = sums[head, i]
            if edges == 0 or inverse == 0:
                continue
            place, g_place = i * q_node + head * q_head, i * g_node + head * g_head
            _scores(
                indices, first, edges, query, place, key, head * k_head, k_node, width, bias, head * slots, scale, work
            )
            shift = broadcast(tops[head, i])
            for t in range(0, edges, count):
                store(work, t, mul(exp(sub(load(work, t), shift)), broadcast(inverse)))
            slopes = (edges + count - 1) // count * count
            for t in range(edges):
                product = broadcast(work.dtype.type(0))
                for c in range(0, value_width, count):
                    part = masked_load(value, indices[first + t] * v_node + head * v_head + c, 0, value_width - c)
                    product = fma(masked_load(grad_out, g_place + c, 0, value_width - c), part, product)
                work[slopes + t] = reduce_add(product)
            mean = broadcast(work.dtype.type(0))
            for t in range(0, edges, count):  # lanes after the last edge have shares of zero
                share, slope = load(work, t), mask_lanes(load(work, slopes + t), 0, edges - t, work.dtype.type(0))
                if dropout > 0:
                    factor = dropout_factors(share, first + t, start, limit, gain)
                    slope = mul(slope, factor)
                if len(grad_weights) > 0:
                    slope = add(slope, masked_load(grad_weights, head * slots + first + t, 0, edges - t))
                mean = fma(share, slope, mean)
                store(work, slopes + t, slope)
            mean = broadcast(reduce_add(mean))
            for t in range(0, edges, count):
                share = load(work, t)
                slope = mul(share, sub(load(work, slopes + t), mean))
                if len(grad_bias) > 0:
                    masked_store(grad_bias, head * slots + first + t, slope, 0, edges - t)
                store(work, slopes + t, mul(slope, broadcast(scale)))
                if dropout > 0:
                    store(work, t, mul(share, dropout_factors(share, first + t, start, limit, gain)))
            for c in range(0, width, count):
                here, own = masked_load(query, place + c, 0, width - c), broadcast(work.dtype.type(0))
                for t in range(edges):
                    slope = broadcast(work[slopes + t])
                    j = indices[first + t]
                    own = fma(slope, masked_load(key, j * k_node + head * k_head + c, 0, width - c), own)
                    if wanted[0]:
                        at = j * gk_node + head * gk_head + c
                        summed = fma(slope, here, masked_load(grad_key, at, 0, width - c))
                        masked_store(grad_key, at, summed, 0, width - c)
                masked_store(grad_query, i * gq_node + head * gq_head + c, own, 0, width - c)
            for c in range(0, value_width if wanted[1] else 0, count):
                here = masked_load(grad_out, g_place + c, 0, value_width - c)
                for t in range(edges):
                    at = indices[first + t] * gv_node + head * gv_head + c
                    summed = fma(broadcast(work[t]), here, masked_load(grad_value, at, 0, value_width - c))
                    masked_store(grad_value, at, summed, 0, value_width - c)


@kernel
def _scores(  # type: ignore[no-untyped-def]
    indices, first, edges, query, place, key, key_at, k_node, width, bias, bias_at, scale, work
):
    """Write the scores of one destination's edges and -inf up to the next whole register; return the largest."""
    count = simd_width(work)
    hidden = work.dtype.type(-np.inf)
    for t in range(edges):
        product = broadcast(work.dtype.type(0))
        for c in range(0, width, count):
            part = masked_load(key, indices[first + t] * k_node + key_at + c, 0, width - c)
            product = fma(masked_load(query, place + c, 0, width - c), part, product)
        work[t] = reduce_add(product)
    top = broadcast(hidden)
    for t in range(0, edges, count):
        score = mul(load(work, t), broadcast(scale))
        if len(bias) > 0:
            score = add(score, masked_load(bias, bias_at + first + t, 0, edges - t))
        score = mask_lanes(score, 0, edges - t, hidden)
        store(work, t, score)
        top = maximum(score, top)
    highest = reduce_max(top)
    if highest == hidden:
        for t in range(edges):
            if np.isnan(work[t]):
                return work.dtype.type(np.nan)
    return highest


def work_size(longest: int, count: int) -> int:
    """Numbers of scratch memory for destinations with up to ``longest`` edges."""
    return 2 * (-(-longest // count) * count)
