"""One relation of a graph as plain tensors: what attention backends see below DGL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphattn.exceptions import GraphError
from graphattn.schema import CanonicalRelation, find_relation

if TYPE_CHECKING:
    from dgl import DGLGraph


@dataclass(frozen=True, eq=False)
class Edges:
    """The incoming edges of every destination, in compressed sparse column form.

    The sources of destination ``i`` are ``indices[indptr[i]:indptr[i + 1]]``; a place in ``indices`` is a slot.

    Parameters
    ----------
    indptr : (N_dst + 1,) int32 or int64, starts at 0, never decreases
    indices : (E,) source of each edge, same type as ``indptr``
    num_sources : N_src
    edge_ids : (E,) id of the edge in each slot, for a graph whose ids do not count in CSC order; None when they do

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2)
    >>> edges.num_edges, edges.destinations.tolist()
    (2, [0, 0])
    """

    indptr: Tensor
    indices: Tensor
    num_sources: int
    edge_ids: Tensor | None = None

    @classmethod
    def of(cls, graph: DGLGraph, etype: str | CanonicalRelation | None = None) -> Edges:
        """Take one relation out of a DGL graph.

        Raises
        ------
        GraphError
            when the graph lacks the relation
        """
        relation = find_relation(graph.canonical_etypes, etype)
        indptr, indices, edge_ids = graph.adj_tensors("csc", etype=relation)
        in_order = _counts_up(edge_ids)  # DGL returns no ids at all for a graph made from CSC arrays
        return cls(indptr, indices, graph.num_nodes(relation[0]), None if in_order else edge_ids.long())

    @property
    def num_edges(self) -> int:
        """E, the number of edges."""
        return int(self.indices.shape[0])

    @property
    def num_destinations(self) -> int:
        """N_dst, the number of nodes that receive."""
        return int(self.indptr.shape[0]) - 1

    @cached_property
    def destinations(self) -> Tensor:
        """(E,) destination of each edge, in CSC order, int64."""
        degrees = (self.indptr[1:] - self.indptr[:-1]).long()
        nodes = torch.arange(self.num_destinations, device=self.indptr.device)
        return torch.repeat_interleave(nodes, degrees, output_size=self.num_edges)

    @cached_property
    def sources(self) -> Tensor:
        """(E,) source of each edge, in CSC order, int64."""
        return self.indices.long()

    @cached_property
    def is_identity(self) -> bool:
        """Whether every node has exactly one incoming edge, from itself (a window of width 1)."""
        count = self.num_destinations
        if self.num_edges != count or self.num_sources != count:
            return False
        return _counts_up(self.indptr) and _counts_up(self.indices)

    @cached_property
    def blocks(self) -> Tensor | None:
        """(B,) sizes when the nodes fall into runs that are complete graphs (whole sentences); None otherwise."""
        count = self.num_destinations
        if self.num_sources != count or self.num_edges < count or self.edge_ids is not None:
            return None
        degrees = (self.indptr[1:] - self.indptr[:-1]).long()
        if not bool((degrees > 0).all()):
            return None
        first = self.sources[self.indptr[:-1].long()]  # of each destination
        begins = first.new_ones(count, dtype=torch.bool)
        begins[1:] = first[1:] != first[:-1]
        starts = begins.nonzero().squeeze(1)
        sizes = torch.diff(starts, append=starts.new_tensor([count]))
        block = begins.long().cumsum(0) - 1
        if not (torch.equal(first, starts[block]) and torch.equal(degrees, sizes[block])):
            return None
        places = torch.arange(self.num_edges, device=first.device) - self.indptr[:-1].long()[self.destinations]
        return sizes if torch.equal(self.sources, first[self.destinations] + places) else None

    def to(self, device: torch.device | str) -> Edges:
        """The same edges on another device."""
        if self.indptr.device == torch.device(device):
            return self
        edge_ids = None if self.edge_ids is None else self.edge_ids.to(device)
        return Edges(self.indptr.to(device), self.indices.to(device), self.num_sources, edge_ids)

    def check(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> None:
        """Refuse tensors whose shapes do not fit the edges.

        Raises
        ------
        GraphError
            with the shapes that were expected and that came
        """
        for name, tensor, nodes in (
            ("query", query, self.num_destinations),
            ("key", key, self.num_sources),
            ("value", value, self.num_sources),
        ):
            if tensor.dim() != 3 or tensor.shape[0] != nodes:
                raise GraphError(f"{name} has shape {tuple(tensor.shape)}; expected ({nodes}, heads, features)")
        if query.shape[1:] != key.shape[1:] or value.shape[1] != key.shape[1]:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (query, key, value))
            raise GraphError(f"query, key and value have shapes {shapes}; heads and query/key features must agree")
        if bias is not None and bias.shape != (self.num_edges, query.shape[1]):
            raise GraphError(f"bias has shape {tuple(bias.shape)}; expected ({self.num_edges}, {query.shape[1]})")


def _counts_up(ids: Tensor) -> bool:
    return ids.numel() == 0 or bool((ids == torch.arange(ids.numel(), dtype=ids.dtype, device=ids.device)).all())
