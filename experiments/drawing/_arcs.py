"""Arcs over a sentence: its strongest attention weights, coloured by relation."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from graphattn.builders._paths import FilePath
from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing._canvas import (
    INK,
    LABEL_BOX,
    LINE,
    MAX_TOKENS,
    TOKEN_SIZE,
    add_arrow,
    add_fonts,
    assign_colours,
    check_count,
    default_style,
    new_picture,
    token_centres,
    wrap_text,
    write_notes,
    write_text,
)
from graphattn.experiments.drawing._matrices import make_heading, wrap_branches
from graphattn.models.inspection import Attention, AttentionMap
from graphattn.models.inspection._edge_kinds import word_ids_of
from graphattn.models.inspection.notebook import printable

MAX_ARCS = 60
MIN_WEIGHT = 0.05
_TITLE, _NAME, _DEPREL = 12.0, 9.5, 7.0
_HEADING_LINE = 0.24
_BOLD = 1.15  # width of bold letters to that of others
_MAX_RISE, _MIN_RISE = 2.2, 0.35  # inches of the arcs above (and below) the tokens
_MARGIN = 0.3
_COLUMNS = {"relation": "", "source": 0, "target": 0, "deprel": "", "weight": 0.0}


def draw_arcs(attention: Attention, path: FilePath | None = None, *, title: str | None = None) -> Figure:
    """Draw the edges between different tokens as arcs, which point to the token that attends.

    Arcs to the right are above the tokens, arcs to the left below. An arc is the mean over the heads of its relation;
    each text shows its 60 strongest arcs of at least 0.05. The picture says which arcs it shows. Arcs along a
    dependency of a parsed text are labelled.

    Parameters
    ----------
    attention : ``attention.only(layer=1)`` for one layer, or with a head; edges of other nodes are not drawn
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``
    title : first line; the prediction when None

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix, for too many tokens, or if no edge is between tokens of one text
    DataError
        if the file cannot be written

    Examples
    --------
    >>> from graphattn.models import TextClassifier, TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=1)).fit(["good film", "bad film"] * 4, [1, 0] * 4)
    >>> _ = draw_arcs(classifier.attention("good film"), getfixture("tmp_path") / "arcs.svg")
    """
    # between tokens of one text; the output of a translator has none
    maps: dict[str, list[AttentionMap]] = {text: [] for text in attention.sentences}
    for each in attention.maps:
        if each.source_part == each.target_part and each.source_part in maps:
            maps[each.source_part].append(each)
    if not any(maps.values()):
        raise ConfigError("arcs join the tokens of one text, and no edge here does; draw matrices")
    for text in maps:
        check_count(len(attention.tokens[text]), "tokens", MAX_TOKENS)
    add_fonts(token for text in maps for token in attention.tokens[text])
    strong = {text: _find_arcs(attention, text_maps) for text, text_maps in maps.items()}
    arcs = {text: table.nlargest(MAX_ARCS, "weight").sort_values("weight") for text, table in strong.items()}
    colours = assign_colours(each.relation for each in attention.maps)
    used = set(pd.concat(arcs.values()).relation)
    rows = [_ArcText(attention, text, table) for text, table in arcs.items()]
    width = max([row.width for row in rows] + [5.5]) + 2 * _MARGIN
    heading = [title] if title else _wrap_heading(attention, width - 2 * _MARGIN)
    reading = "An arrow points to the token that attends; above to the right, below to the left."
    notes = [reading, _describe_weights(maps, strong), *wrap_branches(attention, width)]
    below_heading = _HEADING_LINE * (len(heading) - 1)
    height = 1.0 + below_heading + sum(row.above + row.below + 0.45 for row in rows) + LINE * (len(notes) - 1)
    with new_picture(path, width, height) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-_MARGIN, width - _MARGIN), ylim=(-height, 0))
        axes.set_axis_off()
        for line, text in enumerate(heading):
            y = height - 0.35 - _HEADING_LINE * line
            write_text(figure, _MARGIN, y, text, size=_TITLE, weight="bold", color=INK)
        _draw_legend(axes, {name: colour for name, colour in colours.items() if name in used}, -0.62 - below_heading)
        write_notes(figure, notes, left=_MARGIN)
        y = -0.75 - below_heading
        for row in rows:
            y -= row.above + 0.2
            row.draw(axes, y, colours)
            y -= row.below + 0.25
    return figure


def _wrap_heading(attention: Attention, width: float) -> list[str]:
    """The prediction and the text, on as many lines of a width in inches as they need, up to about ten."""
    return wrap_text(make_heading(attention, 10 * width), _BOLD * _TITLE, width)


def _describe_weights(maps: dict[str, list[AttentionMap]], strong: dict[str, pd.DataFrame]) -> str:
    """What an arc's weight is, and which arcs are drawn."""
    drawn = [each for text, of_text in maps.items() for each in of_text if each.relation in set(strong[text].relation)]
    means = ["layers"] * (len({each.layer for each in drawn}) > 1)
    means += ["heads"] * any(each.weights.shape[1] > 1 for each in drawn)
    weight = f"mean of {' and '.join(means)}" if means else "one head of each relation"
    which = f"{MAX_ARCS} strongest" if max(map(len, strong.values())) > MAX_ARCS else "all"
    each_text = " of each text" if len(maps) > 1 else ""
    return f"Arcs: {weight}, {which}{each_text} from {MIN_WEIGHT} on."


def _find_arcs(attention: Attention, maps: list[AttentionMap]) -> pd.DataFrame:
    """The edges that are strong enough: relation, source, target, dependency and the mean weight over heads."""
    if not maps:
        return pd.DataFrame(_COLUMNS, index=[0]).iloc[:0]
    layers = len({each.layer for each in maps})
    tables = []
    for each in maps:
        columns = {"relation": each.relation, "source": each.sources, "target": each.targets}
        deprels = attention.deprels(each)
        tables.append(pd.DataFrame({**columns, "deprel": deprels, "weight": each.weights.mean(axis=1) / layers}))
    table = pd.concat(tables).groupby(["relation", "source", "target", "deprel"], as_index=False).weight.sum()
    return table[(table.source != table.target) & (table.weight >= MIN_WEIGHT)]


class _ArcText:
    """One text with its arcs."""

    def __init__(self, attention: Attention, text: str, arcs: pd.DataFrame):
        sentence = attention.sentences[text]
        self.texts = [printable(token) for token in attention.tokens[text]]
        with default_style():
            words = word_ids_of(sentence, cls=attention.has_cls(text))
            self.centres = np.array(token_centres(self.texts, words))
        self.arcs = arcs
        self.width = float(self.centres.max()) + 0.6
        spans = np.abs(self.centres[arcs.source] - self.centres[arcs.target])
        right = self.centres[arcs.source] < self.centres[arcs.target]
        self.above, self.below = (_arc_rise(spans[side].max()) if side.any() else 0.1 for side in (right, ~right))

    def draw(self, axes: Axes, y: float, colours: dict[str, str]) -> None:
        """Draw tokens on a line at y, arcs above and below."""
        for text, centre in zip(self.texts, self.centres, strict=True):
            axes.text(centre, y, text, size=TOKEN_SIZE, ha="center", va="center", color=INK, parse_math=False)
        for arc in self.arcs.itertuples():
            start, end = float(self.centres[arc.source]), float(self.centres[arc.target])
            sign = 1 if end > start else -1
            foot, top = y + 0.12 * sign, y + (0.12 + 4 / 3 * _arc_rise(abs(end - start))) * sign
            points, turns = [(start, foot), (start, top), (end, top), (end, foot)], [1, 4, 4, 4]
            style, colour = "-|>,head_length=2.4,head_width=1.2", colours[arc.relation]
            look = {"color": colour, "lw": 0.4 + 2.4 * arc.weight, "alpha": min(1.0, 0.15 + 0.85 * arc.weight)}
            add_arrow(axes, points, turns, arrowstyle=style, capstyle="butt", **look)
            if arc.deprel:
                place = (start + end) / 2, y + (0.12 + _arc_rise(abs(end - start))) * sign
                look = {
                    "size": _DEPREL,
                    "color": colour,
                    "ha": "center",
                    "va": "center_baseline",
                    "bbox": {**LABEL_BOX, "pad": 0.6},
                }
                axes.text(*place, printable(arc.deprel[:-1]), parse_math=False, **look)


def _arc_rise(span: float) -> float:
    """The height of an arc, which grows more slowly than its span."""
    return float(_MIN_RISE * 0.5 + min(_MAX_RISE, 0.42 * span**0.75))


def _draw_legend(axes: Axes, colours: dict[str, str], y: float) -> None:
    handles = [Line2D([], [], color=colour, lw=3, label=printable(relation)) for relation, colour in colours.items()]
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
