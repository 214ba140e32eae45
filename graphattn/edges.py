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

    Raises
    ------
    GraphError
        when the types of ``indptr`` and ``indices`` differ or are others

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

    def __post_init__(self) -> None:
        types = self.indptr.dtype, self.indices.dtype
        if types not in ((torch.int32, torch.int32), (torch.int64, torch.int64)):
            raise GraphError(f"indptr is {types[0]} and indices {types[1]}; both must be int32, or both int64")

    @classmethod
    def of(cls, graph: DGLGraph, etype: str | CanonicalRelation | None = None) -> Edges:
        """Take one relation out of a DGL graph.

        Raises
        ------
        GraphError
            when the graph lacks the relation
        """
        relation = find_relation(graph.canonical_etypes, etype)
        formats = graph.formats()
        if "csc" not in (*formats["created"], *formats["not created"]):
            graph = graph.formats("csc")
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
        """(B,) sizes when the nodes fall into runs that are complete graphs (whole sentences); None otherwise.

        Edges must count in CSC order, ascending by source within each destination; else it is None too.
        """
        count = self.num_destinations
        if self.num_sources != count or self.num_edges < count or self.edge_ids is not None:
            return None
        degrees = self.indptr[1:] - self.indptr[:-1]
        if not bool((degrees > 0).all()):
            return None
        first = self.indices[self.indptr[:-1].long()]  # of each destination
        begins = first.new_ones(count, dtype=torch.bool)
        begins[1:] = first[1:] != first[:-1]
        starts = begins.nonzero().squeeze(1)
        sizes = torch.diff(starts, append=starts.new_tensor([count]))
        block = begins.long().cumsum(0) - 1
        if not (torch.equal(first.long(), starts[block]) and torch.equal(degrees.long(), sizes[block])):
            return None
        # in the type of the indices: complete graphs of long texts have hundreds of millions of edges
        slots = torch.arange(self.num_edges, dtype=first.dtype, device=first.device)
        shifts = torch.repeat_interleave(first - self.indptr[:-1], degrees, output_size=self.num_edges)
        return sizes if torch.equal(self.indices, slots.add_(shifts)) else None

    def to(self, device: torch.device | str) -> Edges:
        """The same edges on another device."""
        if self.indptr.device == torch.device(device):
            return self
        edge_ids = None if self.edge_ids is None else self.edge_ids.to(device)
        return Edges(self.indptr.to(device), self.indices.to(device), self.num_sources, edge_ids)

    def check(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> None:
        """Refuse tensors whose shapes, types or device do not fit the edges.

        Raises
        ------
        GraphError
            with what was expected and what came
        """
        for name, tensor, nodes in (
            ("query", query, self.num_destinations),
            ("key", key, self.num_sources),
            ("value", value, self.num_sources),
        ):
            if tensor.dim() != 3 or tensor.shape[0] != nodes or 0 in tensor.shape[1:]:
                raise GraphError(f"{name} has shape {tuple(tensor.shape)}; expected ({nodes}, heads, features)")
            self._check_kind(name, tensor, query.dtype)
        if query.shape[1:] != key.shape[1:] or value.shape[1] != key.shape[1]:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (query, key, value))
            raise GraphError(f"query, key and value have shapes {shapes}; heads and query/key features must agree")
        if bias is not None:
            if bias.shape != (self.num_edges, query.shape[1]):
                raise GraphError(f"bias has shape {tuple(bias.shape)}; expected ({self.num_edges}, {query.shape[1]})")
            self._check_kind("bias", bias, query.dtype)

    def _check_kind(self, name: str, tensor: Tensor, dtype: torch.dtype) -> None:
        if tensor.dtype != dtype or not dtype.is_floating_point:
            raise GraphError(f"{name} is {tensor.dtype}; query, key, value and bias must be of one floating-point type")
        if tensor.device != self.indptr.device:
            raise GraphError(f"{name} is on {tensor.device} and the edges on {self.indptr.device}; use edges.to(...)")


def _counts_up(ids: Tensor) -> bool:
    return ids.numel() == 0 or bool((ids == torch.arange(ids.numel(), dtype=ids.dtype, device=ids.device)).all())
