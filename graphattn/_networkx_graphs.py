"""Text graphs as networkx graphs and back, for networkx' algorithms and for the formats that it writes.

Nodes are named ``token_3``, with leading zeros, so that sorted names are in the order of the text. Their attributes are
``type``, ``index`` (the node id), ``sentence`` (its number in the batch), ``label`` for viewers, ``text`` when texts
are given, and all node features. Edges are numbered; these keys are also their ids in GraphML. They have ``relation``,
``edge_id`` (the edge's id in its relation), all edge features and, when weights are given, ``weight``, or ``weight_0``,
``weight_1`` ... for several heads, which networkx' algorithms accept by name. A feature with a name that we or a file
format use is renamed: ``id`` becomes ``feature_id``.

Values are plain numbers and strings; rows of a feature with several dimensions are JSON strings. All nodes have the
same attributes, and all edges, too: -1, 0.0, False or "" where a type or relation has none. Types without nodes, dtypes
and the like are JSON in one graph attribute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import networkx as nx
import torch
from torch import Tensor

from graphattn._dgl_graphs import make_graph_in_edge_order
from graphattn._edges import Graph, GraphBatch, as_batch
from graphattn._schema import TOKEN, WORD, CanonicalRelation, find_relation
from graphattn.exceptions import GraphError

if TYPE_CHECKING:
    from dgl import DGLGraph

T = TypeVar("T")
NodeTexts = Sequence[str] | Sequence[Sequence[str]]
Attributes = dict[str, Any]
GraphColumns = dict[str, list[Any]]
RowTypes = Mapping[str, tuple[str, str, Sequence[int]]]
"""Feature -> its attribute, its dtype and the shape of one row."""

CLS = "[CLS]"
SCHEMA = "graphattn"
"""Graph attribute with the :class:`_Schema` as JSON."""
_RESERVED = frozenset("id index key label text source target type value start end pid parents spells viz".split())
"""Attributes with a meaning in GEXF, GML, JSON or PyTorch Geometric."""
_MISSING: Mapping[type, Any] = {bool: False, int: -1, float: 0.0, str: ""}


class EdgeRows(NamedTuple):
    """Edges between two node types, with their attributes as columns."""

    source_type: str
    target_type: str
    sources: Sequence[int]
    targets: Sequence[int]
    columns: GraphColumns


def make_networkx(nodes: Mapping[str, GraphColumns], edges: Sequence[EdgeRows]) -> nx.MultiDiGraph:
    """Build a graph whose nodes and edges all of networkx' formats can hold: names are strings, keys are numbers.

    Each node type has columns of attributes: ``index``, which counts from 0, and optionally others.
    """
    names = _name_nodes({node_type: len(columns["index"]) for node_type, columns in nodes.items()})
    labelled: list[GraphColumns] = []
    for node_type, columns in nodes.items():
        texts = columns.get("text", [""] * len(names[node_type]))
        labelled.append({**columns, "label": [text or f"{node_type} {index}" for index, text in enumerate(texts)]})
    graph = nx.MultiDiGraph()
    for node_type, rows in zip(nodes, _complete_rows(labelled), strict=True):
        graph.add_nodes_from(zip(names[node_type], rows, strict=True))
    keys = count()
    for group, rows in zip(edges, _complete_rows([group.columns for group in edges]), strict=True):
        sources = (names[group.source_type][index] for index in group.sources)
        targets = (names[group.target_type][index] for index in group.targets)
        graph.add_edges_from((*ends, next(keys), row) for *ends, row in zip(sources, targets, rows, strict=True))
    return graph


def _name_nodes(counts: Mapping[str, int]) -> dict[str, list[str]]:
    """The names of each type's nodes, NMTOKENs as XML requires: ``text_relay_0`` of a type ``text relay``."""
    names: dict[str, list[str]] = {}
    prefixes: set[str] = set()
    for node_type, number in counts.items():
        prefix = re.sub(r"[^A-Za-z0-9_.-]", "_", node_type)
        while prefix in prefixes:
            prefix += "_"
        prefixes.add(prefix)
        width = len(str(number - 1))
        names[node_type] = [f"{prefix}_{index:0{width}}" for index in range(number)]
    return names


def _complete_rows(tables: Sequence[GraphColumns]) -> list[list[Attributes]]:
    """The rows of tables; columns that a table lacks are filled."""
    fills = {
        name: next(fill for value_type, fill in _MISSING.items() if isinstance(values[0], value_type))
        for table in tables
        for name, values in table.items()
        if values
    }
    rows = []
    for table in tables:
        size = len(next(iter(table.values())))
        columns = [table.get(name) or [fill] * size for name, fill in fills.items()]
        rows.append([dict(zip(fills, row, strict=True)) for row in zip(*columns, strict=True)])
    return rows


class _Schema(NamedTuple):
    """Schema that :func:`from_networkx` needs besides nodes and edges: node types or relations may be empty."""

    idtype: str
    sentences: int
    nodes: Mapping[str, RowTypes]
    edges: Mapping[CanonicalRelation, RowTypes]

    def to_json(self) -> str:
        return json.dumps({**self._asdict(), "edges": [(*relation, types) for relation, types in self.edges.items()]})

    @classmethod
    def of_networkx(cls, nx_graph: nx.DiGraph) -> _Schema:
        if not nx_graph.is_directed():
            raise GraphError("the networkx graph is undirected; use a directed graph")
        try:
            values = json.loads(nx_graph.graph[SCHEMA])
            edges = {(source, name, target): types for source, name, target, types in values.pop("edges")}
            return cls(edges=edges, **values)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise GraphError(
                f"the networkx graph has no valid attribute {SCHEMA!r}, which files of GEXF lose; use a graph from "
                "to_networkx"
            ) from None


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def to_networkx(
    graph: Graph,
    *,
    tokens: NodeTexts | None = None,
    words: NodeTexts | None = None,
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
    Nodes by type and id, edges by relation and id; the module's docstring describes names and attributes.

    Raises
    ------
    GraphError
        when texts or weights do not fit the graph, or a relation is missing

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> graph = TextGraphBuilder([Window(3)]).text_batch([["time", "flies"]])
    >>> exported = to_networkx(graph, tokens=["time", "flies"], weights={"window:3": torch.arange(7.0)})
    >>> exported.nodes["token_1"]
    {'type': 'token', 'index': 1, 'sentence': 0, 'text': 'time', 'position': 1, 'word': 1, 'label': 'time'}
    >>> exported.edges["token_0", "token_1", 2]
    {'relation': 'window:3', 'edge_id': 2, 'weight': 2.0}
    """
    graph = as_batch(graph)
    present = list(graph.edges)
    selected = present if relations is None else [find_relation(present, name) for name in relations]
    weights_by_relation = {find_relation(present, name): values for name, values in (weights or {}).items()}
    texts = {node_type: texts for node_type, texts in ((TOKEN, tokens), (WORD, words)) if texts is not None}
    if missing := texts.keys() - set(graph.node_features):
        raise GraphError(f"{min(missing)}s are given, but the graph has no nodes of type {min(missing)!r}")
    nodes = {node_type: _node_columns(graph, node_type, texts.get(node_type)) for node_type in graph.node_features}
    edges = [_edge_rows(graph, relation, weights_by_relation.get(relation)) for relation in selected]
    node_types = {name: _add_features(columns, graph.node_features[name]) for name, columns in nodes.items()}
    edge_types = {
        relation: _add_features(rows.columns, graph.edge_features.get(relation, {}))
        for relation, rows in zip(selected, edges, strict=True)
    }
    idtype = next((_dtype_name(edges.indptr.dtype) for edges in graph.edges.values()), "int32")
    sentences = max(len(graph.batch_num_nodes(node_type)) for node_type in nodes)
    exported = make_networkx(nodes, edges)
    exported.graph[SCHEMA] = _Schema(idtype, sentences, node_types, edge_types).to_json()
    return exported


def _node_columns(graph: GraphBatch, node_type: str, texts: NodeTexts | None) -> GraphColumns:
    """The attributes of a type's nodes, without features."""
    counts = graph.batch_num_nodes(node_type).long()
    columns: GraphColumns = {
        "type": [node_type] * graph.num_nodes(node_type),
        "index": list(range(graph.num_nodes(node_type))),
        "sentence": torch.repeat_interleave(counts).tolist(),
    }
    if texts is not None:
        columns["text"] = [str(text) for text in _align_texts(texts, counts.tolist(), node_type)]  # not np.str_
    return columns


def _edge_rows(graph: GraphBatch, relation: CanonicalRelation, weights: Any) -> EdgeRows:
    """The edges of a relation with their attributes, without features."""
    source, name, target = relation
    edges = graph.edges[relation]
    num_edges = edges.num_edges
    columns: GraphColumns = {"relation": [name] * num_edges, "edge_id": list(range(num_edges))}
    if weights is not None:
        values = torch.as_tensor(weights).double()
        if values.dim() not in (1, 2) or values.shape[0] != num_edges:
            raise GraphError(
                f"weights of {name!r} have shape {tuple(values.shape)}; expected ({num_edges},) or ({num_edges}, heads)"
            )
        if values.dim() == 1:
            columns["weight"] = values.tolist()
        else:
            columns.update((f"weight_{head}", column.tolist()) for head, column in enumerate(values.unbind(1)))
    sources, targets = (ids.tolist() for ids in edges.ends_by_id())
    return EdgeRows(source, target, sources, targets, columns)


def _add_features(columns: GraphColumns, features: Mapping[str, Tensor]) -> RowTypes:
    """Add a column for each feature; return what is needed to restore the features."""
    types = {}
    for name, values in features.items():
        attribute = name
        while attribute in columns or attribute in _RESERVED:
            attribute = f"feature_{attribute}"
        rows = values.tolist()
        columns[attribute] = rows if values.dim() == 1 else [json.dumps(row) for row in rows]
        types[name] = attribute, _dtype_name(values.dtype), list(values.shape[1:])
    return types


def _align_texts(texts: NodeTexts, counts: Sequence[int], node_type: str) -> list[str]:
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
        raise GraphError(f"{len(lists)} lists of {node_type}s are given for {len(expected)} sentences")
    index, length = next((index, length) for index, length in enumerate(lengths) if length != expected[index])
    owner = "the graph" if is_flat else f"sentence {index}"
    raise GraphError(
        f"{length} {node_type}s are given for {owner}, which has {expected[index]}; "
        f"give a text for each, or leave out {CLS} in every sentence"
    )


@dataclass
class _Element:
    """A node or an edge, which belongs to the sentence of its destination."""

    type: Any  # node type or relation
    sentence: int
    index: int  # orders the elements of a type in their sentence
    key: Any
    attributes: Mapping[str, Any]
    number: int = 0  # id in the DGL graph


def from_networkx(nx_graph: nx.DiGraph) -> DGLGraph:
    """Convert a graph from :func:`to_networkx` back to DGL, without texts and weights.

    You may remove and add nodes and edges: they are ordered by ``sentence`` and ``index`` or ``edge_id``, and
    renumbered. Names and keys are ignored, and whole numbers may be floats, so graphs from ``nx.read_graphml(path)``
    work too, also of a file that igraph wrote.

    Parameters
    ----------
    nx_graph : a directed graph with the attributes that :func:`to_networkx` sets

    Returns
    -------
    A graph with the same types, ids, features and sentences.

    Raises
    ------
    GraphError
        when attributes are missing, a node or edge has a type that the original graph lacked, or two nodes have the
        same place, as after ``nx.disjoint_union`` of two graphs whose sentences both count from 0
    MissingPackageError
        when DGL is not installed
    """
    schema = _Schema.of_networkx(nx_graph)
    nodes = _number_elements(_read_nodes(nx_graph, schema), schema.nodes)
    _check_places(nodes)
    node_of_key = {node.key: node for group in nodes.values() for node in group}
    edges = _number_elements(_read_edges(nx_graph, schema, node_of_key), schema.edges)
    numbers = {key: node.number for key, node in node_of_key.items()}
    ends = {
        relation: ([numbers[edge.key[0]] for edge in group], [numbers[edge.key[1]] for edge in group])
        for relation, group in edges.items()
    }
    counts = {node_type: len(group) for node_type, group in nodes.items()}
    graph = make_graph_in_edge_order(ends, counts, getattr(torch, schema.idtype))
    sentences = max([schema.sentences, *(node.sentence + 1 for node in node_of_key.values())])
    both: tuple[tuple[Any, Any, Any, Any], ...] = (
        (nodes, schema.nodes, graph.nodes, graph.set_batch_num_nodes),
        (edges, schema.edges, graph.edges, graph.set_batch_num_edges),
    )
    for elements, types, views, set_counts in both:
        for name, group in elements.items():
            views[name].data.update(_stack_features(group, types[name]))
        set_counts({name: _count_by_sentence(group, sentences, graph.idtype) for name, group in elements.items()})
    return graph


def _read_nodes(nx_graph: nx.DiGraph, schema: _Schema) -> Iterator[_Element]:
    for key, attributes in nx_graph.nodes(data=True):
        node_type = _read_attribute(attributes, "type", key)
        if node_type not in schema.nodes:
            raise GraphError(f"{key!r} has the type {node_type!r}; the graph has: {', '.join(schema.nodes)}")
        sentence, index = (_read_index(attributes, name, key) for name in ("sentence", "index"))
        yield _Element(node_type, sentence, index, key, attributes)


def _read_edges(nx_graph: nx.DiGraph, schema: _Schema, nodes: Mapping[Any, _Element]) -> Iterator[_Element]:
    for source, target, attributes in nx_graph.edges(data=True):
        key = (source, target)
        name = _read_attribute(attributes, "relation", key)
        relation = find_relation(list(schema.edges), (nodes[source].type, name, nodes[target].type))
        yield _Element(relation, nodes[target].sentence, _read_index(attributes, "edge_id", key), key, attributes)


def _number_elements(elements: Iterable[_Element], types: Iterable[T]) -> dict[T, list[_Element]]:
    """The elements of each type, numbered by sentence and index."""
    groups: dict[T, list[_Element]] = {each: [] for each in types}
    for element in sorted(elements, key=lambda element: (element.sentence, element.index)):
        group = groups[element.type]
        element.number = len(group)
        group.append(element)
    return groups


def _check_places(nodes: Mapping[str, Sequence[_Element]]) -> None:
    """Raise when two nodes have the same sentence and index."""
    for node_type, group in nodes.items():
        for first, second in pairwise(group):
            if (first.sentence, first.index) == (second.sentence, second.index):
                raise GraphError(
                    f"nodes {first.key!r} and {second.key!r} are both {node_type} {first.index} of sentence "
                    f"{first.sentence}; number the sentences of one graph after those of the other"
                )


def _read_attribute(attributes: Mapping[str, Any], name: str, key: Any) -> Any:
    if name not in attributes:
        raise GraphError(f"{key!r} has no attribute {name!r}; set the attributes that to_networkx sets")
    return attributes[name]


def _read_index(attributes: Mapping[str, Any], name: str, key: Any) -> int:
    value = _read_attribute(attributes, name, key)
    if not isinstance(value, int | float) or value < 0 or value % 1 != 0:
        raise GraphError(f"{key!r} has {name} {value!r}; it must be an integer of at least 0")
    return int(value)


def _stack_features(elements: Sequence[_Element], types: RowTypes) -> dict[str, Tensor]:
    """The feature tensors of one node type or relation."""
    tensors = {}
    for name, (attribute, dtype, shape) in types.items():
        rows = [_read_attribute(element.attributes, attribute, element.key) for element in elements]
        try:
            values = _parse_rows([json.loads(row) for row in rows] if shape else rows, getattr(torch, dtype))
            tensors[name] = values.reshape(len(elements), *shape)
        except (TypeError, ValueError, RuntimeError):
            raise GraphError(f"values of attribute {attribute!r} are not {dtype} of shape {tuple(shape)}") from None
    return tensors


def _parse_rows(rows: list[Any], dtype: torch.dtype) -> Tensor:
    values = torch.tensor(rows, dtype=dtype)
    if not dtype.is_floating_point and not torch.equal(values.double(), torch.tensor(rows, dtype=torch.float64)):
        raise ValueError("not whole numbers")  # PyTorch truncates them
    return values


def _count_by_sentence(elements: Sequence[_Element], count: int, dtype: torch.dtype) -> Tensor:
    """(count,) number of elements of each sentence."""
    sentences = torch.tensor([element.sentence for element in elements], dtype=torch.long)
    return torch.bincount(sentences, minlength=count).to(dtype)
