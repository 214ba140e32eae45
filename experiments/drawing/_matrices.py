"""Matrices of attention weights, one for each head (as in UMST's Figures 6 and 9)."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphattn.builders._paths import FilePath
from graphattn.experiments.drawing._canvas import (
    FAINT,
    GREY,
    INK,
    LINE,
    MAX_TOKENS,
    NOTE,
    check_count,
    default_style,
    isolate,
    new_picture,
    prepare_labels,
    text_width,
    wrap_text,
    write_notes,
    write_text,
)
from graphattn.models.inspection import Attention
from graphattn.models.inspection._edge_kinds import word_ids_of
from graphattn.models.inspection.notebook import escape_unprintable, printable

MAX_HEADS = 144
"""Those of BERT-base."""
_LABEL, _HEAD, _TITLE = 7.5, 8.5, 12.0


def draw_matrices(attention: Attention, path: FilePath | None = None, *, title: str | None = None) -> Figure:
    """Draw a matrix for each head, and a row of matrices for each layer; rows attend to columns.

    Cells without an edge are grey. White lines separate words of several tokens.

    Parameters
    ----------
    attention : of one text or pair; ``only`` selects layers and heads
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``
    title : first line; the prediction when None

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix, or for too many heads, tokens or other nodes
    DataError
        if the file cannot be written

    Examples
    --------
    >>> from graphattn.models import TextClassifier, TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=1)).fit(["good film", "bad film"] * 4, [1, 0] * 4)
    >>> attention = classifier.attention("good film").only(layer=1)
    >>> draw_matrices(attention).savefig(getfixture("tmp_path") / "heads.png")
    """
    heads = sorted({(each.layer, head, each.relation) for each in attention.maps for head in each.heads})
    texts = (text for texts in attention.tokens.values() for text in texts)
    labels = prepare_labels(texts, "tokens", MAX_TOKENS, longest=14)
    check_count(len(heads), "heads", MAX_HEADS)
    rows = [list(group) for _, group in groupby(heads, key=itemgetter(0))]
    columns = max(map(len, rows))
    captions = {
        (layer, head): f"{'' if columns >= 3 else f'layer {layer} · head '}{head} · {printable(relation, 14)}"
        for layer, head, relation in heads
    }
    with default_style():
        longest = max([0.4, *(text_width(label, _LABEL) for label in labels)]) + 0.12
        widest = max(text_width(caption, _HEAD) for caption in captions.values())
    side = max(0.15 * len(labels), 1.1) if columns > 1 else max(0.24 * len(labels), 2.2)
    slot, step = max(side, widest) + 0.15, side + 0.42
    width = longest + columns * slot + 0.2
    width = max(width, 4.5)
    notes = wrap_branches(attention, width)
    height = 0.5 + longest + len(rows) * step + 0.25 + LINE * len(notes)
    with new_picture(path, width, height) as figure:
        size = figure.get_size_inches()
        heading = title or make_heading(attention, float(size[0]))
        write_text(figure, 0.15, height - 0.28, heading, size=_TITLE, weight="bold", color=INK)
        for row, members in enumerate(rows):
            bottom = height - 0.5 - longest - row * step - side
            for layer, head, _ in members:
                column = [other for _, other, _ in members].index(head)
                left = longest + column * slot + (slot - 0.15 - side) / 2
                axes = figure.add_axes((left / size[0], bottom / size[1], side / size[0], side / size[1]))
                _draw_head(axes, attention, layer, head)
                _label_tokens(axes, labels, rows=column == 0, columns=row == 0)
                axes.set_xlabel(captions[layer, head], parse_math=False, size=_HEAD, color=INK, labelpad=3)
            if columns >= 3:
                write_text(figure, 0.08, bottom - 0.22, f"layer {members[0][0]}", size=_HEAD, color=GREY)
        note = "The row attends to the column; black is a weight of one, grey is no edge."
        write_notes(figure, [note, *notes])
    return figure


def make_heading(attention: Attention, width: float) -> str:
    """The prediction, if there is one, and as much of the text as fits into a width in inches."""
    prediction = attention.prediction
    if prediction is None:
        return isolate(printable(attention.title, max(20, int(9 * width))))
    result = ", ".join(map(str, prediction)) if isinstance(prediction, (tuple, list)) else str(prediction)
    room = max(20, int(9 * width))
    result = printable(result, max(12, room // 3))
    return f"{isolate(result)} · {isolate(printable(attention.title, max(12, room - len(result) - 3)))}"


def wrap_branches(attention: Attention, width: float) -> list[str]:
    """How much each branch gives to the score, in lines that fit into a width in inches; none without a branch."""
    lines = [] if attention.branches is None else attention.branches.lines()
    return [part for line in lines for part in wrap_text(escape_unprintable(line), NOTE, width - 0.5)]


def _draw_head(axes: Axes, attention: Attention, layer: int, head: int) -> None:
    """Draw the matrix of one head and the lines between words and texts."""
    matrix = attention.matrix(layer, head).tocoo()
    cells = np.full(matrix.shape, np.nan)
    cells[matrix.coords] = matrix.data
    colours = colormaps["magma_r"].with_extremes(bad=FAINT)
    axes.imshow(cells, cmap=colours, vmin=0, vmax=1, interpolation="none", aspect="equal")
    for position in _find_boundaries(attention):
        axes.axhline(position - 0.5, color="white", lw=1.2)
        axes.axvline(position - 0.5, color="white", lw=1.2)
    for spine in axes.spines.values():
        spine.set(color=GREY, linewidth=0.5)


def _find_boundaries(attention: Attention) -> list[int]:
    """The first and last positions of words of several tokens, and of texts."""
    boundaries: set[int] = set()
    start = 0
    for part, nodes in attention.tokens.items():
        boundaries.add(start)
        sentence = attention.sentences.get(part)
        if sentence is not None and sentence.word_ids is not None:
            words = np.array(word_ids_of(sentence, cls=attention.has_cls(part)))
            boundaries |= {start + int(change) for change in np.flatnonzero(np.diff(words)) + 1}
        start += len(nodes)
    return sorted(boundaries - {0})


def _label_tokens(axes: Axes, labels: list[str], *, rows: bool, columns: bool) -> None:
    positions = range(len(labels))
    axes.tick_params(length=0, labelsize=_LABEL, labelcolor=INK, pad=2, top=False, bottom=False)
    axes.xaxis.tick_top()
    axes.set_xticks(positions if columns else [])
    axes.set_yticks(positions if rows else [])
    if columns:
        axes.set_xticklabels(labels, rotation=90, parse_math=False)
    if rows:
        axes.set_yticklabels(labels, parse_math=False)
