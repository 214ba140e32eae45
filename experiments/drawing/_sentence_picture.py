"""A picture of one sentence: its tokens, and every relation as arcs above them or as a matrix below.

Irregular relations (dependencies, the sub-words of a word) become arcs. Regular ones, in which the sources of each
token are contiguous (windows, order, complete), would be too many arcs: a matrix shows their shape. Relations with
other nodes than tokens (a relay, spans) are matrices, too; these nodes follow the tokens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.path import Path as Curve

from graphattn.builders._paths import FilePath
from graphattn.exceptions import DataError
from graphattn.experiments.drawing._canvas import (
    FAINT,
    GREY,
    INK,
    LABEL_BOX,
    MAX_TOKENS,
    TOKEN_SIZE,
    add_arrow,
    add_fonts,
    assign_colours,
    check_count,
    font_families,
    new_picture,
    text_width,
    token_centres,
)
from graphattn.models.inspection.notebook import printable

_MAX_TITLE = 100
_TITLE, _NAME, _NOTE, _LABEL = 13.0, 9.5, 7.5, 6.5
_MARGIN, _MIN_WIDTH = 0.25, 5.5
_MAX_ARCS_HEIGHT = 2.5
_MAX_CELL, _MIN_CELL = 0.19, 0.1
_BOLD = 1.15  # upper bound of the width of bold letters over that of regular ones, which text_width measures

WordEdges = Mapping[str, Sequence[tuple[int, int]]]
_TextsAndCentres = tuple[list[str], list[float]]


def draw_sentence(
    tokens: Sequence[str],
    edges: WordEdges,
    path: FilePath | None = None,
    *,
    word_ids: Sequence[int] | None = None,
    word_relations: Collection[str] = (),
    other_nodes: Mapping[str, Sequence[str]] | None = None,
    edge_labels: Mapping[str, Sequence[str]] | None = None,
    weights: Mapping[str, Sequence[float]] | None = None,
    title: str | None = None,
) -> Figure:
    """Draw tokens and the edges between them.

    Examples
    --------
    >>> _ = draw_sentence(["time", "flies"], {"dependency": [(0, 1), (1, 0)]}, getfixture("tmp_path") / "two.png")
    """
    check_count(len(tokens), "tokens", MAX_TOKENS)
    words = list(range(len(tokens))) if word_ids is None else list(word_ids)
    weights, edge_labels, other_nodes = weights or {}, edge_labels or {}, other_nodes or {}
    unknown = next((name for name in weights if name not in edges), None)
    if unknown is not None:
        raise DataError(f"there are no edges of relation {unknown!r}", hint=f"There are: {', '.join(edges)}.")
    texts = [printable(token) for token in tokens]
    add_fonts(texts)
    with new_picture(path) as figure:
        nodes = texts, token_centres(texts, words)
        word_nodes = _join_words(words, nodes)
        relations = []
        for name, colour in assign_colours(edges).items():
            (row, centres), others = word_nodes if name in word_relations else nodes, other_nodes.get(name, ())
            relations.append(
                DrawnRelation(
                    printable(name),
                    colour,
                    texts=[*row, *map(printable, others)],
                    centres=centres,
                    edges=list(edges[name]),
                    strengths=_scale_weights(name, weights[name], len(edges[name])) if name in weights else None,
                    labels=edge_labels.get(name),
                    in_row=not others,
                )
            )
        _SentencePicture(figure).draw(relations, *nodes, words, printable(title, _MAX_TITLE) if title else None)
    return figure


def _join_words(words: Sequence[int], nodes: _TextsAndCentres) -> _TextsAndCentres:
    """Texts and centres of words, from those of their tokens."""
    spans: dict[int, list[int]] = {}
    for token, word in enumerate(words):
        spans.setdefault(word, []).append(token)
    texts, centres = nodes
    return (
        ["".join(texts[token] for token in span) for span in spans.values()],
        [(centres[span[0]] + centres[span[-1]]) / 2 for span in spans.values()],
    )


def _scale_weights(name: str, weights: Sequence[float], count: int) -> list[float]:
    if len(weights) != count:
        raise DataError(
            f"{len(weights)} weights for {count} edges of {name!r}", field="weights", hint="Give one for each edge."
        )
    values = [float(weight) for weight in weights]
    if not all(0 <= value < float("inf") for value in values):
        raise DataError(
            f"relation {name!r} has a negative or infinite weight", field="weights", hint="Give attention weights."
        )
    largest = max(values, default=0.0) or 1.0
    return [value / largest for value in values]


@dataclass(frozen=True, slots=True)
class DrawnRelation:
    """A relation to draw."""

    name: str
    colour: str
    texts: list[str]
    centres: list[float]
    edges: list[tuple[int, int]]  # (source, destination) positions among its nodes
    strengths: list[float] | None = None  # for each edge, from 0 to 1; None if all are equal
    labels: Sequence[str] | None = None  # a text for each edge; None if there are none
    in_row: bool = True  # whether all nodes are in the row of tokens, so that arcs can join them

    @property
    def is_regular(self) -> bool:
        """Whether a matrix shows more than arcs: the sources of most nodes are contiguous, or there are many edges."""
        if not self.in_row:
            return True
        links = [edge for edge in self.edges if edge[0] != edge[1]]
        if len(links) > (2 if self.labels is None else 4) * len(self.texts):
            return True
        if self.labels is not None or not self.edges:
            return False
        sources: dict[int, set[int]] = {}
        for source, destination in self.edges:
            sources.setdefault(destination, set()).add(source)
        contiguous = all(max(run) - min(run) + 1 == len(run) for run in sources.values())
        linked = {destination for _, destination in links}
        return contiguous and (not links or 2 * len(linked) > len(self.texts))

    def strength(self, number: int) -> float:
        """The strength of an edge, from 0 to 1."""
        return 1.0 if self.strengths is None else self.strengths[number]


class _SentencePicture:
    """A page that grows downwards: x starts at the first token, y at the top."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self._left, self._right, self._y = 0.0, _MIN_WIDTH, 0.0

    def draw(
        self,
        relations: Sequence[DrawnRelation],
        texts: Sequence[str],
        centres: Sequence[float],
        words: Sequence[int],
        title: str | None,
    ) -> None:
        """Draw title, arcs, tokens, matrices and a note that explains them, from top to bottom."""
        if centres:
            last = max(zip(centres, texts, strict=True))  # in the row
            self._right = max(self._right, last[0] + max(text_width(last[1], TOKEN_SIZE), 0.16) / 2)
        arcs = [relation for relation in relations if not relation.is_regular]
        matrices = [relation for relation in relations if relation.is_regular]
        names = [text_width(relation.name, _NAME) * _BOLD + 0.45 for relation in arcs]
        self._left = -max([*names, 1.1]) if arcs else 0.0
        if title:
            self._y -= 0.18
            self._write(self._left, title, _TITLE, weight="bold", ha="left")
            self._right = max(self._right, self._left + text_width(title, _TITLE) * _BOLD)
            self._y -= 0.12
        for relation in arcs:
            self._draw_arcs(relation)
        self._y -= 0.14
        self._draw_tokens(texts, centres, words)
        self._draw_matrices(matrices)
        self._draw_note(arcs, matrices, any(relation.strengths is not None for relation in relations))
        self._fit()

    def _fit(self) -> None:
        """Fit the figure to the page."""
        width, height = self._right - self._left + 2 * _MARGIN, _MARGIN - self._y
        self.figure.set_size_inches(width, height)
        self.axes.set_xlim(self._left - _MARGIN, self._right + _MARGIN)
        self.axes.set_ylim(self._y, _MARGIN)

    def _write(self, x: float, text: str, size: float, *, y: float | None = None, **options: Any) -> None:
        options = {"color": INK, "ha": "center", "va": "baseline", **options}
        self.axes.text(
            x, self._y if y is None else y, text, size=size, family=font_families(), parse_math=False, **options
        )

    def _draw_heading(self, relation: DrawnRelation, x: float, y: float) -> None:
        """Draw colour, name and number of edges."""
        self.axes.add_patch(Rectangle((x, y - 0.005), 0.1, 0.1, facecolor=relation.colour, lw=0))
        self._write(x + 0.16, relation.name, _NAME, weight="bold", ha="left", y=y)
        count = len(relation.edges)
        self._write(x + 0.16, f"{count:,} edge{'' if count == 1 else 's'}", _NOTE, color=GREY, ha="left", y=y - 0.14)

    def _draw_arcs(self, relation: DrawnRelation) -> None:
        """Draw the legend at the left, a dot for each node, arcs above the dots and rings below them."""
        arcs = arrange_arcs(relation)
        levels = max((arc.level for arc in arcs), default=0)
        step = min(0.17, _MAX_ARCS_HEIGHT / max(levels, 1))
        self._y -= max(step * levels, 0.1) + 0.2
        self._draw_heading(relation, self._left, self._y + 0.03)
        self.axes.hlines(self._y, 0, max(relation.centres, default=0.0), color=FAINT, lw=1, zorder=0)
        self.axes.scatter(relation.centres, [self._y] * len(relation.centres), s=9, color=INK, lw=0, zorder=4)
        for arc in arcs:
            self._draw_arc(arc, self._y + step * arc.level, relation.colour)
        for number, (source, destination) in enumerate(relation.edges):
            if source == destination:
                strength = relation.strength(number)
                look = {"ec": relation.colour, "lw": 0.4 + 0.8 * strength, "alpha": 0.25 + 0.75 * strength}
                self.axes.add_patch(Circle((relation.centres[source], self._y - 0.055), 0.05, fill=False, **look))
        self._y -= 0.2

    def _draw_arc(self, arc: _Arc, top: float, colour: str) -> None:
        """Draw an arc with round corners and arrow heads."""
        (start, end), low = arc.feet, self._y
        bend = min(0.22, abs(end - start) / 2) * (1 if end > start else -1)
        points = [(start, low), (start, top), (start + bend, top), (end - bend, top), (end, top), (end, low)]
        turns = [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3, Curve.LINETO, Curve.CURVE3, Curve.CURVE3]
        heads = "<|-|>" if arc.both_ways else "-|>"
        look = {"lw": 0.5 + 0.9 * arc.strength, "color": colour, "alpha": 0.2 + 0.8 * arc.strength}
        style = f"{heads},head_length=2.6,head_width=1.3"
        add_arrow(self.axes, points, turns, arrowstyle=style, shrink=1.5, zorder=1 + arc.strength, **look)
        if arc.label:
            middle = (start + end) / 2
            self._write(middle, printable(arc.label), _LABEL, y=top, va="center_baseline", bbox=LABEL_BOX, zorder=3)

    def _draw_tokens(self, texts: Sequence[str], centres: Sequence[float], words: Sequence[int]) -> None:
        """Draw the tokens, with a bracket under those of a word."""
        for text, centre in zip(texts, centres, strict=True):
            self._write(centre, text, TOKEN_SIZE)
        if not texts:
            self._write(0, "(no tokens)", TOKEN_SIZE, color=GREY, ha="left")
        self._y -= 0.12
        for word in sorted(set(words)):
            span = [token for token, token_word in enumerate(words) if token_word == word]
            if len(span) > 1:
                halves = [text_width(texts[token], TOKEN_SIZE) / 2 for token in span]
                start = min(centres[token] - half for token, half in zip(span, halves, strict=True))
                end = max(centres[token] + half for token, half in zip(span, halves, strict=True))
                corners = [self._y + 0.04, self._y, self._y, self._y + 0.04]
                self.axes.plot([start, start, end, end], corners, color=INK, lw=0.9, solid_capstyle="butt")
        self._y -= 0.1

    def _draw_matrices(self, relations: Sequence[DrawnRelation]) -> None:
        """Draw matrices side by side, as many to a line as fit; rows are destinations, columns sources."""
        if not relations:
            return
        largest = max(len(relation.texts) for relation in relations)
        label = max(text_width(text, _LABEL) for relation in relations for text in relation.texts) + 0.06
        room, gap = self._right - self._left - label, 0.3
        if any(relation.texts != relations[0].texts for relation in relations):
            gap += label  # each has its own labels
        per_line = max(1, min(len(relations), int((room + gap) / (_MIN_CELL * largest + gap))))
        lines = -(-len(relations) // per_line)
        per_line = -(-len(relations) // lines)
        cell = min(_MAX_CELL, max(_MIN_CELL, ((room + gap) / per_line - gap) / largest))
        names = max(text_width(relation.name, _NAME) * _BOLD + 0.16 for relation in relations)
        step = max(cell * largest, names, 0.8) + gap
        self._right = max(self._right, self._left + label + step * per_line - gap)
        for line in range(lines):
            members = relations[line * per_line : (line + 1) * per_line]
            self._y -= 0.3
            for number, relation in enumerate(members):
                x = self._left + label + number * step
                self._draw_heading(relation, x, self._y)
                same_rows = number and relation.texts == members[number - 1].texts
                self._draw_matrix(relation, x, self._y - 0.22 - label, cell, rows=not same_rows)
            self._y -= 0.22 + label + cell * max(len(relation.texts) for relation in members)

    def _draw_matrix(self, relation: DrawnRelation, x: float, y: float, cell: float, *, rows: bool) -> None:
        """Draw a cell for each pair of nodes, coloured for edges; labels above, and at the left if ``rows``."""
        count = len(relation.texts)
        size = min(_LABEL, cell * 72 * 0.9)

        def square(column: int, row: int) -> list[tuple[float, float]]:
            left, top, side = x + column * cell, y - row * cell, cell * 0.92
            return [(left, top), (left + side, top), (left + side, top - side), (left, top - side)]

        empty = [square(column, row) for row in range(count) for column in range(count)]
        self.axes.add_collection(PolyCollection(empty, facecolors=FAINT, linewidths=0), autolim=False)
        filled = [square(source, destination) for source, destination in relation.edges]
        alphas = [0.12 + 0.88 * relation.strength(number) for number in range(len(filled))]
        colours = [matplotlib.colors.to_rgba(relation.colour, alpha) for alpha in alphas]
        self.axes.add_collection(PolyCollection(filled, facecolors=colours, linewidths=0), autolim=False)
        for number, text in enumerate(relation.texts):
            middle = (number + 0.46) * cell
            self._write(x + middle, text, size, y=y + 0.03, rotation=90, va="bottom")
            if rows:
                self._write(x - 0.04, text, size, y=y - middle, ha="right", va="center_baseline")

    def _draw_note(self, arcs: Sequence[DrawnRelation], matrices: Sequence[DrawnRelation], weighted: bool) -> None:
        """Explain the parts that were drawn."""
        lines = []
        if any(relation.edges for relation in arcs):
            lines.append("Arcs: an arrow points to the token that attends; a ring: a token attends to itself.")
        if matrices:
            node = "token" if all(relation.in_row for relation in matrices) else "node"
            lines.append(f"Squares: the {node} of the row attends to the {node}s of its coloured columns.")
        if weighted:
            lines.append("The larger an edge's weight, the darker; the largest of each relation is full.")
        self._y -= 0.12
        for line in lines:
            self._y -= 0.14
            self._write(self._left, line, _NOTE, color=GREY, ha="left")
        self._y -= _MARGIN


@dataclass(slots=True)
class _Arc:
    """A curve between two nodes: an edge, or two in opposite directions that look the same."""

    edge: tuple[int, int]
    both_ways: bool
    strength: float
    label: str
    level: int = 0
    feet: tuple[float, float] = (0.0, 0.0)


def arrange_arcs(relation: DrawnRelation) -> list[_Arc]:
    """The curves of a relation, shortest first, each on a level above all that it spans."""
    labels = relation.labels or [""] * len(relation.edges)
    label_of = dict(zip(relation.edges, labels, strict=True))
    arcs = []
    for number, (edge, label) in enumerate(zip(relation.edges, labels, strict=True)):
        if edge[0] == edge[1]:
            continue
        repeats = label_of.get(edge[::-1]) == label
        if repeats and edge[0] > edge[1]:
            if relation.strengths is None:
                continue
            label = ""
        arcs.append(_Arc(edge, repeats and relation.strengths is None, relation.strength(number), label))
    arcs.sort(key=lambda arc: (abs(arc.edge[0] - arc.edge[1]), min(arc.edge), bool(arc.label)))
    for number, arc in enumerate(arcs):
        first, last = sorted(arc.edge)
        below = (other.level for other in arcs[:number] if min(other.edge) < last and first < max(other.edge))
        arc.level = max(below, default=0) + 1
    _place_feet(arcs, relation.centres)
    return arcs


def _place_feet(arcs: Sequence[_Arc], centres: Sequence[float]) -> None:
    """Place arcs that meet at a node side by side, long ones in the middle, so that none crosses another."""
    meetings: dict[int, list[tuple[bool, int, int]]] = {}
    for number, arc in enumerate(arcs):
        for here, there in (arc.edge, arc.edge[::-1]):
            to_the_right = centres[there] > centres[here]
            meetings.setdefault(here, []).append((to_the_right, -arc.level if to_the_right else arc.level, number))
    foot: dict[tuple[int, int], float] = {}
    for node, meeting in meetings.items():
        step = min(0.06, 0.3 / len(meeting))
        for rank, (_, _, number) in enumerate(sorted(meeting)):
            foot[node, number] = centres[node] + (rank - (len(meeting) - 1) / 2) * step
    for number, arc in enumerate(arcs):
        arc.feet = foot[arc.edge[0], number], foot[arc.edge[1], number]
