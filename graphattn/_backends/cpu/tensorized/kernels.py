"""Kernels of tensorised attention over any edges: two sums in one pass, one run of destinations per task.

Arrays as in :mod:`graphattn._backends.cpu.tensorized.fused`, heads first. Arrays (H, 0) mean no bias.
"""

from __future__ import annotations

import numpy as np

from graphattn._backends.cpu.compiling import loop_kernel

IDENTITY, SIGMOID, LOG_SIGMOID, TANH = range(4)
"""Scale functions, numbered as in :data:`graphattn._backends.cpu.tensorized.scores.SCALE_FUNCTIONS`."""

# Widths of heads stay variables: the compiler would unroll loops of known small width instead of vectorising them.


@loop_kernel
def forward(  # type: ignore[no-untyped-def]
    indptr, indices, query, key, weighed, bias, out, totals, scale, function, bound, longest, head, start, stop
):
    """Add to ``out`` and ``totals`` (H, N, P), which start at zero, for one head and destinations start to stop.

    ``weighed`` (H, N, 2 P) holds v e^S and e^S side by side.
    """
    width = out.shape[2]
    powers = np.empty(longest, query.dtype)
    slopes = np.empty(longest, query.dtype)
    for i in range(start, stop):
        first = indptr[i]
        count = indptr[i + 1] - first
        _exp_scores(indices, query, key, bias, scale, function, bound, head, i, first, count, powers, slopes)
        for t in range(count):
            j = indices[first + t]
            power = powers[t]
            for d in range(width):
                out[head, i, d] += power * weighed[head, j, d]
            for d in range(width):
                totals[head, i, d] += power * weighed[head, j, width + d]


@loop_kernel
def backward(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    query,
    key,
    weighed,
    bias,
    shares,
    grad_query,
    grad_key,
    grad_weighed,
    grad_bias,
    scale,
    function,
    bound,
    longest,
    head,
    start,
    stop,
):
    """Add up the gradients of one head and destinations start to stop; no other task may have their sources.

    ``shares`` (H, N, 2 P) holds the gradients of both sums of each destination.
    """
    width, both = query.shape[2], shares.shape[2]
    powers = np.empty(longest, query.dtype)
    slopes = np.empty(longest, query.dtype)
    for i in range(start, stop):
        first = indptr[i]
        count = indptr[i + 1] - first
        _exp_scores(indices, query, key, bias, scale, function, bound, head, i, first, count, powers, slopes)
        for t in range(count):
            j = indices[first + t]
            power = powers[t]
            slope = query.dtype.type(0.0)
            for d in range(both):
                slope += shares[head, i, d] * weighed[head, j, d]
            for d in range(both):
                grad_weighed[head, j, d] += power * shares[head, i, d]
            slope *= power
            if grad_bias.shape[1] > 0:
                grad_bias[head, first + t] = slope
            slope *= slopes[t]
            for d in range(width):
                grad_key[head, j, d] += slope * query[head, i, d]
            for d in range(width):
                grad_query[head, i, d] += slope * key[head, j, d]


@loop_kernel
def _exp_scores(  # type: ignore[no-untyped-def]
    indices, query, key, bias, scale, function, bound, head, i, first, count, powers, slopes
):
    """Write e^R of one destination's edges, scaled so that the largest is 1, and the slopes of R by dot product."""
    width = query.shape[2]
    kind = query.dtype.type
    factor, limit, one = kind(scale), kind(bound), kind(1.0)
    top = kind(-np.inf)
    for t in range(count):
        j = indices[first + t]
        score = kind(0.0)
        for d in range(width):
            score += query[head, i, d] * key[head, j, d]
        score *= factor
        slope = one
        if function == TANH:
            share = np.tanh(score / limit)
            slope = one - share * share
            score = limit * share
        elif function == SIGMOID:
            score = one / (one + np.exp(-score))
            slope = score * (one - score)
        elif function == LOG_SIGMOID:
            slope = one / (one + np.exp(score))
            score = min(score, kind(0.0)) - np.log1p(np.exp(-abs(score)))
        if bias.shape[1] > 0:
            score += bias[head, first + t]
        powers[t] = score
        slopes[t] = factor * slope
        top = max(top, score)
    for t in range(count):
        powers[t] = np.exp(powers[t] - top) if top > -np.inf else kind(0.0)
