"""Tensorised attention over contiguous keys as matrix products: MTSA's Algorithm 1, a chunk of sentences at a time.

No per-pair tensor is kept: the backward pass recomputes the scores of a chunk.

Letters: N nodes, H heads, D features of queries, F of values; B sentences of T tokens in a chunk, I queries and J keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphattn._backends.cpu.tensorized.plan import BlockPlan, SentenceChunk, Strip
from graphattn._backends.cpu.tensorized.scores import ScoredRows, ScoreRule, exp_scores, multiply_slope
from graphattn._gradients import Function, apply_pair

if TYPE_CHECKING:
    from graphattn._backends.cpu.tensorized.means import MeanWeights

MIN_DENOMINATOR = {torch.float32: 1e-25, torch.float64: 1e-250}
"""Smaller denominators have lost digits, because the best source scores are outside the neighbourhood."""


def attend_in_blocks(
    plan: BlockPlan, rows: ScoredRows, rule: ScoreRule, means: MeanWeights | None = None
) -> tuple[Tensor, Tensor]:
    """Outputs (N, H, F), and which rows (N, H) need the exact computation because a denominator is too small.

    ``means`` collects the mean weights of all edges.
    """
    return apply_pair(_Blocks, *rows, plan, rule, means)


class _Blocks(Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Tensor,
        plan: BlockPlan,
        rule: ScoreRule,
        means: MeanWeights | None,
    ) -> tuple[Tensor, Tensor]:
        out = torch.empty_like(value)
        rows = torch.empty(value.shape[:2], dtype=torch.bool, device=value.device)
        for head, chunk in _heads_and_chunks(plan, value.shape[1]):
            q, k = chunk.gather(query[:, head]), chunk.gather(key[:, head])
            weighed, exp_sources = _weigh_values(chunk, value[:, head], scores[:, head])
            sums = torch.empty_like(weighed)
            for strip in chunk.strips:
                powers, _ = _exp_strip(strip, q, k, rule)
                strip_sums = sums[:, strip.queries].baddbmm_(powers, weighed[:, strip.keys], beta=0)
                if means is not None:
                    inverse = strip_sums.chunk(2, -1)[1].clamp(min=MIN_DENOMINATOR[value.dtype]).reciprocal_()
                    means.add(head, chunk, strip, powers, inverse, exp_sources[:, strip.keys])
            numerators, denominators = sums.chunk(2, -1)
            small = denominators.amin(-1, keepdim=True) < MIN_DENOMINATOR[value.dtype]
            quotient = torch.div(numerators, denominators, out=chunk.buffer(out[:, head])).masked_fill_(small, 0)
            chunk.scatter(out[:, head], quotient)
            chunk.scatter(rows[:, head : head + 1], chunk.buffer(rows[:, head : head + 1]).copy_(small))
        rows &= ~plan.keyless.unsqueeze(1)
        ctx.plan, ctx.rule = plan, rule
        ctx.save_for_backward(query, key, value, scores, out)  # recomputing denominators is faster
        ctx.mark_non_differentiable(rows)
        return out, rows

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, scores, out = ctx.saved_tensors
        gradient = gradients[0]
        grads = [torch.empty_like(tensor) for tensor in (query, key, value, scores)]
        for head, chunk in _heads_and_chunks(ctx.plan, value.shape[1]):
            g, result = (chunk.gather(tensor[:, head]) for tensor in (gradient, out))
            q, k, v = (chunk.gather(tensor[:, head]) for tensor in (query, key, value))
            weighed, exp_sources = _weigh_values(chunk, value[:, head], scores[:, head])
            g = chunk.mask_padding(g, 0) if chunk.positions is not None else g  # padded chunks are copies
            buffers = [chunk.buffer(tensor[:, head]) for tensor in grads]
            grad_q, grad_k, grad_v, grad_s = buffers
            grad_k.zero_()
            grad_weighed = torch.zeros_like(weighed)
            for strip in chunk.strips:
                queries, keys = strip.queries, strip.keys
                powers, kept = _exp_strip(strip, q, k, ctx.rule)
                denominators = torch.bmm(powers, exp_sources[:, keys])
                grad_sums = _sum_gradients(g[:, queries], result[:, queries], denominators)
                grad_weighed[:, keys].baddbmm_(powers.transpose(1, 2), grad_sums)
                slopes = torch.bmm(grad_sums, weighed[:, keys].transpose(1, 2))
                slopes = multiply_slope(slopes, powers, kept, ctx.rule.function)
                grad_q[:, queries].baddbmm_(slopes, k[:, keys], beta=0, alpha=ctx.rule.scale)
                grad_k[:, keys].baddbmm_(slopes.transpose(1, 2), q[:, queries], alpha=ctx.rule.scale)
            grad_weighed_values, grad_exp_sources = grad_weighed.chunk(2, -1)
            torch.mul(grad_weighed_values, exp_sources, out=grad_v)
            torch.mul(grad_exp_sources, exp_sources, out=grad_s).addcmul_(grad_v, v)
            for tensor, buffer in zip(grads, buffers, strict=True):
                chunk.scatter(tensor[:, head], buffer)
        return (*grads, None, None, None)


def _sum_gradients(gradient: Tensor, quotient: Tensor, denominators: Tensor) -> Tensor:
    """(B, I, 2 F) gradients of numerators and denominators; zero where a denominator is too small."""
    gradients = denominators.new_empty(*denominators.shape[:2], 2 * denominators.shape[2])
    upper, lower = gradients.chunk(2, -1)
    too_small = denominators < MIN_DENOMINATOR[denominators.dtype]
    torch.div(gradient, denominators.masked_fill_(too_small, float("inf")), out=upper)
    torch.mul(upper, quotient, out=lower).neg_()
    return gradients


def _heads_and_chunks(plan: BlockPlan, heads: int) -> Iterator[tuple[int, SentenceChunk]]:
    return ((head, chunk) for head in range(heads) for chunk in plan.chunks)


def _weigh_values(chunk: SentenceChunk, value: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, 2 F) v e^S and e^S side by side, less the largest S of each sentence and feature; and the second half."""
    rows = chunk.gather(scores)
    if chunk.positions is not None:
        rows = chunk.mask_padding(rows, float("-inf"))  # padded chunks are copies
    maximum = rows.amax(1, keepdim=True).clamp_(min=torch.finfo(rows.dtype).min)
    weighed = rows.new_empty(*rows.shape[:2], 2 * rows.shape[2])
    left, right = weighed.chunk(2, -1)
    torch.sub(rows, maximum, out=right).exp_()
    torch.mul(chunk.gather(value), right, out=left)
    return weighed, right


def _exp_strip(strip: Strip, q: Tensor, k: Tensor, rule: ScoreRule) -> tuple[Tensor, Tensor | None]:
    """(B, I, J) e^R of a strip, and what :func:`multiply_slope` needs."""
    queries, keys = q[:, strip.queries], k[:, strip.keys].transpose(1, 2)
    scores = q.new_empty(len(q), queries.shape[1], keys.shape[2]).baddbmm_(queries, keys, beta=0, alpha=rule.scale)
    powers, kept = exp_scores(scores, strip.hidden, rule)
    if strip.keyless is not None:
        powers.masked_fill_(strip.keyless, 0)
    return powers, kept
