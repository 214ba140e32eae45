"""Dense attention on tiles: some destinations against the union of their sources, with a mask.

A GPU multiplies matrices so much faster than it gathers edges that this pays even where most of a tile is masked.

Letters: N nodes, E edges, H heads, D features of a head.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn.edges import Edges
from graphattn.precision import at_least_float32

ROWS = 128
"""Destinations of a tile."""


class Tiles(NamedTuple):
    """Tiles of one shape."""

    num_tiles: int
    rows: int
    columns: int
    mask: Tensor | None
    """(tiles, 1, rows or 1, columns) which destination sees which source; None for all."""


class TilePlan(NamedTuple):
    """All edges as tiles of a few shapes."""

    groups: list[Tiles]
    destinations: Tensor | None
    """Destination in each row of the tiles, group by group; None when the rows are all nodes in order."""
    sources: Tensor | None
    """Source in each column, group by group; None when the columns are all nodes in order."""
    places: Tensor | None
    """(N,) row of each destination; None as for ``destinations``."""
    lonely: Tensor | None = None
    """(N,) whether a destination has no sources; None when all have some."""
    are_sources_shared: bool = False
    """Whether several tiles may have the same source."""


def attend(plan: TilePlan, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
    """Attention along the edges of a plan.

    Parameters
    ----------
    plan : of the edges
    query, key, value : (N, H, D)
    scale : of the scores
    dropout : on the weights

    Returns
    -------
    (N, H, D)
    """
    rows = [tiles.num_tiles * tiles.rows for tiles in plan.groups]
    columns = [tiles.num_tiles * tiles.columns for tiles in plan.groups]
    queries = _gather(query, plan.destinations, False).split(rows)
    keys, values = (_gather(part, plan.sources, plan.are_sources_shared).split(columns) for part in (key, value))
    results = []
    for tiles, *parts in zip(plan.groups, queries, keys, values, strict=True):
        q, k, v = (part.unflatten(0, (tiles.num_tiles, -1)).transpose(1, 2) for part in parts)  # (tiles, H, rows, D)
        # autocast would make this bfloat16, which takes a CPU four times as long as float32
        with torch.autocast("cpu", enabled=False):
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=tiles.mask, dropout_p=dropout, scale=scale)
        results.append(out.transpose(1, 2).flatten(0, 1))
    together = torch.cat(results) if len(results) > 1 else results[0]
    if plan.places is not None:
        together = together.index_select(0, plan.places)
    return together if plan.lonely is None else together.masked_fill(plan.lonely[:, None, None], 0.0)


def _gather(rows: Tensor, index: Tensor | None, is_shared: bool) -> Tensor:
    """The rows of an index; gradients of rows that occur several times are summed in float32."""
    if index is None:
        return rows
    return at_least_float32(rows).index_select(0, index).to(rows.dtype) if is_shared else rows.index_select(0, index)


def plan_blocks(sizes: Tensor, device: torch.device) -> TilePlan:
    """A tile for each of some consecutive complete graphs, padded with its own nodes.

    Tiles have one shape, or several when padding to the largest would double the memory.

    Parameters
    ----------
    sizes : (B,) nodes of each graph, on the CPU
    device : of the plan
    """
    begins, total = sizes.cumsum(0) - sizes, int(sizes.sum())
    kinds = torch.log2(sizes.double()).floor()  # sizes of a kind differ by less than a factor of two
    if len(sizes) * int(sizes.max()) <= 2 * total:
        kinds.zero_()
    groups, nodes, places, start = [], [], torch.empty(total, dtype=torch.int64), 0
    for kind in kinds.unique():
        own = sizes[kinds == kind].unsqueeze(1)
        offsets = torch.arange(int(own.max()))
        mask, first = offsets < own, begins[kinds == kind].unsqueeze(1)  # (B, T)
        nodes.append((first + offsets % own).flatten())
        places[nodes[-1][mask.flatten()]] = start + mask.flatten().nonzero().squeeze(1)
        groups.append(_make_tiles(mask[:, None, None, :], mask.shape[1], device))
        start += mask.numel()
    if len(groups) == 1 and groups[0].mask is None:
        return TilePlan(groups, None, None, None)
    index = torch.cat(nodes).to(device)
    return TilePlan(groups, index, index, places.to(device))


def plan_tiles(edges: Edges) -> TilePlan | None:
    """Tiles of consecutive destinations; None for edges that are repeated or too scattered.

    Parameters
    ----------
    edges : of one relation
    """
    if not edges.num_edges:
        return None
    count, device = edges.num_destinations, edges.indptr.device
    tile = edges.destinations // ROWS  # (E,)
    pairs, column = torch.unique(tile * edges.num_sources + edges.sources, return_inverse=True)
    widths = torch.bincount(pairs // edges.num_sources, minlength=-(-count // ROWS))
    if len(pairs) > 2 * edges.num_sources + edges.num_edges // 4:  # so many copies of keys and values
        return None
    begins, kinds = widths.cumsum(0) - widths, torch.log2(widths.clamp(min=1).double()).ceil()
    column -= begins[tile]
    groups, destinations, sources, seen, start = [], [], [], 0, 0
    places = torch.empty(count, dtype=torch.int64, device=device)
    for kind in kinds.unique():
        own = (kinds == kind).nonzero()  # (T, 1) tiles
        columns = max(16, -(-int(widths[own].max()) // 16) * 16)  # kernels copy masks of other widths
        offsets = torch.arange(columns, device=device)
        used = offsets < widths[own]  # (T, columns)
        # spread what fills the tiles: many gradients of one node, even zeros, would wait for each other
        filled = torch.arange(used.numel(), device=device).remainder(edges.num_sources).view(used.shape)
        filled[used] = pairs[(begins[own] + offsets)[used]] % edges.num_sources
        number = torch.full_like(widths, -1).index_copy(0, own.squeeze(1), torch.arange(len(own), device=device))
        chosen = (number[tile] >= 0).nonzero().squeeze(1)
        mask = torch.zeros(len(own), ROWS, columns, dtype=torch.bool, device=device)
        mask[number[tile[chosen]], edges.destinations[chosen] % ROWS, column[chosen]] = True
        seen += int(mask.sum())
        mask[:, :, 0] |= ~mask.any(2)  # a softmax over nothing would be NaN
        nodes = (own * ROWS + torch.arange(ROWS, device=device)).flatten()
        real = nodes < count
        places[nodes[real]] = start + real.nonzero().squeeze(1)
        groups.append(_make_tiles(mask.unsqueeze(1), ROWS, device))
        destinations.append(nodes.clamp(max=count - 1))
        sources.append(filled.flatten())
        start += len(nodes)
    if seen < edges.num_edges:  # repeated edges
        return None
    degrees = edges.indptr[1:] - edges.indptr[:-1]
    lonely = degrees == 0 if bool((degrees == 0).any()) else None
    return TilePlan(groups, torch.cat(destinations), torch.cat(sources), places, lonely, are_sources_shared=True)


def _make_tiles(mask: Tensor, rows: int, device: torch.device) -> Tiles:
    """Tiles of a (tiles, 1, rows or 1, columns) mask."""
    return Tiles(len(mask), rows, mask.shape[3], None if bool(mask.all()) else mask.to(device))
