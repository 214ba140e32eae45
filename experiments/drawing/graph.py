"""A picture of one sentence's graph: every relation as arcs above the tokens or as a matrix below them.

Irregular relations (dependencies, the sub-words of a word) become arcs. Regular ones, in which each token has one
unbroken run of sources (windows, order, complete), would be a thicket of arcs; as a matrix their shape shows at once.
So do relations with nodes that do not stand in the row of tokens (a relay, spans): they follow the tokens.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.drawing.canvas import PALETTE, Relation, Sheet, own_settings, printable
from graphattn.schema import DEPENDENCY, MEMBERSHIP, SENTENCE, TOKEN, WORD, CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph

FORMATS = (".png", ".svg", ".pdf")
MOST_TOKENS = 100
_LONGEST_TITLE = 100

Edges = Mapping[str, Sequence[tuple[int, int]]]
_Nodes = tuple[list[str], list[float]]


def draw_graph(
    graph: DGLGraph,
    sentence: Sentence | Sequence[str],
    path: str | os.PathLike[str],
    *,
    weights: Mapping[str, Sequence[float]] | None = None,
    title: str | None = None,
) -> Path:
    """Draw the graph that a :class:`~graphattn.builders.TextGraphBuilder` built of one sentence.

    Parameters
    ----------
    graph : graph of this one sentence, with or without ``[CLS]``
    sentence : its tokens, as a list or as a sentence; when it is parsed, dependency arcs bear their names
    path, weights, title : as in :func:`draw_sentence`; weights are in the order of edge ids

    Raises
    ------
    DataError
        when graph and sentence have different numbers of tokens
    ConfigError
        as :func:`draw_sentence`

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> sentence = Sentence(("time", "flies"))
    >>> folder = getfixture("tmp_path")
    >>> draw_graph(TextGraphBuilder([Window(3)]).build(sentence), sentence, folder / "graph.svg").name
    'graph.svg'
    """
    sentence = sentence if isinstance(sentence, Sentence) else Sentence(tuple(sentence))
    count = graph.num_nodes(TOKEN)
    extra = count - len(sentence)
    if extra not in (0, 1):
        raise DataError(
            f"the graph has {count} tokens, the sentence {len(sentence)}",
            hint="Draw one sentence with the graph that was built of it.",
        )
    tokens = ("[CLS]",) * extra + sentence.tokens
    shown = {name: kinds for name, kinds in _by_name(graph).items() if name != MEMBERSHIP}  # which the brackets show
    edges = {name: _pairs(graph, kinds, tokens) for name, kinds in shown.items()}
    word_relations = [name for name, kinds in shown.items() if kinds[0][0] == WORD]
    word_ids = graph.nodes[TOKEN].data["word"].tolist()
    names = {}
    if sentence.heads is not None and sentence.deprels is not None and DEPENDENCY in edges:
        ends = range(count) if DEPENDENCY in word_relations else word_ids
        names[DEPENDENCY] = _arc_names(sentence, extra, [(ends[a], ends[b]) for a, b in edges[DEPENDENCY]])
    return draw_sentence(
        tokens,
        edges,
        path,
        word_ids=word_ids,
        word_relations=word_relations,
        other_nodes={name: texts for name, kinds in shown.items() if (texts := _places(graph, kinds, tokens)[1])},
        edge_labels=names,
        weights={name: own for name, own in (weights or {}).items() if name != MEMBERSHIP},
        title=title,
    )


def draw_sentence(
    tokens: Sequence[str],
    edges: Edges,
    path: str | os.PathLike[str],
    *,
    word_ids: Sequence[int] | None = None,
    word_relations: Collection[str] = (),
    other_nodes: Mapping[str, Sequence[str]] | None = None,
    edge_labels: Mapping[str, Sequence[str]] | None = None,
    weights: Mapping[str, Sequence[float]] | None = None,
    title: str | None = None,
) -> Path:
    """Draw tokens and the edges between them.

    Parameters
    ----------
    tokens : up to 100 of them; any text, drawn as it is
    edges : relation -> its (source, destination) pairs, 0-based token positions
    path : file to write; its suffix says how: ``.png``, ``.svg`` or ``.pdf``
    word_ids : word of each token, from 0 and without gaps; brackets join the tokens of a word
    word_relations : relations whose edges count words, not tokens
    other_nodes : relation -> texts of the nodes that its edges count behind the tokens
    edge_labels : relation -> one text for each edge; shown on arcs, not in matrices
    weights : relation -> one weight >= 0 for each edge; edges are as dark as they are strong
    title : first line of the picture

    Returns
    -------
    The path. The file appears there when it is complete, never half written.

    Raises
    ------
    ConfigError
        for another suffix, or for more tokens than a picture can show
    DataError
        when an edge leaves the sentence, when something is not one for each edge or token, when a weight is negative,
        or when the file cannot be written

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> draw_sentence(["time", "flies"], {"dependency": [(0, 1), (1, 0)]}, folder / "two.png").name
    'two.png'
    """
    path = Path(path)
    _check_request(tokens, path, word_ids)
    words = list(range(len(tokens))) if word_ids is None else list(word_ids)
    texts = [printable(token) for token in tokens]
    with own_settings():
        sheet = Sheet()
        nodes = (texts, sheet.centres_of(texts, words))
        places = {True: _word_nodes(words, nodes), False: nodes}
        weights, edge_labels, other_nodes = weights or {}, edge_labels or {}, other_nodes or {}
        unknown = next((name for name in [*weights, *edge_labels, *other_nodes] if name not in edges), None)
        if unknown is not None:
            raise DataError(f"there are no edges of relation {unknown!r}", hint=f"There are: {', '.join(edges)}.")
        relations = [
            _relation(name, colour, places[name in word_relations], pairs, weights.get(name), edge_labels.get(name),
                      other_nodes.get(name, ()))
            for (name, pairs), colour in zip(edges.items(), cycle(PALETTE), strict=False)
        ]  # fmt: skip
        sheet.draw(relations, *nodes, words, printable(title, _LONGEST_TITLE) if title else None)
        sheet.save(path)
    return path


def _by_name(graph: DGLGraph) -> dict[str, list[CanonicalRelation]]:
    """The kinds of edges of each relation; relations with few edges first."""
    kinds: dict[str, list[CanonicalRelation]] = {}
    for relation in graph.canonical_etypes:
        kinds.setdefault(relation[1], []).append(relation)
    return dict(sorted(kinds.items(), key=lambda item: sum(map(graph.num_edges, item[1]))))


def _pairs(graph: DGLGraph, kinds: Sequence[CanonicalRelation], tokens: Sequence[str]) -> list[tuple[int, int]]:
    """The edges of a relation by the places of their ends in its row of nodes."""
    first, _ = _places(graph, kinds, tokens)
    return [
        (first[kind[0]] + a, first[kind[2]] + b) for kind in kinds for a, b in zip(*_ends(graph, kind), strict=True)
    ]


def _ends(graph: DGLGraph, relation: CanonicalRelation) -> tuple[list[int], list[int]]:
    sources, destinations = graph.edges(etype=relation, order="eid")
    return sources.tolist(), destinations.tolist()


def _places(
    graph: DGLGraph, kinds: Sequence[CanonicalRelation], tokens: Sequence[str]
) -> tuple[dict[str, int], list[str]]:
    """Where the nodes of each type begin in a relation's row of nodes, and what those behind the tokens say."""
    first: dict[str, int] = {TOKEN: 0, WORD: 0}
    texts: list[str] = []
    others = {end for source, _, target in kinds for end in (source, target)} - set(first)
    for kind in sorted(others, key=lambda kind: (-graph.num_nodes(kind), kind != SENTENCE, kind)):
        first[kind] = len(tokens) + len(texts)
        texts += _node_texts(graph, kind, tokens)
    return first, texts


def _node_texts(graph: DGLGraph, kind: str, tokens: Sequence[str]) -> list[str]:
    """What to call nodes that are no tokens: spans by their first and last token, others by type and number."""
    data, count = graph.nodes[kind].data, graph.num_nodes(kind)
    if "first" in data and "stop" in data:
        ends = zip(data["first"].tolist(), data["stop"].tolist(), strict=True)
        return [f"{tokens[first]} … {tokens[stop - 1]}" for first, stop in ends]
    return [kind] if count == 1 else [f"{kind} {number + 1}" for number in range(count)]


def _check_request(tokens: Sequence[str], path: Path, word_ids: Sequence[int] | None) -> None:
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(
            f"cannot draw to {path.name!r}; the name must end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    if len(tokens) > MOST_TOKENS:
        raise ConfigError(f"{len(tokens)} tokens do not fit into a picture; draw a part of up to {MOST_TOKENS} tokens")
    if word_ids is not None:
        Sentence(tuple(tokens), word_ids=tuple(word_ids))  # raises what is wrong with them


def _arc_names(sentence: Sentence, extra: int, arcs: Sequence[tuple[int, int]]) -> list[str]:
    """The dependency's name for each pair of words; nothing for a word and itself."""
    names: dict[tuple[int, int], str] = {}
    for word, (head, name) in enumerate(zip(sentence.heads or (), sentence.deprels or (), strict=True), start=extra):
        if head:
            names[word, head - 1 + extra] = names[head - 1 + extra, word] = name
    return [names.get(arc, "") for arc in arcs]


def _word_nodes(words: Sequence[int], nodes: _Nodes) -> _Nodes:
    """Texts and centres of the words that the tokens make up."""
    spans: dict[int, list[int]] = {}
    for token, word in enumerate(words):
        spans.setdefault(word, []).append(token)
    texts, centres = nodes
    return (
        ["".join(texts[token] for token in span) for span in spans.values()],
        [(centres[span[0]] + centres[span[-1]]) / 2 for span in spans.values()],
    )


def _relation(
    name: str,
    colour: str,
    nodes: _Nodes,
    pairs: Sequence[tuple[int, int]],
    weights: Sequence[float] | None,
    labels: Sequence[str] | None,
    others: Sequence[str],
) -> Relation:
    for field, values in (("weights", weights), ("edge_labels", labels)):
        if values is not None and len(values) != len(pairs):
            raise DataError(
                f"{len(values)} {field} for {len(pairs)} edges of {name!r}", field=field, hint="Give one for each edge."
            )
    texts, centres = nodes
    texts = [*texts, *map(printable, others)]
    edges = [(int(source), int(destination)) for source, destination in pairs]
    for edge in edges:
        if min(edge) < 0 or max(edge) >= len(texts):
            raise DataError(
                f"relation {name!r} has the edge {edge}, but only {len(texts)} nodes",
                field="edges",
                hint="Both ends are 0-based positions.",
            )
    strengths = None if weights is None else _strengths(name, weights)
    return Relation(printable(name), colour, texts, centres, edges, strengths, labels, in_row=not others)


def _strengths(name: str, weights: Sequence[float]) -> list[float]:
    values = [float(weight) for weight in weights]
    if not all(0 <= value < float("inf") for value in values):
        raise DataError(
            f"relation {name!r} has a negative or infinite weight", field="weights", hint="Give attention weights."
        )
    largest = max(values, default=0.0) or 1.0
    return [value / largest for value in values]
