"""The page that a sentence's graph is drawn on: tokens in a row, relations as arcs above or as matrices below it.

All lengths in this file are inches; text sizes are points.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from matplotlib.path import Path as Curve

from graphattn.builders.files import atomic_file
from graphattn.exceptions import DataError

# Okabe and Ito's colours, told apart by colour-blind readers; their yellow is too pale on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
LONGEST_TEXT = 24
_INK, _GREY, _FAINT = "#222222", "#777777", "#EEEEEE"
# matplotlib's own font knows Latin, Greek, Cyrillic and Arabic letters; of these, the installed ones add the rest.
_MORE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "PingFang SC", "Microsoft YaHei"),
    *("Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji", "Segoe UI Symbol", "Arial Unicode MS"),
)
_TITLE, _TOKEN, _NAME, _NOTE, _LABEL = 13.0, 11.0, 9.5, 7.5, 6.5
_MARGIN, _NARROWEST = 0.25, 5.5
_HIGHEST = 2.5  # of all levels of arcs together
_WIDEST_CELL, _NARROWEST_CELL = 0.19, 0.1
_RULER_DPI, _DPI = 100, 160
_BOLD = 1.15  # at most so much wider than the regular letters that the ruler measures


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation as it is drawn.

    Parameters
    ----------
    name, colour : how it is called and told apart
    texts, centres : of the nodes that it joins: what they say and where they stand in the row of tokens
    edges : (source, destination) positions among these nodes
    strengths : for each edge, from 0 to 1; None when all are equal
    labels : a text for each edge; None when they have none
    in_row : whether all nodes stand in the row of tokens, so that arcs can join them
    """

    name: str
    colour: str
    texts: list[str]
    centres: list[float]
    edges: list[tuple[int, int]]
    strengths: list[float] | None = None
    labels: Sequence[str] | None = None
    in_row: bool = True

    @property
    def is_regular(self) -> bool:
        """Whether a matrix says more than arcs: most nodes have one unbroken run of sources, or edges are many."""
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
        unbroken = all(max(run) - min(run) + 1 == len(run) for run in sources.values())
        linked = {destination for _, destination in links}
        return unbroken and (not links or 2 * len(linked) > len(self.texts))

    def strength(self, number: int) -> float:
        """How strongly to draw an edge."""
        return 1.0 if self.strengths is None else self.strengths[number]


def printable(text: str, longest: int = LONGEST_TEXT) -> str:
    r"""The text on one line, with signs for what has no shape, and its middle left out when it is long.

    Examples
    --------
    >>> print(visible("a\nb"), visible(""), visible("x" * 30), sep="|")
    a\nb|''|xxxxxxxxxxxxxxxx…xxxxxxx
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    if not shown.strip():
        shown = shown.replace(" ", "␣") or "''"
    return shown if len(shown) <= longest else f"{shown[: longest - 8]}…{shown[-7:]}"


@contextmanager
def own_settings() -> Iterator[None]:
    """Draw the same whatever a user's matplotlibrc says, the same bytes each time, silent about missing glyphs."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams["svg.hashsalt"] = "graphattn"
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure beside its place and move it there, so that no half picture is ever seen.

    Parameters
    ----------
    figure : finished
    path : its suffix is ``.png``, ``.svg`` or ``.pdf``

    Raises
    ------
    DataError
        when the file cannot be written
    """
    suffix = path.suffix.lower()
    undated = {".png": {"Software": "graphattn"}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as temporary:
            figure.savefig(temporary, format=suffix[1:], dpi=_DPI, metadata=undated, facecolor="white")
    except OSError as error:
        raise DataError(
            f"cannot write the picture: {error.strerror or error}",
            path=path,
            hint="Name a file in a folder that can be written to.",
        ) from error


@cache
def font_families() -> list[str]:
    """The fonts to write tokens with; where one lacks a letter, the next is asked."""
    installed = set(font_manager.fontManager.get_font_names())
    return ["DejaVu Sans", *(name for name in _MORE_FONTS if name in installed)]


class Sheet:
    """A page that grows downwards: x counts from the sentence's first token, y from the page's top."""

    def __init__(self) -> None:
        self.figure = Figure(facecolor="white")
        self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self._ruler = FigureCanvasAgg(Figure(dpi=_RULER_DPI)).get_renderer()
        self._left, self._right, self._y = 0.0, _NARROWEST, 0.0

    def centres_of(self, texts: Sequence[str], words: Sequence[int]) -> list[float]:
        """Where the tokens stand: beside each other, closer within a word."""
        centres: list[float] = []
        end = 0.0
        for number, text in enumerate(texts):
            half = max(self._width(text, _TOKEN), 0.16) / 2
            gap, step = (0.1, 0.3) if number and words[number] == words[number - 1] else (0.26, 0.52)
            centres.append(max(end + gap + half, centres[-1] + step) if number else half)
            end = centres[-1] + half
        self._right = max(end, _NARROWEST)
        return centres

    def draw(
        self,
        relations: Sequence[Relation],
        texts: Sequence[str],
        centres: Sequence[float],
        words: Sequence[int],
        title: str | None,
    ) -> None:
        """Draw everything, from the title down to the note that explains it."""
        arcs = [relation for relation in relations if not relation.is_regular]
        matrices = [relation for relation in relations if relation.is_regular]
        names = [self._width(relation.name, _NAME) * _BOLD + 0.45 for relation in arcs]
        self._left = -max([*names, 1.1]) if arcs else 0.0
        if title:
            self._y -= 0.18
            self._write(self._left, title, _TITLE, weight="bold", ha="left")
            self._right = max(self._right, self._left + self._width(title, _TITLE) * _BOLD)
            self._y -= 0.12
        for relation in arcs:
            self._draw_arcs(relation)
        self._y -= 0.14
        self._draw_tokens(texts, centres, words)
        self._draw_matrices(matrices)
        self._draw_note(arcs, matrices, any(relation.strengths is not None for relation in relations))

    def save(self, path: Path) -> None:
        """Write the page as :func:`write_figure` does."""
        width, height = self._right - self._left + 2 * _MARGIN, _MARGIN - self._y
        self.figure.set_size_inches(width, height)
        self.axes.set_xlim(self._left - _MARGIN, self._right + _MARGIN)
        self.axes.set_ylim(self._y, _MARGIN)
        write_figure(self.figure, path)

    def _width(self, text: str, size: float) -> float:
        font = font_manager.FontProperties(family=font_families(), size=size)
        return self._ruler.get_text_width_height_descent(text, font, ismath=False)[0] / _RULER_DPI

    def _write(self, x: float, text: str, size: float, *, y: float | None = None, **options: Any) -> None:
        options = {"color": _INK, "ha": "center", "va": "baseline", **options}
        self.axes.text(
            x, self._y if y is None else y, text, size=size, family=font_families(), parse_math=False, **options
        )

    def _heading(self, relation: Relation, x: float, y: float) -> None:
        """The entry of the legend: colour, name and number of edges."""
        self.axes.add_patch(Rectangle((x, y - 0.005), 0.1, 0.1, facecolor=relation.colour, lw=0))
        self._write(x + 0.16, relation.name, _NAME, weight="bold", ha="left", y=y)
        count = len(relation.edges)
        self._write(x + 0.16, f"{count:,} edge{'' if count == 1 else 's'}", _NOTE, color=_GREY, ha="left", y=y - 0.14)

    def _draw_arcs(self, relation: Relation) -> None:
        """One band: the legend at the left, a dot for each node, arcs above the dots and rings below them."""
        arcs = _arcs(relation)
        levels = max((arc.level for arc in arcs), default=0)
        step = min(0.17, _HIGHEST / max(levels, 1))
        self._y -= max(step * levels, 0.1) + 0.2
        self._heading(relation, self._left, self._y + 0.03)
        self.axes.hlines(self._y, 0, max(relation.centres, default=0.0), color=_FAINT, lw=1, zorder=0)
        self.axes.scatter(relation.centres, [self._y] * len(relation.centres), s=9, color=_INK, lw=0, zorder=4)
        for arc in arcs:
            self._draw_arc(arc, self._y + step * arc.level, relation.colour)
        for number, (source, destination) in enumerate(relation.edges):
            if source == destination:
                strength = relation.strength(number)
                look = {"ec": relation.colour, "lw": 0.4 + 0.8 * strength, "alpha": 0.25 + 0.75 * strength}
                self.axes.add_patch(Circle((relation.centres[source], self._y - 0.055), 0.05, fill=False, **look))
        self._y -= 0.2

    def _draw_arc(self, arc: _Arc, top: float, colour: str) -> None:
        """Up, over and down with round corners; heads where it arrives."""
        (start, end), low = arc.feet, self._y
        bend = min(0.22, abs(end - start) / 2) * (1 if end > start else -1)
        points = [(start, low), (start, top), (start + bend, top), (end - bend, top), (end, top), (end, low)]
        turns = [Curve.MOVETO, Curve.CURVE3, Curve.CURVE3, Curve.LINETO, Curve.CURVE3, Curve.CURVE3]
        self.axes.add_patch(
            FancyArrowPatch(
                path=Curve(points, turns),
                arrowstyle=f"{'<|-|>' if arc.both_ways else '-|>'},head_length=2.6,head_width=1.3",
                shrinkA=1.5,
                shrinkB=1.5,
                mutation_scale=1.3,
                lw=0.5 + 0.9 * arc.strength,
                color=colour,
                alpha=0.2 + 0.8 * arc.strength,
                zorder=1 + arc.strength,
            )
        )
        if arc.label:
            back = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            middle = (start + end) / 2
            self._write(middle, printable(arc.label), _LABEL, y=top, va="center_baseline", bbox=back, zorder=3)

    def _draw_tokens(self, texts: Sequence[str], centres: Sequence[float], words: Sequence[int]) -> None:
        """The sentence; a bracket under the tokens of a word."""
        for text, centre in zip(texts, centres, strict=True):
            self._write(centre, text, _TOKEN)
        if not texts:
            self._write(0, "(no tokens)", _TOKEN, color=_GREY, ha="left")
        self._y -= 0.12
        for word in sorted(set(words)):
            span = [token for token, own in enumerate(words) if own == word]
            if len(span) > 1:
                first, last = (self._width(texts[token], _TOKEN) / 2 for token in (span[0], span[-1]))
                start, end = centres[span[0]] - first, centres[span[-1]] + last
                corners = [self._y + 0.04, self._y, self._y, self._y + 0.04]
                self.axes.plot([start, start, end, end], corners, color=_INK, lw=0.9, solid_capstyle="butt")
        self._y -= 0.1

    def _draw_matrices(self, relations: Sequence[Relation]) -> None:
        """Side by side, as many to a line as fit; rows are destinations, columns sources."""
        if not relations:
            return
        largest = max(len(relation.texts) for relation in relations)
        label = max(self._width(text, _LABEL) for relation in relations for text in relation.texts) + 0.06
        room, gap = self._right - self._left - label, 0.3
        if any(relation.texts != relations[0].texts for relation in relations):
            gap += label  # each has labels of its own
        per_line = max(1, min(len(relations), int((room + gap) / (_NARROWEST_CELL * largest + gap))))
        lines = -(-len(relations) // per_line)
        per_line = -(-len(relations) // lines)
        cell = min(_WIDEST_CELL, max(_NARROWEST_CELL, ((room + gap) / per_line - gap) / largest))
        names = max(self._width(relation.name, _NAME) * _BOLD + 0.16 for relation in relations)
        step = max(cell * largest, names, 0.8) + gap
        self._right = max(self._right, self._left + label + step * per_line - gap)
        for line in range(lines):
            chosen = relations[line * per_line : (line + 1) * per_line]
            self._y -= 0.3
            for number, relation in enumerate(chosen):
                x = self._left + label + number * step
                self._heading(relation, x, self._y)
                same_rows = number and relation.texts == chosen[number - 1].texts
                self._draw_matrix(relation, x, self._y - 0.22 - label, cell, rows=not same_rows)
            self._y -= 0.22 + label + cell * max(len(relation.texts) for relation in chosen)

    def _draw_matrix(self, relation: Relation, x: float, y: float, cell: float, *, rows: bool) -> None:
        """A cell for each pair of nodes, coloured where there is an edge; labels above, and at the left if wanted."""
        count = len(relation.texts)
        size = min(_LABEL, cell * 72 * 0.9)

        def square(column: int, row: int) -> list[tuple[float, float]]:
            left, top, side = x + column * cell, y - row * cell, cell * 0.92
            return [(left, top), (left + side, top), (left + side, top - side), (left, top - side)]

        empty = [square(column, row) for row in range(count) for column in range(count)]
        self.axes.add_collection(PolyCollection(empty, facecolors=_FAINT, linewidths=0), autolim=False)
        filled = [square(source, destination) for source, destination in relation.edges]
        alphas = [0.12 + 0.88 * relation.strength(number) for number in range(len(filled))]
        colours = [matplotlib.colors.to_rgba(relation.colour, alpha) for alpha in alphas]
        self.axes.add_collection(PolyCollection(filled, facecolors=colours, linewidths=0), autolim=False)
        for number, text in enumerate(relation.texts):
            middle = (number + 0.46) * cell
            self._write(x + middle, text, size, y=y + 0.03, rotation=90, va="bottom")
            if rows:
                self._write(x - 0.04, text, size, y=y - middle, ha="right", va="center_baseline")

    def _draw_note(self, arcs: Sequence[Relation], matrices: Sequence[Relation], weighted: bool) -> None:
        """How to read the picture, as far as there is something to read."""
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
            self._write(self._left, line, _NOTE, color=_GREY, ha="left")
        self._y -= _MARGIN


@dataclass(slots=True)
class _Arc:
    """One curve between two nodes: an edge, or two that go both ways and look the same."""

    edge: tuple[int, int]
    both_ways: bool
    strength: float
    label: str
    level: int = 0
    feet: tuple[float, float] = (0.0, 0.0)


def _arcs(relation: Relation) -> list[_Arc]:
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
    """Arcs that meet at a node stand side by side, so that none crosses another: long ones in the middle."""
    at: dict[int, list[tuple[bool, int, int]]] = {}
    for number, arc in enumerate(arcs):
        for here, there in (arc.edge, arc.edge[::-1]):
            to_the_right = there > here
            at.setdefault(here, []).append((to_the_right, -arc.level if to_the_right else arc.level, number))
    foot: dict[tuple[int, int], float] = {}
    for node, meeting in at.items():
        step = min(0.06, 0.3 / len(meeting))
        for place, (_, _, number) in enumerate(sorted(meeting)):
            foot[node, number] = centres[node] + (place - (len(meeting) - 1) / 2) * step
    for number, arc in enumerate(arcs):
        arc.feet = foot[arc.edge[0], number], foot[arc.edge[1], number]
