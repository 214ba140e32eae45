"""Backend ``fused``: scores, softmax and weighted sum of a destination in one pass; nothing of the edges' size is kept.

Compiled by Numba on first use and cached on disk. The backward pass recomputes the weights from the saved logarithm of
each softmax's denominator. Threads are Python threads around kernels that release the interpreter lock: as many as
``torch.get_num_threads()``, safe after a fork and in several threads at once, and the same bits whatever their number.

Letters: N nodes, H heads, P features of a head padded to a multiple of 16 (a whole number of vector registers).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numba
import numpy as np
import torch
from numba.extending import overload
from torch import Tensor

from graphattn.edges import Edges
from graphattn.exceptions import BackendError

DTYPES = (torch.float32, torch.float64)
CHUNK = 1 << 15
"""Edges of one task of the forward pass: small, so that no thread waits long for another."""


def attend(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    bias: Tensor | None,
    dropout: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Attention by one fused kernel for each head and run of destinations."""
    if query.device.type != "cpu" or query.dtype not in DTYPES:
        raise BackendError(f"backend 'fused' takes float32 and float64 on a CPU, not {query.dtype} on {query.device}")
    if dropout or bias is not None or return_weights:
        raise BackendError("backend 'fused' has no bias, no dropout on weights and returns none. Use backend='dgl'")
    return _FusedAttention.apply(query, key, value, edges, scale), None


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, edges: Edges, scale: float) -> Tensor:
        packed = [_pack(tensor) for tensor in (query, key, value)]
        q, k, v = (tensor.numpy() for tensor in packed)
        heads, count, width = q.shape[0], edges.num_destinations, v.shape[2]
        out = torch.zeros(heads, count, width, dtype=value.dtype)
        lse = torch.zeros(heads, count, dtype=value.dtype)
        indptr, indices = edges.indptr.numpy(), edges.indices.numpy()
        runs = _runs(indptr)
        longest = _longest(indptr)
        _in_threads(
            [
                (_forward, indptr, indices, q, k, v, scale, out.numpy(), lse.numpy(), longest, head, start, stop)
                for head in range(heads)
                for start, stop in runs
            ]
        )
        ctx.edges, ctx.scale, ctx.longest = edges, scale, longest
        ctx.widths = query.shape[2], value.shape[2]
        ctx.save_for_backward(*packed, out, lse)
        return out[:, :, : value.shape[2]].transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        grad_out = _pack(gradients[0])
        grads = [torch.zeros_like(tensor) for tensor in (q, k, v)]
        inner = torch.einsum("hnp,hnp->hn", grad_out, out)
        arrays = [tensor.numpy() for tensor in (q, k, v, grad_out, lse, inner, *grads)]
        edges: Edges = ctx.edges
        fixed = (_backward, edges.indptr.numpy(), edges.indices.numpy(), *arrays, ctx.scale, ctx.longest)
        _in_threads([(*fixed, head) for head in range(q.shape[0])])
        narrow, wide = ctx.widths
        dq, dk, dv = grads
        return (
            dq[:, :, :narrow].transpose(0, 1),
            dk[:, :, :narrow].transpose(0, 1),
            dv[:, :, :wide].transpose(0, 1),
            None,
            None,
        )


def _pack(tensor: Tensor) -> Tensor:
    """(N, H, D) -> (H, N, P), contiguous, padded with zeros."""
    count, heads, feats = tensor.shape
    packed = torch.zeros(heads, count, -(-feats // 16) * 16, dtype=tensor.dtype)
    packed[:, :, :feats] = tensor.detach().transpose(0, 1)
    return packed


def _longest(indptr: np.ndarray) -> int:
    return int((indptr[1:] - indptr[:-1]).max(initial=1))


def _runs(indptr: np.ndarray) -> list[tuple[int, int]]:
    """Runs of destinations with about :data:`CHUNK` edges each."""
    count = len(indptr) - 1
    marks = np.arange(0, int(indptr[-1]) + 1, CHUNK)
    cuts = np.unique(np.concatenate([np.searchsorted(indptr[:-1], marks), [0, count]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Worker threads of this process; a forked one makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphattn")


def _in_threads(tasks: list[tuple[Any, ...]]) -> None:
    threads = torch.get_num_threads()
    if threads == 1 or len(tasks) < 2:
        for kernel, *arguments in tasks:
            kernel(*arguments)
        return
    for future in [_pool(os.getpid(), threads).submit(kernel, *arguments) for kernel, *arguments in tasks]:
        future.result()


# the widths of heads stay variables in the kernels: known small ones the compiler would unroll instead of vectorise
_COMPILE = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz", "arcp"}}


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


@numba.njit(**_COMPILE)
def _forward(indptr, indices, query, key, value, scale, out, lse, longest, head, start, stop):  # type: ignore[no-untyped-def]
    width, value_width = query.shape[2], value.shape[2]
    scores = np.empty(longest, query.dtype)
    powers = np.empty(longest, query.dtype)
    factor = query.dtype.type(scale)
    for i in range(start, stop):
        first = indptr[i]
        count = indptr[i + 1] - first
        if count == 0:
            continue
        top = query.dtype.type(-np.inf)
        for t in range(count):
            j = indices[first + t]
            dot = query.dtype.type(0.0)
            for d in range(width):
                dot += query[head, i, d] * key[head, j, d]
            dot *= factor
            scores[t] = dot
            top = max(top, dot)
        _exponentials(scores, powers, count, top)
        total = query.dtype.type(0.0)
        for t in range(count):
            total += scores[t]
        for t in range(count):
            j = indices[first + t]
            weight = scores[t]
            for d in range(value_width):
                out[head, i, d] += weight * value[head, j, d]
        share = query.dtype.type(1.0) / total
        for d in range(value_width):
            out[head, i, d] *= share
        lse[head, i] = top + np.log(total)


@numba.njit(**_COMPILE)
def _backward(  # type: ignore[no-untyped-def]
    indptr, indices, query, key, value, grad_out, lse, inner, grad_query, grad_key, grad_value, scale, longest, head
):
    width, value_width = query.shape[2], value.shape[2]
    weights = np.empty(longest, query.dtype)
    powers = np.empty(longest, query.dtype)
    factor = query.dtype.type(scale)
    for i in range(len(indptr) - 1):
        first = indptr[i]
        count = indptr[i + 1] - first
        for t in range(count):
            j = indices[first + t]
            dot = query.dtype.type(0.0)
            for d in range(width):
                dot += query[head, i, d] * key[head, j, d]
            weights[t] = dot * factor
        _exponentials(weights, powers, count, lse[head, i])
        for t in range(count):
            j = indices[first + t]
            dot = query.dtype.type(0.0)
            for d in range(value_width):
                dot += grad_out[head, i, d] * value[head, j, d]
            weight = weights[t]
            score = weight * (dot - inner[head, i]) * factor
            for d in range(value_width):
                grad_value[head, j, d] += weight * grad_out[head, i, d]
            for d in range(width):
                grad_key[head, j, d] += score * query[head, i, d]
            for d in range(width):
                grad_query[head, i, d] += score * key[head, j, d]
