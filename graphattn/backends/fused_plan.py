"""How backend ``fused`` divides the edges of a relation into tasks; worked out once for each :class:`Edges`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numba
import numpy as np

from graphattn.edges import Edges

RUN = 1 << 15
"""Edges of one task, about: small, so that no thread waits long for another."""

SHARED = "fused, shared"

CHUNK = 256
"""Destinations of one task where keys lie side by side, at least; as many as a row has keys where that is more."""


@dataclass(frozen=True)
class RangePlan:
    """Destinations whose keys lie side by side, along one relation or several between the same nodes.

    Parameters
    ----------
    lows, highs : (R, N_dst) int64, the keys of destination i along relation r are lows[r, i] to before highs[r, i]
    slots : (R, N_dst + 1) int64, first slot of each destination
    blocks : (R,) destinations that meet the keys at once, multiples of 8
    chunks : (C, 5) int64: first destination, the one after the last, first key, the one after the last, and the place
        of the chunk's keys among those that several chunks see, or -1 when no other chunk sees them
    shared : number of keys of all chunks that share some
    """

    lows: np.ndarray
    highs: np.ndarray
    slots: np.ndarray
    blocks: np.ndarray
    chunks: np.ndarray
    shared: int

    @cached_property
    def strip(self) -> int:
        """Largest number of keys of a chunk."""
        return int((self.chunks[:, 3] - self.chunks[:, 2]).max(initial=0))

    @cached_property
    def lines(self) -> int:
        """Largest number of destinations of a chunk."""
        return int((self.chunks[:, 1] - self.chunks[:, 0]).max(initial=0))


@dataclass(frozen=True)
class EdgePlan:
    """Any edges.

    Parameters
    ----------
    starts : (N_dst + 1,) int64, first slot of each destination
    indices : (E,) source of each slot
    """

    starts: np.ndarray
    indices: np.ndarray

    @cached_property
    def longest(self) -> int:
        """Largest number of edges into one destination."""
        return int(np.diff(self.starts).max(initial=1))

    @cached_property
    def runs(self) -> np.ndarray:
        """(R + 1,) int64: destinations at which runs with about :data:`RUN` edges begin."""
        marks = np.arange(0, int(self.starts[-1]) + 1, RUN)
        return np.unique(np.concatenate([np.searchsorted(self.starts[:-1], marks), [0, len(self.starts) - 1]]))

    @cached_property
    def separate_runs(self) -> np.ndarray:
        """Like ``runs``, joined until no source belongs to two."""
        low, high = _extent(self.starts, self.indices)
        places = self.runs
        return places[np.isin(places, _closed_places(low, high))] if len(places) > 2 else places


def plan_of(edges: Edges) -> RangePlan | EdgePlan:
    """The plan of a relation's edges, which keep it."""
    plan = edges.plans.get("fused")
    if plan is None:
        plan = edges.plans["fused"] = _make(edges)
    assert isinstance(plan, (RangePlan, EdgePlan))
    return plan


def _make(edges: Edges) -> RangePlan | EdgePlan:
    starts = edges.indptr.numpy().astype(np.int64)
    if edges.ranges is not None:
        low, high = (bound.numpy().astype(np.int64) for bound in edges.ranges)
    elif _side_by_side(starts, edges.indices.numpy()):
        degrees = np.diff(starts)
        low = np.zeros_like(degrees)
        low[degrees > 0] = edges.indices.numpy()[starts[:-1][degrees > 0]]
        high = low + degrees
    else:
        return EdgePlan(starts, edges.indices.numpy())
    plan = _in_chunks(low, high, starts)
    return plan if plan is not None else EdgePlan(starts, edges.indices.numpy())


@numba.njit(nogil=True, cache=True)
def _side_by_side(starts, indices):  # type: ignore[no-untyped-def]
    """Whether every destination's sources count up by one."""
    for i in range(len(starts) - 1):
        for slot in range(starts[i] + 1, starts[i + 1]):
            if indices[slot] != indices[slot - 1] + 1:
                return False
    return True


@numba.njit(nogil=True, cache=True)
def _extent(starts, indices):  # type: ignore[no-untyped-def]
    """(N_dst,) smallest source of each destination and the one after its largest; equal without edges."""
    low = np.zeros(len(starts) - 1, np.int64)
    high = np.zeros(len(starts) - 1, np.int64)
    for i in range(len(starts) - 1):
        for slot in range(starts[i], starts[i + 1]):
            j = indices[slot]
            if slot == starts[i]:
                low[i], high[i] = j, j + 1
            low[i], high[i] = min(low[i], j), max(high[i], j + 1)
    return low, high


def _outer(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(N + 1,) largest end of the destinations before each place, and smallest beginning of those from it on."""
    seen = high > low
    ends = np.maximum.accumulate(np.where(seen, high, 0))
    begins = np.minimum.accumulate(np.where(seen, low, np.iinfo(np.int64).max)[::-1])[::-1]
    return np.concatenate([[0], ends]), np.concatenate([begins, [np.iinfo(np.int64).max]])


def _closed_places(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Places between destinations, the ends included, where those before see earlier keys than those behind."""
    ends, begins = _outer(low, high)
    return np.flatnonzero(ends <= begins)


def _in_chunks(low: np.ndarray, high: np.ndarray, starts: np.ndarray) -> RangePlan | None:
    """Chunks between sentences where they are short, inside them where they are long; None when it would not pay."""
    count = len(low)
    if count == 0:
        return None
    widest = int((high - low).max(initial=0))
    chunks, shared = _chunks(low, high, min(max(CHUNK, widest), 8 * CHUNK), inside=True)
    edges = int(starts[-1])
    if (chunks[:, 3] - chunks[:, 2]).sum() > 4 * (count + int(high.max(initial=0))) + edges // 8:
        return None  # keys far apart from one destination to the next
    mean = edges / max(1, int((high > low).sum()))
    block = 8 if mean <= 48 else 16 if mean <= 160 else 32
    block_low, block_high = _joined(low, high, np.unique(np.append(np.arange(0, count, block), count)))
    if block * (block_high - block_low).sum() > 8 * edges + 32 * block * len(block_low):
        return None
    return RangePlan(low[None], high[None], starts[None], np.array([block]), chunks, shared)


def _chunks(low: np.ndarray, high: np.ndarray, size: int, *, inside: bool) -> tuple[np.ndarray, int]:
    """The chunks of a plan, of about ``size`` destinations, and the number of keys that they share.

    Cuts go between sentences that end near, or, where none does, inside them if they may.
    """
    count = len(low)
    marks = np.arange(size, count, size)
    closed = _closed_places(low, high)
    near = closed[np.clip(np.searchsorted(closed, marks), 0, len(closed) - 1)]
    marks = np.where(near - marks < size // 2, near, marks) if inside else near
    places = np.unique(np.concatenate([[0], marks, [count]]))
    begin, end = _joined(low, high, places)
    ends, begins = _outer(low, high)
    alone = (ends[places[:-1]] <= begin) & (end <= begins[places[1:]]) | (begin == end)
    lengths = np.where(alone, 0, end - begin)
    shared = np.where(alone, -1, np.cumsum(lengths) - lengths)
    chunks = np.stack([places[:-1], places[1:], begin, end, shared], axis=1)
    return np.ascontiguousarray(chunks), int(lengths.sum())


def shared_plan(relations: Sequence[Edges]) -> RangePlan | None:
    """One plan for relations between the same nodes that look at short ranges; None when there is none.

    Those that are the identity take part without ranges: the plan is about the others, in their order.
    """
    first, *others = relations
    key = (SHARED, *map(id, others))
    if key not in first.plans:
        first.plans[key] = _Shared(others, _share(relations))
    known = first.plans[key]
    assert isinstance(known, _Shared)
    return known.plan


class _Shared(NamedTuple):
    """A plan and the relations it is for beside the one that keeps it; they live as long, so nobody takes their ids."""

    others: list[Edges]
    plan: RangePlan | None


def _share(relations: Sequence[Edges]) -> RangePlan | None:
    plans = [plan_of(edges) for edges in relations if not edges.is_identity]
    ranges = [plan for plan in plans if isinstance(plan, RangePlan)]
    if not ranges or len(ranges) < len(plans):
        return None
    lows, highs = (np.concatenate(bounds) for bounds in zip(*((plan.lows, plan.highs) for plan in ranges), strict=True))
    seen = highs > lows
    own = np.arange(lows.shape[1])
    low = np.minimum(np.where(seen, lows, own).min(axis=0), own)
    high = np.maximum(np.where(seen, highs, 0).max(axis=0), own + 1)
    if int((high - low).max()) > CHUNK:
        return None
    chunks, _ = _chunks(low, high, CHUNK // 2, inside=False)
    if (chunks[:, 1] - chunks[:, 0]).max() > 2 * CHUNK:
        return None
    slots, blocks = (np.concatenate(own) for own in zip(*((plan.slots, plan.blocks) for plan in ranges), strict=True))
    return RangePlan(lows, highs, slots, blocks, chunks, 0)


def _joined(low: np.ndarray, high: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The keys that the destinations between two places see together; (0, 0) when they see none."""
    if len(places) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    seen = high > low
    begin = np.minimum.reduceat(np.where(seen, low, np.iinfo(np.int64).max), places[:-1])
    end = np.maximum.reduceat(np.where(seen, high, 0), places[:-1])
    return np.where(end > 0, begin, 0), end
