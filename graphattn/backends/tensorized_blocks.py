"""Tensorised attention over neighbouring keys as matrix products: MTSA's Algorithm 1, a chunk of sentences at a time.

Nothing of the pairs' number is kept: the backward pass makes the scores of a chunk again.

Letters: N nodes, H heads, D features of queries, F of values; B sentences of T tokens in a chunk, I queries and J keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from graphattn.backends.tensorized_plan import Chunk, Plan, Strip
from graphattn.backends.tensorized_scores import exponentials, slope_after

SMALLEST = {torch.float32: 1e-25, torch.float64: 1e-250}
"""Denominators below this have lost digits: the best source scores lie outside the neighbourhood."""


def attend_in_blocks(
    plan: Plan, query: Tensor, key: Tensor, value: Tensor, scores: Tensor, *, scale: float, function: str, bound: float
) -> tuple[Tensor, Tensor]:
    """Outputs (N, H, F), and which rows (N, H) are to be computed otherwise because a denominator is too small."""
    return _Blocks.apply(query, key, value, scores, plan, scale, function, bound)


class _Blocks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scores: Tensor,
        plan: Plan,
        scale: float,
        function: str,
        bound: float,
    ) -> tuple[Tensor, Tensor]:
        out, totals = torch.empty_like(value), torch.empty_like(value)
        for head, chunk in _parts(plan, value.shape[1]):
            q, k = chunk.take(query[:, head]), chunk.take(key[:, head]).transpose(1, 2)
            weighed, _ = _weighed(chunk, value[:, head], scores[:, head])
            sums = weighed.new_empty(weighed.shape)
            for strip in chunk.strips:
                powers, _ = _powers(strip, q, k, scale, function, bound)
                sums[:, strip.queries] = torch.bmm(powers, weighed[:, strip.keys])
            numerators, denominators = sums.chunk(2, -1)
            chunk.put(out[:, head], numerators / denominators)
            chunk.put(totals[:, head], denominators)
        rows = (totals < SMALLEST[value.dtype]).any(-1)
        out.masked_fill_(rows.unsqueeze(-1), 0)
        totals.masked_fill_(rows.unsqueeze(-1), 1)
        rows &= ~plan.keyless.unsqueeze(1)
        ctx.plan, ctx.scale, ctx.function, ctx.bound = plan, scale, function, bound
        ctx.save_for_backward(query, key, value, scores, out, totals)
        ctx.mark_non_differentiable(rows)
        return out, rows

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, scores, out, totals = ctx.saved_tensors
        gradient = gradients[0]
        grads = [torch.empty_like(tensor) for tensor in (query, key, value, scores)]
        for head, chunk in _parts(ctx.plan, value.shape[1]):
            q, k, v = (chunk.take(tensor[:, head]) for tensor in (query, key, value))
            weighed, powers_of_scores = _weighed(chunk, value[:, head], scores[:, head])
            # of the numerators, and less that of the denominators
            shares = torch.cat([chunk.take(gradient[:, head] / totals[:, head]), chunk.take(out[:, head])], -1)
            upper, lower = shares.chunk(2, -1)
            lower.mul_(upper).neg_()
            chunk.mask_padding(shares, 0)
            grad_weighed, grad_q, grad_k = torch.zeros_like(weighed), torch.zeros_like(q), torch.zeros_like(k)
            for strip in chunk.strips:
                own, seen = shares[:, strip.queries], strip.keys
                powers, kept = _powers(strip, q, k.transpose(1, 2), ctx.scale, ctx.function, ctx.bound)
                grad_weighed[:, seen] += torch.bmm(powers.transpose(1, 2), own)
                slopes = torch.bmm(own, weighed[:, seen].transpose(1, 2)).mul_(powers)
                inner = slope_after(kept, ctx.function)
                if inner is not None:
                    slopes *= inner
                slopes *= ctx.scale
                grad_q[:, strip.queries] = torch.bmm(slopes, k[:, seen])
                grad_k[:, seen] += torch.bmm(slopes.transpose(1, 2), q[:, strip.queries])
            grad_v, grad_s = grad_weighed.chunk(2, -1)
            grad_v = grad_v * powers_of_scores
            grad_s = torch.addcmul(grad_v * v, grad_s, powers_of_scores)
            for into, rows in zip(grads, (grad_q, grad_k, grad_v, grad_s), strict=True):
                chunk.put(into[:, head], rows)
        return (*grads, None, None, None, None)


def _parts(plan: Plan, heads: int) -> Iterator[tuple[int, Chunk]]:
    return ((head, chunk) for head in range(heads) for chunk in plan.chunks)


def _weighed(chunk: Chunk, value: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, 2 F) v e^S and e^S side by side, less the largest S of each sentence and feature; and the second half."""
    own = chunk.mask_padding(chunk.take(scores).clone(), float("-inf"))
    top = own.amax(1, keepdim=True).clamp_(min=torch.finfo(own.dtype).min)
    weighed = own.new_empty(*own.shape[:2], 2 * own.shape[2])
    left, right = weighed.chunk(2, -1)
    torch.sub(own, top, out=right).exp_()
    torch.mul(chunk.take(value), right, out=left)
    return weighed, right


def _powers(
    strip: Strip, q: Tensor, k: Tensor, scale: float, function: str, bound: float
) -> tuple[Tensor, Tensor | None]:
    """(B, I, J) e^R of a strip."""
    scores = torch.bmm(q[:, strip.queries], k[:, :, strip.keys]).mul_(scale)
    powers, kept = exponentials(scores, strip.hidden, function, bound)
    if strip.keyless is not None:
        powers.masked_fill_(strip.keyless, 0)
    return powers, kept
