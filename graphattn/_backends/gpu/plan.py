"""Arrays that the kernels of backend ``triton`` read, for all relations of a layer; :class:`Edges` cache them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from graphattn._edges import Edges

Plan = TypeVar("Plan", bound=tuple[Tensor, ...])


class RangePlan(NamedTuple):
    """Relations in which the keys of a destination are consecutive, and so are the destinations of a key."""

    low: Tensor  # (R, N_dst) int32, first key of each destination
    high: Tensor  # (R, N_dst) int32, the key after the last
    first: Tensor  # (R, N_dst) int64, number of each destination's first edge
    first_row: Tensor  # (R, N_src) int32, first destination of each key
    last_row: Tensor  # (R, N_src) int32, the destination after the last


class EdgePlan(NamedTuple):
    """Relations with edges in any order; the slots of one follow those of the one before."""

    pointers: Tensor  # (R, N_dst + 1) int64, first slot of each destination
    sources: Tensor  # (E of all,) int32
    starts: Tensor  # (R,) int64, first slot of each relation
    reverse_pointers: Tensor  # (R, N_src + 1) int64, first place of each source among the reversed edges
    destinations: Tensor  # (E of all,) int32, of the reversed edges
    slots: Tensor  # (E of all,) int64, number of each reversed edge within its relation


def find_ranges(edges: Edges) -> RangePlan | None:
    """The arrays of one relation, (1, ...) each; None unless its ranges rise."""
    return edges.compute_once("triton, ranges", _find_ranges)


def _find_ranges(edges: Edges) -> RangePlan | None:
    if edges.ranges is None:
        return None
    low, high = (ends.int() for ends in edges.ranges)
    if not bool(((low[1:] >= low[:-1]) & (high[1:] >= high[:-1])).all()):
        return None
    keys = torch.arange(edges.num_sources, device=low.device, dtype=torch.int32)
    first_row = torch.searchsorted(high, keys, right=True, out_int32=True)
    last_row = torch.searchsorted(low, keys, right=True, out_int32=True)
    return RangePlan(*(each[None].contiguous() for each in (low, high, edges.indptr[:-1].long(), first_row, last_row)))


def find_edges(edges: Edges) -> EdgePlan:
    """The arrays of one relation with any edges."""
    return edges.compute_once("triton, edges", _find_edges)


def _find_edges(edges: Edges) -> EdgePlan:
    reverse, slots = edges.reverse
    return EdgePlan(
        edges.indptr.long()[None],
        edges.indices.int(),
        edges.indptr.new_zeros(1).long(),
        reverse.indptr.long()[None],
        reverse.indices.int(),
        slots,
    )


def join_ranges(relations: Sequence[Edges]) -> RangePlan:
    """The arrays of relations between the same nodes, cached in the first one."""
    plans = [plan for each in relations if (plan := find_ranges(each)) is not None]
    if len(plans) == 1:
        return plans[0]
    return _cache("triton, joined ranges", relations, lambda: RangePlan(*(torch.cat(each) for each in zip(*plans))))


def join_edges(relations: Sequence[Edges]) -> EdgePlan:
    """:func:`join_ranges` for relations with any edges."""
    plans = [find_edges(each) for each in relations]
    return plans[0] if len(plans) == 1 else _cache("triton, joined edges", relations, lambda: _join_edges(plans))


def _join_edges(plans: Sequence[EdgePlan]) -> EdgePlan:
    sizes = torch.tensor([0, *(len(plan.sources) for plan in plans[:-1])])
    starts = sizes.cumsum(0).to(plans[0].starts.device)
    pointers, sources, _, reverse_pointers, destinations, slots = map(list, zip(*plans, strict=True))
    return EdgePlan(
        torch.cat(pointers) + starts[:, None],
        torch.cat(sources),
        starts,
        torch.cat(reverse_pointers) + starts[:, None],
        torch.cat(destinations),
        torch.cat(slots),
    )


def _cache(name: str, relations: Sequence[Edges], compute) -> Plan:  # type: ignore[no-untyped-def]
    """What was computed for exactly these relations; the cache does not keep the others alive."""
    key = (name, *(id(each) for each in relations))
    cached = relations[0].plans.get(key)
    if cached is None or any(reference() is not each for reference, each in zip(cached[0], relations)):
        with torch.inference_mode(False):
            cached = [weakref.ref(each) for each in relations], compute()
        relations[0].plans[key] = cached
    plan: Plan = cached[1]
    return plan
