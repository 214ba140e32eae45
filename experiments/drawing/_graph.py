"""Pictures of graphs of one sentence, and the same graphs in Graphviz' language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from graphattn._edges import GraphBatch, as_batch
from graphattn._schema import DEPENDENCY, MEMBERSHIP, SENTENCE, TOKEN, WORD, CanonicalRelation
from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Sentence
from graphattn.exceptions import DataError
from graphattn.experiments.drawing._canvas import assign_colours
from graphattn.experiments.drawing._sentence_picture import draw_sentence

if TYPE_CHECKING:
    import networkx as nx

    from graphattn._edges import Graph


def draw_graph(
    graph: Graph,
    sentence: Sentence | Sequence[str],
    path: FilePath | None = None,
    *,
    weights: Mapping[str, Sequence[float]] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw the graph that a :class:`~graphattn.builders.TextGraphBuilder` built of one sentence.

    Parameters
    ----------
    graph : graph of this one sentence, with or without ``[CLS]``
    sentence : its tokens, as a list or as a sentence; dependency arcs of a parsed sentence are labelled
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``
    weights : relation -> the weight of each of its edges, in the order of edge ids
    title : first line

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    DataError
        if graph and sentence have different numbers of tokens
    ConfigError
        for another suffix, or for too many tokens

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> sentence = Sentence(("time", "flies"))
    >>> graph = TextGraphBuilder([Window(3)]).text_batch([sentence])
    >>> _ = draw_graph(graph, sentence, getfixture("tmp_path") / "graph.svg")
    """
    sentence = sentence if isinstance(sentence, Sentence) else Sentence(tuple(sentence))
    graph = as_batch(graph)
    count = graph.num_nodes(TOKEN)
    extra = count - len(sentence)
    if extra not in (0, 1):
        raise DataError(
            f"the graph has {count} tokens, the sentence {len(sentence)}",
            hint="Draw a sentence with its own graph.",
        )
    tokens = ("[CLS]",) * extra + tuple(sentence.tokens)
    kinds = {name: kinds for name, kinds in _group_by_name(graph).items() if name != MEMBERSHIP}  # drawn as brackets
    edges, other_nodes = {}, {}
    for name, members in kinds.items():
        first, other_nodes[name] = _place_nodes(graph, members, tokens)
        edges[name] = _collect_edges(graph, members, first)
    word_relations = [name for name, members in kinds.items() if members[0][0] == WORD]
    word_ids = graph.node_features[TOKEN]["word"].tolist()
    return draw_sentence(
        tokens,
        edges,
        path,
        word_ids=word_ids,
        word_relations=word_relations,
        other_nodes=other_nodes,
        edge_labels=_label_dependencies(sentence, edges, extra, None if DEPENDENCY in word_relations else word_ids),
        weights={name: values for name, values in (weights or {}).items() if name != MEMBERSHIP},
        title=title,
    )


def _group_by_name(graph: GraphBatch) -> dict[str, list[CanonicalRelation]]:
    """Relation -> its canonical relations; relations with few edges first."""
    kinds: dict[str, list[CanonicalRelation]] = {}
    for relation in graph.edges:
        kinds.setdefault(relation[1], []).append(relation)
    return dict(sorted(kinds.items(), key=lambda item: sum(graph.edges[relation].num_edges for relation in item[1])))


def _collect_edges(
    graph: GraphBatch, relations: Sequence[CanonicalRelation], first: Mapping[str, int]
) -> list[tuple[int, int]]:
    """The edges of a relation, as positions in its row of nodes, in which ``first`` is that of each node type."""
    edges: list[tuple[int, int]] = []
    for relation in relations:
        sources, destinations = graph.edges[relation].ends_by_id()
        starts, ends = sources + first[relation[0]], destinations + first[relation[2]]
        edges += zip(starts.tolist(), ends.tolist(), strict=True)
    return edges


def _place_nodes(
    graph: GraphBatch, relations: Sequence[CanonicalRelation], tokens: Sequence[str]
) -> tuple[dict[str, int], list[str]]:
    """The first position of each node type in a relation's row of nodes, and the texts of those after the tokens."""
    first: dict[str, int] = {TOKEN: 0, WORD: 0}
    texts: list[str] = []
    others = {end for source, _, target in relations for end in (source, target)} - set(first)
    for node_type in sorted(others, key=lambda name: (-graph.num_nodes(name), name != SENTENCE, name)):
        first[node_type] = len(tokens) + len(texts)
        texts += _name_nodes(graph, node_type, tokens)
    return first, texts


def _name_nodes(graph: GraphBatch, node_type: str, tokens: Sequence[str]) -> list[str]:
    """Name spans by their first and last token, other nodes by type and number."""
    data, count = graph.node_features[node_type], graph.num_nodes(node_type)
    if "first" in data and "stop" in data:
        ends = zip(data["first"].tolist(), data["stop"].tolist(), strict=True)
        return [f"{tokens[first]} … {tokens[stop - 1]}" for first, stop in ends]
    return [node_type] if count == 1 else [f"{node_type} {number + 1}" for number in range(count)]


def _label_dependencies(
    sentence: Sentence, edges: Mapping[str, list[tuple[int, int]]], extra: int, word_ids: list[int] | None
) -> dict[str, list[str]]:
    """The name of each dependency; empty for a word and itself. ``word_ids`` if edges are between tokens."""
    if sentence.heads is None or sentence.deprels is None or DEPENDENCY not in edges:
        return {}
    names: dict[tuple[int, int], str] = {}
    for word, (head, name) in enumerate(zip(sentence.heads, sentence.deprels, strict=True), start=extra):
        if head:
            names[word, head - 1 + extra] = names[head - 1 + extra, word] = name
    arcs = edges[DEPENDENCY] if word_ids is None else [(word_ids[a], word_ids[b]) for a, b in edges[DEPENDENCY]]
    return {DEPENDENCY: [names.get(arc, "") for arc in arcs]}


def to_dot(exported: nx.MultiDiGraph) -> str:
    """Write a ``.dot`` file for ``dot -Tsvg``: tokens in a row, edges in the colour of their relation.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> from graphattn._networkx_graphs import to_networkx
    >>> graph = TextGraphBuilder([Window(1)], cls=False).text_batch([["so"]])
    >>> print(to_dot(to_networkx(graph, tokens=["so"])), end="")
    digraph text {
      node [shape=plaintext];
      "token_0" [label="so"];
      { rank=same; "token_0"; }
      "token_0" -> "token_0" [color="#0072b2", tooltip="window:1"];
    }
    """
    tokens = [node for node, data in exported.nodes(data=True) if data["type"] == TOKEN]
    colours = assign_colours(sorted({data["relation"] for _, _, data in exported.edges(data=True)}))
    lines = ["digraph text {", "  node [shape=plaintext];"]
    for node, data in exported.nodes(data=True):
        lines.append(f"  {_quote(node)} [label={_quote(data['label'])}];")
    lines.append(f"  {{ rank=same; {' '.join(f'{_quote(name)};' for name in tokens)} }}")
    for first, second in pairwise(tokens):
        lines.append(f"  {_quote(first)} -> {_quote(second)} [style=invis, weight=100];")
    for source, target, data in exported.edges(data=True):
        look = f'color="{colours[data["relation"]]}", tooltip={_quote(data["relation"])}'
        lines.append(f"  {_quote(source)} -> {_quote(target)} [{look}];")
    return "\n".join([*lines, "}", ""])


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
