"""Tensorised attention over any edges on a CPU, by compiled kernels: two sums over edges in one pass.

It computes exponentials of source scores once for each node, those of token2token scores once for each edge and head,
and keeps no per-edge tensor. ``torch.get_num_threads()`` threads share the work; the bits of the result do not depend
on their number.

Letters: N nodes, E edges, H heads, P features of a head padded to a multiple of 16 (whole vector registers).
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from graphattn.backends.cpu.compiling import announce_compilation
from graphattn.backends.cpu.tensorized.blocks import MIN_DENOMINATOR
from graphattn.backends.cpu.tensorized.kernels import tensorized_backward, tensorized_forward
from graphattn.backends.cpu.tensorized.plan import sentence_starts
from graphattn.backends.cpu.tensorized.scores import SCALE_FUNCTIONS
from graphattn.backends.cpu.threads import run_in_threads
from graphattn.edges import Edges

CHUNK = 1 << 14
"""Edges of one task: small, so that no thread waits long for another."""


def attend_fused(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scores: Tensor,
    *,
    scale: float,
    function: str,
    bound: float,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs (N_dst, H, F), and which rows (N_dst, H) need the exact computation; the bias is in slot order."""
    return _Fused.apply(query, key, value, scores, bias, edges, scale, SCALE_FUNCTIONS.index(function), bound)


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Tensor,
        bias: Tensor | None,
        edges: Edges,
        scale: float,
        function: int,
        bound: float,
    ) -> tuple[Tensor, Tensor]:
        heads, feats, count = value.shape[1], value.shape[2], edges.num_destinations
        q, k, powers = _pack(query), _pack(key), _pack(_exp_source_scores(edges, scores))
        weighed = torch.cat([_pack(value).mul_(powers), powers], -1)
        added = value.new_zeros(heads, 0) if bias is None else bias.detach().t().contiguous()  # (H, E) or (H, 0)
        out, totals = powers.new_zeros(heads, count, powers.shape[2]), powers.new_zeros(heads, count, powers.shape[2])
        indptr = edges.indptr.numpy()
        arrays = [tensor.numpy() for tensor in (q, k, weighed, added, out, totals)]
        fixed = (
            tensorized_forward,
            indptr,
            edges.indices.numpy(),
            *arrays,
            scale,
            function,
            bound,
            _max_degree(indptr),
        )
        runs = _cut_into_runs(indptr, np.arange(count + 1))
        _run_tasks([(*fixed, head, *run) for head in range(heads) for run in runs])
        own = totals[:, :, :feats]
        rows = (own < MIN_DENOMINATOR[value.dtype]).any(-1)
        totals[:, :, feats:] = 1
        out.masked_fill_(rows.unsqueeze(-1), 0)
        totals.masked_fill_(rows.unsqueeze(-1), 1)
        out /= totals
        keyless = torch.from_numpy(indptr[1:] == indptr[:-1])
        rows = (rows & ~keyless).t()
        ctx.edges, ctx.scale, ctx.function, ctx.bound, ctx.has_bias = edges, scale, function, bound, bias is not None
        ctx.widths = query.shape[2], feats
        ctx.save_for_backward(q, k, weighed, added, out, totals, value)
        ctx.mark_non_differentiable(rows)
        return out[:, :, :feats].transpose(0, 1), rows

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, weighed, added, out, totals, value = ctx.saved_tensors
        edges: Edges = ctx.edges
        upper = _pack(gradients[0]).div_(totals)
        shares = torch.cat([upper, -upper * out], -1)
        grads = [torch.zeros_like(tensor) for tensor in (q, k, weighed, added)]
        indptr = edges.indptr.numpy()
        arrays = [tensor.numpy() for tensor in (q, k, weighed, added, shares, *grads)]
        fixed = (tensorized_backward, indptr, edges.indices.numpy(), *arrays)
        rest = (ctx.scale, ctx.function, ctx.bound, _max_degree(indptr))
        runs = _cut_into_runs(indptr, _sentence_starts(edges))
        _run_tasks([(*fixed, *rest, head, *run) for head in range(q.shape[0]) for run in runs])
        width, feats = ctx.widths
        of_values, of_powers = (half[:, :, :feats].transpose(0, 1) for half in grads[2].chunk(2, -1))
        powers = weighed.chunk(2, -1)[1][:, :, :feats].transpose(0, 1)
        grad_value = of_values * powers
        grad_scores = torch.addcmul(grad_value * value, of_powers, powers)
        own = (grads[0][:, :, :width].transpose(0, 1), grads[1][:, :, :width].transpose(0, 1), grad_value, grad_scores)
        return (*own, grads[3].t() if ctx.has_bias else None, None, None, None, None)


_starts: WeakKeyDictionary[Edges, np.ndarray] = WeakKeyDictionary()


def _sentence_starts(edges: Edges) -> np.ndarray:
    """First nodes of the sentences, and the number of nodes; cached."""
    if edges not in _starts:
        _starts[edges] = sentence_starts(edges)
    return _starts[edges]


def _exp_source_scores(edges: Edges, scores: Tensor) -> Tensor:
    """(N, H, F) e^S, less the largest S of each sentence, head and feature."""
    source = scores.detach().numpy()  # NumPy's functions, unlike some of PyTorch's, are safe after a fork
    if not source.size:
        return scores.detach()
    bounds = _sentence_starts(edges) if edges.num_sources == edges.num_destinations else np.array([0, len(source)])
    top = np.maximum(np.maximum.reduceat(source, bounds[:-1], axis=0), np.finfo(source.dtype).min)
    shifted = source - np.repeat(top, np.diff(bounds), axis=0)
    return torch.from_numpy(np.exp(shifted, out=shifted))


def _pack(tensor: Tensor) -> Tensor:
    """(N, H, D) -> (H, N, P), contiguous, padded with zeros."""
    count, heads, feats = tensor.shape
    packed = torch.zeros(heads, count, -(-feats // 16) * 16, dtype=tensor.dtype, device=tensor.device)
    packed[:, :, :feats] = tensor.detach().transpose(0, 1)
    return packed


def _max_degree(indptr: np.ndarray) -> int:
    """Largest number of edges into one destination."""
    return int((indptr[1:] - indptr[:-1]).max(initial=1))


def _cut_into_runs(indptr: np.ndarray, cuts: np.ndarray) -> list[tuple[int, int]]:
    """Runs of destinations with about :data:`CHUNK` edges each, from one of the allowed cuts to another."""
    marks = np.arange(0, int(indptr[-1]) + 1, CHUNK)
    chosen = cuts[np.minimum(np.searchsorted(indptr[cuts], marks), len(cuts) - 1)]
    ends = np.unique(np.concatenate([chosen, cuts[[0, -1]]]))
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def _run_tasks(tasks: list[tuple[Any, ...]]) -> None:
    """Run kernels, each with its arguments; tasks write to separate memory."""
    left = iter(tasks)

    def work(_: int) -> None:
        for kernel, *arguments in left:
            kernel(*arguments)

    with announce_compilation(*{(kernel, arguments[2].dtype) for kernel, *arguments in tasks}):
        run_in_threads(work, alone=len(tasks) < 2)
