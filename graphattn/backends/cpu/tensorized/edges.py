"""Tensorised attention edge by edge: an exact softmax for each destination and feature, on any device and relation.

It processes a bounded number of edges at a time, and again in the backward pass. It computes an exponential for each
edge and feature; the other backends compute one for each edge and one for each node and feature.

Letters: E edges of a run, H heads, D features of queries, F of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphattn.backends.cpu.tensorized.scores import ScoreRule, apply_scale_function, scale_function_slope
from graphattn.backends.registry import Attend
from graphattn.edges import Edges
from graphattn.gradients import raise_on_double_backward

CHUNK = 1 << 21
"""Upper bound for the numbers in one gathered (E, H, F) array."""


@dataclass(frozen=True, eq=False)
class _Run:
    """Consecutive destinations with all their edges; ``local`` numbers the edges' destinations from 0."""

    nodes: slice
    slots: slice
    local: Tensor
    sources: Tensor

    def softmax(
        self, inputs: tuple[Tensor, ...], bias: Tensor | None, scale: float, function: str, bound: float
    ) -> tuple[Tensor, Tensor]:
        """(E, H) products before the scale function, and (E, H, F) weights."""
        query, key, _, scores = inputs
        products = (query[self.nodes][self.local] * key[self.sources]).sum(-1) * scale
        pairs = apply_scale_function(products, function, bound)
        if bias is not None:
            pairs = pairs + bias[self.slots]
        logits = pairs.unsqueeze(-1) + scores[self.sources]
        index = self.local.view(-1, 1, 1).expand_as(logits)
        shape = (self.nodes.stop - self.nodes.start, *logits.shape[1:])
        top = logits.new_full(shape, float("-inf")).scatter_reduce_(0, index, logits, "amax")
        top.masked_fill_(top == float("-inf"), 0)
        weights = logits.sub_(top[self.local]).exp_()
        total = self.gather(weights, shape)
        total.masked_fill_(total == 0, 1)
        return products, weights.div_(total[self.local])

    def gather(self, values: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Sums of the edges' values for each destination."""
        return values.new_zeros(shape).index_add_(0, self.local, values)


def attend_by_edges(
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
) -> Tensor:
    """Outputs (N_dst, H, F); the bias is in slot order."""
    return _ByEdges.apply(query, key, value, scores, bias, edges, ScoreRule(scale, function, bound))


def attend_by_features(
    attend: Attend,
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
) -> Tensor:
    """Outputs (N_dst, H, F) by a backend of :func:`graphattn.attend`, to which each feature is a head.

    The softmax of ``R_ij + S_jl`` is that of plain attention with queries 1, keys ``S_jl`` and bias ``R_ij``.
    """
    outs = []
    for head in range(value.shape[1]):
        products = (query[edges.destinations, head] * key[edges.sources, head]).sum(-1) * scale
        pairs = apply_scale_function(products, function, bound)  # (E,)
        if bias is not None:
            pairs = pairs + bias[:, head]
        feats = value.shape[2]
        out, _ = attend(
            edges,
            query.new_ones(edges.num_destinations, feats, 1),
            scores[:, head].unsqueeze(-1),
            value[:, head].unsqueeze(-1),
            scale=1.0,
            bias=pairs.unsqueeze(-1).expand(-1, feats),
            dropout=0.0,
            return_weights=False,
        )
        outs.append(out.squeeze(-1))
    return torch.stack(outs, dim=1)


def mean_weights(
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
) -> Tensor:
    """(E, H) weights averaged over the features, in slot order; without gradients."""
    means = query.new_empty(edges.num_edges, query.shape[1])
    with torch.no_grad():
        for run in _runs(edges, _width(query, value)):
            means[run.slots] = run.softmax((query, key, value, scores), bias, scale, function, bound)[1].mean(-1)
    return means


def weights_by_feature(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scores: Tensor,
    *,
    scale: float,
    function: str,
    bound: float,
) -> Tensor:
    """(E, H, F) weights in slot order; without gradients."""
    weights = query.new_empty(edges.num_edges, *value.shape[1:])
    with torch.no_grad():
        for run in _runs(edges, _width(query, value)):
            weights[run.slots] = run.softmax((query, key, value, scores), None, scale, function, bound)[1]
    return weights


def attach_mean_weights(
    out: Tensor,
    means: Tensor,
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scores: Tensor,
    *,
    bias: Tensor | None,
    **rule: Any,
) -> Tensor:
    """Return the outputs unchanged, and make them a function of :func:`mean_weights` for autograd.

    The gradient of an edge's mean weight scales its weights of all features in proportion: it is the sum over features
    of weight times value times upstream gradient, divided by the mean weight.
    """
    inputs = tuple(tensor.detach() for tensor in (query, key, value, scores))
    return _AttachMeanWeights.apply(out, means, inputs, None if bias is None else bias.detach(), edges, rule)


class _AttachMeanWeights(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        out: Tensor,
        means: Tensor,
        inputs: tuple[Tensor, ...],
        bias: Tensor | None,
        edges: Edges,
        rule: dict[str, Any],
    ) -> Tensor:
        ctx.edges, ctx.rule = edges, rule
        ctx.save_for_backward(out, means, bias, *inputs)
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        out, means, bias, *inputs = ctx.saved_tensors
        query, _, value, _ = inputs
        with torch.no_grad():
            grad_means = torch.empty_like(means)
            for run in _runs(ctx.edges, _width(query, value)):
                _, weights = run.softmax(tuple(inputs), bias, **ctx.rule)
                exact = weights.mean(-1)  # means of the forward pass may have been rounded to zero
                shares = weights.mul_(value[run.sources]).mul_(gradients[0][run.nodes][run.local]).sum(-1)
                grad_means[run.slots] = torch.where(exact > 0, shares / exact, 0).to(exact.dtype)
        return gradients[0], raise_on_double_backward(grad_means, out, means, gradients[0]), None, None, None, None


class _ByEdges(torch.autograd.Function):
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
    ) -> Tensor:
        out = value.new_zeros(edges.num_destinations, *value.shape[1:])
        for run in _runs(edges, _width(query, value)):
            _, weights = run.softmax((query, key, value, scores), bias, rule.scale, rule.function, rule.bound)
            out[run.nodes] = run.gather(weights.mul_(value[run.sources]), out[run.nodes].shape)
        ctx.edges, ctx.rule = edges, rule
        ctx.save_for_backward(query, key, value, scores, bias, out)
        return out

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, bias, out = ctx.saved_tensors
        query, key, value, _ = inputs
        rule: ScoreRule = ctx.rule
        grads = [torch.zeros_like(tensor) for tensor in inputs]
        grad_query, grad_key, grad_value, grad_scores = grads
        grad_bias = None if bias is None else torch.empty_like(bias)
        for run in _runs(ctx.edges, _width(query, value)):
            products, weights = run.softmax(tuple(inputs), bias, rule.scale, rule.function, rule.bound)
            moved = weights.mul_(gradients[0][run.nodes][run.local])
            grad_value.index_add_(0, run.sources, moved)
            moved.mul_(value[run.sources] - out[run.nodes][run.local])
            grad_scores.index_add_(0, run.sources, moved)
            pairs = moved.sum(-1)
            if grad_bias is not None:
                grad_bias[run.slots] = pairs
            pairs = (pairs * scale_function_slope(products, rule.function, rule.bound) * rule.scale).unsqueeze(-1)
            grad_query[run.nodes] = run.gather(pairs * key[run.sources], grad_query[run.nodes].shape)
            grad_key.index_add_(0, run.sources, pairs * query[run.nodes][run.local])
        return (*grads, grad_bias, None, None)


def _width(query: Tensor, value: Tensor) -> int:
    return query.shape[1] * max(query.shape[2], value.shape[2])


def _runs(edges: Edges, width: int) -> Iterator[_Run]:
    """Destinations in order, with a bounded number of edges together (or one destination)."""
    limit = max(1, CHUNK // width)
    indptr, start, count = edges.indptr.long(), 0, edges.num_destinations
    degrees = indptr[1:] - indptr[:-1]
    while start < count:
        first = int(indptr[start])
        stop = max(int(torch.searchsorted(indptr, first + limit, right=True)) - 1, start + 1)
        slots = slice(first, int(indptr[stop]))
        nodes = torch.arange(stop - start, device=indptr.device)
        local = torch.repeat_interleave(nodes, degrees[start:stop], output_size=slots.stop - slots.start)
        yield _Run(slice(start, stop), slots, local, edges.indices[slots].long())
        start = stop
