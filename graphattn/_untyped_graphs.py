"""Graphs without names: ``Edges``, an ``edge_index``, sparse matrices of PyTorch, SciPy and PyTorch Geometric (PyG).

The rows of a sparse matrix A are destinations and its columns sources, as in the product A x and PyG's ``adj_t``; its
values are not read. The rows of an ``edge_index`` are sources and destinations, as in PyG. Edge ids count columns of an
``edge_index``, and entries of a matrix in the order in which it stores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from graphattn._edges import Edges
from graphattn._schema import ONLY, TOKEN, CanonicalRelation
from graphattn.exceptions import GraphError

_MOST = torch.iinfo(torch.int32).max
_CACHE: Any = WeakTensorKeyDictionary()
"""``edge_index`` -> the edges read from it, and a copy: no version counts changes by NumPy or in inference mode."""


class UntypedBatch:
    """Reads a graph without names as a :class:`~graphattn._edges.GraphBatch` of one text with one relation.

    ``num_nodes`` are N_src and N_dst, which an ``edge_index`` does not tell.
    """

    def __init__(self, graph: Any, num_nodes: tuple[int, int] | None = None):
        self._edges = graph if isinstance(graph, Edges) else _read(graph, num_nodes)

    @property
    def edges(self) -> dict[CanonicalRelation, Edges]:
        """The only relation, which layers and encoders may call as they like."""
        return {(TOKEN, ONLY, TOKEN): self._edges}

    @property
    def node_features(self) -> Mapping[str, Mapping[str, Tensor]]:
        """None."""
        return {TOKEN: {}}

    @property
    def edge_features(self) -> Mapping[CanonicalRelation, Mapping[str, Tensor]]:
        """None."""
        return {}

    def num_nodes(self, node_type: str = TOKEN) -> int:
        """Nodes that have a row in the output."""
        return self._edges.num_destinations

    def batch_num_nodes(self, node_type: str = TOKEN) -> Tensor:
        """(1,) number of nodes."""
        return torch.tensor([self.num_nodes()])


def _read(graph: Any, num_nodes: tuple[int, int] | None) -> Edges:
    """The edges of an ``edge_index`` or a sparse matrix."""
    if isinstance(graph, Tensor) and graph.layout == torch.strided:
        check_index(graph, "edge_index")
        if num_nodes is None:
            raise GraphError(
                "an edge_index does not tell the number of nodes; give num_nodes=(sources, destinations) to Edges.of"
            )
        return edges_of_index(graph, num_nodes)
    return edges_of_matrix(graph)


def check_index(edge_index: Tensor, name: str) -> None:
    """Raise a GraphError unless a tensor is an ``edge_index``, which the message calls by a name."""
    shape = tuple(edge_index.shape)
    if len(shape) != 2 or shape[0] != 2 or edge_index.dtype not in (torch.int32, torch.int64):
        raise GraphError(
            f"{name} is {edge_index.dtype} of shape {shape}; expected int64 of shape (2, edges), a row of sources and "
            "a row of destinations, or a sparse matrix of shape (destinations, sources)"
        )


def edges_of_index(edge_index: Tensor, num_nodes: tuple[int, int]) -> Edges:
    """The edges of an ``edge_index`` (2, E) between N_src and N_dst nodes, cached until it changes."""
    edges: Edges | None
    edges, copy = _CACHE.get(edge_index, (None, None))
    pairs = plain_index(edge_index)
    is_same = edges is not None and (edges.num_sources, edges.num_destinations) == num_nodes
    if edges is None or not is_same or pairs.device != copy.device or not pairs.equal(copy):
        edges = _pair_up(pairs[0], pairs[1], num_nodes)
        cache_edges(edge_index, edges)
    return edges


def cache_edges(edge_index: Tensor, edges: Edges) -> None:
    """Keep the edges of an ``edge_index`` while it lives."""
    _CACHE[edge_index] = edges, plain_index(edge_index).clone()


def plain_index(edge_index: Tensor) -> Tensor:
    """The tensor in an ``EdgeIndex``, which cannot be read in inference mode if it was made outside."""
    return edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index


def edges_of_matrix(matrix: Any) -> Edges:
    """The edges of a sparse matrix (N_dst, N_src): of PyTorch, SciPy, or PyG's ``SparseTensor``."""
    if hasattr(matrix, "sparse_sizes"):
        destinations, sources, _ = matrix.coo()
        shape = matrix.sparse_sizes()
    elif isinstance(matrix, Tensor):
        destinations, sources = _list_entries(matrix.detach())
        shape = matrix.shape
    else:
        stored, shape = matrix.tocoo(), matrix.shape
        if len(shape) == 2:
            destinations, sources = (torch.from_numpy(each.astype("int64")) for each in (stored.row, stored.col))
    if len(shape) != 2:
        raise GraphError(f"the sparse matrix has shape {tuple(shape)}; expected (destinations, sources)")
    return _pair_up(sources, destinations, (int(shape[1]), int(shape[0])))


def _list_entries(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(E,) rows and (E,) columns of the entries of a tensor, in the order in which it stores them."""
    if matrix.layout == torch.sparse_csc:
        columns = torch.arange(matrix.shape[-1], device=matrix.device)
        return matrix.row_indices(), torch.repeat_interleave(columns, matrix.ccol_indices().diff())
    entries = matrix.to_sparse_coo()._indices()  # the public method takes coalesced tensors only
    return entries[0], entries[-1]


def _pair_up(sources: Tensor, destinations: Tensor, num_nodes: tuple[int, int]) -> Edges:
    sources, destinations = (ends.clamp(-1, _MOST).int() for ends in (sources, destinations))  # stay out of range
    return Edges.of_pairs(sources, destinations, *num_nodes)
