"""The compiled loops of backend ``fused``: one head at a time, forward over a run of destinations, backward over all.

Arrays as in :mod:`graphattn.backends.fused`, heads first. Arrays (H, 0) stand for a bias or weights that are not there.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload

# Widths of heads stay variables in the kernels: known small ones the compiler would unroll instead of vectorise.
# NaN and infinity keep their meaning: a score of -inf hides an edge.
_COMPILE: Any = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
}


@numba.njit(**_COMPILE)
def attend_forward(  # type: ignore[no-untyped-def]
    indptr, indices, query, key, value, bias, out, lse, weights, scale, dropout, seed, longest, head, start, stop
):
    """Fill ``out`` (H, N, P), ``lse`` (H, N) and ``weights`` (H, E) for one head and destinations start to stop."""
    value_width = value.shape[2]
    shares = np.empty(longest, query.dtype)
    powers = np.empty(longest, query.dtype)
    for i in range(start, stop):
        first = indptr[i]
        count = indptr[i + 1] - first
        top = _scores(indices, query, key, bias, scale, head, i, first, count, shares)
        if count == 0 or top == -np.inf:
            continue
        _exponentials(shares, powers, count, top)
        total = query.dtype.type(0.0)
        for t in range(count):
            total += shares[t]
        lse[head, i] = top + np.log(total)
        for t in range(count):
            shares[t] /= total
        if weights.shape[1] > 0:
            for t in range(count):
                weights[head, first + t] = shares[t]
        if dropout > 0:
            _kept(powers, dropout, seed, head, first, count)
            for t in range(count):
                shares[t] *= powers[t]
        for t in range(count):
            j = indices[first + t]
            share = shares[t]
            for d in range(value_width):
                out[head, i, d] += share * value[head, j, d]


@numba.njit(**_COMPILE)
def attend_backward(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    query,
    key,
    value,
    bias,
    lse,
    grad_out,
    grad_weights,
    grad_query,
    grad_key,
    grad_value,
    grad_bias,
    scale,
    dropout,
    seed,
    longest,
    head,
):
    """Fill the gradients of one head; destinations one after the other, so that sums have one order."""
    width, value_width = query.shape[2], value.shape[2]
    factor = query.dtype.type(scale)
    shares = np.empty(longest, query.dtype)
    slopes = np.empty(longest, query.dtype)
    powers = np.empty(longest, query.dtype)
    for i in range(len(indptr) - 1):
        first = indptr[i]
        count = indptr[i + 1] - first
        if lse[head, i] == np.inf:
            continue
        _scores(indices, query, key, bias, scale, head, i, first, count, shares)
        _exponentials(shares, powers, count, lse[head, i])
        if dropout > 0:
            _kept(powers, dropout, seed, head, first, count)
        else:
            for t in range(count):
                powers[t] = 1
        inner = query.dtype.type(0.0)
        for t in range(count):
            j = indices[first + t]
            slope = query.dtype.type(0.0)
            for d in range(value_width):
                slope += grad_out[head, i, d] * value[head, j, d]
            slope *= powers[t]
            if grad_weights.shape[1] > 0:
                slope += grad_weights[head, first + t]
            slopes[t] = slope
            inner += slope * shares[t]
        for t in range(count):
            j = indices[first + t]
            slope = shares[t] * (slopes[t] - inner)
            if grad_bias.shape[1] > 0:
                grad_bias[head, first + t] = slope
            slope *= factor
            share = shares[t] * powers[t]
            for d in range(value_width):
                grad_value[head, j, d] += share * grad_out[head, i, d]
            for d in range(width):
                grad_key[head, j, d] += slope * query[head, i, d]
            for d in range(width):
                grad_query[head, i, d] += slope * key[head, j, d]


@numba.njit(**_COMPILE)
def _scores(indices, query, key, bias, scale, head, i, first, count, scores):  # type: ignore[no-untyped-def]
    """Write the scores of one destination's edges and return the largest."""
    width = query.shape[2]
    factor = query.dtype.type(scale)
    top = query.dtype.type(-np.inf)
    for t in range(count):
        j = indices[first + t]
        score = query.dtype.type(0.0)
        for d in range(width):
            score += query[head, i, d] * key[head, j, d]
        score *= factor
        if bias.shape[1] > 0:
            score += bias[head, first + t]
        scores[t] = score
        top = max(top, score)
    return top


@numba.njit(**_COMPILE)
def _kept(factors, dropout, seed, head, first, count):  # type: ignore[no-untyped-def]
    """Write 0 for dropped edges and 1 / (1 - dropout) for the others; the bits depend on seed, head and edge only."""
    limit = np.uint32(min(dropout * 4294967296.0, 4294967295.0))
    start = np.uint32(seed) ^ (np.uint32(head + 1) * np.uint32(0x85EBCA6B))
    factor = factors.dtype.type(1.0 / (1.0 - dropout))
    for t in range(count):
        bits = np.uint32(np.uint32(first + t) * np.uint32(0x9E3779B9)) ^ start
        for _ in range(2):  # the finalizer of MurmurHash3, twice: neighbours get unrelated bits
            bits ^= bits >> np.uint32(16)
            bits = np.uint32(bits * np.uint32(0x85EBCA6B))
            bits ^= bits >> np.uint32(13)
            bits = np.uint32(bits * np.uint32(0xC2B2AE35))
            bits ^= bits >> np.uint32(16)
        factors[t] = factor if bits >= limit else 0


def _exponentials(scores: Any, powers: Any, count: Any, shift: Any) -> None:
    """In place exp(scores - shift); compiled for the type of the scores."""


@overload(_exponentials, jit_options=_COMPILE)
def _compile_exponentials(scores, powers, count, shift):  # type: ignore[no-untyped-def]
    def double(scores, powers, count, shift):  # type: ignore[no-untyped-def]
        for t in range(count):
            scores[t] = np.exp(scores[t] - shift)

    def single(scores, powers, count, shift):  # type: ignore[no-untyped-def]
        # range reduction and a polynomial: unlike np.exp, it fills vector registers
        exponents = powers.view(np.int32)
        for t in range(count):
            x = scores[t] - shift
            x = x if x > np.float32(-87.0) else np.float32(-87.0)
            n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
            r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
            p = np.float32(1.9875691500e-4)
            p = p * r + np.float32(1.3981999507e-3)
            p = p * r + np.float32(8.3334519073e-3)
            p = p * r + np.float32(4.1665795894e-2)
            p = p * r + np.float32(1.6666665459e-1)
            p = p * r + np.float32(5.0000001201e-1)
            p = p * r * r + r + np.float32(1.0)
            exponents[t] = (np.int32(n) + np.int32(127)) << np.int32(23)
            scores[t] = p if x > np.float32(-87.0) else np.float32(0.0)
        for t in range(count):
            scores[t] = scores[t] * powers[t]

    return double if scores.dtype == numba.float64 else single
