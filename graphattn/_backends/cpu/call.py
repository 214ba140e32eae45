"""One call of backend ``fused``: its relations and heads, and which heads a kernel computes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from graphattn._backends.cpu.plan import EdgePlan, NarrowPlan, RangePlan, is_narrow, narrow_plan, plan_of, split_runs
from graphattn._edges import Edges


@dataclass
class Call:
    """Options of one attention call, for the forward and the backward pass."""

    edges: Sequence[Edges]  # the relations
    heads: Sequence[int]  # number of heads of each relation
    scale: float  # factor of the products, as in :func:`graphattn.attend`
    dropout: float  # as in :func:`graphattn.attend`
    plain: bool  # without bias, and weights need no gradients
    compact: bool = False  # heads on identity relations have only values, no queries and keys
    # whether other edges of a relation may be computed apart from those with contiguous keys, by ``others``
    splits: bool = False

    def __post_init__(self) -> None:
        self.seeds = np.zeros(sum(self.heads), np.uint32)
        if self.dropout:
            seeds = np.repeat(torch.randint(1 << 31, (len(self.edges),), device="cpu").numpy(), self.heads)
            heads = np.concatenate([np.arange(1, count + 1) for count in self.heads])
            self.seeds[:] = (seeds ^ heads * 0x85EBCA6B) & 0xFFFFFFFF

    @cached_property
    def scored(self) -> int:
        """Number of heads that have queries and keys."""
        return sum(count for edges, count in zip(self.edges, self.heads, strict=True) if not self._omits(edges))

    @cached_property
    def weight_starts(self) -> np.ndarray:
        """(H + 1,) where the weights of each head begin in the array for all heads."""
        sizes = np.repeat([edges.num_edges for edges in self.edges], self.heads)
        return np.concatenate([[0], np.cumsum(sizes)])

    def _omits(self, edges: Edges) -> bool:
        return self.compact and edges.is_identity

    @cached_property
    def _heads_of_relations(self) -> list[tuple[Edges, slice, slice]]:
        """(edges, their heads, their heads among those with scores) of each relation with heads."""
        spans, first_head, first_scored = [], 0, 0
        for edges, count in zip(self.edges, self.heads, strict=True):
            end, scored_end = first_head + count, first_scored + (0 if self._omits(edges) else count)
            if count:
                spans.append((edges, slice(first_head, end), slice(first_scored, scored_end)))
            first_head, first_scored = end, scored_end
        return spans

    @cached_property
    def groups(self) -> list[HeadGroup]:
        """Heads for one kernel each: all narrow relations together, every other relation separately."""
        groups, narrow = [], []
        for edges, span, scored_span in self._heads_of_relations:
            heads, scored = np.arange(span.start, span.stop), np.arange(scored_span.start, scored_span.stop)
            if not len(scored):
                scored = np.full(len(heads), -1)
            split = split_runs(edges) if self.splits else None
            if split is not None:
                groups.append(HeadGroup(heads, scored, plan_of(split[0])))
            elif self.plain and (edges.is_identity or is_narrow(edges)):
                narrow.append((edges, heads, scored))
            else:
                groups.append(HeadGroup(heads, scored, plan_of(edges)))
        return [_merge_narrow(narrow), *groups] if narrow else groups

    @cached_property
    def others(self) -> list[OtherEdges]:
        """The edges that ``groups`` leave out."""
        others = []
        for edges, heads, scored in self._heads_of_relations if self.splits else ():
            if (split := split_runs(edges)) is not None:
                call = Call([split[1]], [heads.stop - heads.start], self.scale, self.dropout, plain=False)
                others.append(OtherEdges(heads, scored, call))
        return others

    @cached_property
    def covers_everything(self) -> bool:
        """Whether the kernels write all numbers of the results, so that memory need not be zeroed."""
        return all(isinstance(group.plan, NarrowPlan) for group in self.groups)


class HeadGroup(NamedTuple):
    """Heads that a kernel computes together, and their plan."""

    heads: np.ndarray  # (K,) numbers of the heads
    scored: np.ndarray  # (K,) numbers among the heads with queries and keys, -1 for heads without
    plan: NarrowPlan | RangePlan | EdgePlan  # how to compute them
    relations: np.ndarray | None = None  # (K,) relation of each head in a narrow plan, -1 for the identity


class OtherEdges(NamedTuple):
    """Edges whose keys are not contiguous: the heads and their numbers among the scored ones, and a call for them."""

    heads: slice
    scored: slice
    call: Call


def _merge_narrow(narrow: Sequence[tuple[Edges, np.ndarray, np.ndarray]]) -> HeadGroup:
    relations, heads, scored = zip(*narrow, strict=True)
    relation_of_head, number = [], 0
    for edges, relation_heads in zip(relations, heads, strict=True):
        relation_of_head += [-1 if edges.is_identity else number] * len(relation_heads)
        number += not edges.is_identity
    plan = narrow_plan(relations)
    return HeadGroup(np.concatenate(heads), np.concatenate(scored), plan, np.array(relation_of_head))
