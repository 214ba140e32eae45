"""Backend ``torch``: PyTorch operations only, for any device and for relations too large to hold.

Complete graphs go through PyTorch's dense attention; everything else through gathers and segment sums.

Letters: E edges of a chunk, H heads, D features of a head.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn.edges import Edges

CHUNK = 1 << 21
"""Upper bound for the numbers in one gathered (E, H, D) array."""


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
    """Attention by gathers and segment sums, a bounded number of edges at a time; dense for complete graphs."""
    sizes = None if return_weights or bias is not None else edges.blocks
    if sizes is not None and sizes.numel():
        return _attend_in_blocks(sizes, query, key, value, scale, dropout), None
    keep = None
    if dropout:
        keep = F.dropout(query.new_ones(edges.num_edges, query.shape[1]), dropout)
    out, weights = _SegmentAttention.apply(query, key, value, bias, edges, scale, keep, return_weights)
    return out, weights if return_weights else None


def _attend_in_blocks(sizes: Tensor, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
    """Dense attention within each block; if padding would exceed the tokens, blocks of similar size are batched."""
    if len(sizes) * int(sizes.max()) <= 2 * len(query):
        return _attend_padded(sizes, query, key, value, scale, dropout)
    kinds = torch.log2(sizes.double()).floor()  # sizes of one kind differ by less than a factor of two
    kind_of_node = torch.repeat_interleave(kinds, sizes, output_size=len(query))
    out = torch.zeros_like(value)
    for kind in kinds.unique():
        nodes = (kind_of_node == kind).nonzero().squeeze(1)
        part = _attend_padded(sizes[kinds == kind], query[nodes], key[nodes], value[nodes], scale, dropout)
        out = out.index_copy(0, nodes, part)
    return out


def _attend_padded(sizes: Tensor, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
    """Dense attention within each block; blocks are padded to the longest one, and padding is masked."""
    longest = int(sizes.max())
    mask = torch.arange(longest, device=query.device) < sizes.unsqueeze(1)  # (B, T)
    place = mask.flatten().nonzero().squeeze(1)

    def rows(flat: Tensor) -> Tensor:
        padded = flat.new_zeros(mask.numel(), *flat.shape[1:]).index_copy(0, place, flat)
        return padded.view(*mask.shape, *flat.shape[1:]).transpose(1, 2)  # (B, H, T, D)

    visible = None if bool((sizes == longest).all()) else mask[:, None, None, :]
    # autocast would make this bfloat16, which takes a CPU four times as long as float32
    with torch.autocast("cpu", enabled=False):
        out = F.scaled_dot_product_attention(
            rows(query), rows(key), rows(value), attn_mask=visible, dropout_p=dropout, scale=scale
        )
    return out.transpose(1, 2).flatten(0, 1).index_select(0, place)


def iterate_runs(edges: Edges, width: int) -> Iterator[tuple[slice, Tensor, Tensor, slice]]:
    """Runs of destinations with a bounded number of edges: nodes, the edges' destinations and sources, slots."""
    limit = max(1, CHUNK // max(1, width))
    start, count = 0, edges.num_destinations
    while start < count:
        first = int(edges.indptr[start])
        stop = int(torch.searchsorted(edges.indptr, first + limit, right=True)) - 1
        stop = max(stop, start + 1)
        slots = slice(first, int(edges.indptr[stop]))
        nodes = torch.arange(stop - start, device=edges.indptr.device)
        degrees = edges.indptr[start + 1 : stop + 1] - edges.indptr[start:stop]
        local = torch.repeat_interleave(nodes, degrees.long(), output_size=slots.stop - slots.start)
        yield slice(start, stop), local, edges.indices[slots].long(), slots
        start = stop


def _softmax(scores: Tensor, local: Tensor, count: int) -> Tensor:
    """Softmax of (E, H) scores over the edges of each of ``count`` destinations."""
    index = local.unsqueeze(-1).expand_as(scores)
    top = scores.new_full((count, scores.shape[1]), float("-inf")).scatter_reduce_(0, index, scores, "amax")
    top = torch.where(top == float("-inf"), torch.zeros_like(top), top)
    exps = torch.exp(scores - top[local])
    total = exps.new_zeros(count, scores.shape[1]).index_add_(0, local, exps)
    return exps / torch.where(total == 0, torch.ones_like(total), total)[local]


class _SegmentAttention(torch.autograd.Function):
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
        wide = torch.float32 if query.element_size() < 4 else query.dtype
        out = torch.zeros(edges.num_destinations, *value.shape[1:], dtype=wide, device=value.device)
        must_keep = return_weights or any(ctx.needs_input_grad[:4])
        weights = torch.empty(edges.num_edges if must_keep else 0, query.shape[1], dtype=wide, device=value.device)
        for nodes, local, sources, slots in iterate_runs(edges, query.shape[1] * max(query.shape[2], value.shape[2])):
            scores = (query[nodes][local].to(wide) * key[sources].to(wide)).sum(-1) * scale  # (E, H)
            if bias is not None:
                scores = scores + bias[slots]
            chunk = _softmax(scores, local, nodes.stop - nodes.start)
            if must_keep:
                weights[slots] = chunk
            if keep is not None:
                chunk = chunk * keep[slots]
            out[nodes].index_add_(0, local, chunk.unsqueeze(-1) * value[sources].to(wide))
        ctx.edges, ctx.scale, ctx.has_bias = edges, scale, bias is not None
        ctx.save_for_backward(query, key, value, weights, keep)
        return out.to(value.dtype), weights.to(value.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_out, grad_weights = gradients
        query, key, value, weights, keep = ctx.saved_tensors
        edges: Edges = ctx.edges
        wide = weights.dtype
        grad_query = torch.zeros(query.shape, dtype=wide, device=query.device)
        grad_key = torch.zeros(key.shape, dtype=wide, device=key.device)
        grad_value = torch.zeros(value.shape, dtype=wide, device=value.device)
        grad_bias = torch.zeros_like(weights) if ctx.has_bias else None
        for nodes, local, sources, slots in iterate_runs(edges, query.shape[1] * max(query.shape[2], value.shape[2])):
            count = nodes.stop - nodes.start
            chunk = weights[slots]  # (E, H)
            upstream = grad_out[nodes][local].to(wide)  # (E, H, D_v)
            applied = chunk if keep is None else chunk * keep[slots]
            grad_value.index_add_(0, sources, applied.unsqueeze(-1) * upstream)
            grad_chunk = (upstream * value[sources].to(wide)).sum(-1)  # (E, H)
            if keep is not None:
                grad_chunk = grad_chunk * keep[slots]
            grad_chunk = grad_chunk + grad_weights[slots].to(wide)
            inner = torch.zeros(count, chunk.shape[1], dtype=wide, device=chunk.device)
            inner.index_add_(0, local, chunk * grad_chunk)
            grad_scores = chunk * (grad_chunk - inner[local])
            if grad_bias is not None:
                grad_bias[slots] = grad_scores
            scaled = (grad_scores * ctx.scale).unsqueeze(-1)
            grad_query[nodes].index_add_(0, local, scaled * key[sources].to(wide))
            grad_key.index_add_(0, sources, scaled * query[nodes][local].to(wide))
        bias_gradient = None if grad_bias is None else grad_bias.to(query.dtype)
        narrow = (grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype), bias_gradient)
        return (*narrow, None, None, None, None)
