"""Which heads of a call the kernels of backend ``fused`` compute together, and along which plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from graphattn._backends.call import Span
from graphattn._backends.cpu.plan import EdgePlan, NarrowPlan, RangePlan, is_narrow, narrow_plan, plan_of, split_runs
from graphattn._distances import Distances


@dataclass
class KernelCall:
    """What the kernels compute, for the forward and the backward pass."""

    spans: Sequence[Span]  # the heads of each relation
    scale: float
    dropout: float
    plain: bool  # without bias, and weights need no gradients
    # whether other edges of a relation may be computed apart from those with contiguous keys, by ``others``
    splits: bool = False
    distances: Distances | None = None  # of biases by distance

    def __post_init__(self) -> None:
        counts = [span.num_heads for span in self.spans]
        self.num_heads = sum(counts)
        self.seeds = np.zeros(self.num_heads, np.uint32)
        if self.dropout:
            seeds = np.repeat(torch.randint(1 << 31, (len(counts),), device="cpu").numpy(), counts)
            heads = np.concatenate([np.arange(1, count + 1) for count in counts])
            self.seeds[:] = (seeds ^ heads * 0x85EBCA6B) & 0xFFFFFFFF
        self.computed = [span for span in self.spans if span.num_heads and not span.copies]
        self.copied = [span for span in self.spans if span.num_heads and span.copies]
        self.num_nodes = self.spans[0].edges.num_destinations
        """N_dst; tensors may have more rows, to pad them."""
        self.num_edges = sum(span.num_heads * span.edges.num_edges for span in self.computed)
        """Number of weights, those of all heads that kernels compute."""

    @cached_property
    def weight_starts(self) -> np.ndarray:
        """(H + 1,) where the weights of each head begin in the array for all heads; copying heads have none."""
        sizes = [0 if span.copies else span.edges.num_edges for span in self.spans]
        return np.concatenate([[0], np.cumsum(np.repeat(sizes, [span.num_heads for span in self.spans]))])

    @cached_property
    def groups(self) -> list[KernelGroup]:
        """Heads for one kernel each: all narrow relations together, every other relation separately."""
        groups, narrow = [], []
        for span in self.computed:
            split = split_runs(span.edges) if self.splits else None
            if split is not None:
                groups.append(KernelGroup(_numbers(span.heads), _numbers(span.scored), plan_of(split[0])))
            elif self.plain and is_narrow(span.edges):
                narrow.append(span)
            else:
                groups.append(KernelGroup(_numbers(span.heads), _numbers(span.scored), plan_of(span.edges)))
        return [_merge_narrow(narrow), *groups] if narrow else groups

    @cached_property
    def others(self) -> list[OtherEdges]:
        """The edges that ``groups`` leave out."""
        others = []
        for edges, heads, scored, *_ in self.computed if self.splits else ():
            if scored is not None and (split := split_runs(edges)) is not None:
                alone = slice(0, heads.stop - heads.start)
                call = KernelCall([Span(split[1], alone, alone)], self.scale, self.dropout, plain=False)
                others.append(OtherEdges(heads, scored, call))
        return others

    @cached_property
    def covers_everything(self) -> bool:
        """Whether the kernels write all numbers of the results, so that memory need not be zeroed."""
        return all(isinstance(group.plan, NarrowPlan) for group in self.groups)


class KernelGroup(NamedTuple):
    """Heads that a kernel computes together, and their plan."""

    heads: np.ndarray  # (K,) numbers of the heads
    scored: np.ndarray  # (K,) columns among the queries and the keys
    plan: NarrowPlan | RangePlan | EdgePlan
    relations: np.ndarray | None = None  # (K,) relation of each head in a narrow plan


class OtherEdges(NamedTuple):
    """Edges whose keys are not contiguous: the heads, their columns among queries and keys, and a call for them."""

    heads: slice
    scored: slice
    call: KernelCall


def _merge_narrow(narrow: Sequence[Span]) -> KernelGroup:
    heads, scored = (
        _numbers(*columns) for columns in ([span.heads for span in narrow], [span.scored for span in narrow])
    )
    relations = np.array([number for number, span in enumerate(narrow) for _ in range(span.num_heads)])
    return KernelGroup(heads, scored, narrow_plan([span.edges for span in narrow]), relations)


def _numbers(*columns: slice | None) -> np.ndarray:
    """(K,) int64."""
    return np.array([number for each in columns if each is not None for number in range(each.start, each.stop)])
