"""Tensorised attention over contiguous keys as matrix products: MTSA's Algorithm 1, a chunk of sentences at a time.

No per-pair tensor is kept: the backward pass recomputes the scores of a chunk.

Letters: N nodes, H heads, D features of queries, F of values; B sentences of T tokens in a chunk, I queries and J keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphattn.backends.cpu.tensorized.plan import Chunk, Plan, Strip
from graphattn.backends.cpu.tensorized.scores import ScoreRule, exp_scores, multiply_slope

if TYPE_CHECKING:
    from graphattn.backends.cpu.tensorized.means import MeanWeights

MIN_DENOMINATOR = {torch.float32: 1e-25, torch.float64: 1e-250}
"""Smaller denominators have lost digits, because the best source scores are outside the neighbourhood."""


def attend_in_blocks(
    plan: Plan,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scores: Tensor,
    *,
    scale: float,
    function: str,
    bound: float,
    means: MeanWeights | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs (N, H, F), and which rows (N, H) need the exact computation because a denominator is too small.

    ``means`` collects the mean weights of all edges.
    """
    return _Blocks.apply(query, key, value, scores, plan, ScoreRule(scale, function, bound), means)


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Tensor,
        plan: Plan,
        rule: ScoreRule,
        means: MeanWeights | None,
    ) -> tuple[Tensor, Tensor]:
        out = torch.empty_like(value)
        rows = torch.empty(value.shape[:2], dtype=torch.bool, device=value.device)
        for head, chunk in _heads_and_chunks(plan, value.shape[1]):
            q, k = chunk.take(query[:, head]), chunk.take(key[:, head])
            weighed, of_scores = _weigh_values(chunk, value[:, head], scores[:, head])
            sums = torch.empty_like(weighed)
            for strip in chunk.strips:
                powers, _ = exp_strip(strip, q, k, rule)
                own_sums = sums[:, strip.queries].baddbmm_(powers, weighed[:, strip.keys], beta=0)
                if means is not None:
                    shares = own_sums.chunk(2, -1)[1].clamp(min=MIN_DENOMINATOR[value.dtype]).reciprocal_()
                    means.add(head, chunk, strip, powers, shares, of_scores[:, strip.keys])
            numerators, denominators = sums.chunk(2, -1)
            small = denominators.amin(-1, keepdim=True) < MIN_DENOMINATOR[value.dtype]
            own = torch.div(numerators, denominators, out=chunk.room(out[:, head])).masked_fill_(small, 0)
            chunk.put(out[:, head], own)
            chunk.put(rows[:, head : head + 1], chunk.room(rows[:, head : head + 1]).copy_(small))
        rows &= ~plan.keyless.unsqueeze(1)
        ctx.plan, ctx.rule = plan, rule
        ctx.save_for_backward(query, key, value, scores, out)  # denominators are quicker made again than kept
        ctx.mark_non_differentiable(rows)
        return out, rows

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, scores, out = ctx.saved_tensors
        gradient = gradients[0]
        grads = [torch.empty_like(tensor) for tensor in (query, key, value, scores)]
        for head, chunk in _heads_and_chunks(ctx.plan, value.shape[1]):
            g, result = (chunk.take(tensor[:, head]) for tensor in (gradient, out))
            q, k, v = (chunk.take(tensor[:, head]) for tensor in (query, key, value))
            weighed, of_scores = _weigh_values(chunk, value[:, head], scores[:, head])
            g = chunk.mask_padding(g, 0) if chunk.places is not None else g  # a copy: padded chunks are gathered
            into = [chunk.room(tensor[:, head]) for tensor in grads]
            grad_q, grad_k, grad_v, grad_s = into
            grad_k.zero_()
            grad_weighed = torch.zeros_like(weighed)
            for strip in chunk.strips:
                seen = strip.keys
                powers, kept = exp_strip(strip, q, k, ctx.rule)
                total = torch.bmm(powers, of_scores[:, seen])
                own = _sum_gradients(g[:, strip.queries], result[:, strip.queries], total)
                grad_weighed[:, seen].baddbmm_(powers.transpose(1, 2), own)
                slopes = torch.bmm(own, weighed[:, seen].transpose(1, 2))
                slopes = multiply_slope(slopes, powers, kept, ctx.rule.function)
                grad_q[:, strip.queries].baddbmm_(slopes, k[:, seen], beta=0, alpha=ctx.rule.scale)
                grad_k[:, seen].baddbmm_(slopes.transpose(1, 2), q[:, strip.queries], alpha=ctx.rule.scale)
            of_values, of_powers = grad_weighed.chunk(2, -1)
            torch.mul(of_values, of_scores, out=grad_v)
            torch.mul(of_powers, of_scores, out=grad_s).addcmul_(grad_v, v)
            for tensor, rows in zip(grads, into, strict=True):
                chunk.put(tensor[:, head], rows)
        return (*grads, None, None, None)


def _sum_gradients(gradient: Tensor, result: Tensor, total: Tensor) -> Tensor:
    """(B, I, 2 F) gradients of the two sums whose quotient is the result; none where a denominator is too small."""
    shares = total.new_empty(*total.shape[:2], 2 * total.shape[2])
    upper, lower = shares.chunk(2, -1)
    torch.div(gradient, total.masked_fill_(total < MIN_DENOMINATOR[total.dtype], float("inf")), out=upper)
    torch.mul(upper, result, out=lower).neg_()
    return shares


def _heads_and_chunks(plan: Plan, heads: int) -> Iterator[tuple[int, Chunk]]:
    return ((head, chunk) for head in range(heads) for chunk in plan.chunks)


def _weigh_values(chunk: Chunk, value: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, 2 F) v e^S and e^S side by side, less the largest S of each sentence and feature; and the second half."""
    own = chunk.take(scores)
    if chunk.places is not None:
        own = chunk.mask_padding(own, float("-inf"))  # a copy: padded chunks are gathered
    top = own.amax(1, keepdim=True).clamp_(min=torch.finfo(own.dtype).min)
    weighed = own.new_empty(*own.shape[:2], 2 * own.shape[2])
    left, right = weighed.chunk(2, -1)
    torch.sub(own, top, out=right).exp_()
    torch.mul(chunk.take(value), right, out=left)
    return weighed, right


def exp_strip(strip: Strip, q: Tensor, k: Tensor, rule: ScoreRule) -> tuple[Tensor, Tensor | None]:
    """(B, I, J) e^R of a strip."""
    queries, keys = q[:, strip.queries], k[:, strip.keys].transpose(1, 2)
    scores = q.new_empty(len(q), queries.shape[1], keys.shape[2]).baddbmm_(queries, keys, beta=0, alpha=rule.scale)
    powers, kept = exp_scores(scores, strip.hidden, rule.function, rule.bound)
    if strip.keyless is not None:
        powers.masked_fill_(strip.keyless, 0)
    return powers, kept
