"""A batch of texts as tensors: nodes, features and the edges of each relation. Encoders and heads take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphattn._devices import copy_together, pack
from graphattn._edges import Edges
from graphattn._ragged import Ints, offsets_from_counts
from graphattn._schema import TOKEN, CanonicalRelation
from graphattn.exceptions import EdgeCountError

if TYPE_CHECKING:
    from dgl import DGLGraph
    from torch_geometric.data import HeteroData

MOST_EDGES = int(np.iinfo(np.int32).max)


@dataclass(frozen=True, eq=False)
class RelationArrays:
    """The edges of one relation for a whole batch of texts.

    Parameters
    ----------
    indptr : (N_dst + 1,) where the incoming edges of each destination begin
    indices : (E,) source nodes, ascending within a destination
    data : edge features, name -> (E, ...)
    """

    indptr: Ints
    indices: Ints
    data: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    @property
    def num_edges(self) -> int:
        """E, the number of edges."""
        return int(self.indices.shape[0])

    def to_edges(self, num_sources: int) -> Edges:
        """The same edges as int32 tensors; the arrays are not validated."""
        return Edges(int32_tensor(self.indptr), int32_tensor(self.indices), num_sources, checked=True)


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one type that a relation adds.

    Parameters
    ----------
    per_sentence : (B,) number of nodes in each sentence
    data : node features, name -> (M, ...)
    """

    per_sentence: Ints
    data: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class TextBatch:
    """A batch of B texts: nodes by type and the edges of each relation, numbered over the batch.

    :meth:`graphattn.builders.TextGraphBuilder.text_batch` makes one; :meth:`to_dgl` and :meth:`to_pyg` make the equal
    graphs of DGL and PyTorch Geometric. ``attend``, layers and encoders take all three. The functions ``edges_of``,
    ``features_of`` and ``lengths_of`` of :mod:`graphattn._edges` read from all.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> batch = TextGraphBuilder([Window(3)]).text_batch([["time", "flies"], ["go"]])
    >>> batch.batch_num_nodes().tolist(), batch.node_features["token"]["position"].tolist()
    ([3, 2], [0, 1, 2, 0, 1])
    >>> batch.edges["token", "window:3", "token"].num_edges
    11
    """

    node_counts: Mapping[str, Tensor]  # node type -> (B,) nodes of each text, int64
    edges: Mapping[CanonicalRelation, Edges]  # (source type, relation, target type) -> its edges
    # node type -> feature name -> (N, ...)
    node_features: Mapping[str, Mapping[str, Tensor]] = field(default_factory=dict)
    # (source type, relation, target type) -> feature name -> (E, ...), by edge id
    edge_features: Mapping[CanonicalRelation, Mapping[str, Tensor]] = field(default_factory=dict)

    def batch_num_nodes(self, node_type: str = TOKEN) -> Tensor:
        """(B,) nodes of a type in each text, int64."""
        return self.node_counts[node_type]

    def num_nodes(self, node_type: str = TOKEN) -> int:
        """Nodes of a type in the whole batch."""
        return int(self.node_counts[node_type].sum())

    def batch_num_edges(self, relation: CanonicalRelation) -> Tensor:
        """(B,) edges that arrive in each text."""
        counts, indptr = self.node_counts[relation[2]], self.edges[relation].indptr
        ends = counts.cumsum(0)
        return (indptr[ends] - indptr[ends - counts]).long()

    def remove_edges(self, relation: CanonicalRelation, ids: npt.ArrayLike) -> TextBatch:
        """A copy of the batch without some edges of a relation."""
        selected = torch.as_tensor(ids)
        edges = self.edges[relation]
        keep = torch.ones(edges.num_edges, dtype=torch.bool, device=edges.indptr.device)
        keep[selected if selected.dtype == torch.bool else selected.long()] = False
        slots = keep if edges.edge_ids is None else keep[edges.edge_ids]
        kept_before = torch.nn.functional.pad(slots.cumsum(0), (1, 0))
        indptr = kept_before[edges.indptr.long()].to(edges.indptr.dtype)
        new_ids = None if edges.edge_ids is None else (keep.cumsum(0) - 1)[edges.edge_ids[slots]]
        remaining = Edges(indptr, edges.indices[slots], edges.num_sources, new_ids, checked=True)
        features = {name: values[keep] for name, values in self.edge_features.get(relation, {}).items()}
        return replace(
            self,
            edges={**self.edges, relation: remaining},
            edge_features={**self.edge_features, relation: features},
        )

    def to(self, device: torch.device | str) -> TextBatch:
        """The batch with edges and features on another device.

        Counts stay on the CPU, as PyTorch's ``PackedSequence`` keeps its own: reading them there does not wait for a
        GPU.
        """
        target = torch.empty(0, device=device).device  # "cuda" is the current GPU
        copy_of = self.copy_arrays(target)
        return self._replace(lambda edges: edges.to(target), copy_of)

    def copy_arrays(self, device: torch.device, others: Sequence[Tensor] = ()) -> Callable[[Tensor], Tensor]:
        """Copy edges, their plans, features and other tensors to a device in one piece; returns the copy of each."""
        copy_of = copy_together([*self._arrays_for(device), *others], device)
        for edges in self.edges.values():
            edges.add_copy(device, copy_of)
        return copy_of

    def pin_memory(self) -> TextBatch:
        """The batch in one piece of pinned memory, with a GPU's plans, for a ``DataLoader(pin_memory=True)``."""
        arrays = self._arrays_for(torch.device("cuda"))
        pinned = dict(zip(map(id, arrays), pack(arrays), strict=True))

        def pin(array: Tensor) -> Tensor:
            return pinned[id(array)]

        return self._replace(lambda edges: edges.convert(pin), pin)

    def _arrays_for(self, device: torch.device) -> list[Tensor]:
        arrays = [array for edges in self.edges.values() for array in edges.arrays_for(device)]
        return arrays + self.list_features()

    def list_features(self) -> list[Tensor]:
        """All features of nodes and edges."""
        types = *self.node_features.values(), *self.edge_features.values()
        return [rows for named in types for rows in named.values()]

    def _replace(self, edges_of: Callable[[Edges], Edges], rows_of: Callable[[Tensor], Tensor]) -> TextBatch:
        def replace_features(features: Mapping[Any, Mapping[str, Tensor]]) -> dict[Any, dict[str, Tensor]]:
            return {
                node_type: {name: rows_of(rows) for name, rows in named.items()}
                for node_type, named in features.items()
            }

        return replace(
            self,
            edges={relation: edges_of(edges) for relation, edges in self.edges.items()},
            node_features=replace_features(self.node_features),
            edge_features=replace_features(self.edge_features),
        )

    def to_dgl(self) -> DGLGraph:
        """The DGL graph with the same nodes, edges and features, in int32; it shares their memory."""
        from graphattn._dgl_graphs import make_graph

        batch_num_edges = {relation: self.batch_num_edges(relation) for relation in self.edges}
        return make_graph(self.edges, self.node_counts, batch_num_edges, self.node_features, self.edge_features)

    def to_pyg(self) -> HeteroData:
        """The ``Batch`` of PyTorch Geometric with a ``HeteroData`` of the nodes, edges and features of each text."""
        from graphattn._pyg_graphs import make_pyg

        batch_num_edges = {relation: self.batch_num_edges(relation) for relation in self.edges}
        return make_pyg(self.edges, self.node_counts, batch_num_edges, self.node_features, self.edge_features)


def indptr_from_degrees(name: str, degrees: Ints) -> Ints:
    """(N + 1,) first edge of each destination, from its (N,) number of edges; errors have the relation's name."""
    indptr = offsets_from_counts(degrees)
    check_edge_count(name, int(indptr[-1]))
    return indptr


def check_edge_count(name: str, count: int) -> None:
    """Raise when a relation has more edges than int32 can number; relations call it before they write their edges."""
    if count > MOST_EDGES:
        raise EdgeCountError(
            f"relation {name!r} has {count:,} edges; one graph holds up to {MOST_EDGES:,}",
            "Use smaller batches or narrower relations",
        )


def range_edges(first: Ints, stop: Ints, num_sources: int, name: str) -> Edges:
    """Edges from all sources from ``first[i]`` to before ``stop[i]`` to destination ``i``.

    ``first`` and ``stop`` are (N_dst,), as :meth:`graphattn.builders.relations.RangeRelation.bounds` returns them.
    Errors name the relation.
    """
    indptr = int32_tensor(indptr_from_degrees(name, stop - first))
    return Edges.from_valid_ranges(int32_tensor(first), int32_tensor(stop), num_sources, indptr, int(indptr[-1]))


def int32_tensor(values: Ints) -> Tensor:
    """An array as an int32 tensor; it shares the memory of an int32 array."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.int32))
