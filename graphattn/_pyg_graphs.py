"""Conversion from and to the graphs of PyTorch Geometric (PyG): ``HeteroData`` and ``Data``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.utils.weak import WeakTensorKeyDictionary

from graphattn._edges import Edges, RelationEdges
from graphattn._optional_packages import import_optional
from graphattn._schema import TOKEN, CanonicalRelation
from graphattn.exceptions import GraphError

if TYPE_CHECKING:
    from torch_geometric.data import Data, HeteroData


@torch.inference_mode(False)
def make_pyg(
    edges: Mapping[CanonicalRelation, Edges],
    batch_num_nodes: Mapping[str, Tensor],
    batch_num_edges: Mapping[CanonicalRelation, Tensor],
    node_features: Mapping[str, Mapping[str, Tensor]],
    edge_features: Mapping[CanonicalRelation, Mapping[str, Tensor]],
) -> HeteroData:
    """The ``Batch`` that PyG's ``Batch.from_data_list`` would make of the ``HeteroData`` of each text.

    Each node type has ``num_nodes``, ``batch`` (N,), ``ptr`` (B + 1,) and its features; each edge type has
    ``edge_index`` (2, E) and its features, by edge id. Counts (B,) are those of each text.
    """
    pyg = import_optional("torch_geometric", "to_pyg() needs", "pyg")
    graph = pyg.data.Batch(_base_cls=pyg.data.HeteroData)
    # what Batch.get_example reads: where each text begins in each tensor, and by how much its node ids were increased
    slices: dict[Any, dict[str, Tensor]] = {}
    increments: dict[Any, dict[str, Tensor | None]] = {}
    for node_type, counts in batch_num_nodes.items():
        graph._num_graphs = len(counts)
        store, features = graph[node_type], node_features.get(node_type, {})
        store.num_nodes, store._num_nodes = int(counts.sum()), counts.tolist()
        store.batch, store.ptr = torch.repeat_interleave(counts), _cumulate(counts)
        if not counts[-1:].all():  # Batch.from_data_list counts texts by the last node, or by the size of an Index
            store.batch = pyg.Index(store.batch, dim_size=len(counts))
        store.update(features)
        slices[node_type], increments[node_type] = dict.fromkeys(features, store.ptr), dict.fromkeys(features)
    for relation, relation_edges in edges.items():
        edge_index = torch.stack(relation_edges.ends_by_id())
        _cache_edges(edge_index, relation_edges)
        attributes = {"edge_index": edge_index, **edge_features.get(relation, {})}
        graph[relation].update(attributes)
        slices[relation] = dict.fromkeys(attributes, _cumulate(batch_num_edges[relation]))
        first_ids = torch.stack([graph[node_type].ptr[:-1] for node_type in (relation[0], relation[2])], 1)
        increments[relation] = {**dict.fromkeys(attributes), "edge_index": first_ids.unsqueeze(-1)}
    graph._slice_dict, graph._inc_dict = slices, increments
    return graph


def _cumulate(counts: Tensor) -> Tensor:
    """(B + 1,) sums of the counts before each text, and of all."""
    return pad(counts.cumsum(0), (1, 0))


class PyGBatch:
    """Reads a ``HeteroData`` as a :class:`~graphattn._edges.GraphBatch`.

    A ``Data`` has nodes of the type "token" and the relation "to", PyG's default name.
    """

    def __init__(self, graph: Data | HeteroData):
        self.graph: HeteroData = graph if hasattr(graph, "edge_types") else _name_types(graph)

    @property
    def edges(self) -> RelationEdges:
        """Canonical edge type -> its edges, cached until its ``edge_index`` changes."""
        return RelationEdges(self.graph.edge_types, self._read_edges)

    @property
    def node_features(self) -> dict[str, dict[str, Tensor]]:
        """Node type -> feature name -> (N, ...)."""
        return {node_type: _features(self.graph[node_type]) for node_type in self.graph.node_types}

    @property
    def edge_features(self) -> dict[CanonicalRelation, dict[str, Tensor]]:
        """Canonical edge type -> feature name -> (E, ...), by edge id."""
        return {relation: _features(self.graph[relation]) for relation in self.graph.edge_types}

    def num_nodes(self, node_type: str = TOKEN) -> int:
        """Nodes of a type."""
        count = self.graph[node_type].num_nodes if node_type in self.graph.node_types else None
        if count is None:
            raise GraphError(f"the number of nodes of type {node_type!r} is unknown; set their num_nodes")
        return int(count)

    def batch_num_nodes(self, node_type: str = TOKEN) -> Tensor:
        """(B,) nodes of a type in each graph of the batch; a graph without ``batch`` and ``ptr`` is a single one."""
        count, store = self.num_nodes(node_type), self.graph[node_type]
        if "batch" in store:  # ptr may be missing, or be that of the graph from which subgraph() made this one
            counts = torch.bincount(store.batch, minlength=max(map(_count_texts, self.graph.node_stores)))
            in_order = bool((store.batch[1:] >= store.batch[:-1]).all())
        else:
            counts = torch.diff(store.ptr) if "ptr" in store else torch.tensor([count])
            in_order = True
        if not in_order or int(counts.sum()) != count:
            raise GraphError(
                f"batch or ptr does not count the {count} nodes of type {node_type!r} text after text; sort the nodes "
                "by batch, or correct it"
            )
        return counts

    def _read_edges(self, relation: CanonicalRelation) -> Edges:
        edge_index: Tensor | None = self.graph[relation].get("edge_index")
        if edge_index is None:
            raise GraphError(f"the edges of relation {relation[1]!r} have no edge_index")
        shape = tuple(edge_index.shape)
        if len(shape) != 2 or shape[0] != 2 or edge_index.dtype not in (torch.int32, torch.int64):
            raise GraphError(
                f"edge_index of relation {relation[1]!r} is {edge_index.dtype} of shape {shape}; expected int64 of "
                "shape (2, edges), a row of sources and a row of destinations"
            )
        num_nodes = self.num_nodes(relation[0]), self.num_nodes(relation[2])
        edges: Edges | None
        edges, copy = _CACHE.get(edge_index, (None, None))
        pairs = _plain(edge_index)
        is_same = edges is not None and (edges.num_sources, edges.num_destinations) == num_nodes
        if edges is None or not is_same or pairs.device != copy.device or not pairs.equal(copy):
            sources, destinations = pairs.clamp(-1, _MOST).int()  # numbers beyond int32 stay out of range
            edges = Edges.of_pairs(sources, destinations, *num_nodes)
            _cache_edges(edge_index, edges)
        return edges


def _name_types(graph: Data) -> HeteroData:
    """A graph without types as one with types, with the same tensors."""
    from torch_geometric.data import HeteroData

    typed = HeteroData()
    node_attributes = {*graph.node_attrs(), *({"batch", "ptr"} & set(graph.keys()))}
    typed[TOKEN].update({name: graph[name] for name in node_attributes})
    typed[TOKEN].num_nodes = graph.num_nodes
    typed[TOKEN, "to", TOKEN].update({name: graph[name] for name in graph.edge_attrs()})
    return typed


def _count_texts(store: Any) -> int:
    """The number of texts that ``batch`` and ``ptr`` of a node type speak of."""
    batch = store.get("batch", torch.empty(0))
    last = int(batch.max()) if len(batch) else -1
    return max(last + 1, len(store.get("ptr", [0])) - 1, getattr(batch, "dim_size", None) or 0)


_MOST = torch.iinfo(torch.int32).max
_CACHE: Any = WeakTensorKeyDictionary()
"""``edge_index`` -> the edges read from it, and a copy: no version counts changes by NumPy or in inference mode."""


def _cache_edges(edge_index: Tensor, edges: Edges) -> None:
    _CACHE[edge_index] = edges, _plain(edge_index).clone()


def _plain(edge_index: Tensor) -> Tensor:
    """The tensor in an ``EdgeIndex``, which cannot be read in inference mode if it was made outside."""
    return edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index


def _features(store: Any) -> dict[str, Tensor]:
    """The tensors of a node or edge type, except those that describe the structure."""
    structure = ("batch", "ptr", "edge_index")
    return {name: value for name, value in store.items() if isinstance(value, Tensor) and name not in structure}
