"""The edges of one relation as plain tensors; reading edges, node features and lengths from graphs of any type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

import torch
from torch import Tensor
from typing_extensions import override

from graphattn._devices import copy_together
from graphattn._schema import ONLY, CanonicalRelation, find_node_type, find_relation, is_nameless
from graphattn._transforms import opaque
from graphattn.exceptions import GraphError

if TYPE_CHECKING:
    from dgl import DGLGraph
    from scipy.sparse import sparray, spmatrix
    from torch_geometric.data import Data, HeteroData

Graph: TypeAlias = "GraphBatch | DGLGraph | HeteroData | Data | Edges | Tensor | spmatrix | sparray"
"""Graphs from which ``attend``, layers and encoders read edges.

A tensor is an ``edge_index`` (2, E), a row of sources and a row of destinations, or a sparse matrix. The rows of sparse
matrices are destinations and their columns sources, as in PyG's ``adj_t``.
"""


T = TypeVar("T")


@dataclass(frozen=True)
class DevicePlan:
    """A backend's plan of a relation that is made on the CPU; copies of the edges on other devices have it, too.

    One of the base class marks edges that cannot be planned.
    """

    array: Tensor
    """All its numbers, so that there is one copy."""


GPU_PLANNERS: list[Callable[[Edges, torch.device], object]] = []
"""Functions of backends that plan edges on the CPU, before a copy to a GPU: there each step would wait."""


class GraphBatch(Protocol):
    """A batch that holds :class:`Edges`; :class:`graphattn.builders._batch.TextBatch` is one."""

    @property
    def edges(self) -> Mapping[CanonicalRelation, Edges]:
        """Canonical edge type -> its edges."""

    @property
    def node_features(self) -> Mapping[str, Mapping[str, Tensor]]:
        """Node type -> feature name -> (N, ...), for each node type of the graph."""

    @property
    def edge_features(self) -> Mapping[CanonicalRelation, Mapping[str, Tensor]]:
        """Canonical edge type -> feature name -> (E, ...), by edge id."""

    def num_nodes(self, node_type: str = ..., /) -> int:
        """Nodes of a type."""

    def batch_num_nodes(self, node_type: str = ..., /) -> Tensor:
        """(B,) nodes of a type in each text."""


class Edges:
    """The incoming edges of every destination in compressed sparse column form; immutable.

    The sources of destination ``i`` are ``indices[indptr[i]:indptr[i + 1]]``; a slot is a position in ``indices``. If
    sources are contiguous (windows), :meth:`of_ranges` stores only the ends of each range and computes ``indices`` on
    demand, because windows over long texts have hundreds of millions of edges.

    Parameters
    ----------
    indptr : (N_dst + 1,) int32 or int64, starts at 0, never decreases
    indices : (E,) source of each edge, same type as ``indptr``
    num_sources : N_src
    edge_ids : (E,) id of the edge in each slot; None when ids follow CSC order
    checked : skip the validation; with invalid arrays kernels read foreign memory

    Raises
    ------
    GraphError
        when ``indptr`` and ``indices`` are not both int32 or both int64, ``indptr`` does not rise from 0 to E, a source
        is out of range, or ``edge_ids`` is not a permutation

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2)
    >>> edges.num_edges, edges.destinations.tolist()
    (2, [0, 0])
    """

    def __init__(
        self,
        indptr: Tensor,
        indices: Tensor,
        num_sources: int,
        edge_ids: Tensor | None = None,
        *,
        checked: bool = False,
    ):
        if not checked:
            _check_types("indptr", indptr, "indices", indices)
            if not indptr.is_meta:
                _check_bounds(indptr, indices, num_sources, edge_ids)
        self.indptr, self.num_sources = indptr, num_sources
        self.edge_ids = None if edge_ids is None else _clone_if_inference(edge_ids.long())
        self.num_edges = int(indices.shape[0])
        """E, the number of edges."""
        self.ranges: tuple[Tensor, Tensor] | None = None
        """(low, high) when :meth:`of_ranges` made the edges."""
        self.plans: dict[object, object] = {}
        """Cache: what :meth:`compute_once` computed, by name; copies on other devices, by device."""
        self._indices: Tensor | None = indices

    @classmethod
    @torch.inference_mode(False)
    def of_pairs(cls, sources: Tensor, destinations: Tensor, num_sources: int, num_destinations: int) -> Edges:
        """Edges from ``sources[e]`` to ``destinations[e]``, in any order; edge ids count the pairs.

        Parameters
        ----------
        sources, destinations : (E,) int32 or int64
        num_sources, num_destinations : N_src and N_dst

        Raises
        ------
        GraphError
            when an end is out of range, or the arrays are not both int32 or both int64

        Examples
        --------
        >>> edges = Edges.of_pairs(torch.tensor([2, 0, 1]), torch.tensor([1, 0, 1]), 3, 2)
        >>> edges.indptr.tolist(), edges.indices.tolist(), edges.edge_ids.tolist()
        ([0, 1, 3], [0, 2, 1], [1, 0, 2])
        """
        _check_types("sources", sources, "destinations", destinations)
        if len(destinations) and not 0 <= int(destinations.min()) <= int(destinations.max()) < num_destinations:
            raise GraphError(f"destinations must be from 0 to {num_destinations - 1}")
        order = torch.argsort(destinations, stable=True)
        indptr = sources.new_zeros(num_destinations + 1)
        degrees = torch.bincount(destinations, minlength=num_destinations)
        torch.cumsum(degrees, 0, dtype=indptr.dtype, out=indptr[1:])
        return cls(indptr, sources[order], num_sources, None if is_arange(order) else order)

    @classmethod
    def of_ranges(cls, low: Tensor, high: Tensor, num_sources: int) -> Edges:
        """Edges from all sources from ``low[i]`` to before ``high[i]`` to destination ``i``.

        Parameters
        ----------
        low, high : (N_dst,) int32 or int64, low[i] <= high[i]
        num_sources : N_src

        Raises
        ------
        GraphError
            when the arrays are not both int32 or both int64, or a range is negative or out of range

        Examples
        --------
        >>> Edges.of_ranges(torch.tensor([0, 0, 1]), torch.tensor([2, 3, 3]), 3).indices.tolist()
        [0, 1, 0, 1, 2, 1, 2]
        """
        _check_types("low", low, "high", high)
        if low.shape != high.shape or bool((low > high).any() or (low < 0).any() or (high > num_sources).any()):
            raise GraphError(f"ranges must begin before they end and stay within the {num_sources} sources")
        indptr = torch.zeros(len(low) + 1, dtype=torch.int64, device=low.device)
        torch.cumsum(high - low, 0, dtype=torch.int64, out=indptr[1:])
        count = int(indptr[-1])
        if count <= torch.iinfo(low.dtype).max:
            indptr = indptr.to(low.dtype)
        return cls.from_valid_ranges(low, high, num_sources, indptr, count)

    @classmethod
    def from_valid_ranges(cls, low: Tensor, high: Tensor, num_sources: int, indptr: Tensor, num_edges: int) -> Edges:
        """:meth:`of_ranges` without validation, given the cumulative lengths and the number of edges."""
        edges = cls(indptr, indptr[:0], num_sources, checked=True)
        edges.num_edges, edges.ranges, edges._indices = num_edges, (low, high), None
        return edges

    def __getstate__(self) -> dict[str, object]:
        # other plans hold weak references to edges, which cannot be copied
        return {**self.__dict__, "plans": self._device_plans()}

    @property
    @torch.inference_mode(False)
    def indices(self) -> Tensor:
        """(E,) source of each edge, same type as ``indptr``."""
        if self._indices is None and self.ranges is not None:
            self._indices = _range_sources(self.ranges[0], self.indptr, self.num_edges)
        assert self._indices is not None
        return self._indices

    @classmethod
    @opaque
    def of(
        cls,
        graph: Graph,
        etype: str | CanonicalRelation | None = None,
        *,
        num_nodes: tuple[int, int] | None = None,
    ) -> Edges:
        """The edges of one relation of a graph.

        Edges of DGL and PyTorch Geometric are cached while the graph lives, and read again after it was changed.

        Parameters
        ----------
        graph : a :class:`~graphattn.builders._batch.TextBatch`; a graph of DGL or PyTorch Geometric; an ``edge_index``
            (2, E), a row of sources and a row of destinations; or a sparse matrix (N_dst, N_src) of PyTorch, SciPy or
            PyTorch Geometric (``adj_t``), whose values are not read
        etype : the relation, by name or as a canonical triple; optional when the graph has only one
        num_nodes : N_src and N_dst of an ``edge_index``

        Raises
        ------
        GraphError
            when it is no graph, or lacks the relation

        Examples
        --------
        >>> edge_index = torch.tensor([[2, 0], [0, 1]])  # 2 -> 0, 0 -> 1
        >>> matrix = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(2), (3, 3))  # row 0 has column 2
        >>> Edges.of(matrix).sources.tolist(), Edges.of(edge_index, num_nodes=(3, 3)).sources.tolist()
        ([2, 0], [2, 0])
        """
        edges = as_batch(graph, num_nodes).edges
        return edges[find_relation(list(edges), etype)]

    @property
    def num_destinations(self) -> int:
        """N_dst, the number of destination nodes."""
        return self.indptr.shape[0] - 1  # torch.compile would take int() for a constant

    @cached_property
    @torch.inference_mode(False)
    def destinations(self) -> Tensor:
        """(E,) destination of each edge, in CSC order, int64."""
        degrees = (self.indptr[1:] - self.indptr[:-1]).long()
        nodes = torch.arange(self.num_destinations, device=self.indptr.device)
        return torch.repeat_interleave(nodes, degrees, output_size=self.num_edges)

    @cached_property
    @torch.inference_mode(False)
    def sources(self) -> Tensor:
        """(E,) source of each edge, in CSC order, int64."""
        return self.indices.long()

    @cached_property
    def is_identity(self) -> bool:
        """Whether every node has exactly one incoming edge, from itself (a window of width 1)."""
        count = self.num_destinations
        if self.num_edges != count or self.num_sources != count or not is_arange(self.indptr):
            return False
        return is_arange(self.indices if self.ranges is None else self.ranges[0])

    @cached_property
    @torch.inference_mode(False)
    def first_sources(self) -> Tensor | None:
        """(N_dst,) first source of each destination if all have contiguous sources; None otherwise.

        The value of a destination without sources has no meaning.
        """
        if self.ranges is not None:
            return self.ranges[0]
        if not self.num_edges:
            return torch.zeros_like(self.indptr[1:])
        first = self.indices[self.indptr[:-1].long().clamp(max=self.num_edges - 1)]
        last = self.indices[self.indptr[1:].long().clamp(min=1) - 1]
        degrees = self.indptr.diff()
        if bool(((last - first + 1 != degrees) & (degrees > 0)).any()):  # quick: true for most other relations
            return None
        return first if torch.equal(self.indices, _range_sources(first, self.indptr, self.num_edges)) else None

    @cached_property
    @torch.inference_mode(False)
    def blocks(self) -> Tensor | None:
        """(B,) sizes when the nodes form consecutive complete graphs (whole sentences), on the CPU; None otherwise.

        Also None when edge ids do not follow CSC order or sources do not ascend within a destination.
        """
        count = self.num_destinations
        if self.num_sources != count or self.num_edges < count or self.edge_ids is not None:
            return None
        degrees = self.indptr[1:] - self.indptr[:-1]
        first = self.first_sources
        if first is None or not bool((degrees > 0).all()):
            return None
        begins = first.new_ones(count, dtype=torch.bool)
        begins[1:] = first[1:] != first[:-1]
        starts = begins.nonzero().squeeze(1)
        sizes = torch.diff(starts, append=starts.new_tensor([count]))
        block = begins.long().cumsum(0) - 1
        if not (torch.equal(first.long(), starts[block]) and torch.equal(degrees.long(), sizes[block])):
            return None
        return sizes.cpu()

    @cached_property
    @torch.inference_mode(False)
    def reverse(self) -> tuple[Edges, Tensor]:
        """The reversed edges, and the (E,) slot here of each of their slots."""
        indices, slots = torch.sort(self.indices, stable=True)
        sources = torch.arange(self.num_sources + 1, dtype=indices.dtype, device=indices.device)
        indptr = torch.searchsorted(indices, sources).to(self.indptr.dtype)  # a GPU would wait for bincount
        sources = self.destinations[slots].to(indptr.dtype)
        return Edges(indptr, sources, self.num_destinations, checked=True), slots

    def compute_once(self, name: str, compute: Callable[[Edges], T]) -> T:
        """Compute a value from these edges once, and cache it under a name."""
        if name not in self.plans:
            with torch.inference_mode(False):
                self.plans[name] = compute(self)
        return cast(T, self.plans[name])

    def by_slot(self, values: Tensor) -> Tensor:
        """(E, ...) values in the order of edge ids, reordered to CSC order."""
        return values if self.edge_ids is None else values[self.edge_ids]

    def by_id(self, slots: Tensor) -> Tensor:
        """(E, ...) values in CSC order, reordered by edge id."""
        return slots if self.edge_ids is None else torch.empty_like(slots).index_copy(0, self.edge_ids, slots)

    def ends_by_id(self) -> tuple[Tensor, Tensor]:
        """(E,) source and (E,) destination of each edge, by edge id, int64."""
        return self.by_id(self.sources), self.by_id(self.destinations)

    def to(self, device: torch.device | str) -> Edges:
        """The same edges on another device; a second call returns the same copy."""
        device = torch.device(device)
        if device != self.indptr.device:
            device = torch.empty(0, device=device).device  # "cuda" is the current GPU, which may change
        if device == self.indptr.device:
            return self
        if device not in self.plans:
            self.add_copy(device, copy_together(self.arrays_for(device), device))
        return cast(Edges, self.plans[device])

    def arrays_for(self, device: torch.device) -> list[Tensor]:
        """Arrays of a copy on a device, none if there is one. A GPU's plans are made here, where nothing waits."""
        if device == self.indptr.device or device in self.plans:
            return []
        if device.type == "cuda":
            for plan in GPU_PLANNERS:
                plan(self, device)
        arrays = [self.indptr, *(self.ranges or [self.indices]), *([] if self.edge_ids is None else [self.edge_ids])]
        return arrays + [plan.array for plan in self._device_plans().values()]

    def add_copy(self, device: torch.device, copy_of: Callable[[Tensor], Tensor]) -> None:
        """Keep a copy of the edges on a device, from copies of :meth:`arrays_for`, unless there is one."""
        if device != self.indptr.device and device not in self.plans:
            self.plans[device] = self.convert(copy_of)

    def convert(self, convert: Callable[[Tensor], Tensor]) -> Edges:
        """The same edges with other arrays."""
        indptr = convert(self.indptr)
        if self.ranges is not None:
            low, high = self.ranges
            edges = Edges.from_valid_ranges(convert(low), convert(high), self.num_sources, indptr, self.num_edges)
        else:
            edge_ids = None if self.edge_ids is None else convert(self.edge_ids)
            edges = Edges(indptr, convert(self.indices), self.num_sources, edge_ids, checked=True)
        edges.plans |= {name: replace(plan, array=convert(plan.array)) for name, plan in self._device_plans().items()}
        # a GPU would wait for each answer
        edges.is_identity, edges.blocks = self.is_identity, self.blocks
        return edges

    def _device_plans(self) -> dict[object, DevicePlan]:
        return {name: plan for name, plan in self.plans.items() if isinstance(plan, DevicePlan)}

    def check(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> None:
        """Raise a GraphError when a shape, type or device does not fit the edges."""
        num_sources = self.num_sources
        tensors = ("query", query, self.num_destinations), ("key", key, num_sources), ("value", value, num_sources)
        for name, tensor, nodes in tensors:
            shape = tensor.shape
            if len(shape) != 3 or shape[0] != nodes or not (shape[1] and shape[2]):
                raise GraphError(f"{name} has shape {tuple(shape)}; expected ({nodes}, heads, features)")
            self._check_type(name, tensor, query.dtype)
        if query.shape[1:] != key.shape[1:] or value.shape[1] != key.shape[1]:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (query, key, value))
            raise GraphError(f"query, key and value have shapes {shapes}; heads and query/key features must agree")
        if bias is not None:
            if bias.shape != (self.num_edges, query.shape[1]):
                raise GraphError(f"bias has shape {tuple(bias.shape)}; expected ({self.num_edges}, {query.shape[1]})")
            self._check_type("bias", bias, query.dtype)

    def check_nodes(self, inputs: Tensor, destinations: Tensor | None = None) -> None:
        """Raise a GraphError unless there is one row for each node; ``inputs`` are of sources if both are given."""
        rows = [len(inputs)] if destinations is None else [len(inputs), len(destinations)]
        if (rows[0], rows[-1]) != (self.num_sources, self.num_destinations):
            raise GraphError(
                f"inputs has {' and '.join(map(str, rows))} rows; the edges lead from {self.num_sources} nodes to "
                f"{self.num_destinations}; give one tensor for both, or a pair"
            )
        if inputs.device != self.indptr.device:
            raise GraphError(f"inputs is on {inputs.device} and the edges on {self.indptr.device}; use edges.to(...)")

    def _check_type(self, name: str, tensor: Tensor, dtype: torch.dtype) -> None:
        if tensor.dtype != dtype or not dtype.is_floating_point:
            raise GraphError(f"{name} is {tensor.dtype}; query, key, value and bias must be of one floating-point type")
        if tensor.device != self.indptr.device:
            raise GraphError(f"{name} is on {tensor.device} and the edges on {self.indptr.device}; use edges.to(...)")


@torch.inference_mode(False)
def _clone_if_inference(ids: Tensor) -> Tensor:
    """A tensor that a later backward pass can keep."""
    return ids.clone() if ids.is_inference() else ids


def is_arange(ids: Tensor) -> bool:
    """Whether ids are 0, 1, 2, ..."""
    return ids.numel() == 0 or bool((ids == torch.arange(ids.numel(), dtype=ids.dtype, device=ids.device)).all())


def _range_sources(first: Tensor, indptr: Tensor, count: int) -> Tensor:
    """(E,) consecutive sources from the first one of each destination, in the type of ``indptr``."""
    # no wider type in between: windows over long texts have hundreds of millions of edges
    shifts = first.to(indptr.dtype) - indptr[:-1]
    sources = torch.repeat_interleave(shifts, indptr[1:] - indptr[:-1], output_size=count)
    return sources.add_(torch.arange(count, dtype=indptr.dtype, device=indptr.device))


def _check_types(name: str, tensor: Tensor, other_name: str, other: Tensor) -> None:
    if (tensor.dtype, other.dtype) not in ((torch.int32, torch.int32), (torch.int64, torch.int64)):
        raise GraphError(f"{name} is {tensor.dtype} and {other_name} {other.dtype}; both must be int32, or both int64")


def _check_bounds(indptr: Tensor, indices: Tensor, num_sources: int, edge_ids: Tensor | None) -> None:
    """Raise when a backend would read or write beyond the ends of its arrays."""
    count = len(indices)
    if indptr.dim() != 1 or len(indptr) == 0 or indices.dim() != 1:
        shapes = f"{tuple(indptr.shape)} and {tuple(indices.shape)}"
        raise GraphError(f"indptr and indices have shapes {shapes}; expected (destinations + 1,) and (edges,)")
    if indptr[0] != 0 or indptr[-1] != count or bool((indptr[1:] < indptr[:-1]).any()):
        raise GraphError(f"indptr must rise from 0 to the number of edges, {count}")
    if count and not 0 <= int(indices.min()) <= int(indices.max()) < num_sources:
        raise GraphError(f"indices must be from 0 to {num_sources - 1}, the source nodes")
    if edge_ids is not None and not (
        edge_ids.shape == indices.shape
        and torch.equal(edge_ids.sort().values.long(), torch.arange(count, device=edge_ids.device))
    ):
        raise GraphError(f"edge_ids must be a permutation of the numbers from 0 to {count - 1}")


class LayerEdges(dict[str, Edges]):
    """Name of a relation -> its edges, with the canonical edge types that the graph has for the names."""

    relations: Mapping[str, CanonicalRelation]


@opaque
def edges_of(
    graph: Graph,
    relations: Iterable[str],
    device: torch.device | str = "cpu",
    *,
    num_nodes: tuple[int, int] | None = None,
) -> LayerEdges:
    """The edges of each relation, for all layers of an encoder.

    Parameters
    ----------
    graph : a batch with these relations, or any graph that :meth:`Edges.of` takes
    relations : names; in a graph without names, such as :class:`Edges`, any name stands for the only relation
    device : of the returned edges
    num_nodes : N_src and N_dst of an ``edge_index``

    Raises
    ------
    GraphError
        when the graph lacks a relation
    """
    names = list(relations)
    by_relation = as_batch(graph, num_nodes).edges
    present = list(by_relation)
    if is_nameless(present) and len(names) > 1:
        raise GraphError(
            f"the graph has one relation without a name; give a graph, or {{name: Edges}}, with: {', '.join(names)}"
        )
    found = {name: find_relation(present, name) for name in names}
    edges = LayerEdges({name: by_relation[relation].to(device) for name, relation in found.items()})
    edges.relations = found
    return edges


def edges_for_layer(
    graph: Graph | Mapping[str, Edges],
    relations: Iterable[str],
    inputs: Tensor,
    destinations: Tensor | None = None,
) -> list[Edges]:
    """The edges of each relation on the device of the inputs, which must have a row for each node.

    If the inputs are those of the sources only, ``destinations`` are (N_dst, ...).
    """
    names = list(relations)
    if isinstance(graph, Mapping):
        edges: Mapping[str, Edges] = graph
    elif isinstance(graph, Edges) and len(names) == 1:
        edges = {names[0]: graph}
    else:
        num_nodes = len(inputs), len(inputs if destinations is None else destinations)
        edges = edges_of(graph, names, inputs.device, num_nodes=num_nodes)
    if isinstance(edges, LayerEdges):
        _check_node_types([edges.relations[name] for name in names if name in edges], destinations is not None)
    if names == [ONLY] and len(edges) == 1:
        edges = dict(zip(names, edges.values(), strict=True))
    for name in names:
        if name not in edges:
            raise GraphError(f"the edges of relation {name!r} are missing; read them with edges_of(graph, heads)")
        if not isinstance(edges[name], Edges):
            raise GraphError(
                f"the edges of relation {name!r} are a {type(edges[name]).__name__}; read them with Edges.of, or give "
                "the whole graph"
            )
        edges[name].check_nodes(inputs, destinations)
    return [edges[name] for name in names]


def _check_node_types(relations: Sequence[CanonicalRelation], is_pair: bool) -> None:
    """Raise a GraphError unless all relations of a layer have the node types of its inputs."""
    if len({(source, target) for source, _, target in relations}) > 1:
        ends = ", ".join(f"{name!r} from {source!r} to {target!r}" for source, name, target in relations)
        raise GraphError(f"relations of one layer lead between the same node types; use a layer for each of: {ends}")
    for source, name, target in relations:
        if not is_pair and source != target:
            raise GraphError(
                f"relation {name!r} leads from nodes of type {source!r} to {target!r}; give MultiScaleAttention a pair "
                f"of inputs for it, those of {source!r} and those of {target!r}"
            )


def edges_for_rows(graph: Graph, etype: str | CanonicalRelation | None, query: Tensor, key: Tensor) -> Edges:
    """One relation of a graph on the device of (N_dst, ...) queries; keys are (N_src, ...). ``Edges`` stay as is."""
    if isinstance(graph, Edges):
        return graph
    return Edges.of(graph, etype, num_nodes=(len(key), len(query))).to(query.device)


@opaque
def features_of(graph: Graph, node_type: str) -> Mapping[str, Tensor]:
    """Features of the nodes of a type, name -> (N, ...)."""
    features = as_batch(graph).node_features
    node_type = find_node_type(list(features), node_type)
    if node_type not in features:
        raise GraphError(f"the graph has no nodes of type {node_type!r}; it has: {', '.join(features) or 'none'}")
    return features[node_type]


@opaque
def lengths_of(graph: Graph, node_type: str) -> Tensor:
    """(B,) number of nodes of a type in each text, int64."""
    return as_batch(graph).batch_num_nodes(node_type).long()


class RelationEdges(Mapping[CanonicalRelation, Edges]):
    """The edges of each relation of another library's graph, read on access."""

    def __init__(self, relations: Sequence[CanonicalRelation], read: Callable[[CanonicalRelation], Edges]):
        self._relations, self._read = relations, read

    @override
    def __getitem__(self, relation: CanonicalRelation) -> Edges:
        return self._read(relation)

    @override
    def __iter__(self) -> Iterator[CanonicalRelation]:
        return iter(self._relations)

    @override
    def __len__(self) -> int:
        return len(self._relations)


_ADAPTERS = (
    ("canonical_etypes", "graphattn._dgl_graphs", "DGLBatch"),
    ("edge_stores", "graphattn._pyg_graphs", "PyGBatch"),
)
"""An attribute of another library's graphs, and the class that reads them: its module is imported when needed."""
_UNTYPED = "graphattn._untyped_graphs", "UntypedBatch"
"""The class that reads graphs without names."""


def as_batch(graph: Graph, num_nodes: tuple[int, int] | None = None) -> GraphBatch:
    """Any graph as a :class:`GraphBatch`, which shares its features.

    ``num_nodes`` are N_src and N_dst, of which only an ``edge_index`` does not tell.
    """
    if isinstance(getattr(graph, "edges", None), Mapping) and hasattr(graph, "batch_num_nodes"):
        return cast(GraphBatch, graph)
    for attribute, module, name in _ADAPTERS:
        if hasattr(graph, attribute):
            return cast(GraphBatch, getattr(import_module(module), name)(graph))
    if is_untyped(graph):
        module, name = _UNTYPED
        return cast(GraphBatch, getattr(import_module(module), name)(graph, num_nodes))
    raise GraphError(
        f"graph is a {type(graph).__name__}; give a TextBatch, a graph of DGL or PyTorch Geometric, Edges, an "
        "edge_index of shape (2, edges), or a sparse matrix of shape (destinations, sources)"
    )


def is_untyped(graph: object) -> bool:
    """Whether a graph is one relation without a name: ``Edges``, an ``edge_index``, a sparse matrix."""
    return isinstance(graph, (Edges, Tensor)) or hasattr(graph, "tocoo") or hasattr(graph, "sparse_sizes")
