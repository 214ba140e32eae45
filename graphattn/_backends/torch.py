"""Backend ``torch``: PyTorch operations only, on any device, in bounded memory.

Complete graphs, and on a GPU nearly all edges, use PyTorch's dense attention on tiles; other edges, and those with
a bias or whose weights are returned, use gathers and segment sums.

Letters: E edges of a chunk, H heads, D features of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._backends import tiles
from graphattn._backends.call import AttentionCall, HeadGroup, join_groups
from graphattn._dense import attend_blocks, has_block_kernel
from graphattn._edges import Edges
from graphattn._gradients import Function, apply, apply_pair, raise_on_double_backward
from graphattn._precision import at_least_float32
from graphattn._transforms import operator

CHUNK = 1 << 21
"""Upper bound for the numbers in one gathered (E, H, D) array on a CPU."""
GPU_CHUNK = 1 << 25
"""The same on a GPU, which waits for the CPU at each chunk."""


def attend(call: AttentionCall) -> tuple[Tensor, list[Tensor]]:
    """Compute one group of heads after the other."""
    return join_groups(call, (attend_group(call, group) for group in call.groups))


def attend_group(call: AttentionCall, group: HeadGroup) -> tuple[Tensor, Tensor | None]:
    """Outputs and, on request, weights of the heads on one relation."""
    edges, query, key, value, bias = group
    is_plain = not call.return_weights and bias is None
    if is_plain and has_block_kernel(edges, query, value, call.dropout):
        return attend_blocks(edges, query, key, value, call.scale), None
    plan = edges.compute_once("tiles", _plan_tiles) if is_plain else None
    if plan is not None:
        return tiles.attend(plan, query, key, value, call.scale, call.dropout), None
    keep = None
    if call.dropout:
        keep = F.dropout(query.new_ones(edges.num_edges, query.shape[1]), call.dropout)
    out, weights = apply_pair(_SegmentAttention, query, key, value, bias, edges, call.scale, keep, call.return_weights)
    return out, weights if call.return_weights else None


def _plan_tiles(edges: Edges) -> tiles.TilePlan | None:
    """The tiles of complete graphs, and on a GPU those of other edges; None if there are none."""
    sizes, device = edges.blocks, edges.indptr.device
    if sizes is not None and sizes.numel():
        return tiles.plan_blocks(sizes, device)
    return None if device.type == "cpu" else tiles.plan_tiles(edges)


class Segment(NamedTuple):
    """Consecutive destinations with all their edges; ``local`` numbers the edges' destinations from 0."""

    nodes: slice
    local: Tensor
    sources: Tensor
    slots: slice

    def sum(self, values: Tensor) -> Tensor:
        """Sum the edges' values (E, ...) for each destination."""
        sums = values.new_zeros(self.nodes.stop - self.nodes.start, *values.shape[1:])
        return sums.index_add_(0, self.local, values)

    def softmax(self, scores: Tensor) -> Tensor:
        """Softmax of scores (E, ...) over the edges of each destination; overwrites the scores."""
        index = self.local.view(-1, *[1] * (scores.dim() - 1)).expand_as(scores)
        shape = (self.nodes.stop - self.nodes.start, *scores.shape[1:])
        maximum = scores.new_full(shape, float("-inf")).scatter_reduce_(0, index, scores, "amax")
        maximum.masked_fill_(maximum == float("-inf"), 0)
        exps = scores.sub_(maximum[self.local]).exp_()
        total = self.sum(exps)
        total.masked_fill_(total == 0, 1)
        return exps.div_(total[self.local])


def iterate_segments(edges: Edges, width: int) -> Iterator[Segment]:
    """Segments of destinations with a bounded number of edges, or of one destination; an edge has ``width`` numbers."""
    limit = max(1, (CHUNK if edges.indptr.device.type == "cpu" else GPU_CHUNK) // max(1, width))
    start, count = 0, edges.num_destinations
    while start < count:
        first = int(edges.indptr[start])
        stop = int(torch.searchsorted(edges.indptr, first + limit, right=True)) - 1
        stop = max(stop, start + 1)
        slots = slice(first, int(edges.indptr[stop]))
        nodes = torch.arange(stop - start, device=edges.indptr.device)
        degrees = edges.indptr[start + 1 : stop + 1] - edges.indptr[start:stop]
        local = torch.repeat_interleave(nodes, degrees.long(), output_size=slots.stop - slots.start)
        yield Segment(slice(start, stop), local, edges.indices[slots].long(), slots)
        start = stop


class _SegmentAttention(Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        edges: Edges,
        scale: float,
        keep: Tensor | None,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor]:
        # float16 and bfloat16 are summed in float32
        sum_type = torch.float32 if query.element_size() < 4 else query.dtype
        out = torch.zeros(edges.num_destinations, *value.shape[1:], dtype=sum_type, device=value.device)
        must_keep = return_weights or any(ctx.needs_input_grad[:4])
        weights = torch.empty(edges.num_edges if must_keep else 0, query.shape[1], dtype=sum_type, device=value.device)
        for segment in iterate_segments(edges, query.shape[1] * max(query.shape[2], value.shape[2])):
            nodes, local, sources, slots = segment
            scores = (query[nodes][local].to(sum_type) * key[sources].to(sum_type)).sum(-1) * scale  # (E, H)
            if bias is not None:
                scores = scores + bias[slots]
            chunk = segment.softmax(scores)
            if must_keep:
                weights[slots] = chunk
            if keep is not None:
                chunk = chunk * keep[slots]
            out[nodes] = segment.sum(chunk.unsqueeze(-1) * value[sources].to(sum_type))
        ctx.edges, ctx.scale, ctx.has_bias = edges, scale, bias is not None
        ctx.save_for_backward(query, key, value, weights, keep)
        return out.to(value.dtype), weights.to(value.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_out, grad_weights = gradients
        query, key, value, weights, keep = ctx.saved_tensors
        edges: Edges = ctx.edges
        sum_type = weights.dtype
        grad_query = torch.zeros(query.shape, dtype=sum_type, device=query.device)
        grad_key = torch.zeros(key.shape, dtype=sum_type, device=key.device)
        grad_value = torch.zeros(value.shape, dtype=sum_type, device=value.device)
        grad_bias = torch.zeros_like(weights) if ctx.has_bias else None
        for segment in iterate_segments(edges, query.shape[1] * max(query.shape[2], value.shape[2])):
            nodes, local, sources, slots = segment
            chunk = weights[slots]  # (E, H)
            upstream = grad_out[nodes][local].to(sum_type)  # (E, H, D_v)
            applied = chunk if keep is None else chunk * keep[slots]
            grad_value.index_add_(0, sources, applied.unsqueeze(-1) * upstream)
            grad_chunk = (upstream * value[sources].to(sum_type)).sum(-1)  # (E, H)
            if keep is not None:
                grad_chunk = grad_chunk * keep[slots]
            grad_chunk = grad_chunk + grad_weights[slots].to(sum_type)
            grad_scores = chunk * (grad_chunk - segment.sum(chunk * grad_chunk)[local])
            if grad_bias is not None:
                grad_bias[slots] = grad_scores
            scaled = (grad_scores * ctx.scale).unsqueeze(-1)
            grad_query[nodes] = segment.sum(scaled * key[sources].to(sum_type))
            grad_key.index_add_(0, sources, scaled * query[nodes][local].to(sum_type))
        bias_gradient = None if grad_bias is None else grad_bias.to(query.dtype)
        gradients_of_inputs = (
            grad_query.to(query.dtype),
            grad_key.to(key.dtype),
            grad_value.to(value.dtype),
            bias_gradient,
        )
        return (*gradients_of_inputs, None, None, None, None)


@operator
def sum_by_weights(edges: Edges, weights: Tensor, value: Tensor) -> Tensor:
    """Sum the weighted values of each destination's sources; differentiable by the weights.

    Weights (E, H) in slot order and values (N_src, H, D) give (N_dst, H, D) of the type of ``value``.

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), num_sources=2)  # 0->0, 0->1, 1->1
    >>> sum_by_weights(edges, torch.tensor([[1.0], [0.25], [0.75]]), torch.tensor([[[4.0]], [[8.0]]])).flatten()
    tensor([4., 7.])
    """
    return apply(_SumByWeights, weights, value, edges)


class _SumByWeights(Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, edges: Edges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(weights, value)
        sum_type = torch.float32 if value.element_size() < 4 else value.dtype
        out = value.new_zeros(edges.num_destinations, *value.shape[1:], dtype=sum_type)
        for segment in iterate_segments(edges, value.shape[1] * value.shape[2]):
            shares = weights[segment.slots].unsqueeze(-1) * value[segment.sources].to(sum_type)
            out[segment.nodes] = segment.sum(shares)
        return out.to(value.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (upstream,) = gradients
        weights, value = ctx.saved_tensors
        with torch.no_grad():
            grad_weights = torch.empty_like(weights)
            grad_value = at_least_float32(torch.zeros_like(value))
            for nodes, local, sources, slots in iterate_segments(ctx.edges, value.shape[1] * value.shape[2]):
                grad_out = at_least_float32(upstream[nodes][local])  # (E, H, D)
                grad_weights[slots] = (grad_out * value[sources]).sum(-1).to(weights.dtype)
                grad_value.index_add_(0, sources, weights[slots].unsqueeze(-1) * grad_out)
        return raise_on_double_backward(grad_weights, weights, value, upstream), grad_value.to(value.dtype), None
