"""Text graphs as networkx graphs and back, for networkx' algorithms and for GraphML.

Nodes are ``("token", 3)`` with the attributes ``type``, ``index`` (the node id), ``sentence`` (its number in the
batch), ``text`` when texts are given, and all node features. Edges have ``relation``, ``index`` (the edge id), all
edge features and, when weights are given, ``weight``, or ``weight_0``, ``weight_1`` ... for several heads, which
networkx' algorithms accept by name. Values are plain numbers and strings; rows of a feature with several dimensions are
JSON strings. Types without nodes, dtypes and the like are JSON in one graph attribute.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import torch
from torch import Tensor

from graphattn.dgl_graphs import make_graph_in_edge_order
from graphattn.edges import GraphBatch, as_batch
from graphattn.exceptions import GraphError
from graphattn.schema import TOKEN, WORD, CanonicalRelation, find_relation

if TYPE_CHECKING:
    from dgl import DGLGraph

    from graphattn.edges import Graph

Texts = Sequence[str] | Sequence[Sequence[str]]
Attributes = dict[str, Any]
Columns = dict[str, list[Any]]
RowTypes = Mapping[str, tuple[str, Sequence[int]]]
"""Feature -> its dtype and the shape of one row."""

CLS = "[CLS]"
SCHEMA = "graphattn"
"""Graph attribute with the :class:`_Schema` as JSON."""


class _Schema(NamedTuple):
    """What :func:`from_networkx` must know beyond nodes and edges: node types or relations may be empty."""

    idtype: str
    sentences: int
    nodes: Mapping[str, RowTypes]
    edges: Mapping[CanonicalRelation, RowTypes]

    @classmethod
    def of_graph(cls, graph: GraphBatch, relations: Iterable[CanonicalRelation]) -> _Schema:
        nodes = {kind: _row_types(features) for kind, features in graph.node_features.items()}
        edges = {relation: _row_types(graph.edge_features.get(relation, {})) for relation in relations}
        idtype = next((_dtype_name(part.indptr.dtype) for part in graph.edges.values()), "int32")
        size = max(len(graph.batch_num_nodes(kind)) for kind in nodes)
        return cls(idtype, size, nodes, edges)

    def to_json(self) -> str:
        return json.dumps({**self._asdict(), "edges": [(*relation, types) for relation, types in self.edges.items()]})

    @classmethod
    def of_networkx(cls, nx_graph: nx.DiGraph) -> _Schema:
        try:
            values = json.loads(nx_graph.graph[SCHEMA])
            edges = {(source, name, target): types for source, name, target, types in values.pop("edges")}
            return cls(edges=edges, **values)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise GraphError(
                f"the networkx graph has no valid attribute {SCHEMA!r}; use a graph from to_networkx"
            ) from None


def _row_types(features: Mapping[str, Tensor]) -> RowTypes:
    return {name: (_dtype_name(values.dtype), list(values.shape[1:])) for name, values in features.items()}


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def to_networkx(
    graph: Graph,
    *,
    tokens: Texts | None = None,
    words: Texts | None = None,
    weights: Mapping[str, Any] | Mapping[CanonicalRelation, Any] | None = None,
    relations: Sequence[str | CanonicalRelation] | None = None,
) -> nx.MultiDiGraph:
    """Convert a graph to networkx.

    Parameters
    ----------
    graph : a batch, or any graph of DGL or PyTorch Geometric
    tokens : texts of the tokens, one list per sentence or a single list for all. If every sentence has one text less
        than nodes, ``[CLS]`` is prepended to each
    words : texts of the word nodes, as ``tokens``
    weights : relation -> (E,) or (E, heads), by edge id
    relations : which to convert; all when None

    Returns
    -------
    Nodes by type and id, edges by relation and id; the key of an edge is (relation, edge id).

    Raises
    ------
    GraphError
        when texts or weights do not fit the graph, a relation is missing, or a feature has the name of an attribute

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> graph = TextGraphBuilder([Window(3)]).text_batch([["time", "flies"]])
    >>> exported = to_networkx(graph, tokens=["time", "flies"], weights={"window:3": torch.arange(7.0)})
    >>> exported.nodes["token", 1]
    {'type': 'token', 'index': 1, 'sentence': 0, 'text': 'time', 'position': 1, 'word': 1}
    >>> exported.edges[("token", 0), ("token", 1), ("window:3", 2)]
    {'relation': 'window:3', 'index': 2, 'weight': 2.0}
    """
    graph = as_batch(graph)
    present = list(graph.edges)
    selected = present if relations is None else [find_relation(present, name) for name in relations]
    weights_by_relation = {find_relation(present, name): values for name, values in (weights or {}).items()}
    texts = {kind: texts for kind, texts in ((TOKEN, tokens), (WORD, words)) if texts is not None}
    if missing := texts.keys() - set(graph.node_features):
        raise GraphError(f"{min(missing)}s are given, but the graph has no nodes of type {min(missing)!r}")
    exported = nx.MultiDiGraph(**{SCHEMA: _Schema.of_graph(graph, selected).to_json()})
    for kind in graph.node_features:
        exported.add_nodes_from(((kind, row["index"]), row) for row in _node_rows(graph, kind, texts.get(kind)))
    for relation in selected:
        exported.add_edges_from(_edge_rows(graph, relation, weights_by_relation.get(relation)))
    return exported


def _node_rows(graph: GraphBatch, kind: str, texts: Texts | None) -> Iterator[Attributes]:
    """The attributes of each node of a type."""
    counts = graph.batch_num_nodes(kind).long()
    columns: Columns = {
        "type": [kind] * graph.num_nodes(kind),
        "index": list(range(graph.num_nodes(kind))),
        "sentence": torch.repeat_interleave(counts).tolist(),
    }
    if texts is not None:
        columns["text"] = _align_texts(texts, counts.tolist(), kind)
    return _iterate_rows(columns, graph.node_features[kind], kind)


def _edge_rows(graph: GraphBatch, relation: CanonicalRelation, weights: Any) -> Iterator[tuple[Any, ...]]:
    """Source, destination, key and attributes of each edge of a relation."""
    source, name, target = relation
    edges = graph.edges[relation]
    count = edges.num_edges
    columns: Columns = {"relation": [name] * count, "index": list(range(count))}
    if weights is not None:
        values = torch.as_tensor(weights)
        if values.dim() not in (1, 2) or values.shape[0] != count:
            raise GraphError(
                f"weights of {name!r} have shape {tuple(values.shape)}; expected ({count},) or ({count}, heads)"
            )
        if values.dim() == 1:
            columns["weight"] = values.tolist()
        else:
            columns.update((f"weight_{head}", column.tolist()) for head, column in enumerate(values.unbind(1)))
    sources, targets = (ids.tolist() for ids in edges.ends_by_id())
    rows = _iterate_rows(columns, graph.edge_features.get(relation, {}), name)
    for source_id, target_id, row in zip(sources, targets, rows, strict=True):
        yield (source, source_id), (target, target_id), (name, row["index"]), row


def _iterate_rows(columns: Columns, features: Mapping[str, Tensor], owner: str) -> Iterator[Attributes]:
    """The rows of some columns and of the features."""
    for name, values in features.items():
        if name in columns:
            raise GraphError(f"feature {name!r} of {owner!r} has the name of an attribute; rename the feature")
        rows = values.tolist()
        columns[name] = rows if values.dim() == 1 else [json.dumps(row) for row in rows]
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _align_texts(texts: Texts, counts: Sequence[int], kind: str) -> list[str]:
    """A text for each node, from one list for all or one per sentence, with or without ``[CLS]``."""
    lists: Sequence[Any] = texts
    expected = list(counts)
    is_flat = all(isinstance(text, str) for text in texts)
    if is_flat:
        lists, expected = [texts], [sum(counts)]
    lengths = list(map(len, lists))
    if lengths == expected:
        return list(chain.from_iterable(lists))
    if lengths == [count - 1 for count in counts]:
        return [text for texts in lists for text in (CLS, *texts)]
    if len(lists) != len(expected):
        raise GraphError(f"{len(lists)} lists of {kind}s are given for {len(expected)} sentences")
    index, length = next((index, length) for index, length in enumerate(lengths) if length != expected[index])
    owner = "the graph" if is_flat else f"sentence {index}"
    raise GraphError(
        f"{length} {kind}s are given for {owner}, which has {expected[index]}; "
        f"give a text for each, or leave out {CLS} in every sentence"
    )


class _Node(NamedTuple):
    """A node's type, its id in the DGL graph and its sentence."""

    kind: str
    number: int
    sentence: int


@dataclass(frozen=True)
class _Element:
    """A node or an edge, which belongs to the sentence of its destination; sorted by sentence and index."""

    sentence: int
    index: int
    key: Any
    attributes: Mapping[str, Any]


def from_networkx(nx_graph: nx.DiGraph) -> DGLGraph:
    """Convert a graph from :func:`to_networkx` back to DGL, without texts and weights.

    You may remove and add nodes and edges: they are ordered by ``sentence`` and ``index`` and renumbered. Node and edge
    keys are ignored, so graphs from ``nx.read_graphml(path, force_multigraph=True)`` work too.

    Parameters
    ----------
    nx_graph : a directed graph with the attributes that :func:`to_networkx` sets

    Returns
    -------
    A graph with the same types, ids, features and sentences.

    Raises
    ------
    GraphError
        when attributes are missing, or a node or edge has a type that the original graph lacked
    MissingPackageError
        when DGL is not installed
    """
    if not nx_graph.is_directed():
        raise GraphError("the networkx graph is undirected; use a directed graph")
    schema = _Schema.of_networkx(nx_graph)
    elements = _group_nodes(nx_graph, schema)
    nodes = {
        element.key: _Node(kind, number, element.sentence)
        for kind, group in elements.items()
        for number, element in enumerate(group)
    }
    edges = _group_edges(nx_graph, schema, nodes)
    graph = make_graph_in_edge_order(
        {relation: _edge_ends(group, nodes) for relation, group in edges.items()},
        {kind: len(group) for kind, group in elements.items()},
        getattr(torch, schema.idtype),
    )
    for kind, group in elements.items():
        graph.nodes[kind].data.update(_stack_features(group, schema.nodes[kind]))
    for relation, group in edges.items():
        graph.edges[relation].data.update(_stack_features(group, schema.edges[relation]))
    size = max([schema.sentences, *(node.sentence + 1 for node in nodes.values())])
    graph.set_batch_num_nodes({kind: _count(group, size, graph.idtype) for kind, group in elements.items()})
    graph.set_batch_num_edges({relation: _count(group, size, graph.idtype) for relation, group in edges.items()})
    return graph


def _edge_ends(edges: Sequence[_Element], nodes: Mapping[Any, _Node]) -> tuple[list[int], list[int]]:
    """Ids of sources and destinations."""
    return [nodes[edge.key[0]].number for edge in edges], [nodes[edge.key[1]].number for edge in edges]


def _group_nodes(nx_graph: nx.DiGraph, schema: _Schema) -> dict[str, list[_Element]]:
    """The nodes of each type, in the order of their ids."""
    groups: dict[str, list[_Element]] = {kind: [] for kind in schema.nodes}
    for node, attributes in nx_graph.nodes(data=True):
        kind = _read_attribute(attributes, "type", node)
        if kind not in groups:
            raise GraphError(f"{node!r} has the type {kind!r}; the graph has: {', '.join(groups)}")
        sentence, index = (_read_index(attributes, name, node) for name in ("sentence", "index"))
        groups[kind].append(_Element(sentence, index, node, attributes))
    return {kind: sorted(group, key=_sort_key) for kind, group in groups.items()}


def _group_edges(
    nx_graph: nx.DiGraph, schema: _Schema, nodes: Mapping[Any, _Node]
) -> dict[CanonicalRelation, list[_Element]]:
    """The edges of each relation, in the order of their ids."""
    groups: dict[CanonicalRelation, list[_Element]] = {relation: [] for relation in schema.edges}
    for source, target, attributes in nx_graph.edges(data=True):
        key = (source, target)
        name = _read_attribute(attributes, "relation", key)
        relation = find_relation(list(groups), (nodes[source].kind, name, nodes[target].kind))
        index = _read_index(attributes, "index", key)
        groups[relation].append(_Element(nodes[target].sentence, index, key, attributes))
    return {relation: sorted(group, key=_sort_key) for relation, group in groups.items()}


def _sort_key(element: _Element) -> tuple[int, int]:
    return element.sentence, element.index


def _read_attribute(attributes: Mapping[str, Any], name: str, key: Any) -> Any:
    if name not in attributes:
        raise GraphError(f"{key!r} has no attribute {name!r}; set the attributes that to_networkx sets")
    return attributes[name]


def _read_index(attributes: Mapping[str, Any], name: str, key: Any) -> int:
    value = _read_attribute(attributes, name, key)
    if not isinstance(value, int) or value < 0:
        raise GraphError(f"{key!r} has {name} {value!r}; it must be an integer of at least 0")
    return value


def _stack_features(elements: Sequence[_Element], types: RowTypes) -> dict[str, Tensor]:
    """The feature tensors of one node type or relation."""
    tensors = {}
    for name, (dtype, shape) in types.items():
        rows = [_read_attribute(element.attributes, name, element.key) for element in elements]
        try:
            values = torch.tensor([json.loads(row) for row in rows] if shape else rows, dtype=getattr(torch, dtype))
            tensors[name] = values.reshape(len(elements), *shape)
        except (TypeError, ValueError, RuntimeError):
            raise GraphError(f"values of attribute {name!r} are not {dtype} of shape {tuple(shape)}") from None
    return tensors


def _count(elements: Sequence[_Element], size: int, dtype: torch.dtype) -> Tensor:
    """(size,) number of elements of each sentence."""
    sentences = torch.tensor([element.sentence for element in elements], dtype=torch.long)
    return torch.bincount(sentences, minlength=size).to(dtype)
