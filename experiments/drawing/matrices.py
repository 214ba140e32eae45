"""Matrices of heads: rows attend to columns, lines part the words (as in UMST's Figures 6 and 9)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing.canvas import printable
from graphattn.experiments.drawing.graph import MOST_TOKENS
from graphattn.experiments.drawing.picture_file import FAINT, GREY, INK, heading, picture
from graphattn.models.inspection import Attention
from graphattn.models.inspection.words import word_ids_of

MOST_HEADS = 64
_LABEL, _HEAD, _TITLE = 7.5, 8.5, 12.0


def draw_matrices(attention: Attention, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Draw a matrix for each head, a row of them for each layer.

    Squares without an edge are grey. Where a word has several tokens, white lines part the words.

    Parameters
    ----------
    attention : of one text or pair; ``only`` chooses layers and heads
    path : file to write, ``.png``, ``.svg`` or ``.pdf``
    title : first line; the prediction when None

    Raises
    ------
    ConfigError
        for another suffix, or for more heads, or tokens and other nodes, than a picture can show
    DataError
        when the file cannot be written

    Examples
    --------
    >>> from graphattn.models import TextClassifier, TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=1)).fit(["good film", "bad film"] * 4, [1, 0] * 4)
    >>> attention = classifier.attention("good film").only(layer=2)
    >>> draw_matrices(attention, getfixture("tmp_path") / "heads.png").name
    'heads.png'
    """
    heads = sorted({(one.layer, head, one.relation) for one in attention.maps for head in one.heads})
    nodes = sum(map(len, attention.tokens.values()))
    if nodes > MOST_TOKENS:
        raise ConfigError(f"{nodes} tokens do not fit into a picture; it shows up to {MOST_TOKENS}")
    if len(heads) > MOST_HEADS:
        raise ConfigError(f"{len(heads)} heads do not fit into a picture; it shows up to {MOST_HEADS}")
    layers = sorted({layer for layer, *_ in heads})
    columns = max(sum(own == layer for own, *_ in heads) for layer in layers)
    labels = [printable(text, 14) for own in attention.tokens.values() for text in own]
    longest = 0.07 * max(map(len, labels)) + 0.08
    side = max(0.15 * nodes, 1.1) if columns > 1 else max(0.24 * nodes, 2.2)
    width, step = longest + columns * (side + 0.15) + 0.2, side + 0.42
    height = 0.5 + longest + len(layers) * step + 0.25
    with picture(path, max(width, 4.5), height) as figure:
        size = figure.get_size_inches()
        _write(
            figure,
            0.15,
            height - 0.28,
            title or heading(attention, float(size[0])),
            size=_TITLE,
            weight="bold",
            color=INK,
        )
        for layer, head, relation in heads:
            column = sum(other[0] == layer and other[1] < head for other in heads)
            row = layers.index(layer)
            left, bottom = longest + column * (side + 0.15), height - 0.5 - longest - row * step - side
            axes = figure.add_axes((left / size[0], bottom / size[1], side / size[0], side / size[1]))
            _draw_head(axes, attention, layer, head)
            _name_tokens(axes, labels, rows=column == 0, columns=row == 0)
            name = f"layer {layer} · head {head} · {printable(relation, 14)}" if columns < 3 else f"{head} · {relation}"
            axes.set_xlabel(name, size=_HEAD, color=INK, labelpad=3)
            if column == 0 and columns >= 3:
                _write(figure, 0.08, bottom - 0.22, f"layer {layer}", size=_HEAD, color=GREY)
        _write(
            figure,
            0.15,
            0.1,
            "The row attends to the column; black is a weight of one, grey is no edge.",
            size=8,
            color=GREY,
        )
    return Path(path)


def _draw_head(axes: Axes, attention: Attention, layer: int, head: int) -> None:
    """The squares of one head and the lines between words and texts."""
    matrix = attention.matrix(layer, head).tocoo()
    shown = np.full(matrix.shape, np.nan)
    shown[matrix.coords] = matrix.data
    colours = colormaps["magma_r"].with_extremes(bad=FAINT)
    axes.imshow(shown, cmap=colours, vmin=0, vmax=1, interpolation="none", aspect="equal")
    for place in _boundaries(attention):
        axes.axhline(place - 0.5, color="white", lw=1.2)
        axes.axvline(place - 0.5, color="white", lw=1.2)
    for spine in axes.spines.values():
        spine.set(color=GREY, linewidth=0.5)


def _boundaries(attention: Attention) -> list[int]:
    """Where words of several tokens begin and end, and where parts do."""
    places: set[int] = set()
    start = 0
    for part, nodes in attention.tokens.items():
        places.add(start)
        sentence = attention.sentences.get(part)
        if sentence is not None and sentence.word_ids is not None:
            words = np.array(word_ids_of(sentence))
            places |= {start + int(place) for place in np.flatnonzero(np.diff(words)) + 1}
        start += len(nodes)
    return sorted(places - {0})


def _name_tokens(axes: Axes, labels: list[str], *, rows: bool, columns: bool) -> None:
    places = range(len(labels))
    axes.tick_params(length=0, labelsize=_LABEL, labelcolor=INK, pad=2, top=False, bottom=False)
    axes.xaxis.tick_top()
    axes.set_xticks(places if columns else [])
    axes.set_yticks(places if rows else [])
    if columns:
        axes.set_xticklabels(labels, rotation=90, parse_math=False)
    if rows:
        axes.set_yticklabels(labels, parse_math=False)


def _write(figure: Figure, x: float, y: float, text: str, **options: Any) -> None:
    width, height = figure.get_size_inches()
    figure.text(x / width, y / height, text, parse_math=False, **options)
