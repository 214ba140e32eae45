"""Conversion from and to ``HeteroData``, the graphs of PyTorch Geometric (PyG)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from graphattn.edges import Edges, GraphBatch, RelationEdges
from graphattn.exceptions import GraphError
from graphattn.optional_packages import import_optional
from graphattn.schema import TOKEN, CanonicalRelation

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData


@torch.inference_mode(False)
def make_pyg(batch: GraphBatch) -> HeteroData:
    """The ``HeteroData`` with the same nodes, edges and features, as PyG's ``Batch`` would collate single graphs.

    Each node type has ``num_nodes``, ``batch`` (N,), ``ptr`` (B + 1,) and its features; each edge type has
    ``edge_index`` (2, E) and its features, by edge id.

    Raises
    ------
    MissingPackageError
        when PyTorch Geometric is not installed
    """
    graph = import_optional("torch_geometric.data", "to_pyg() needs", "pyg").HeteroData()
    for kind, features in batch.node_features.items():
        counts = batch.batch_num_nodes(kind)
        store = graph[kind]
        store.num_nodes = batch.num_nodes(kind)
        store.batch = torch.repeat_interleave(counts)
        store.ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        store.update(features)
    for relation, edges in batch.edges.items():
        edge_index = torch.stack(edges.ends_by_id())
        graph[relation].edge_index = edge_index
        _CACHE[edge_index] = _cache_key(edge_index, edges.num_sources, edges.num_destinations), edges
        graph[relation].update(batch.edge_features.get(relation, {}))
    return graph


class PyGBatch:
    """Reads a ``HeteroData`` as a :class:`~graphattn.edges.GraphBatch`."""

    def __init__(self, graph: HeteroData):
        self.graph = graph

    @property
    def edges(self) -> RelationEdges:
        """Canonical edge type -> its edges, cached until its ``edge_index`` changes."""
        return RelationEdges(self.graph.edge_types, self._read_edges)

    @property
    def node_features(self) -> dict[str, dict[str, Tensor]]:
        """Node type -> feature name -> (N, ...)."""
        return {kind: _features(self.graph[kind]) for kind in self.graph.node_types}

    @property
    def edge_features(self) -> dict[CanonicalRelation, dict[str, Tensor]]:
        """Canonical edge type -> feature name -> (E, ...), by edge id."""
        return {relation: _features(self.graph[relation]) for relation in self.graph.edge_types}

    def num_nodes(self, node_type: str = TOKEN) -> int:
        """Nodes of a type."""
        return int(self.graph[node_type].num_nodes)

    def batch_num_nodes(self, node_type: str = TOKEN) -> Tensor:
        """(B,) nodes of a type in each graph of the batch; a graph without ``ptr`` is a single one."""
        store = self.graph[node_type]
        return torch.diff(store.ptr) if "ptr" in store else torch.tensor([self.num_nodes(node_type)])

    def _read_edges(self, relation: CanonicalRelation) -> Edges:
        edge_index: Tensor | None = self.graph[relation].get("edge_index")
        if edge_index is None:
            raise GraphError(f"the edges of relation {relation[1]!r} have no edge_index")
        num_nodes = self.num_nodes(relation[0]), self.num_nodes(relation[2])
        key = _cache_key(edge_index, *num_nodes)
        cached: tuple[Any, Edges] | None = _CACHE.get(edge_index)
        if cached is None or cached[0] != key:
            sources, destinations = edge_index.int()
            _CACHE[edge_index] = cached = key, Edges.of_pairs(sources, destinations, *num_nodes)
        return cached[1]


def _cache_key(edge_index: Tensor, num_sources: int, num_destinations: int) -> tuple[int, int, int]:
    """A tensor made in inference mode has no version."""
    return 0 if edge_index.is_inference() else edge_index._version, num_sources, num_destinations


_CACHE: Any = WeakTensorKeyDictionary()
"""``edge_index`` -> the edges read from it, with its version, which every in-place change increases."""


def _features(store: Any) -> dict[str, Tensor]:
    """The tensors of a node or edge type, except those that describe the structure."""
    structure = ("batch", "ptr", "edge_index")
    return {name: value for name, value in store.items() if isinstance(value, Tensor) and name not in structure}
