"""What one call of backend ``fused`` computes: relations with their heads, and the sets of heads that go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from graphattn.backends.fused_plan import EdgePlan, NarrowPlan, RangePlan, is_narrow, narrow_plan, plan_of
from graphattn.edges import Edges


@dataclass
class Call:
    """What attention computes with, and what its backward pass needs to know; plain: neither bias nor weights."""

    edges: Sequence[Edges]
    heads: Sequence[int]
    scale: float
    dropout: float
    return_weights: bool = False
    plain: bool = False

    def __post_init__(self) -> None:
        self.seeds = np.zeros(sum(self.heads), np.uint32)
        if self.dropout:
            seeds = np.repeat(torch.randint(1 << 31, (len(self.edges),)).numpy(), self.heads)
            heads = np.concatenate([np.arange(1, count + 1) for count in self.heads])
            self.seeds[:] = (seeds ^ heads * 0x85EBCA6B) & 0xFFFFFFFF

    @cached_property
    def parts(self) -> list[Part]:
        """The heads, in sets that one kernel can take: all narrow relations together, each other one alone."""
        first = np.concatenate([[0], np.cumsum(self.heads)])
        own = [np.arange(first[number], first[number + 1]) for number in range(len(self.edges))]
        narrow = [number for number, edges in enumerate(self.edges) if self.plain and _is_in_reach(edges)]
        found = [
            Part(heads, plan_of(edges))
            for number, (edges, heads) in enumerate(zip(self.edges, own, strict=True))
            if number not in narrow
        ]
        if narrow:
            numbers, relation = [], 0
            for number in narrow:
                identity = self.edges[number].is_identity
                numbers += [-1 if identity else relation] * self.heads[number]
                relation += not identity
            plan = narrow_plan([self.edges[number] for number in narrow])
            found.insert(0, Part(np.concatenate([own[number] for number in narrow]), plan, np.array(numbers)))
        return found

    @cached_property
    def covers_everything(self) -> bool:
        """Whether the kernels write every number that will be read, so that none needs to be zero before."""
        return all(isinstance(part.plan, NarrowPlan) for part in self.parts)


def _is_in_reach(edges: Edges) -> bool:
    return edges.is_identity or is_narrow(edges)


class Part(NamedTuple):
    """Some heads, their plan and, in a narrow one, the relation of each, -1 for the identity."""

    heads: np.ndarray
    plan: NarrowPlan | RangePlan | EdgePlan
    which: np.ndarray | None = None

    @property
    def run(self) -> slice:
        """The heads as a slice, for those of one relation, which stand side by side."""
        return slice(int(self.heads[0]), int(self.heads[-1]) + 1)
