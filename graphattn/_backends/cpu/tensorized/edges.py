"""Tensorised attention edge by edge: an exact softmax for each destination and feature, on any device and relation.

Both passes process a bounded number of edges at a time. They compute an exponential for each edge and feature; the
other backends compute one for each edge and one for each node and feature.

Letters: E edges of a segment, H heads, D features of queries, F of values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphattn._backends.call import AttentionCall, Backend, make_spans
from graphattn._backends.cpu.tensorized.scores import (
    ScoredRows,
    ScoreRule,
    apply_scale_function,
    scale_function_slope,
)
from graphattn._backends.torch import Segment, iterate_segments
from graphattn._edges import Edges
from graphattn._gradients import Function, apply, raise_on_double_backward


def _softmax(segment: Segment, rows: ScoredRows, bias: Tensor | None, rule: ScoreRule) -> tuple[Tensor, Tensor]:
    """(E, H) products before the scale function, and (E, H, F) weights."""
    products = (rows.query[segment.nodes][segment.local] * rows.key[segment.sources]).sum(-1) * rule.scale
    pairs = apply_scale_function(products, rule)
    if bias is not None:
        pairs = pairs + bias[segment.slots]
    return products, segment.softmax(pairs.unsqueeze(-1) + rows.scores[segment.sources])


def attend_by_edges(edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None) -> Tensor:
    """Outputs (N_dst, H, F); the bias is in slot order."""
    return apply(_ByEdges, *rows, bias, edges, rule)


def attend_by_features(
    backend: Backend, edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None
) -> Tensor:
    """Outputs (N_dst, H, F) by a backend of :func:`graphattn.attend`, with each feature as a head.

    The softmax of ``R_ij + S_jl`` is that of plain attention with queries 1, keys ``S_jl`` and bias ``R_ij``.
    """
    query, key, value, scores = rows
    outs = []
    for head in range(value.shape[1]):
        products = (query[edges.destinations, head] * key[edges.sources, head]).sum(-1) * rule.scale
        pairs = apply_scale_function(products, rule)  # (E,)
        if bias is not None:
            pairs = pairs + bias[:, head]
        feats = value.shape[2]
        ones = query.new_ones(edges.num_destinations, feats, 1)
        own = ones, scores[:, head].unsqueeze(-1), value[:, head].unsqueeze(-1)
        spans = make_spans([edges], [feats], own, [pairs.unsqueeze(-1).expand(-1, feats)])
        out, _ = backend(AttentionCall(own, spans, scale=1.0))
        outs.append(out.squeeze(-1))
    return torch.stack(outs, dim=1)


@torch.no_grad()
def mean_weights(edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None = None) -> Tensor:
    """(E, H) weights averaged over the features, in slot order; without gradients."""
    means = rows.value.new_empty(edges.num_edges, rows.value.shape[1])
    for segment in iterate_segments(edges, rows.edge_size):
        means[segment.slots] = _softmax(segment, rows, bias, rule)[1].mean(-1)
    return means


@torch.no_grad()
def weights_by_feature(edges: Edges, rows: ScoredRows, rule: ScoreRule) -> Tensor:
    """(E, H, F) weights in slot order; without gradients."""
    weights = rows.value.new_empty(edges.num_edges, *rows.value.shape[1:])
    for segment in iterate_segments(edges, rows.edge_size):
        weights[segment.slots] = _softmax(segment, rows, None, rule)[1]
    return weights


def attach_mean_weights(
    out: Tensor, means: Tensor, edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None
) -> Tensor:
    """Return the outputs unchanged, and make them a function of :func:`mean_weights` for autograd.

    The gradient of an edge's mean weight scales its weights of all features in proportion: it is the sum over features
    of weight times value times upstream gradient, divided by the mean weight.
    """
    rows = ScoredRows(*(tensor.detach() for tensor in rows))
    return apply(_AttachMeanWeights, out, means, rows, None if bias is None else bias.detach(), edges, rule)


class _AttachMeanWeights(Function):
    @staticmethod
    def forward(
        ctx: Any,
        out: Tensor,
        means: Tensor,
        rows: ScoredRows,
        bias: Tensor | None,
        edges: Edges,
        rule: ScoreRule,
    ) -> Tensor:
        ctx.edges, ctx.rule = edges, rule
        ctx.save_for_backward(out, means, bias, *rows)
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        out, means, bias, *tensors = ctx.saved_tensors
        rows = ScoredRows(*tensors)
        with torch.no_grad():
            grad_means = torch.empty_like(means)
            for segment in iterate_segments(ctx.edges, rows.edge_size):
                _, weights = _softmax(segment, rows, bias, ctx.rule)
                exact = weights.mean(-1)  # means of the forward pass may have been rounded to zero
                upstream = gradients[0][segment.nodes][segment.local]
                shares = weights.mul_(rows.value[segment.sources]).mul_(upstream).sum(-1)
                grad_means[segment.slots] = torch.where(exact > 0, shares / exact, 0).to(exact.dtype)
        return gradients[0], raise_on_double_backward(grad_means, out, means, gradients[0]), None, None, None, None


class _ByEdges(Function):
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
        rows = ScoredRows(query, key, value, scores)
        out = value.new_zeros(edges.num_destinations, *value.shape[1:])
        for segment in iterate_segments(edges, rows.edge_size):
            _, weights = _softmax(segment, rows, bias, rule)
            out[segment.nodes] = segment.sum(weights.mul_(value[segment.sources]))
        ctx.edges, ctx.rule = edges, rule
        ctx.save_for_backward(*rows, bias, out)
        return out

    @staticmethod
    @torch.no_grad()
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, bias, out = ctx.saved_tensors
        rows, rule = ScoredRows(*tensors), ctx.rule
        query, key, value, _ = rows
        grads = [torch.zeros_like(tensor) for tensor in rows]
        grad_query, grad_key, grad_value, grad_scores = grads
        grad_bias = None if bias is None else torch.empty_like(bias)
        for segment in iterate_segments(ctx.edges, rows.edge_size):
            products, weights = _softmax(segment, rows, bias, rule)
            slopes = weights.mul_(gradients[0][segment.nodes][segment.local])
            grad_value.index_add_(0, segment.sources, slopes)
            slopes.mul_(value[segment.sources] - out[segment.nodes][segment.local])
            grad_scores.index_add_(0, segment.sources, slopes)
            pairs = slopes.sum(-1)
            if grad_bias is not None:
                grad_bias[segment.slots] = pairs
            pairs = (pairs * scale_function_slope(products, rule) * rule.scale).unsqueeze(-1)
            grad_query[segment.nodes] = segment.sum(pairs * key[segment.sources])
            grad_key.index_add_(0, segment.sources, pairs * query[segment.nodes][segment.local])
        return (*grads, grad_bias, None, None)
