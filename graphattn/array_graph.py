"""A batch's graph as plain arrays: it answers what models ask of a DGL graph, and DGL makes the graph for all else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphattn.dgl_graphs import Ints, RangeArrays, RelationArrays, as_int32, check_relations, graph_of_checked
from graphattn.edges import Edges
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph


class ArrayGraph:
    """The graph of a batch, as :func:`~graphattn.dgl_graphs.make_graph` makes it, made when it is needed.

    Edges, node features and lengths of sentences are read off the arrays; to make a DGL graph and take them out of it
    again costs more than a model's pass over one short sentence. Every other attribute is the DGL graph's own.

    Parameters
    ----------
    relations : canonical edge type -> its arrays
    nodes_per_sentence : node type -> (B,) counts
    node_data : node type -> feature name -> (N, ...)

    Raises
    ------
    GraphError
        when a relation has more edges than 32 bits can count, or arrays that do not describe edges between the nodes
    """

    def __init__(
        self,
        relations: Mapping[CanonicalRelation, RelationArrays],
        nodes_per_sentence: Mapping[str, Ints],
        node_data: Mapping[str, Mapping[str, npt.NDArray]],
    ):
        check_relations(relations, nodes_per_sentence)
        self._relations, self._nodes_per_sentence, self._node_data = relations, nodes_per_sentence, node_data

    @cached_property
    def dgl(self) -> DGLGraph:
        """The DGL graph; changes to its features do not reach the arrays."""
        return graph_of_checked(self._relations, self._nodes_per_sentence, self._node_data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and pickling ask before there are any arrays
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.dgl, name)

    @property
    def canonical_etypes(self) -> list[CanonicalRelation]:
        """Triples of source type, relation and target type."""
        return list(self._relations)

    @property
    def nodes(self) -> Any:
        """``nodes[kind].data[name]`` are the features of the nodes of a kind; a call lists nodes, as DGL's does."""
        return self.dgl.nodes if "dgl" in vars(self) else _NodeView(self)

    @cached_property
    def node_data(self) -> dict[str, dict[str, Tensor]]:
        """Node type -> feature name -> (N, ...)."""
        kinds = {kind: self._node_data.get(kind, {}) for kind in self._nodes_per_sentence}
        return {kind: {name: torch.tensor(own) for name, own in data.items()} for kind, data in kinds.items()}

    def num_nodes(self, ntype: str | None = None) -> int:
        """Nodes of a kind, or all."""
        kinds = self._nodes_per_sentence if ntype is None else [ntype]
        return sum(int(self._nodes_per_sentence[kind].sum()) for kind in kinds)

    def batch_num_nodes(self, ntype: str) -> Tensor:
        """(B,) nodes of a kind in each sentence."""
        return as_int32(self._nodes_per_sentence[ntype])

    def formats(self, *wanted: Any) -> Any:
        """Which formats the edges are in; with arguments a DGL graph in other ones."""
        return self.dgl.formats(*wanted) if wanted else {"created": ["csc"], "not created": []}

    def adj_tensors(self, fmt: str, etype: CanonicalRelation | str | None = None) -> tuple[Tensor, ...]:
        """The edges of a relation; in ``csc`` those of the arrays, with no ids since they count in that order."""
        if fmt != "csc" or etype not in self._relations:
            return self.dgl.adj_tensors(fmt, etype=etype)
        arrays = self._relations[etype]  # type: ignore[index]
        return as_int32(arrays.indptr), as_int32(arrays.indices), torch.empty(0, dtype=torch.int32)

    def take_edges(self, relation: CanonicalRelation) -> Edges:
        """The edges of one relation; ranges stay ranges."""
        arrays = self._relations[relation]
        num_sources = int(self._nodes_per_sentence[relation[0]].sum())
        if isinstance(arrays, RangeArrays):
            low, high, indptr = (torch.as_tensor(own) for own in (arrays.first, arrays.stop, arrays.indptr))
            return Edges.of_ranges(low.int(), high.int(), num_sources, indptr=indptr)
        return Edges(as_int32(arrays.indptr), as_int32(arrays.indices), num_sources, checked=True)

    def without_edges(self, relation: CanonicalRelation, ids: npt.NDArray) -> ArrayGraph:
        """The same graph without some edges of a relation.

        Parameters
        ----------
        relation : canonical edge type
        ids : of the edges to leave out
        """
        arrays = self._relations[relation]
        kept = np.ones(arrays.num_edges, dtype=bool)
        kept[ids] = False
        left = np.concatenate([[0], np.cumsum(kept)])  # edges that are left before each edge
        sentences = np.repeat(np.arange(len(arrays.per_sentence)), arrays.per_sentence)
        remaining = RelationArrays(
            left[arrays.indptr],
            arrays.indices[kept],
            np.bincount(sentences[kept], minlength=len(arrays.per_sentence)),
            {name: values[kept] for name, values in arrays.data.items()},
        )
        return ArrayGraph({**self._relations, relation: remaining}, self._nodes_per_sentence, self._node_data)


class _NodeView:
    """What ``graph.nodes`` is as long as only features are read."""

    def __init__(self, graph: ArrayGraph):
        self.graph = graph

    def __getitem__(self, kind: str) -> Any:
        return SimpleNamespace(data=_Features(self.graph, kind))

    def __call__(self, *arguments: Any) -> Tensor:
        return self.graph.dgl.nodes(*arguments)


class _Features(Mapping[str, Tensor]):
    """The features of one kind of nodes; new ones go to the DGL graph, which answers from then on."""

    def __init__(self, graph: ArrayGraph, kind: str):
        self.graph, self.kind, self.own = graph, kind, graph.node_data[kind]

    def __getitem__(self, name: str) -> Tensor:
        return self.own[name]

    def __setitem__(self, name: str, values: Tensor) -> None:
        self.graph.dgl.nodes[self.kind].data[name] = values

    def __iter__(self) -> Any:
        return iter(self.own)

    def __len__(self) -> int:
        return len(self.own)
