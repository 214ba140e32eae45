"""Backend ``fused``: scores, softmax and weighted sum of a destination in one pass, by compiled kernels on a CPU.

Nothing of the edges' size is kept unless weights are asked for: the backward pass recomputes them from the saved
logarithm of each softmax's denominator, and dropout draws its bits from the number of the edge. Kernels are compiled by
Numba on first use and cached on disk. Threads are Python threads around kernels that release the interpreter lock: as
many as ``torch.get_num_threads()``, safe after a fork and in several threads at once, and the bits of the result do not
depend on their number.

Letters: N nodes, E edges, H heads, P features of a head padded to a multiple of 16 (whole vector registers).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphattn.backends.fused_kernels import attend_backward, attend_forward
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
    """Attention by one fused kernel for each head and run of destinations; bfloat16 is computed in float32."""
    if query.device.type != "cpu" or query.dtype not in (*DTYPES, torch.bfloat16):
        raise BackendError(
            f"backend 'fused' takes float32, float64 and bfloat16 on a CPU, not {query.dtype} on {query.device}. "
            "Use backend='torch'"
        )
    if query.dtype == torch.bfloat16:
        query, key, value = query.float(), key.float(), value.float()
        bias = None if bias is None else bias.float()
        out, weights = attend(
            edges, query, key, value, scale=scale, bias=bias, dropout=dropout, return_weights=return_weights
        )
        return out.bfloat16(), None if weights is None else weights.bfloat16()
    seed = int(torch.randint(1 << 31, ()).item()) if dropout else 0
    out, weights = _FusedAttention.apply(query, key, value, bias, edges, scale, dropout, seed, return_weights)
    return out, weights if return_weights else None


class _FusedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        edges: Edges,
        scale: float,
        dropout: float,
        seed: int,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor]:
        packed = [_pack(tensor) for tensor in (query, key, value)]
        heads, count = query.shape[1], edges.num_destinations
        out = packed[2].new_zeros(heads, count, packed[2].shape[2])
        lse = packed[0].new_full((heads, count), float("inf"))
        added = query.new_zeros(heads, 0) if bias is None else bias.detach().t().contiguous()  # (H, E) or (H, 0)
        weights = query.new_zeros(heads, edges.num_edges if return_weights else 0)
        indptr = edges.indptr.numpy()
        arrays = [tensor.numpy() for tensor in (*packed, added, out, lse, weights)]
        fixed = (attend_forward, indptr, edges.indices.numpy(), *arrays, scale, dropout, seed, _longest(indptr))
        _in_threads([(*fixed, head, *run) for head in range(heads) for run in _runs(indptr)])
        ctx.edges, ctx.scale, ctx.dropout, ctx.seed = edges, scale, dropout, seed
        ctx.widths, ctx.has_bias, ctx.has_weights = (query.shape[2], value.shape[2]), bias is not None, return_weights
        ctx.save_for_backward(*packed, added, lse)
        return out[:, :, : value.shape[2]].transpose(0, 1), weights.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *packed, added, lse = ctx.saved_tensors
        edges: Edges = ctx.edges
        heads = lse.shape[0]
        grads = [torch.zeros_like(tensor) for tensor in (*packed, added)]
        grad_weights = gradients[1].t().contiguous() if ctx.has_weights else lse.new_zeros(heads, 0)
        indptr = edges.indptr.numpy()
        arrays = [tensor.numpy() for tensor in (*packed, added, lse, _pack(gradients[0]), grad_weights, *grads)]
        fixed = (attend_backward, indptr, edges.indices.numpy(), *arrays, ctx.scale, ctx.dropout, ctx.seed)
        _in_threads([(*fixed, _longest(indptr), head) for head in range(heads)])
        narrow, wide = ctx.widths
        own = (grads[0][:, :, :narrow], grads[1][:, :, :narrow], grads[2][:, :, :wide])
        grad_bias = grads[3].t() if ctx.has_bias else None
        return (*(gradient.transpose(0, 1) for gradient in own), grad_bias, None, None, None, None, None)


def _pack(tensor: Tensor) -> Tensor:
    """(N, H, D) -> (H, N, P), contiguous, padded with zeros."""
    count, heads, feats = tensor.shape
    packed = torch.zeros(heads, count, -(-feats // 16) * 16, dtype=tensor.dtype)
    packed[:, :, :feats] = tensor.detach().transpose(0, 1)
    return packed


def _longest(indptr: np.ndarray) -> int:
    """Largest number of edges into one destination."""
    return int((indptr[1:] - indptr[:-1]).max(initial=1))


def _runs(indptr: np.ndarray) -> list[tuple[int, int]]:
    """Runs of destinations with about :data:`CHUNK` edges each."""
    marks = np.arange(0, int(indptr[-1]) + 1, CHUNK)
    cuts = np.unique(np.concatenate([np.searchsorted(indptr[:-1], marks), [0, len(indptr) - 1]]))
    return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Worker threads of one process; a forked one makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphattn")


def _in_threads(tasks: list[tuple[Any, ...]]) -> None:
    """Run kernels, each with its arguments; tasks write to places of their own."""
    threads = torch.get_num_threads()
    if threads == 1 or len(tasks) < 2:
        for kernel, *arguments in tasks:
            kernel(*arguments)
        return
    pool = _pool(os.getpid(), threads)
    for future in [pool.submit(kernel, *arguments) for kernel, *arguments in tasks]:
        future.result()
