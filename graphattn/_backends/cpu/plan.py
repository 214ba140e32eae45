"""Plans of backend ``fused``, which divide the edges of a relation into tasks; :class:`Edges` cache them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from graphattn._backends.cpu.compiling import plan_kernel
from graphattn._edges import Edges

TASK_EDGES = 1 << 15
"""Approximate number of edges per task: small, so that no thread waits long for another."""
NARROW_KEYS = 256
"""Upper bound for the number of keys of a narrow range."""
NARROW_ROWS = 96
"""Minimum number of destinations per task along narrow ranges; at most four times as many, to end with a sentence."""
MAX_CACHED_PLANS = 8
"""Number of narrow plans that a relation caches, each with other relations."""
MIN_SPLIT_EDGES = 1 << 14
"""With fewer edges, two kernels and the merge of their results take longer than they save."""
CHUNK_ROWS = 256
"""Minimum number of destinations per task along wide ranges; as many as a row has keys, if more."""


@dataclass(frozen=True)
class ChunkPlan:
    """Chunks of destinations with contiguous keys."""

    # (C, 7) int64: first destination and the one after the last, first key and the one after the last, first of the
    # keys that no other chunk reads and the one after the last, number of shared keys of earlier chunks
    chunks: np.ndarray
    shared: int  # number of shared keys, which several chunks read, summed over the chunks

    @cached_property
    def max_keys(self) -> int:
        """Largest number of keys of a chunk."""
        return int((self.chunks[:, 3] - self.chunks[:, 2]).max(initial=0))


@dataclass(frozen=True)
class RangePlan(ChunkPlan):
    """Destinations with contiguous keys along one relation."""

    low: np.ndarray  # (N_dst,) int64, first key of each destination
    high: np.ndarray  # (N_dst,) int64, the key after the last of each destination
    starts: np.ndarray  # (N_dst + 1,) int64, first slot of each destination
    block: int  # destinations per matrix product, a multiple of 8

    @cached_property
    def max_rows(self) -> int:
        """Largest number of destinations of a chunk."""
        return int((self.chunks[:, 1] - self.chunks[:, 0]).max(initial=0))


@dataclass(frozen=True)
class NarrowPlan(ChunkPlan):
    """Destinations with contiguous keys in narrow ranges, along several relations between the same nodes.

    Every destination is also a key of its chunk.
    """

    pointers: list[Tensor]  # (N + 1,) first slot of each destination, for each relation
    lows: np.ndarray  # (R, N) int64, first key of each destination along each relation
    highs: np.ndarray  # (R, N) int64, the key after the last

    @cached_property
    def slots(self) -> np.ndarray:
        """(R, N + 1) int64, first slot of each destination along each relation."""
        return np.stack([pointers.numpy().astype(np.int64) for pointers in self.pointers])


@dataclass(frozen=True)
class EdgePlan:
    """Edges in any order."""

    starts: np.ndarray  # (N_dst + 1,) int64, first slot of each destination
    indices: np.ndarray  # (E,) source of each slot

    @cached_property
    def longest(self) -> int:
        """Largest number of edges into one destination."""
        return int(np.diff(self.starts).max(initial=1))

    @cached_property
    def tasks(self) -> np.ndarray:
        """(R + 1,) int64: destinations at which tasks with about :data:`TASK_EDGES` edges begin."""
        marks = np.arange(0, int(self.starts[-1]) + 1, TASK_EDGES)
        return np.unique(np.concatenate([np.searchsorted(self.starts[:-1], marks), [0, len(self.starts) - 1]]))

    @cached_property
    def separate_tasks(self) -> np.ndarray:
        """Like ``tasks``, merged until no two share a source."""
        low, high = _source_extents(self.starts, self.indices)
        cuts = self.tasks
        return cuts[np.isin(cuts, _find_cuts(low, high))] if len(cuts) > 2 else cuts


def plan_of(edges: Edges) -> RangePlan | EdgePlan:
    """The plan of a relation, cached in its edges."""
    return edges.compute_once("fused", _make_plan)


def edge_plan_of(edges: Edges) -> EdgePlan:
    """The plan of a relation for kernels that look up each source, cached in its edges."""
    return edges.compute_once("fused, any edges", _make_edge_plan)


def _make_edge_plan(edges: Edges) -> EdgePlan:
    return EdgePlan(edges.indptr.numpy().astype(np.int64), edges.indices.numpy())


def split_runs(edges: Edges) -> tuple[Edges, Edges] | None:
    """The edges from consecutive sources, and the few others: a window and a global token, for example.

    None when all sources are contiguous, or kernels for contiguous keys would compute too few of the edges.
    """
    return edges.compute_once("fused, split", _split_runs)


def _split_runs(edges: Edges) -> tuple[Edges, Edges] | None:
    if edges.num_edges < MIN_SPLIT_EDGES or is_narrow(edges) or not isinstance(plan_of(edges), EdgePlan):
        return None
    indptr, indices = edges.indptr.numpy(), edges.indices.numpy()
    longest = 2 * edges.num_edges // edges.num_destinations
    low, high, pointers, rest = _find_runs(indptr, indices, longest)
    if 8 * len(rest) > edges.num_edges:
        return None
    runs = Edges.of_ranges(torch.from_numpy(low), torch.from_numpy(high), edges.num_sources)
    if not (is_narrow(runs) or isinstance(plan_of(runs), RangePlan)):
        return None
    others = Edges(torch.from_numpy(pointers), torch.from_numpy(rest), edges.num_sources, checked=True)
    return runs, others


def narrow_plan(relations: Sequence[Edges]) -> NarrowPlan:
    """One plan for narrow relations; the first of them caches its last few plans.

    The cache holds weak references to the other relations, so that it neither keeps them alive nor confuses them with
    new objects at the same address.
    """
    first, *others = relations
    cache = first.plans.setdefault("fused, narrow", [])
    assert isinstance(cache, list)
    for references, plan in cache:
        if len(references) == len(others) and all(
            reference() is edges for reference, edges in zip(references, others, strict=True)
        ):
            assert isinstance(plan, NarrowPlan)
            return plan
    plan = _make_narrow_plan(list(relations))
    cache.insert(0, (tuple(map(weakref.ref, others)), plan))
    del cache[MAX_CACHED_PLANS:]
    return plan


def is_narrow(edges: Edges) -> bool:
    """Whether each node's sources are contiguous and near the node."""
    return edges.compute_once("fused, is narrow", _has_local_ranges)


def _has_local_ranges(edges: Edges) -> bool:
    if edges.num_sources != edges.num_destinations or edges.num_destinations == 0:
        return False
    if edges.num_edges > NARROW_KEYS * edges.num_destinations:
        return False
    bounds = _key_ranges(edges)
    return bounds is not None and bool(_bandwidth(*bounds) <= NARROW_KEYS)


def _key_ranges(edges: Edges) -> tuple[np.ndarray, np.ndarray] | None:
    """The ranges of the destinations' keys; None when keys are not contiguous."""
    if edges.ranges is not None:
        low, high = (bound.numpy().astype(np.int64, copy=False) for bound in edges.ranges)
        return low, high
    if edges.first_sources is None:
        return None
    degrees = np.diff(edges.indptr.numpy().astype(np.int64))
    low = np.where(degrees > 0, edges.first_sources.numpy(), 0).astype(np.int64)  # int32 cannot hold the sentinels
    return low, low + degrees


def _make_plan(edges: Edges) -> RangePlan | EdgePlan:
    starts = edges.indptr.numpy().astype(np.int64)
    bounds = _key_ranges(edges)
    plan = None if bounds is None else _plan_ranges(*bounds, starts)
    return plan if plan is not None else edge_plan_of(edges)


def _make_narrow_plan(relations: list[Edges]) -> NarrowPlan:
    lows, highs = np.zeros((2, len(relations), relations[0].num_destinations), np.int64)
    for number, edges in enumerate(relations):
        bounds = _key_ranges(edges)
        assert bounds is not None
        lows[number], highs[number] = bounds
    chunks, shared = _add_shared_keys(_cut_narrow_chunks(lows, highs, NARROW_ROWS))
    return NarrowPlan(chunks, shared, [edges.indptr for edges in relations], lows, highs)


@plan_kernel
def _bandwidth(low, high):  # type: ignore[no-untyped-def]
    """Twice the largest distance between a node and an end of its range, plus one."""
    widest = 1
    for i in range(len(low)):
        if high[i] > low[i]:
            widest = max(widest, 2 * max(abs(i - low[i]), abs(high[i] - 1 - i)) + 1)
    return widest


@plan_kernel
def _cut_narrow_chunks(lows, highs, size):  # type: ignore[no-untyped-def]
    """The first four columns of a :class:`NarrowPlan`'s chunks.

    Plain loops, because Numba takes seconds to compile assignments of slices and tuples.
    """
    relations, count = lows.shape
    begins, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    next_begin = np.empty(count + 1, np.int64)  # first key of this destination and later ones
    next_begin[count] = count
    for i in range(count - 1, -1, -1):
        begins[i], ends[i] = i, i + 1
        for relation in range(relations):
            if lows[relation, i] < highs[relation, i]:
                begins[i] = min(begins[i], lows[relation, i])
                ends[i] = max(ends[i], highs[relation, i])
        next_begin[i] = min(next_begin[i + 1], begins[i])
    chunks = np.empty((count // size + 1, 4), np.int64)
    number = first = last_end = 0
    low, high = count, 0  # keys of the chunk
    for i in range(1, count + 1):
        low, high = min(low, begins[i - 1]), max(high, ends[i - 1])
        last_end = max(last_end, high)
        shares_nothing = i == count or last_end <= next_begin[i]
        if i < count and (i - first < size or not shares_nothing) and i - first < 4 * size:
            continue
        chunks[number, 0], chunks[number, 1], chunks[number, 2], chunks[number, 3] = first, i, low, high
        number, first, low, high = number + 1, i, count, 0
    return chunks[:number]


@plan_kernel
def _find_runs(starts, indices, longest):  # type: ignore[no-untyped-def]
    """The largest range of consecutive sources of each destination, and the other edges in CSC form.

    Destinations with more than ``longest`` edges have no range.
    """
    count = len(starts) - 1
    low, high = np.zeros(count, indices.dtype), np.zeros(count, indices.dtype)
    pointers, rest = np.zeros_like(starts), np.empty_like(indices)
    number = 0
    for i in range(count):
        best_first = best_stop = first = starts[i]
        if starts[i + 1] - first <= longest:
            for slot in range(starts[i] + 1, starts[i + 1] + 1):
                if slot == starts[i + 1] or indices[slot] != indices[slot - 1] + 1:
                    if slot - first > best_stop - best_first:
                        best_first, best_stop = first, slot
                    first = slot
        if best_first < best_stop:
            low[i], high[i] = indices[best_first], indices[best_stop - 1] + 1
        for slot in range(starts[i], starts[i + 1]):
            if slot < best_first or slot >= best_stop:
                rest[number] = indices[slot]
                number += 1
        pointers[i + 1] = number
    return low, high, pointers, rest[:number].copy()


def _source_extents(starts: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N_dst,) smallest source of each destination and the one after its largest; both 0 without edges."""
    low, high = np.zeros((2, len(starts) - 1), np.int64)
    nonempty = np.flatnonzero(starts[1:] > starts[:-1])
    if len(nonempty):
        low[nonempty] = np.minimum.reduceat(indices, starts[nonempty])
        high[nonempty] = np.maximum.reduceat(indices, starts[nonempty]) + 1
    return low, high


def _running_extents(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N + 1,) the largest end of earlier nodes' ranges, and the smallest beginning of this and later nodes' ranges."""
    nonempty = high > low
    ends = np.maximum.accumulate(np.where(nonempty, high, 0))
    begins = np.minimum.accumulate(np.where(nonempty, low, np.iinfo(np.int64).max)[::-1])[::-1]
    return np.concatenate([[0], ends]), np.concatenate([begins, [np.iinfo(np.int64).max]])


def _find_cuts(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Cut points: no destination after one reads a key that one before it reads."""
    ends, begins = _running_extents(low, high)
    return np.flatnonzero(ends <= begins)


def _plan_ranges(low: np.ndarray, high: np.ndarray, starts: np.ndarray) -> RangePlan | None:
    """A plan whose chunks end with sentences, unless these are long; None when kernels for any edges are faster."""
    count = len(low)
    if count == 0:
        return None
    widest = int((high - low).max(initial=0))
    chunks, shared = _cut_into_chunks(low, high, min(max(CHUNK_ROWS, widest), 8 * CHUNK_ROWS))
    edges = int(starts[-1])
    if (chunks[:, 3] - chunks[:, 2]).sum() > 4 * (count + int(high.max(initial=0))) + edges // 8:
        return None  # consecutive destinations have keys far apart
    mean = edges / max(1, int((high > low).sum()))
    block = 8 if mean <= 48 else 16 if mean <= 160 else 32
    block_low, block_high = _union_between(low, high, np.unique(np.append(np.arange(0, count, block), count)))
    if block * (block_high - block_low).sum() > 8 * edges + 32 * block * len(block_low):
        return None
    return RangePlan(chunks, shared, low, high, starts, block)


def _cut_into_chunks(low: np.ndarray, high: np.ndarray, size: int) -> tuple[np.ndarray, int]:
    """The chunks of a plan, of about ``size`` destinations, and their number of shared keys.

    Cuts are moved to the end of the sentence if it is near.
    """
    count = len(low)
    cuts = np.arange(size, count, size)
    ends = _find_cuts(low, high)
    next_end = ends[np.clip(np.searchsorted(ends, cuts), 0, len(ends) - 1)]
    cuts = np.where(next_end - cuts < size // 2, next_end, cuts)
    cuts = np.unique(np.concatenate([[0], cuts, [count]]))
    chunks, shared = _add_shared_keys(np.stack([cuts[:-1], cuts[1:], *_union_between(low, high, cuts)], axis=1))
    return chunks, shared


@plan_kernel
def _add_shared_keys(chunks):  # type: ignore[no-untyped-def]
    """Add the last three columns to the chunks (C, 4) of a plan; also return the number of shared keys."""
    count = len(chunks)
    complete = np.empty((count, 7), np.int64)
    next_begin, last_end = np.iinfo(np.int64).max, 0
    for number in range(count - 1, -1, -1):
        begin, end = chunks[number, 2], chunks[number, 3]
        for column in range(4):
            complete[number, column] = chunks[number, column]
        complete[number, 5] = max(begin, min(end, next_begin))
        if begin < end:
            next_begin = min(next_begin, begin)
    shared = 0
    for number in range(count):
        begin, end = chunks[number, 2], chunks[number, 3]
        complete[number, 4] = max(begin, min(end, last_end))
        complete[number, 5] = max(complete[number, 4], complete[number, 5])
        complete[number, 6] = shared
        shared += end - begin - (complete[number, 5] - complete[number, 4])
        if begin < end:
            last_end = max(last_end, end)
    return complete, shared


def _union_between(low: np.ndarray, high: np.ndarray, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The union of the ranges between consecutive cut points; (0, 0) when it is empty."""
    if len(cuts) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    nonempty = high > low
    begin = np.minimum.reduceat(np.where(nonempty, low, np.iinfo(np.int64).max), cuts[:-1])
    end = np.maximum.reduceat(np.where(nonempty, high, 0), cuts[:-1])
    return np.where(end > 0, begin, 0), end
