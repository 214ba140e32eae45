"""What each word adds to the score of a prediction, as bars in the order of the text."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from graphattn._networkx_graphs import CLS
from graphattn.builders._paths import FilePath
from graphattn.experiments.drawing._canvas import (
    INK,
    LINE,
    MAX_TOKENS,
    NOTE,
    PALETTE,
    new_picture,
    prepare_labels,
    wrap_text,
    write_notes,
    write_text,
)
from graphattn.experiments.drawing._curves import style_axes
from graphattn.models.inspection.attributions import WordAttributions
from graphattn.models.inspection.notebook import escape_unprintable, printable

_RAISED, _LOWERED = PALETTE[:2]
_WIDTH, _STEP = 6.4, 0.22
"""Inches across, and of a word."""


def draw_words(attributions: WordAttributions, path: FilePath | None = None, *, title: str | None = None) -> Figure:
    """Draw a bar for each word: to the right if it raises the explained quantity, to the left if it lowers it.

    Parameters
    ----------
    attributions : of one text or pair, from :func:`~graphattn.models.inspection.attributions.word_attributions`
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``
    title : first line; the explained quantity and its value when None

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix, or for too many words
    DataError
        if the file cannot be written
    """
    table = attributions.table[attributions.table.word != CLS]
    labels = prepare_labels(table.word, "words", MAX_TOKENS)
    lines = [] if attributions.branches is None else attributions.branches.lines()
    notes = [text for line in lines for text in wrap_text(escape_unprintable(line), NOTE, _WIDTH - 0.5)]
    below = 0.6 + LINE * len(notes)
    height = 0.5 + _STEP * max(1, len(labels)) + below
    with new_picture(path, _WIDTH, height) as figure:
        axes = figure.add_axes((0.26, below / height, 0.7, 1 - (below + 0.4) / height))
        values = table.attribution.to_numpy()
        places = np.arange(len(labels))
        axes.barh(places, values, height=0.72, color=np.where(values < 0, _LOWERED, _RAISED).tolist())
        axes.axvline(0, color=INK, lw=0.8)
        style_axes(axes, f"added to {printable(attributions.explains, 60)}")
        axes.set_yticks(places, labels, parse_math=False)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        heading = printable(f"{attributions.explains}: {attributions.value:+.2f}" if title is None else title, 70)
        write_text(figure, 0.15, height - 0.28, heading, color=INK, size=11, weight="bold")
        write_notes(figure, notes)
    return figure
