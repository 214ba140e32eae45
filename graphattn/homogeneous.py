"""Nodes of several types in one row, so that one attention head reaches over edges between any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphattn.attention import attend
from graphattn.edges import Edges
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph


@dataclass(frozen=True, eq=False)
class JointEdges:
    """Edges of one or more relations between joint nodes, as if they were one relation.

    Parameters
    ----------
    edges : all of them; their ids count relation after relation, in each in the order of its own ids
    counts : relation -> how many of them it has
    """

    edges: Edges
    counts: dict[CanonicalRelation, int]

    def split(self, values: Tensor) -> dict[CanonicalRelation, Tensor]:
        """(E, ...) values of all edges, by id, as those of each relation, in the order of its edge ids."""
        return dict(zip(self.counts, values.split(list(self.counts.values())), strict=True))


class JointNodes:
    """The nodes of a graph, type after type.

    Parameters
    ----------
    graph : stays where it is
    kinds : node types, in the order in which they are put
    device : where the edges are wanted

    Examples
    --------
    >>> from graphattn.builders import Star, TextGraphBuilder
    >>> graph = TextGraphBuilder([Star()]).build(["time", "flies"])
    >>> nodes = JointNodes(graph, ["token", "relay"])
    >>> joint = nodes.edges([("token", "star", "relay"), ("relay", "star", "relay")])
    >>> joint.edges.destinations.tolist(), joint.edges.sources.tolist()
    ([3, 3, 3, 3], [0, 1, 2, 3])
    """

    def __init__(self, graph: DGLGraph, kinds: Sequence[str], device: torch.device | str = "cpu"):
        self.graph, self.device = graph, device
        self.counts = {kind: graph.num_nodes(kind) for kind in kinds}
        self.offsets = dict(zip(kinds, [0, *accumulate(self.counts.values())], strict=False))

    @property
    def num_nodes(self) -> int:
        """All of them."""
        return sum(self.counts.values())

    def edges(self, relations: Sequence[CanonicalRelation]) -> JointEdges:
        """The edges of some relations, each destination's together, by source type and then as in their relation.

        Raises
        ------
        GraphError
            when the graph lacks a relation
        """
        parts = {relation: Edges.of(self.graph, relation) for relation in relations}
        degrees = torch.zeros(self.num_nodes, dtype=torch.int64)
        begins = {}  # of each relation's edges among those of their destination
        for relation in sorted(parts, key=lambda relation: self.offsets[relation[0]]):
            own = degrees[self._slice(relation[2])]
            begins[relation] = own.clone()
            own += torch.diff(parts[relation].indptr)
        indptr = torch.zeros(self.num_nodes + 1, dtype=torch.int64)
        torch.cumsum(degrees, 0, out=indptr[1:])
        count = int(indptr[-1])
        indices, edge_ids = torch.empty(count, dtype=torch.int32), torch.empty(count, dtype=torch.int64)
        first_id = 0
        for relation, part in parts.items():
            shifts = indptr[:-1][self._slice(relation[2])] + begins[relation] - part.indptr[:-1]
            slots = torch.arange(part.num_edges) + shifts[part.destinations]
            indices[slots] = (part.indices + self.offsets[relation[0]]).int()
            own_ids = torch.arange(part.num_edges) if part.edge_ids is None else part.edge_ids
            edge_ids[slots] = own_ids + first_id
            first_id += part.num_edges
        in_order = bool((edge_ids == torch.arange(first_id)).all())
        joint = Edges(indptr.int(), indices, self.num_nodes, None if in_order else edge_ids, checked=True).to(
            self.device
        )
        return JointEdges(joint, {relation: part.num_edges for relation, part in parts.items()})

    def averages(self, relation: CanonicalRelation, values: Tensor) -> Tensor:
        """For each destination of a relation the mean of its sources' values; zeros where there are none.

        Parameters
        ----------
        relation : canonical edge type
        values : (N_src, D)

        Returns
        -------
        (N_dst, D)
        """
        edges = Edges.of(self.graph, relation).to(values.device)
        query, key = values.new_zeros(edges.num_destinations, 1, 1), values.new_zeros(edges.num_sources, 1, 1)
        return attend(edges, query, key, values.unsqueeze(1)).squeeze(1)

    def _slice(self, kind: str) -> slice:
        return slice(self.offsets[kind], self.offsets[kind] + self.counts[kind])
