"""Conversion to DGL graphs, and DGL's file format. Only this module imports DGL, when it is needed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graphattn.edges import Edges, edge_cache
from graphattn.exceptions import GraphError
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph


def import_dgl() -> Any:
    """The module ``dgl``, with PyTorch as its backend and without LibXSMM, which crashes on some CPUs."""
    os.environ.setdefault("DGLBACKEND", "pytorch")  # else DGL prints a notice and writes into the home directory
    import dgl

    dgl.use_libxsmm(False)
    return dgl


def make_graph(
    edges: Mapping[CanonicalRelation, Edges],
    batch_num_nodes: Mapping[str, Tensor],
    batch_num_edges: Mapping[CanonicalRelation, Tensor],
    node_features: Mapping[str, Mapping[str, Tensor]],
    edge_features: Mapping[CanonicalRelation, Mapping[str, Tensor]],
) -> DGLGraph:
    """One batched DGL graph in int32, built from compressed columns without sorting.

    Parameters
    ----------
    edges : canonical edge type -> its edges
    batch_num_nodes : node type -> (B,) counts
    batch_num_edges : canonical edge type -> (B,) counts
    node_features : node type -> feature name -> (N, ...)
    edge_features : canonical edge type -> feature name -> (E, ...), by edge id

    Returns
    -------
    A graph equal to ``dgl.batch`` of the single graphs; ``attend`` uses the given edges for it.
    """
    graph: DGLGraph = import_dgl().heterograph(
        {name: ("csc", _int32_columns(relation)) for name, relation in edges.items()},
        num_nodes_dict={kind: int(counts.sum()) for kind, counts in batch_num_nodes.items()},
        idtype=torch.int32,
    )
    for kind, features in node_features.items():
        graph.nodes[kind].data.update(features)
    for relation, features in edge_features.items():
        graph.edges[relation].data.update(features)
    graph.set_batch_num_nodes({kind: counts.int() for kind, counts in batch_num_nodes.items()})
    graph.set_batch_num_edges({relation: counts.int() for relation, counts in batch_num_edges.items()})
    edge_cache(graph).update(edges)
    return graph


def _int32_columns(edges: Edges) -> tuple[Tensor, Tensor, Tensor]:
    ids = edges.indptr.new_empty(0) if edges.edge_ids is None else edges.edge_ids
    return edges.indptr.int(), edges.indices.int(), ids.int()


def make_graph_in_edge_order(
    relations: Mapping[CanonicalRelation, tuple[Sequence[int], Sequence[int]]],
    num_nodes: Mapping[str, int],
    idtype: torch.dtype,
) -> DGLGraph:
    """One graph whose edge ids follow the order of the given edges.

    Parameters
    ----------
    relations : canonical edge type -> sources and destinations
    num_nodes : node type -> number of nodes
    idtype : ``torch.int32`` or ``torch.int64``
    """
    ends = {
        relation: (torch.tensor(sources, dtype=idtype), torch.tensor(destinations, dtype=idtype))
        for relation, (sources, destinations) in relations.items()
    }
    graph: DGLGraph = import_dgl().heterograph(ends, num_nodes_dict=dict(num_nodes), idtype=idtype)
    return graph


def save_graphs(graphs: Sequence[DGLGraph], path: str) -> None:
    """Write graphs in DGL's binary format (not a pickle), which ``dgl.load_graphs`` reads.

    Raises
    ------
    GraphError
        when the file cannot be written
    """
    dgl = import_dgl()
    try:
        dgl.save_graphs(path, list(graphs))
        if graphs:
            dgl.load_graphs(path, [len(graphs) - 1])  # DGL does not report a full disk
    except dgl.DGLError as error:
        raise GraphError(f"{path} cannot be written. Check the folder and the space on the disk") from error


def load_graphs(path: str) -> list[DGLGraph]:
    """Read graphs that :func:`save_graphs` wrote.

    Raises
    ------
    GraphError
        when the file is missing or has another format
    """
    dgl = import_dgl()
    try:
        graphs: list[DGLGraph] = dgl.load_graphs(path)[0]
        return graphs
    except dgl.DGLError as error:
        raise GraphError(f"{path} cannot be read as graphs. Give a file that save_graphs or build wrote") from error
