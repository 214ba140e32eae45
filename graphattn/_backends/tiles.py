"""Dense attention on tiles: some destinations against the union of their sources, with a mask.

A GPU multiplies matrices so much faster than it gathers edges that this pays even where most of a tile is masked.

Letters: N nodes, E edges, H heads, D features of a head.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphattn._dense import attend_dense
from graphattn._devices import to_device
from graphattn._edges import Edges
from graphattn._precision import at_least_float32

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
    isolated: Tensor | None = None
    """(N,) whether a destination has no sources; None when all have some."""
    are_sources_shared: bool = False
    """Whether several tiles may have the same source."""


def attend(plan: TilePlan, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
    """Attention (N, H, D) along the edges of a plan, with dropout on the weights."""
    rows = [tiles.num_tiles * tiles.rows for tiles in plan.groups]
    columns = [tiles.num_tiles * tiles.columns for tiles in plan.groups]
    queries = _gather(query, plan.destinations, is_shared=False).split(rows)
    keys, values = (
        _gather(tensor, plan.sources, is_shared=plan.are_sources_shared).split(columns) for tensor in (key, value)
    )
    results = []
    for tiles, *inputs in zip(plan.groups, queries, keys, values, strict=True):
        q, k, v = (rows.unflatten(0, (tiles.num_tiles, -1)).transpose(1, 2) for rows in inputs)  # (tiles, H, rows, D)
        # autocast would make this bfloat16, which takes a CPU four times as long as float32
        with torch.autocast("cpu", enabled=False):
            out = attend_dense(q, k, v, mask=tiles.mask, dropout=dropout, scale=scale)
        results.append(out.transpose(1, 2).flatten(0, 1))
    together = torch.cat(results) if len(results) > 1 else results[0]
    if plan.places is not None:
        together = together.index_select(0, plan.places)
    return together if plan.isolated is None else together.masked_fill(plan.isolated[:, None, None], 0.0)


def _gather(rows: Tensor, index: Tensor | None, *, is_shared: bool) -> Tensor:
    """The rows of an index; gradients of rows that occur several times are summed in float32."""
    if index is None:
        return rows
    return at_least_float32(rows).index_select(0, index).to(rows.dtype) if is_shared else rows.index_select(0, index)


def plan_blocks(sizes: Tensor, device: torch.device) -> TilePlan:
    """A tile for each of some consecutive complete graphs (B,), padded with its own nodes.

    Tiles have one shape, or several when padding to the largest would double the memory. The sizes are on the CPU.
    """
    begins, total = sizes.cumsum(0) - sizes, int(sizes.sum())
    size_classes = torch.log2(sizes.double()).floor()  # sizes of a class differ by less than a factor of two
    if len(sizes) * int(sizes.max()) <= 2 * total:
        size_classes.zero_()
    groups, nodes, places, start = [], [], torch.empty(total, dtype=torch.int64), 0
    for size_class in size_classes.unique():
        members = sizes[size_classes == size_class].unsqueeze(1)
        offsets = torch.arange(int(members.max()))
        mask, first = offsets < members, begins[size_classes == size_class].unsqueeze(1)  # (B, T)
        nodes.append((first + offsets % members).flatten())
        places[nodes[-1][mask.flatten()]] = start + mask.flatten().nonzero().squeeze(1)
        groups.append(_make_tiles(mask[:, None, None, :], mask.shape[1], device))
        start += mask.numel()
    if len(groups) == 1 and groups[0].mask is None:
        return TilePlan(groups, None, None, None)
    index = to_device(torch.cat(nodes), device)
    return TilePlan(groups, index, index, to_device(places, device))


def plan_tiles(edges: Edges) -> TilePlan | None:
    """Tiles of consecutive destinations; None for edges that are repeated or too scattered."""
    if not edges.num_edges:
        return None
    num_nodes, num_sources, device = edges.num_destinations, edges.num_sources, edges.indptr.device
    num_tiles = -(-num_nodes // ROWS)
    tile = edges.destinations // ROWS  # (E,)
    keys, pair = torch.unique(tile * num_sources + edges.sources, return_inverse=True)
    tile_of_pair = keys // num_sources  # a pair is a tile and one of its sources
    if len(keys) > 2 * num_sources + edges.num_edges // 4:  # too scattered: each pair copies a key and a value
        return None
    widths = torch.bincount(tile_of_pair, minlength=num_tiles)
    columns = _round_widths(widths)
    order = columns.argsort(stable=True)  # tiles of one shape follow each other
    first_column, first_row = torch.empty_like(columns), torch.empty_like(columns)
    first_column[order] = columns[order].cumsum(0) - columns[order]
    first_row[order] = torch.arange(num_tiles, device=device) * ROWS

    # what fills the tiles is spread over all sources: many gradients of one, even zeros, would wait for each other
    sources = torch.arange(int(columns.sum()), device=device) % num_sources
    rank = torch.arange(len(keys), device=device) - (widths.cumsum(0) - widths)[tile_of_pair]
    sources[first_column[tile_of_pair] + rank] = keys % num_sources
    mask = torch.zeros(ROWS * len(sources), dtype=torch.bool, device=device)
    mask[ROWS * first_column[tile] + edges.destinations % ROWS * columns[tile] + rank[pair]] = True
    if int(mask.sum()) < edges.num_edges:  # repeated edges
        return None
    groups = []
    shapes, counts = (numbers.tolist() for numbers in columns[order].unique_consecutive(return_counts=True))
    sizes = [ROWS * width * count for width, count in zip(shapes, counts, strict=True)]
    for tile_mask, width in zip(mask.split(sizes), shapes, strict=True):
        seen = tile_mask.view(-1, 1, ROWS, width)
        seen[..., 0] |= ~seen.any(3)  # a softmax over nothing would be NaN
        groups.append(_make_tiles(seen, ROWS, device))
    nodes, offsets = torch.arange(num_nodes, device=device), torch.arange(ROWS, device=device)
    destinations = (order.unsqueeze(1) * ROWS + offsets).clamp(max=num_nodes - 1).flatten()
    degrees = edges.indptr[1:] - edges.indptr[:-1]
    isolated = degrees == 0 if bool((degrees == 0).any()) else None
    places = first_row[nodes // ROWS] + nodes % ROWS
    return TilePlan(groups, destinations, sources, places, isolated, are_sources_shared=True)


def _round_widths(widths: Tensor) -> Tensor:
    """Numbers of columns: those of the widest tile among tiles that differ by less than a factor of two."""
    size_classes, columns = torch.log2(widths.clamp(min=1).float()).ceil(), torch.empty_like(widths)
    for size_class in size_classes.unique():
        widest = int(widths[size_classes == size_class].max())
        columns[size_classes == size_class] = max(16, -(-widest // 16) * 16)  # kernels copy masks of other widths
    return columns


def _make_tiles(mask: Tensor, rows: int, device: torch.device) -> Tiles:
    """Tiles of a (tiles, 1, rows or 1, columns) mask."""
    return Tiles(len(mask), rows, mask.shape[3], None if bool(mask.all()) else to_device(mask, device))
