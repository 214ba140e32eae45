"""Kernels for any edges: one destination after the other, with its sources looked up in ``indices``.

A task is one head and one run of destinations. In the backward pass no two runs share a source, so that they do not
write to the same memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.distance_kernels import add_bias_gradients, add_biases
from graphattn._backends.cpu.records import offset
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    dropout_factors,
    dropout_threshold,
    exp,
    fetch_add,
    fma,
    load,
    load_masked,
    mask_lanes,
    maximum,
    mul,
    reduce_add,
    reduce_max,
    simd_width,
    store,
    store_masked,
    sub,
)


class EdgeArrays(NamedTuple):
    """Edges in compressed sparse column form, and the (R + 1,) destinations at which runs begin."""

    runs: np.ndarray
    starts: np.ndarray
    indices: np.ndarray


@kernel
def forward(counter, edges, inputs, terms, outputs, rule, work):  # type: ignore[no-untyped-def]
    """Fill ``outputs`` and, unless they are empty, ``terms.weights``; take tasks from ``counter``."""
    runs, starts, indices = edges
    bias, weights, _, distances = terms
    row_max, inverse_sum = outputs.row_max, outputs.inverse_sum
    value, v_node, scale, dropout = inputs.value.memory, inputs.value.node, rule.scale, rule.dropout
    heads, width = len(row_max), inputs.value.width
    query, key, k_node, qk_width = inputs.query.memory, inputs.key.memory, inputs.key.node, inputs.query.width
    out = outputs.out.memory
    count = simd_width(work)
    while True:
        task = fetch_add(counter)
        if task >= (len(runs) - 1) * heads:
            break
        head = task % heads
        limit, gain = dropout_threshold(dropout, work)
        seed, slots, v_head = rule.seeds[head], head * starts[-1], head * inputs.value.head
        k_head = head * inputs.key.head
        for i in range(runs[task // heads], runs[task // heads + 1]):
            first, degree = starts[i], starts[i + 1] - starts[i]
            position = offset(inputs.query, i, head)
            top = _scores(
                (indices, first, degree), (query, position), (key, k_head, k_node), qk_width,
                (bias, slots + first), scale, work, (distances, i, head),
            )  # fmt: skip
            out_at = offset(outputs.out, i, head)
            if degree == 0 or top == -np.inf:
                for c in range(0, width, count):
                    store_masked(out, out_at + c, broadcast(work.dtype.type(0)), 0, width - c)
                continue
            row_sum, shift = broadcast(work.dtype.type(0)), broadcast(top)
            for t in range(0, degree, count):
                weight = exp(sub(load(work, t), shift))
                row_sum = add(row_sum, weight)
                store(work, t, weight)
            inverse = work.dtype.type(1) / reduce_add(row_sum)
            row_max[head, i], inverse_sum[head, i] = top, inverse
            if len(weights) > 0:
                for t in range(0, degree, count):
                    store_masked(weights, slots + first + t, mul(load(work, t), broadcast(inverse)), 0, degree - t)
            if dropout > 0:
                for t in range(0, degree, count):
                    weight = load(work, t)
                    store(work, t, mul(weight, dropout_factors(weight, first + t, seed, limit, gain)))
            for c in range(0, width, count):
                result = broadcast(work.dtype.type(0))
                for t in range(degree):
                    part = load_masked(value, indices[first + t] * v_node + v_head + c, 0, width - c)
                    result = fma(broadcast(work[t]), part, result)
                part = mul(result, broadcast(inverse))
                store_masked(out, out_at + c, part, 0, width - c)


@kernel
def backward(counter, edges, inputs, terms, upstream, grads, rule, work):  # type: ignore[no-untyped-def]
    """Add to ``grads`` and ``terms.grad_bias``, which start at zero; no two runs may share a source.

    ``terms.weights`` are gradients of weights.
    """
    runs, starts, indices = edges
    bias, grad_weights, grad_bias, distances = terms
    row_max, inverse_sum, out = upstream.row_max, upstream.inverse_sum, upstream.out
    has_key, has_value = grads.has_key, grads.has_value
    query, key, k_node = inputs.query.memory, inputs.key.memory, inputs.key.node
    value, v_node, grad_out = inputs.value.memory, inputs.value.node, upstream.grad_out.memory
    grad_query, grad_key, gk_node = grads.query.memory, grads.key.memory, grads.key.node
    grad_value, gv_node = grads.value.memory, grads.value.node
    heads, width, value_width = len(row_max), inputs.query.width, inputs.value.width
    count = simd_width(work)
    while True:
        task = fetch_add(counter)
        if task >= (len(runs) - 1) * heads:
            break
        head = task % heads
        limit, gain = dropout_threshold(rule.dropout, work)
        seed, slots = rule.seeds[head], head * starts[-1]
        k_head, v_head = head * inputs.key.head, head * inputs.value.head
        gk_head, gv_head = head * grads.key.head, head * grads.value.head
        for i in range(runs[task // heads], runs[task // heads + 1]):
            first, degree = starts[i], starts[i + 1] - starts[i]
            inverse = inverse_sum[head, i]
            if degree == 0 or inverse == 0:
                continue
            position, g_position = offset(inputs.query, i, head), offset(upstream.grad_out, i, head)
            _scores(
                (indices, first, degree), (query, position), (key, k_head, k_node), width,
                (bias, slots + first), rule.scale, work, (distances, i, head),
            )  # fmt: skip
            shift = broadcast(row_max[head, i])
            for t in range(0, degree, count):
                store(work, t, mul(exp(sub(load(work, t), shift)), broadcast(inverse)))
            slopes = (degree + count - 1) // count * count
            for t in range(degree):
                product = broadcast(work.dtype.type(0))
                for c in range(0, value_width, count):
                    part = load_masked(value, indices[first + t] * v_node + v_head + c, 0, value_width - c)
                    product = fma(load_masked(grad_out, g_position + c, 0, value_width - c), part, product)
                work[slopes + t] = reduce_add(product)
            mean = broadcast(work.dtype.type(0))
            for c in range(0, value_width, count):  # not a sum over the edges: others may contribute to the outputs
                part = load_masked(out.memory, offset(out, i, head) + c, 0, value_width - c)
                mean = fma(load_masked(grad_out, g_position + c, 0, value_width - c), part, mean)
            for t in range(0, degree, count):  # lanes after the last edge have weight 0
                weight, slope = load(work, t), mask_lanes(load(work, slopes + t), 0, degree - t, work.dtype.type(0))
                if rule.dropout > 0:
                    slope = mul(slope, dropout_factors(weight, first + t, seed, limit, gain))
                if len(grad_weights) > 0:
                    of_weight = load_masked(grad_weights, slots + first + t, 0, degree - t)
                    slope, mean = add(slope, of_weight), fma(weight, of_weight, mean)
                store(work, slopes + t, slope)
            mean = broadcast(reduce_add(mean))
            for t in range(0, degree, count):
                weight = load(work, t)
                slope = mul(weight, sub(load(work, slopes + t), mean))
                if len(grad_bias) > 0:
                    store_masked(grad_bias, slots + first + t, slope, 0, degree - t)
                store(work, slopes + t, slope)
                if rule.dropout > 0:
                    store(work, t, mul(weight, dropout_factors(weight, first + t, seed, limit, gain)))
            if len(distances.rows) > 0:
                add_bias_gradients(work, slopes, 0, degree, (indices, first, 0), i, head, distances)
            for t in range(0, degree, count):
                store(work, slopes + t, mul(load(work, slopes + t), broadcast(rule.scale)))
            gq_position = offset(grads.query, i, head)
            for c in range(0, width, count):
                here, total = load_masked(query, position + c, 0, width - c), broadcast(work.dtype.type(0))
                for t in range(degree):
                    slope = broadcast(work[slopes + t])
                    j = indices[first + t]
                    total = fma(slope, load_masked(key, j * k_node + k_head + c, 0, width - c), total)
                    if has_key:
                        at = j * gk_node + gk_head + c
                        store_masked(
                            grad_key, at, fma(slope, here, load_masked(grad_key, at, 0, width - c)), 0, width - c
                        )
                store_masked(grad_query, gq_position + c, total, 0, width - c)
            for c in range(0, value_width if has_value else 0, count):
                here = load_masked(grad_out, g_position + c, 0, value_width - c)
                for t in range(degree):
                    at = indices[first + t] * gv_node + gv_head + c
                    summed = fma(broadcast(work[t]), here, load_masked(grad_value, at, 0, value_width - c))
                    store_masked(grad_value, at, summed, 0, value_width - c)


@kernel
def _scores(edges, query, key, width, bias, scale, work, by_distance):  # type: ignore[no-untyped-def]
    """Write the scores of one destination's edges, padded with -inf to a whole register; return the largest.

    ``edges`` are indices, first slot and number of edges; ``query``, ``key`` and ``bias`` are memory and its first
    position, for keys also the stride of nodes; ``by_distance`` are biases by distance, the destination and its head.
    """
    indices, first, degree = edges
    query, position = query
    key, k_head, k_node = key
    bias, slot = bias
    count = simd_width(work)
    hidden = work.dtype.type(-np.inf)
    for t in range(degree):
        product = broadcast(work.dtype.type(0))
        for c in range(0, width, count):
            part = load_masked(key, indices[first + t] * k_node + k_head + c, 0, width - c)
            product = fma(load_masked(query, position + c, 0, width - c), part, product)
        work[t] = reduce_add(product)
    distances, destination, head = by_distance
    if len(distances.rows) > 0:
        for t in range(degree):
            work[t] *= scale
        add_biases(work, 0, 0, degree, (indices, first, 0), destination, head, distances)
        scale = work.dtype.type(1)
    row_max = broadcast(hidden)
    for t in range(0, degree, count):
        score = mul(load(work, t), broadcast(scale))
        if len(bias) > 0:
            score = add(score, load_masked(bias, slot + t, 0, degree - t))
        score = mask_lanes(score, 0, degree - t, hidden)
        store(work, t, score)
        row_max = maximum(score, row_max)
    highest = reduce_max(row_max)
    if highest == hidden:
        for t in range(degree):
            if np.isnan(work[t]):
                return work.dtype.type(np.nan)
    return highest


def work_size(longest: int, count: int) -> int:
    """Scratch memory for destinations with up to ``longest`` edges, in numbers."""
    return 2 * (-(-longest // count) * count)
