"""Plans of backend ``triton``: which nodes see each other, as one int32 array for each relation, made on the CPU.

Where the sources of each destination are consecutive and rise from one destination to the next (windows, complete
graphs, order, sentences), so do the destinations of each source, and the plan is the ends of these ranges::

    by destination:  low (N_dst), high (N_dst), number of its first edge minus low (N_dst)
    by source:       first destination (N_src), the one after the last (N_src)

Other edges become tiles: for each block of 64 nodes, the nodes that any of them sees, in tiles of 32, and for each node
and tile a word of 32 bits that tells which of them it sees. Both by destination and by source::

    pointers (blocks + 1), first tile of each block
    starts (N), edges of earlier nodes
    columns (tiles, 32), nodes of each tile
    bits (tiles, 64)
    slots (E,), the edge's number in CSC order

Edges of a text are near the diagonal, so nearly all tiles are full, and bits are fewer bytes than indices.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphattn._backends.call import Places, Span
from graphattn._devices import to_device
from graphattn._edges import DevicePlan, Edges

BLOCK, WORD = 64, 32
"""Rows and columns of a tile; kernels know them, too."""


@dataclass(frozen=True)
class Plan(DevicePlan):
    """The plan of a relation."""

    by_source: int  # where the second half of the array begins
    is_range: bool


@dataclass(frozen=True)
class Launch:
    """The heads that one launch of a kernel computes."""

    plan: Tensor  # arrays of all their relations
    heads: Tensor  # (heads, 6) int64, see kernels.py
    is_range: bool


@dataclass(frozen=True)
class Layer:
    """The heads of a call: those of the launches, and those that copy their value."""

    launches: Sequence[Launch]
    copies: Sequence[tuple[int, int, int]] = ()  # (first head, row of its value, number of heads)
    is_joint: bool = False  # whether queries, keys and values are rows of one tensor


def plan_of(edges: Edges) -> Plan | None:
    """The plan of a relation, cached in its edges; None if a pair of nodes has several edges."""
    plan = edges.compute_once("triton", _make_plan)
    return plan if isinstance(plan, Plan) else None


def _make_plan(edges: Edges) -> DevicePlan:
    device = edges.indptr.device
    if device.type != "cpu":  # edges that were made on the GPU
        plan = _make_plan(edges.to("cpu"))
        return replace(plan, array=plan.array.to(device))
    return _plan_ranges(edges) or _plan_tiles(edges) or DevicePlan(edges.indptr[:0])


def _plan_ranges(edges: Edges) -> Plan | None:
    if edges.first_sources is None:
        return None
    low = edges.first_sources.numpy().astype(np.int64)
    high = low + edges.indptr.diff().numpy()
    if (low[1:] < low[:-1]).any() or (high[1:] < high[:-1]).any():
        return None
    # destinations that end before a source, or begin up to it; an empty range may lie anywhere
    count = edges.num_sources
    first, stop = (np.bincount(ends.clip(0, count), minlength=count)[:count].cumsum() for ends in (high, low))
    return _join([low, high, edges.indptr[:-1].numpy() - low], [first, stop], is_range=True)


def _plan_tiles(edges: Edges) -> Plan | None:
    reverse, slots = edges.reverse
    by_destination = _cut_into_tiles(edges, np.arange(edges.num_edges))
    by_source = _cut_into_tiles(reverse, slots.numpy())
    if by_destination is None or by_source is None:
        return None
    return _join(by_destination, by_source, is_range=False)


def _join(by_destination: Sequence[np.ndarray], by_source: Sequence[np.ndarray], *, is_range: bool) -> Plan:
    # numbers of edges beyond int32 wrap around: dropout uses 32 bits of them
    array = np.concatenate([each.astype(np.uint32) for each in (*by_destination, *by_source)]).view(np.int32)
    return Plan(torch.from_numpy(array), sum(map(len, by_destination)), is_range)


def _cut_into_tiles(edges: Edges, slots: np.ndarray) -> list[np.ndarray] | None:
    """Pointers, starts, columns, bits and slots; None if edges are repeated."""
    starts, rows, sources = edges.indptr.numpy(), edges.destinations.numpy(), edges.sources.numpy()
    pairs = rows * edges.num_sources + sources
    if (np.diff(pairs) <= 0).any():
        order = np.argsort(pairs, kind="stable")
        rows, sources, slots = rows[order], sources[order], slots[order]
        if (np.diff(pairs[order]) == 0).any():
            return None
    # a column is a block and one of the sources that it sees
    columns, column_of = np.unique(rows // BLOCK * edges.num_sources + sources, return_inverse=True)
    widths = np.bincount(columns // max(1, edges.num_sources), minlength=-(-edges.num_destinations // BLOCK))
    pointers = np.concatenate([[0], np.cumsum(-(-widths // WORD))])
    # columns of a block follow those of the one before, which fill whole tiles
    padding = pointers[:-1] * WORD - (np.cumsum(widths) - widths)
    places = np.arange(len(columns)) + np.repeat(padding, widths)
    nodes = np.zeros(pointers[-1] * WORD, np.int64)
    nodes[places] = columns % max(1, edges.num_sources)
    tile, bit = np.divmod(places[column_of], WORD)
    bits = np.bincount(tile * BLOCK + rows % BLOCK, 2.0**bit, minlength=pointers[-1] * BLOCK)  # each bit occurs once
    return [pointers, starts[:-1], nodes, bits.astype(np.int64), slots]


def plan_relation(edges: Edges, heads: int) -> Layer | None:
    """One relation, with a tensor of queries, of keys and of values."""
    plan = plan_of(edges)
    if plan is None:
        return None
    table = [(head, head, head, head, 0, plan.by_source) for head in range(heads)]
    return edges.compute_once(f"triton, {heads} heads", lambda _: Layer([_launch(plan.array, table, plan.is_range)]))


def plan_layer(spans: Sequence[Span]) -> Layer | None:
    """The relations of a layer, whose queries, keys and values are the rows (N, P, D) of one tensor.

    The first relation caches the plan for exactly these relations, without keeping the others alive.
    """
    first = spans[0].edges
    key = ("triton", *((id(span.edges), span.num_heads, span.scored is None, span.copies) for span in spans))
    cached: Any = first.plans.get(key)
    if cached is None or any(reference() is not span.edges for reference, span in zip(cached[0], spans, strict=True)):
        with torch.inference_mode(False):
            cached = [weakref.ref(span.edges) for span in spans], _plan_layer(spans)
        first.plans[key] = cached
    return cached[1]


def _plan_layer(spans: Sequence[Span]) -> Layer | None:
    plans = [plan_of(span.edges) for span in spans]
    complete = [plan for plan in plans if plan is not None]
    if len(complete) < len(plans):
        return None
    return join_plans(complete, [(span.heads, span.scored) for span in spans], [span.copies for span in spans])


def join_plans(plans: Sequence[Plan], places: Sequence[Places], copied: Sequence[bool]) -> Layer:
    """The heads of a layer, at their places in one tensor; ``copied`` tells which copy their value."""
    queries = sum(heads.stop - heads.start for heads, scored in places if scored is not None)
    arrays: dict[bool, list[Tensor]] = {True: [], False: []}
    tables: dict[bool, list[tuple[int, ...]]] = {True: [], False: []}
    copies = []
    for plan, (heads, scored), is_copied in zip(plans, places, copied, strict=True):
        count = heads.stop - heads.start
        if is_copied:
            copies.append((heads.start, 2 * queries + heads.start, count))
        elif count and scored is not None:
            begin = sum(map(len, arrays[plan.is_range]))
            tables[plan.is_range] += [
                (head, column, queries + column, 2 * queries + head, begin, begin + plan.by_source)
                for head, column in zip(range(heads.start, heads.stop), range(scored.start, scored.stop), strict=True)
            ]
            arrays[plan.is_range].append(plan.array)
    launches = [
        _launch(own[0] if len(own) == 1 else torch.cat(own), tables[is_range], is_range)
        for is_range, own in arrays.items()
        if own
    ]
    return Layer(launches, copies, is_joint=True)


def _launch(plan: Tensor, heads: Sequence[tuple[int, ...]], is_range: bool) -> Launch:
    return Launch(plan, to_device(torch.tensor(heads, dtype=torch.int64), plan.device), is_range)
