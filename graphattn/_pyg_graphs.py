"""Conversion from and to the graphs of PyTorch Geometric (PyG): ``HeteroData`` and ``Data``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from graphattn._edges import Edges, RelationEdges
from graphattn._optional_packages import import_optional
from graphattn._schema import TOKEN, CanonicalRelation
from graphattn._untyped_graphs import cache_edges, check_index, edges_of_index, edges_of_matrix
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
        cache_edges(edge_index, relation_edges)
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
        texts = {name: len(each.ptr) - 1 for name, each in self.graph.node_items() if "ptr" in each}
        if len({*texts.values()}) > 1:  # Batch.from_data_list leaves out texts that lack a type, and shifts later ones
            shown = ", ".join(f"{number} of type {name!r}" for name, number in texts.items())
            raise GraphError(f"ptr counts {shown} texts; give each text all node types, some with num_nodes=0")
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
        store = self.graph[relation]
        edge_index: Tensor | None = store.get("edge_index")
        if edge_index is not None:
            check_index(edge_index, f"edge_index of relation {relation[1]!r}")
            return edges_of_index(edge_index, (self.num_nodes(relation[0]), self.num_nodes(relation[2])))
        if "adj_t" not in store:
            raise GraphError(f"the edges of relation {relation[1]!r} have no edge_index and no adj_t")
        return edges_of_matrix(store.adj_t)


def _name_types(graph: Data) -> HeteroData:
    """A graph without types as one with types, with the same tensors."""
    from torch_geometric.data import HeteroData

    typed = HeteroData()
    node_attributes = {*graph.node_attrs(), *({"batch", "ptr"} & set(graph.keys()))} - {"adj_t"}
    typed[TOKEN].update({name: graph[name] for name in node_attributes})
    typed[TOKEN].num_nodes = graph.num_nodes
    edge_attributes = {*graph.edge_attrs(), *({"adj_t"} & set(graph.keys()))}
    typed[TOKEN, "to", TOKEN].update({name: graph[name] for name in edge_attributes})
    return typed


def _count_texts(store: Any) -> int:
    """The number of texts that ``batch`` and ``ptr`` of a node type speak of."""
    batch = store.get("batch", torch.empty(0))
    last = int(batch.max()) if len(batch) else -1
    return max(last + 1, len(store.get("ptr", [0])) - 1, getattr(batch, "dim_size", None) or 0)


def _features(store: Any) -> dict[str, Tensor]:
    """The tensors of a node or edge type, except those that describe the structure."""
    structure = ("batch", "ptr", "edge_index", "adj_t")
    return {name: value for name, value in store.items() if isinstance(value, Tensor) and name not in structure}
