"""Arcs over a sentence: who looks at whom, coloured by relation, as thick as the weight."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path as Curve

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing.canvas import PALETTE, Sheet, own_settings, printable
from graphattn.experiments.drawing.graph import MOST_TOKENS
from graphattn.experiments.drawing.picture_file import GREY, INK, heading, picture
from graphattn.models.inspection import Attention, AttentionMap
from graphattn.models.inspection.words import word_ids_of

MOST_ARCS = 60
WEAKEST = 0.05
_TOKEN, _NOTE, _NAME = 11.0, 8.0, 9.5
_HIGHEST, _LOWEST = 2.2, 0.35  # inches of the arcs above (and below) the tokens
_MARGIN = 0.3
_COLUMNS = {"relation": "", "source": 0, "target": 0, "weight": 0.0}


def draw_arcs(attention: Attention, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Draw the edges between different tokens as arcs, from who is looked at to who looks.

    Arcs to the right run above the tokens, arcs to the left below. An arc stands for the mean over the heads on its
    relation; each text shows its 60 strongest of at least 0.05.

    Parameters
    ----------
    attention : ``attention.only(layer=1)`` for one layer, or with a head; edges of other nodes are not drawn
    path : file to write, ``.png``, ``.svg`` or ``.pdf``
    title : first line; the prediction when None

    Raises
    ------
    ConfigError
        for another suffix, for more tokens than a picture can show, or where no edge is between tokens of one text
    DataError
        when the file cannot be written

    Examples
    --------
    >>> from graphattn.models import TextClassifier, TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=1)).fit(["good film", "bad film"] * 4, [1, 0] * 4)
    >>> draw_arcs(classifier.attention("good film"), getfixture("tmp_path") / "arcs.svg").name
    'arcs.svg'
    """
    inside = {text: _maps_inside(attention, text) for text in attention.sentences}
    if not any(inside.values()):
        raise ConfigError("arcs join the tokens of one text, and no edge here does; draw matrices")
    arcs = {text: _arcs(maps) for text, maps in inside.items()}
    for text in arcs:
        if len(attention.tokens[text]) > MOST_TOKENS:
            raise ConfigError(
                f"{len(attention.tokens[text])} tokens do not fit into a picture; it shows up to {MOST_TOKENS}"
            )
    relations = list(dict.fromkeys(one.relation for one in attention.maps))
    colours = {relation: PALETTE[number % len(PALETTE)] for number, relation in enumerate(relations)}
    used = [relation for relation in relations if any((own.relation == relation).any() for own in arcs.values())]
    rows = [_Row(attention, text, own) for text, own in arcs.items()]
    width = max([row.width for row in rows] + [5.5]) + 2 * _MARGIN
    height = 1.0 + sum(row.above + row.below + 0.45 for row in rows)
    with picture(path, width, height) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-_MARGIN, width - _MARGIN), ylim=(-height, 0))
        axes.set_axis_off()
        axes.text(0, -0.35, title or heading(attention, width), size=12, weight="bold", color=INK, parse_math=False)
        _legend(axes, {relation: colours[relation] for relation in used}, -0.62)
        y = -0.75
        for row in rows:
            y -= row.above + 0.2
            row.draw(axes, y, colours)
            y -= row.below + 0.25
    return Path(path)


def _maps_inside(attention: Attention, text: str) -> list[AttentionMap]:
    """Those between tokens of a text; what a translator writes has none."""
    return [one for one in attention.maps if one.source_part == one.target_part == text]


def _arcs(inside: list[AttentionMap]) -> pd.DataFrame:
    """The edges to draw: relation, source, target and the mean weight over heads."""
    if not inside:
        return pd.DataFrame(_COLUMNS, index=[0]).iloc[:0]
    layers = len({one.layer for one in inside})
    rows = [
        pd.DataFrame(
            {
                "relation": one.relation,
                "source": one.sources,
                "target": one.targets,
                "weight": one.weights.mean(axis=1) / layers,
            }
        )
        for one in inside
    ]
    table = pd.concat(rows).groupby(["relation", "source", "target"], as_index=False).weight.sum()
    strong = table[(table.source != table.target) & (table.weight >= WEAKEST)]
    return strong.nlargest(MOST_ARCS, "weight").sort_values("weight")


class _Row:
    """One text with its arcs."""

    def __init__(self, attention: Attention, text: str, arcs: pd.DataFrame):
        sentence = attention.sentences[text]
        self.texts = [printable(token) for token in attention.tokens[text]]
        with own_settings():
            self.centres = np.array(Sheet().centres_of(self.texts, word_ids_of(sentence)))
        self.arcs = arcs
        self.width = float(self.centres[-1]) + 0.6
        spans = np.abs(self.centres[arcs.source] - self.centres[arcs.target])
        right = (arcs.source < arcs.target).to_numpy()
        self.above, self.below = (self._height(spans[side]) for side in (right, ~right))

    def _height(self, spans: np.ndarray) -> float:
        return float(_rise(spans.max())) if len(spans) else 0.1

    def draw(self, axes: Axes, y: float, colours: dict[str, str]) -> None:
        """Tokens on a line at y, arcs above and below."""
        for text, centre in zip(self.texts, self.centres, strict=True):
            axes.text(centre, y, text, size=_TOKEN, ha="center", va="center", color=INK, parse_math=False)
        for arc in self.arcs.itertuples():
            start, end = float(self.centres[arc.source]), float(self.centres[arc.target])
            way = 1 if end > start else -1
            foot, top = y + 0.12 * way, y + (0.12 + 4 / 3 * _rise(abs(end - start))) * way
            curve = Curve([(start, foot), (start, top), (end, top), (end, foot)], [1, 4, 4, 4])
            axes.add_patch(
                FancyArrowPatch(
                    path=curve,
                    arrowstyle="-|>,head_length=2.4,head_width=1.2",
                    mutation_scale=1.3,
                    color=colours[arc.relation],
                    lw=0.4 + 2.4 * arc.weight,
                    alpha=min(1.0, 0.15 + 0.85 * arc.weight),
                    shrinkA=0,
                    shrinkB=0,
                    capstyle="butt",
                )
            )


def _rise(span: float) -> float:
    """How high an arc rises: less and less with its span."""
    return float(_LOWEST * 0.5 + min(_HIGHEST, 0.42 * span**0.75))


def _legend(axes: Axes, colours: dict[str, str], y: float) -> None:
    handles = [Line2D([], [], color=colour, lw=3, label=printable(relation)) for relation, colour in colours.items()]
    note = "An arrow points to the token that attends; above to the right, below to the left."
    axes.text(0, axes.get_ylim()[0] + 0.12, note, size=_NOTE, color=GREY)
    if handles:
        axes.legend(
            handles=handles,
            loc="center left",
            bbox_to_anchor=(0, y),
            bbox_transform=axes.transData,
            ncols=len(handles),
            fontsize=_NAME,
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            handlelength=1.2,
        )
