"""Nodes of several types with consecutive numbers, so that one attention head can use edges between any of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from graphattn._attention import attend
from graphattn._edges import Edges, Graph, as_batch
from graphattn._schema import CanonicalRelation


class JointNodes:
    """The nodes of a graph, numbered type after type.

    Examples
    --------
    >>> from graphattn.builders import Star, TextGraphBuilder
    >>> graph = TextGraphBuilder([Star()]).text_batch([["time", "flies"]])
    >>> nodes = JointNodes(graph, ["token", "relay"])
    >>> joint = nodes.edges([("token", "star", "relay"), ("relay", "star", "relay")])
    >>> joint.destinations.tolist(), joint.sources.tolist()
    ([3, 3, 3, 3], [0, 1, 2, 3])
    """

    def __init__(self, graph: Graph, node_types: Sequence[str], device: torch.device | str = "cpu"):
        self.graph, self.device = as_batch(graph), device
        self.counts = {node_type: self.graph.num_nodes(node_type) for node_type in node_types}
        self.offsets = dict(zip(node_types, [0, *accumulate(self.counts.values())], strict=False))

    @property
    def num_nodes(self) -> int:
        """Nodes of all types."""
        return sum(self.counts.values())

    def edges(self, relations: Sequence[CanonicalRelation]) -> Edges:
        """Several relations as one; edges of a destination are sorted by source type, then as in their relation.

        Edge ids number the first relation's edges in the order of its own ids, then the second's, and so on.
        """
        edges_by_relation = {relation: Edges.of(self.graph, relation) for relation in relations}
        degrees = torch.zeros(self.num_nodes, dtype=torch.int64)
        begins = {}  # of each relation's edges among those of their destination
        for relation in sorted(edges_by_relation, key=lambda relation: self.offsets[relation[0]]):
            target_degrees = degrees[self._slice(relation[2])]
            begins[relation] = target_degrees.clone()
            target_degrees += torch.diff(edges_by_relation[relation].indptr)
        indptr = torch.zeros(self.num_nodes + 1, dtype=torch.int64)
        torch.cumsum(degrees, 0, out=indptr[1:])
        count = int(indptr[-1])
        indices, edge_ids = torch.empty(count, dtype=torch.int32), torch.empty(count, dtype=torch.int64)
        first_id = 0
        for relation, edges in edges_by_relation.items():
            shifts = indptr[:-1][self._slice(relation[2])] + begins[relation] - edges.indptr[:-1]
            slots = torch.arange(edges.num_edges) + shifts[edges.destinations]
            indices[slots] = (edges.indices + self.offsets[relation[0]]).int()
            edge_ids[slots] = first_id + (torch.arange(edges.num_edges) if edges.edge_ids is None else edges.edge_ids)
            first_id += edges.num_edges
        in_order = torch.equal(edge_ids, torch.arange(count))
        joint = Edges(indptr.int(), indices, self.num_nodes, None if in_order else edge_ids, checked=True)
        return joint.to(self.device)

    def average_sources(self, relation: CanonicalRelation, values: Tensor) -> Tensor:
        """Average the values (N_src, D) of each destination's sources; zeros for a destination without sources."""
        edges = Edges.of(self.graph, relation).to(values.device)
        query, key = values.new_zeros(edges.num_destinations, 1, 1), values.new_zeros(edges.num_sources, 1, 1)
        return attend(edges, query, key, values.unsqueeze(1)).squeeze(1)

    def _slice(self, node_type: str) -> slice:
        return slice(self.offsets[node_type], self.offsets[node_type] + self.counts[node_type])
