"""Weights of tensorised attention averaged over the features, as matrix products where keys are neighbours.

With P = e^R and Z = P e^S the mean weight of an edge is P_ij / F times the sum over features of e^{S_jl} / Z_il: one
more product, and no array of edges times features.

Letters: N nodes, H heads, F features; B sentences of T tokens in a chunk, I queries and J keys of a strip.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from graphattn.backends.tensorized_blocks import SMALLEST, strip_powers
from graphattn.backends.tensorized_plan import Chunk, Plan
from graphattn.edges import Edges


@torch.no_grad()
def means_in_blocks(
    plan: Plan, edges: Edges, query: Tensor, key: Tensor, scores: Tensor, *, scale: float, function: str, bound: float
) -> tuple[Tensor, Tensor]:
    """Mean weights (E, H) in slot order, and which rows (N, H) are to be computed otherwise, as for the outputs."""
    means = query.new_empty(edges.num_edges, query.shape[1])
    rows = torch.zeros(query.shape[:2], dtype=torch.bool, device=query.device)
    for chunk in plan.chunks:
        taken = list(_slots_of(chunk, edges))
        for head in range(query.shape[1]):
            q, k = chunk.take(query[:, head]), chunk.take(key[:, head])
            sources = _source_powers(chunk, scores[:, head])
            small = torch.empty(chunk.size, chunk.length, 1, dtype=torch.bool, device=query.device)
            for strip, (slots, places) in zip(chunk.strips, taken, strict=True):
                powers, _ = strip_powers(strip, q, k, scale, function, bound)
                seen = sources[:, strip.keys]
                totals = torch.bmm(powers, seen)
                small[:, strip.queries] = totals.amin(-1, keepdim=True) < SMALLEST[query.dtype]
                shares = totals.clamp_(min=SMALLEST[query.dtype]).reciprocal_()
                found = torch.bmm(shares, seen.transpose(1, 2)).mul_(powers).div_(scores.shape[2])
                means[slots, head] = found.flatten()[places]
            chunk.put(rows[:, head : head + 1], chunk.room(rows[:, head : head + 1]).copy_(small))
    return means, rows & ~plan.keyless.unsqueeze(1)


def _source_powers(chunk: Chunk, scores: Tensor) -> Tensor:
    """(B, T, F) e^S, less the largest S of each sentence and feature; zeros for padding."""
    own = chunk.take(scores)
    if chunk.places is not None:
        own = chunk.mask_padding(own, float("-inf"))  # a copy: padded chunks are gathered
    top = own.amax(1, keepdim=True).clamp_(min=torch.finfo(own.dtype).min)
    return torch.sub(own, top).exp_()


def _slots_of(chunk: Chunk, edges: Edges) -> Iterator[tuple[Tensor, Tensor]]:
    """For each strip the slots of its edges, and where they stand in its (B, I, J)."""
    length = chunk.length
    places = torch.arange(chunk.size * length) if chunk.places is None else chunk.places
    tokens = chunk.first + places if chunk.tokens is None else chunk.tokens[places]
    place_of = torch.zeros(edges.num_destinations, dtype=torch.int64)
    place_of[tokens] = places
    indptr = edges.indptr.long()
    for strip in chunk.strips:
        inside = (places % length >= strip.queries.start) & (places % length < strip.queries.stop)
        own, place = tokens[inside], places[inside]
        degrees = indptr[own + 1] - indptr[own]
        begins = degrees.cumsum(0) - degrees
        count = int(degrees.sum())
        slots = torch.repeat_interleave(indptr[own] - begins, degrees, output_size=count) + torch.arange(count)
        keys = place_of[edges.indices[slots].long()] % length - strip.keys.start
        rows = (place // length) * _width(strip.queries) + place % length - strip.queries.start
        yield slots, torch.repeat_interleave(rows, degrees, output_size=count) * _width(strip.keys) + keys


def _width(places: slice) -> int:
    return int(places.stop - places.start)
