"""Tensorised attention over any edges on a CPU, by compiled kernels: two sums over edges in one pass.

It computes exponentials of source scores once per node, those of token2token scores once per edge and head, and keeps
no per-edge tensor. ``torch.get_num_threads()`` threads share the work; the bits of the result do not depend
on their number.

Letters: N nodes, E edges, H heads, P features of a head padded to a multiple of 16 (whole vector registers).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphattn._backends.cpu.compiling import announce_compilation
from graphattn._backends.cpu.plan import EdgePlan, edge_plan_of
from graphattn._backends.cpu.tensorized import kernels
from graphattn._backends.cpu.tensorized.dense_blocks import MIN_DENOMINATOR
from graphattn._backends.cpu.tensorized.plan import sentence_starts
from graphattn._backends.cpu.tensorized.scores import SCALE_FUNCTIONS, ScoredRows, ScoreRule
from graphattn._backends.cpu.threads import run_in_threads
from graphattn._edges import Edges
from graphattn._gradients import Function, apply_pair


def attend_fused(edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (N_dst, H, F), and which rows (N_dst, H) need the exact computation; the bias is in slot order."""
    return apply_pair(_Fused, *rows, bias, edges, rule)


class _Fused(Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Tensor,
        bias: Tensor | None,
        edges: Edges,
        rule: ScoreRule,
    ) -> tuple[Tensor, Tensor]:
        heads, feats, count = value.shape[1], value.shape[2], edges.num_destinations
        q, k, exp_sources = _pack(query), _pack(key), _pack(_exp_source_scores(edges, scores))
        weighed = torch.cat([_pack(value).mul_(exp_sources), exp_sources], -1)
        by_head = value.new_zeros(heads, 0) if bias is None else bias.detach().t().contiguous()  # (H, E) or (H, 0)
        out, totals = exp_sources.new_zeros(2, heads, count, exp_sources.shape[2])
        arrays = [tensor.numpy() for tensor in (q, k, weighed, by_head, out, totals)]
        plan = edge_plan_of(edges)
        _run_kernel(kernels.forward, plan, arrays, rule, plan.tasks)
        rows = (totals[:, :, :feats] < MIN_DENOMINATOR[value.dtype]).any(-1)
        totals[:, :, feats:] = 1
        out.masked_fill_(rows.unsqueeze(-1), 0)
        totals.masked_fill_(rows.unsqueeze(-1), 1)
        out /= totals
        keyless = torch.from_numpy(np.diff(plan.starts) == 0)
        rows = (rows & ~keyless).t()
        ctx.plan, ctx.rule, ctx.has_bias, ctx.widths = plan, rule, bias is not None, (query.shape[2], feats)
        ctx.save_for_backward(q, k, weighed, by_head, out, totals, value)
        ctx.mark_non_differentiable(rows)
        return out[:, :, :feats].transpose(0, 1), rows

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, weighed, by_head, out, totals, value = ctx.saved_tensors
        upper = _pack(gradients[0]).div_(totals)
        grad_sums = torch.cat([upper, -upper * out], -1)
        grads = [torch.zeros_like(tensor) for tensor in (q, k, weighed, by_head)]
        arrays = [tensor.numpy() for tensor in (q, k, weighed, by_head, grad_sums, *grads)]
        _run_kernel(kernels.backward, ctx.plan, arrays, ctx.rule, ctx.plan.separate_tasks)
        width, feats = ctx.widths
        grad_query, grad_key = (grad[:, :, :width].transpose(0, 1) for grad in grads[:2])
        grad_weighed_values, grad_exp_sources = (half[:, :, :feats].transpose(0, 1) for half in grads[2].chunk(2, -1))
        exp_sources = weighed.chunk(2, -1)[1][:, :, :feats].transpose(0, 1)
        grad_value = grad_weighed_values * exp_sources
        grad_scores = torch.addcmul(grad_value * value, grad_exp_sources, exp_sources)
        return grad_query, grad_key, grad_value, grad_scores, grads[3].t() if ctx.has_bias else None, None, None


def _exp_source_scores(edges: Edges, scores: Tensor) -> Tensor:
    """(N, H, F) e^S, less the largest S of each sentence, head and feature."""
    source = scores.detach().numpy()  # NumPy's functions, unlike some of PyTorch's, are safe after a fork
    if not source.size:
        return scores.detach()
    bounds: np.ndarray = np.array([0, len(source)])
    if edges.num_sources == edges.num_destinations:
        bounds = edges.compute_once("sentence starts", sentence_starts)
    maximum = np.maximum(np.maximum.reduceat(source, bounds[:-1], axis=0), np.finfo(source.dtype).min)
    shifted = source - np.repeat(maximum, np.diff(bounds), axis=0)
    return torch.from_numpy(np.exp(shifted, out=shifted))


def _pack(tensor: Tensor) -> Tensor:
    """(N, H, D) -> (H, N, P), contiguous, padded with zeros."""
    count, heads, feats = tensor.shape
    packed = torch.zeros(heads, count, -(-feats // 16) * 16, dtype=tensor.dtype, device=tensor.device)
    packed[:, :, :feats] = tensor.detach().transpose(0, 1)
    return packed


def _run_kernel(kernel: Any, plan: EdgePlan, arrays: list[np.ndarray], rule: ScoreRule, ends: np.ndarray) -> None:
    """Run a kernel for each head and each range of destinations between ``ends``; they write to separate memory."""
    options = (rule.scale, SCALE_FUNCTIONS.index(rule.function), rule.bound, plan.longest)
    arguments = (plan.starts, plan.indices, *arrays, *options)
    tasks = [(head, *pair) for head in range(len(arrays[0])) for pair in pairwise(ends.tolist())]
    remaining = iter(tasks)

    def work(_: int) -> None:
        for head_and_ends in remaining:
            kernel(*arguments, *head_and_ends)

    with announce_compilation((kernel, arrays[0].dtype)):
        run_in_threads(work, alone=len(tasks) < 2)
