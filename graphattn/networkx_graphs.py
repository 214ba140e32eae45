"""Graphs of text as networkx graphs, to look at, to search, to write as GraphML, and back.

Nodes are ``("token", 3)`` with the attributes ``type``, ``index`` (the DGL node id), ``sentence`` (its number in the
batch), ``text`` when texts are given, and every node feature. Edges have ``relation``, ``index`` (the DGL edge id),
every edge feature and, when weights are given, ``weight``, or ``weight_0``, ``weight_1`` ... for several heads: names
that networkx' algorithms take as they are. All values are plain numbers and texts; rows of a feature with more than one
dimension are JSON texts. What nodes and edges cannot tell (types without nodes, dtypes) is JSON in one graph attribute.
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
from graphattn.exceptions import GraphError
from graphattn.schema import TOKEN, WORD, CanonicalRelation, find_relation

if TYPE_CHECKING:
    from dgl import DGLGraph

Texts = Sequence[str] | Sequence[Sequence[str]]
Columns = dict[str, list[Any]]
RowTypes = Mapping[str, tuple[str, Sequence[int]]]
"""Feature -> its dtype and the shape of one row."""

CLS = "[CLS]"
SCHEMA = "graphattn"
"""Graph attribute that holds, as JSON, what :func:`from_networkx` must know beyond nodes and edges."""


class _Schema(NamedTuple):
    """What cannot be seen from nodes and edges that may be missing."""

    idtype: str
    sentences: int
    nodes: Mapping[str, RowTypes]
    edges: Mapping[CanonicalRelation, RowTypes]

    @classmethod
    def of(cls, graph: DGLGraph, relations: Iterable[CanonicalRelation]) -> _Schema:
        nodes = {kind: _row_types(graph.nodes[kind].data) for kind in graph.ntypes}
        edges = {relation: _row_types(graph.edges[relation].data) for relation in relations}
        return cls(_name(graph.idtype), graph.batch_size, nodes, edges)

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
                f"the networkx graph has no attribute {SCHEMA!r} that can be read; give one that to_networkx made"
            ) from None


def to_networkx(
    graph: DGLGraph,
    *,
    tokens: Texts | None = None,
    words: Texts | None = None,
    weights: Mapping[str, Any] | Mapping[CanonicalRelation, Any] | None = None,
    relations: Sequence[str | CanonicalRelation] | None = None,
) -> nx.MultiDiGraph:
    """Write a graph out as a networkx graph, edge for edge.

    Parameters
    ----------
    graph : one sentence or a batch; any other DGL graph will do, too
    tokens : texts of the tokens, one list for each sentence or a single list for all. They may leave out ``[CLS]``:
        when there is one token less than nodes in every sentence, ``[CLS]`` is put before each
    words : texts of the word nodes, given like ``tokens``
    weights : relation -> (E,) or (E, heads), in the order of edge ids
    relations : which ones to write out; all when None

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
    >>> graph = TextGraphBuilder([Window(3)]).build(["time", "flies"])
    >>> exported = to_networkx(graph, tokens=["time", "flies"], weights={"window:3": torch.arange(7.0)})
    >>> exported.nodes["token", 1]
    {'type': 'token', 'index': 1, 'sentence': 0, 'text': 'time', 'position': 1, 'word': 1}
    >>> exported.edges[("token", 0), ("token", 1), ("window:3", 2)]
    {'relation': 'window:3', 'index': 2, 'weight': 2.0}
    """
    chosen = graph.canonical_etypes if relations is None else [_find(graph, name) for name in relations]
    given = {_find(graph, name): values for name, values in (weights or {}).items()}
    texts = {kind: texts for kind, texts in ((TOKEN, tokens), (WORD, words)) if texts is not None}
    for kind in texts:
        if kind not in graph.ntypes:
            raise GraphError(f"{kind}s are given, but the graph has no nodes of type {kind!r}")
    exported = nx.MultiDiGraph(**{SCHEMA: _Schema.of(graph, chosen).to_json()})
    for kind in graph.ntypes:
        exported.add_nodes_from(((kind, row["index"]), row) for row in _node_rows(graph, kind, texts.get(kind)))
    for relation in chosen:
        source, name, target = relation
        tails, heads = (ids.tolist() for ids in graph.edges(etype=relation, order="eid"))
        rows = _edge_rows(graph, relation, given.get(relation))
        exported.add_edges_from(
            ((source, tail), (target, head), (name, row["index"]), row)
            for tail, head, row in zip(tails, heads, rows, strict=True)
        )
    return exported


def _find(graph: DGLGraph, relation: str | CanonicalRelation) -> CanonicalRelation:
    return find_relation(graph.canonical_etypes, relation)


def _node_rows(graph: DGLGraph, kind: str, texts: Texts | None) -> Iterator[dict[str, Any]]:
    """The attributes of each node of a type."""
    counts = graph.batch_num_nodes(kind).long()
    columns: Columns = {
        "type": [kind] * graph.num_nodes(kind),
        "index": list(range(graph.num_nodes(kind))),
        "sentence": torch.repeat_interleave(counts).tolist(),
    }
    if texts is not None:
        columns["text"] = _one_text_each(texts, counts.tolist(), kind)
    return _rows(columns, graph.nodes[kind].data, kind)


def _edge_rows(graph: DGLGraph, relation: CanonicalRelation, weights: Any) -> Iterator[dict[str, Any]]:
    """The attributes of each edge of a relation."""
    name, count = relation[1], graph.num_edges(relation)
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
    return _rows(columns, graph.edges[relation].data, name)


def _rows(columns: Columns, features: Mapping[str, Tensor], owner: str) -> Iterator[dict[str, Any]]:
    for name, values in features.items():
        if name in columns:
            raise GraphError(f"feature {name!r} of {owner!r} has the name of an attribute of the export; rename it")
        rows = values.tolist()
        columns[name] = rows if values.dim() == 1 else [json.dumps(row) for row in rows]
    return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _one_text_each(texts: Texts, counts: list[int], kind: str) -> list[str]:
    """A text for each node, from one list or one for each sentence, with ``[CLS]`` or without."""
    flat = all(isinstance(text, str) for text in texts)
    given: Sequence[Any] = [texts] if flat else texts
    expected = [sum(counts)] if flat else counts
    lengths = [len(own) for own in given]
    if lengths == expected:
        return list(chain.from_iterable(given))
    if lengths == [count - 1 for count in counts]:
        return [text for own in given for text in (CLS, *own)]
    if len(given) != len(expected):
        raise GraphError(f"{len(given)} lists of {kind}s are given for {len(expected)} sentences")
    wrong = next(number for number in range(len(given)) if lengths[number] != expected[number])
    raise GraphError(
        f"{lengths[wrong]} {kind}s are given for {'the graph' if flat else f'sentence {wrong}'}, which has "
        f"{expected[wrong]}; give a text for each, or leave out {CLS} in every sentence"
    )


def _row_types(features: Mapping[str, Tensor]) -> RowTypes:
    return {name: (_name(values.dtype), list(values.shape[1:])) for name, values in features.items()}


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class _Element:
    """A node, or an edge, which belongs to the sentence of the node it leads to; they sort by sentence and index."""

    sentence: int
    index: int
    key: Any
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class _Place:
    """Where a node of the networkx graph stands in the DGL graph."""

    kind: str
    number: int
    sentence: int


def from_networkx(nx_graph: nx.DiGraph) -> DGLGraph:
    """Restore the graph that :func:`to_networkx` wrote out; texts and weights are no part of it.

    Nodes and edges may have been taken out or put in: ``sentence`` and ``index`` tell their order, and gaps close.
    Keys are not looked at, so what ``nx.read_graphml(path, force_multigraph=True)`` reads will do, too.

    Parameters
    ----------
    nx_graph : a directed graph with the attributes that :func:`to_networkx` gives

    Returns
    -------
    A graph with the same types, ids, features and sentences.

    Raises
    ------
    GraphError
        when attributes are missing, or a type was not in the graph written out

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> exported = to_networkx(TextGraphBuilder([Window(3)]).batch([["time", "flies"], ["so"]]))
    >>> exported.remove_edge(("token", 1), ("token", 0))
    >>> graph = from_networkx(exported)
    >>> graph.batch_num_nodes("token").tolist(), graph.batch_num_edges("window:3").tolist()
    ([3, 2], [6, 4])
    """
    if not nx_graph.is_directed():
        raise GraphError("the networkx graph is undirected; edges of text lead from one node to another")
    schema = _Schema.of_networkx(nx_graph)
    nodes = _nodes_by_type(nx_graph, schema)
    places = {
        node.key: _Place(kind, number, node.sentence) for kind, own in nodes.items() for number, node in enumerate(own)
    }
    edges = _edges_by_relation(nx_graph, schema, places)
    graph = make_graph_in_edge_order(
        {
            relation: (
                [places[edge.key[0]].number for edge in own],
                [places[edge.key[1]].number for edge in own],
            )
            for relation, own in edges.items()
        },
        {kind: len(own) for kind, own in nodes.items()},
        getattr(torch, schema.idtype),
    )
    for kind, own in nodes.items():
        graph.nodes[kind].data.update(_features(own, schema.nodes[kind]))
    for relation, own in edges.items():
        graph.edges[relation].data.update(_features(own, schema.edges[relation]))
    size = max(schema.sentences, 1 + max((place.sentence for place in places.values()), default=-1))
    graph.set_batch_num_nodes({kind: _per_sentence(own, size, graph.idtype) for kind, own in nodes.items()})
    graph.set_batch_num_edges({relation: _per_sentence(own, size, graph.idtype) for relation, own in edges.items()})
    return graph


def _nodes_by_type(nx_graph: nx.DiGraph, schema: _Schema) -> dict[str, list[_Element]]:
    """All nodes, in the order of their ids."""
    found: dict[str, list[_Element]] = {kind: [] for kind in schema.nodes}
    for node, attributes in nx_graph.nodes(data=True):
        kind = _attribute(attributes, "type", node)
        if kind not in found:
            raise GraphError(f"{node!r} has the type {kind!r}; the graph has: {', '.join(found)}")
        sentence, index = (_whole_number(attributes, name, node) for name in ("sentence", "index"))
        found[kind].append(_Element(sentence, index, node, attributes))
    return {kind: sorted(own, key=_order) for kind, own in found.items()}


def _edges_by_relation(
    nx_graph: nx.DiGraph, schema: _Schema, places: Mapping[Any, _Place]
) -> dict[CanonicalRelation, list[_Element]]:
    """All edges, in the order of their ids."""
    found: dict[CanonicalRelation, list[_Element]] = {relation: [] for relation in schema.edges}
    for tail, head, attributes in nx_graph.edges(data=True):
        name = _attribute(attributes, "relation", (tail, head))
        relation = find_relation(list(found), (places[tail].kind, name, places[head].kind))
        index = _whole_number(attributes, "index", (tail, head))
        found[relation].append(_Element(places[head].sentence, index, (tail, head), attributes))
    return {relation: sorted(own, key=_order) for relation, own in found.items()}


def _order(element: _Element) -> tuple[int, int]:
    return element.sentence, element.index


def _attribute(attributes: Mapping[str, Any], name: str, key: Any) -> Any:
    if name not in attributes:
        raise GraphError(f"{key!r} has no attribute {name!r}; give nodes and edges what to_networkx gives them")
    return attributes[name]


def _whole_number(attributes: Mapping[str, Any], name: str, key: Any) -> int:
    value = _attribute(attributes, name, key)
    if not isinstance(value, int) or value < 0:
        raise GraphError(f"{key!r} has {name} {value!r}; it must be a whole number from 0 on")
    return value


def _features(elements: Sequence[_Element], types: RowTypes) -> dict[str, Tensor]:
    """The feature tensors of one type of nodes or edges."""
    tensors = {}
    for name, (dtype, shape) in types.items():
        rows = [_attribute(element.attributes, name, element.key) for element in elements]
        try:
            values = torch.tensor([json.loads(row) for row in rows] if shape else rows, dtype=getattr(torch, dtype))
            tensors[name] = values.reshape(len(elements), *shape)
        except (TypeError, ValueError, RuntimeError):
            raise GraphError(f"attribute {name!r} has values that are no {dtype} of shape {tuple(shape)}") from None
    return tensors


def _per_sentence(elements: Sequence[_Element], size: int, dtype: torch.dtype) -> Tensor:
    """(size,) how many elements belong to each sentence."""
    sentences = torch.tensor([element.sentence for element in elements], dtype=torch.long)
    return torch.bincount(sentences, minlength=size).to(dtype)
