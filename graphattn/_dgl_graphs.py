"""Conversion from and to DGL graphs, and DGL's file format. Only this module imports DGL, when it is needed."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphattn._edges import Edges, RelationEdges, is_arange
from graphattn._optional_packages import explain_import_error
from graphattn._schema import TOKEN, CanonicalRelation, find_node_type
from graphattn.exceptions import GraphError, MissingPackageError

if TYPE_CHECKING:
    from dgl import DGLGraph


def import_dgl() -> Any:
    """The module ``dgl``, with PyTorch as its backend and without LibXSMM, which crashes on some CPUs."""
    os.environ.setdefault("DGLBACKEND", "pytorch")  # else DGL prints a notice and writes into the home directory
    _replace_graphbolt()
    try:
        import dgl
    except ImportError as error:
        raise MissingPackageError(
            f"DGL graphs need the package dgl, which {explain_import_error(error, 'dgl')}; on Linux and macOS, install "
            "dgl 1.1.3 with Python 3.11, or dgl 2.1.0 with Python 3.12. Elsewhere, use the TextBatch of "
            "TextGraphBuilder.text_batch, or its to_pyg()"
        ) from error
    dgl.use_libxsmm(False)
    return dgl


def _replace_graphbolt() -> None:
    """Give DGL an empty ``graphbolt``, which we do not use, where it has no binary of it for this PyTorch.

    DGL 2 imports GraphBolt, its loader of mini-batches, and has binaries for PyTorch 2.0 to 2.2 only.
    """
    spec = find_spec("dgl")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "graphbolt"
        version = torch.__version__.partition("+")[0]
        if folder.is_dir() and not any(folder.glob(f"*graphbolt_pytorch_{version}.*")):
            sys.modules.setdefault("dgl.graphbolt", ModuleType("dgl.graphbolt"))


def make_graph(
    edges: Mapping[CanonicalRelation, Edges],
    batch_num_nodes: Mapping[str, Tensor],
    batch_num_edges: Mapping[CanonicalRelation, Tensor],
    node_features: Mapping[str, Mapping[str, Tensor]],
    edge_features: Mapping[CanonicalRelation, Mapping[str, Tensor]],
) -> DGLGraph:
    """One DGL graph in int32, equal to ``dgl.batch`` of the graph of each text, built without sorting.

    Counts (B,) are those of each text, edge features are ordered by edge id. ``attend`` uses the given edges for it.
    """
    graph: DGLGraph = import_dgl().heterograph(
        {name: ("csc", _int32_columns(relation)) for name, relation in edges.items()},
        num_nodes_dict={node_type: int(counts.sum()) for node_type, counts in batch_num_nodes.items()},
        idtype=torch.int32,
    )
    for node_type, features in node_features.items():
        graph.nodes[node_type].data.update(features)
    for relation, features in edge_features.items():
        graph.edges[relation].data.update(features)
    graph.set_batch_num_nodes({node_type: counts.int() for node_type, counts in batch_num_nodes.items()})
    graph.set_batch_num_edges({relation: counts.int() for relation, counts in batch_num_edges.items()})
    _edge_cache(graph).update(edges)
    return graph


def _int32_columns(edges: Edges) -> tuple[Tensor, Tensor, Tensor]:
    ids = edges.indptr.new_empty(0) if edges.edge_ids is None else edges.edge_ids
    return edges.indptr.int(), edges.indices.int(), ids.int()


def make_graph_in_edge_order(
    relations: Mapping[CanonicalRelation, tuple[Sequence[int], Sequence[int]]],
    num_nodes: Mapping[str, int],
    idtype: torch.dtype,
) -> DGLGraph:
    """One graph whose edge ids follow the order of the given sources and destinations."""
    ends = {
        relation: (torch.tensor(sources, dtype=idtype), torch.tensor(destinations, dtype=idtype))
        for relation, (sources, destinations) in relations.items()
    }
    return import_dgl().heterograph(ends, num_nodes_dict=dict(num_nodes), idtype=idtype)


class DGLBatch:
    """Reads a DGL graph as a :class:`~graphattn._edges.GraphBatch`; nodes without a type count as tokens."""

    def __init__(self, graph: DGLGraph):
        self.graph = graph

    @property
    def edges(self) -> RelationEdges:
        """Canonical edge type -> its edges, cached until the graph changes."""
        return RelationEdges(self.graph.canonical_etypes, self._read_edges)

    @property
    def node_features(self) -> dict[str, Mapping[str, Tensor]]:
        """Node type -> feature name -> (N, ...)."""
        return {node_type: self.graph.nodes[node_type].data for node_type in self.graph.ntypes}

    @property
    def edge_features(self) -> dict[CanonicalRelation, Mapping[str, Tensor]]:
        """Canonical edge type -> feature name -> (E, ...), by edge id."""
        return {relation: self.graph.edges[relation].data for relation in self.graph.canonical_etypes}

    def num_nodes(self, node_type: str = TOKEN) -> int:
        """Nodes of a type."""
        return int(self.graph.num_nodes(find_node_type(self.graph.ntypes, node_type)))

    def batch_num_nodes(self, node_type: str = TOKEN) -> Tensor:
        """(B,) nodes of a type in each graph of the batch."""
        return self.graph.batch_num_nodes(find_node_type(self.graph.ntypes, node_type))

    def _read_edges(self, relation: CanonicalRelation) -> Edges:
        cache = _edge_cache(self.graph)
        if relation not in cache:
            cache[relation] = _read_edges(self.graph, relation)
        return cache[relation]


_CACHES: dict[int, tuple[weakref.ref[Any], dict[CanonicalRelation, Edges]]] = {}


def _edge_cache(graph: DGLGraph) -> dict[CanonicalRelation, Edges]:
    """Relation -> edges already read from a DGL graph; emptied when the graph changes or is freed.

    The key is the id of the graph's inner index, which every in-place change replaces; the index is not hashable.
    """
    index = graph._graph
    key = id(index)
    if key not in _CACHES:
        _CACHES[key] = weakref.ref(index, lambda _: _CACHES.pop(key, None)), {}
    return _CACHES[key][1]


@torch.inference_mode(False)
def _read_edges(graph: DGLGraph, relation: CanonicalRelation) -> Edges:
    formats = graph.formats()
    if "csc" not in (*formats["created"], *formats["not created"]):
        graph = graph.formats("csc")
    indptr, indices, edge_ids = graph.adj_tensors("csc", etype=relation)
    in_order = is_arange(edge_ids)  # empty for a graph made from CSC arrays
    return Edges(indptr, indices, graph.num_src_nodes(relation[0]), None if in_order else edge_ids.long(), checked=True)


def save_graphs(graphs: Sequence[DGLGraph], path: str) -> None:
    """Write graphs in DGL's binary format (not a pickle), which ``dgl.load_graphs`` reads."""
    dgl = import_dgl()
    try:
        dgl.save_graphs(path, list(graphs))
        if graphs:
            dgl.load_graphs(path, [len(graphs) - 1])  # DGL does not report a full disk
    except dgl.DGLError as error:
        raise GraphError(f"{path} cannot be written. Check the folder and the space on the disk") from error
