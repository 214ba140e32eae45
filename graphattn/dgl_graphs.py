"""Making DGL graphs from arrays: the door through which everything above the ground floor gets its graphs.

DGL is loaded when the first graph is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from graphattn.exceptions import EdgeCountError, GraphError
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph

Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class RelationArrays:
    """The edges of one relation for a whole batch of sentences.

    Parameters
    ----------
    indptr : (N_dst + 1,) where the incoming edges of each destination begin
    indices : (E,) source nodes, ascending within a destination
    per_sentence : (B,) number of edges in each sentence
    data : edge features, name -> (E, ...)
    """

    indptr: Ints
    indices: Ints
    per_sentence: Ints
    data: Mapping[str, npt.NDArray] = field(default_factory=dict)

    @property
    def num_edges(self) -> int:
        """E, the number of edges."""
        return int(self.indices.shape[0])


class RangeArrays(RelationArrays):
    """Edges from neighbouring sources: only the ends of each range are kept, ``indices`` are written out when needed.

    Parameters
    ----------
    first : (N_dst,) first source of each destination
    stop : (N_dst,) the one after its last
    per_sentence : (B,) number of edges in each sentence

    Examples
    --------
    >>> RangeArrays(np.array([0, 0]), np.array([1, 2]), np.array([3])).indices
    array([0, 0, 1], dtype=int32)
    """

    def __init__(self, first: Ints, stop: Ints, per_sentence: Ints):
        indptr = np.concatenate([[0], np.cumsum(stop - first)])
        own = {"first": first, "stop": stop, "indptr": indptr, "per_sentence": per_sentence, "data": {}}
        vars(self).update(own)  # the class it stands for is frozen

    first: Ints
    stop: Ints

    @cached_property
    def indices(self) -> Ints:
        """(E,) source nodes, int32."""
        shift = (self.first - self.indptr[:-1]).astype(np.int32)
        return np.arange(self.num_edges, dtype=np.int32) + np.repeat(shift, self.stop - self.first)

    @property
    def num_edges(self) -> int:
        """E, the number of edges."""
        return int(self.indptr[-1])


def make_graph(
    relations: Mapping[CanonicalRelation, RelationArrays],
    nodes_per_sentence: Mapping[str, Ints],
    node_data: Mapping[str, Mapping[str, npt.NDArray]],
) -> DGLGraph:
    """One batched graph, built directly from CSC arrays in int32: no sorting, no union of small graphs.

    Parameters
    ----------
    relations : canonical edge type -> its arrays
    nodes_per_sentence : node type -> (B,) counts
    node_data : node type -> feature name -> (N, ...)

    Returns
    -------
    A graph equal to ``dgl.batch`` of the sentences' graphs; edge ids count in CSC order.

    Raises
    ------
    GraphError
        when a relation has more edges than 32 bits can count, or arrays that do not describe edges between the nodes
    """
    check_relations(relations, nodes_per_sentence)
    return graph_of_checked(relations, nodes_per_sentence, node_data)


def graph_of_checked(
    relations: Mapping[CanonicalRelation, RelationArrays],
    nodes_per_sentence: Mapping[str, Ints],
    node_data: Mapping[str, Mapping[str, npt.NDArray]],
) -> DGLGraph:
    """:func:`make_graph` of arrays that :func:`check_relations` has let pass."""
    from graphattn.dgl_import import dgl

    graph = dgl.heterograph(
        {
            relation: ("csc", (as_int32(arrays.indptr), as_int32(arrays.indices), torch.empty(0, dtype=torch.int32)))
            for relation, arrays in relations.items()
        },
        num_nodes_dict={kind: int(counts.sum()) for kind, counts in nodes_per_sentence.items()},
        idtype=torch.int32,
    )
    for kind, features in node_data.items():
        for name, values in features.items():
            graph.nodes[kind].data[name] = torch.tensor(values)  # a copy: many graphs may be made from the same columns
    for relation, arrays in relations.items():
        for name, values in arrays.data.items():
            graph.edges[relation].data[name] = torch.from_numpy(values)
    graph.set_batch_num_nodes({kind: as_int32(counts) for kind, counts in nodes_per_sentence.items()})
    graph.set_batch_num_edges({relation: as_int32(arrays.per_sentence) for relation, arrays in relations.items()})
    return graph


def check_relations(
    relations: Mapping[CanonicalRelation, RelationArrays], nodes_per_sentence: Mapping[str, Ints]
) -> None:
    """Refuse arrays from which no graph can be made; parameters and errors are those of :func:`make_graph`."""
    num_nodes = {kind: int(counts.sum()) for kind, counts in nodes_per_sentence.items()}
    for (source, name, target), arrays in relations.items():
        check_edge_count(name, arrays.num_edges)
        _check_arrays(name, arrays, num_nodes[source], num_nodes[target])


def check_edge_count(name: str, count: int) -> None:
    """Refuse more edges than one graph can number; relations ask before they write their edges out.

    Raises
    ------
    EdgeCountError
        when 32 bits are too few
    """
    if count > np.iinfo(np.int32).max:
        raise EdgeCountError(
            f"relation {name!r} has {count:,} edges; one graph holds up to {np.iinfo(np.int32).max:,}. "
            "Use smaller batches or narrower relations"
        )


def _check_arrays(name: str, arrays: RelationArrays, num_sources: int, num_destinations: int) -> None:
    """Refuse arrays on which DGL would read beyond their ends or stop without naming the relation."""
    indptr, count = arrays.indptr, arrays.num_edges
    if indptr.shape != (num_destinations + 1,):
        raise GraphError(f"relation {name!r}: indptr has shape {indptr.shape}; expected ({num_destinations + 1},)")
    if indptr[0] != 0 or indptr[-1] != count or (indptr[1:] < indptr[:-1]).any():
        raise GraphError(f"relation {name!r}: indptr must rise from 0 to the number of edges, {count}")
    ends = (arrays.first, arrays.stop - 1) if isinstance(arrays, RangeArrays) else (arrays.indices, arrays.indices)
    if count and not (ends[0].min() >= 0 and ends[1].max() < num_sources):
        raise GraphError(f"relation {name!r}: indices must be from 0 to {num_sources - 1}, the source nodes")
    if arrays.per_sentence.sum() != count:
        raise GraphError(
            f"relation {name!r}: per_sentence adds up to {arrays.per_sentence.sum()}, not to {count} edges"
        )
    for feature, values in arrays.data.items():
        if values.shape[:1] != (count,):
            raise GraphError(
                f"relation {name!r}: {feature!r} has shape {values.shape}; expected one row per edge, {count}"
            )


def make_graph_in_edge_order(
    relations: Mapping[CanonicalRelation, tuple[Sequence[int], Sequence[int]]],
    num_nodes: Mapping[str, int],
    idtype: torch.dtype,
) -> DGLGraph:
    """One graph whose edge ids count in the order in which the edges are given, wherever they lead.

    Parameters
    ----------
    relations : canonical edge type -> sources and destinations
    num_nodes : node type -> how many
    idtype : ``torch.int32`` or ``torch.int64``
    """
    from graphattn.dgl_import import dgl

    ends = {
        relation: (torch.tensor(sources, dtype=idtype), torch.tensor(destinations, dtype=idtype))
        for relation, (sources, destinations) in relations.items()
    }
    return dgl.heterograph(ends, num_nodes_dict=dict(num_nodes), idtype=idtype)


def lengths_of(graph: DGLGraph, node_type: str) -> torch.Tensor:
    """(B,) number of nodes of a type in each sentence of a batched graph, int64."""
    return graph.batch_num_nodes(node_type).long()


def save_graphs(graphs: Sequence[DGLGraph], path: str) -> None:
    """Write graphs in DGL's own binary format (not a pickle); plain DGL reads them with ``dgl.load_graphs``.

    Raises
    ------
    GraphError
        when the file cannot be written
    """
    from graphattn.dgl_import import dgl

    try:
        dgl.save_graphs(path, list(graphs))
        if graphs:
            dgl.load_graphs(path, [len(graphs) - 1])  # DGL does not notice when the last bytes find no room
    except dgl.DGLError as error:
        raise GraphError(f"{path} cannot be written. Check the folder and the space on the disk") from error


def load_graphs(path: str) -> list[DGLGraph]:
    """Read graphs that :func:`save_graphs` wrote.

    Raises
    ------
    GraphError
        when the file is missing, or is none of these
    """
    from graphattn.dgl_import import dgl

    try:
        return dgl.load_graphs(path)[0]
    except dgl.DGLError as error:
        raise GraphError(f"{path} cannot be read as graphs. Give a file that save_graphs or build wrote") from error


def as_int32(values: Ints) -> torch.Tensor:
    """An array as the tensor of int32 that DGL and the kernels take; the same memory where it is that already."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32))
