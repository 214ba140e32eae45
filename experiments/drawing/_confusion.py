"""The confusion matrix of an evaluation."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from graphattn.builders._paths import FilePath
from graphattn.experiments.drawing._canvas import GREY, INK, new_picture, prepare_labels, text_width
from graphattn.models._results.reports import Outcomes

MAX_CLASSES = 60
_SIZE, _CELL = 9.0, 0.5


def draw_confusion(outcomes: Outcomes, path: FilePath | None = None) -> Figure:
    """Draw how many decisions of each gold class have each predicted class; colours are shares of the gold class.

    Parameters
    ----------
    outcomes : of a :class:`~graphattn.models._results.reports.Report`
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix, or for too many classes
    DataError
        if the file cannot be written

    Examples
    --------
    >>> outcomes = Outcomes.of([(0, "bad", "bad"), (1, "good", "bad")], 2, ["bad", "good"])
    >>> _ = draw_confusion(outcomes, getfixture("tmp_path") / "confusion.png")
    """
    names, matrix = outcomes.confusion()
    labels = prepare_labels(names, "classes", MAX_CLASSES)
    margin = max(text_width(label, _SIZE) for label in labels)
    cell = max(_CELL, max(text_width(f"{count:,}", _SIZE) for count in matrix.flat) + 0.12)
    side, left = cell * len(names), margin + 0.5
    width, height = left + side + 0.2, left + side + 0.2
    shares = matrix / matrix.sum(axis=1, keepdims=True).clip(1)
    with new_picture(path, width, height) as figure:
        axes = figure.add_axes((left / width, 0.1 / height, side / width, side / height))
        axes.imshow(shares, cmap=colormaps["Blues"], vmin=0, vmax=1, aspect="equal")
        for row, column in np.argwhere(matrix):
            colour = "white" if shares[row, column] > 0.6 else INK
            axes.text(column, row, f"{matrix[row, column]:,}", ha="center", va="center", size=_SIZE, color=colour)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.tick_params(length=0, labelsize=_SIZE, labelcolor=INK)
        axes.set_xticks(range(len(names)), labels, rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), labels, parse_math=False)
        axes.set_xlabel("predicted", size=_SIZE, color=GREY)
        axes.set_ylabel("gold", size=_SIZE, color=GREY)
        for spine in axes.spines.values():
            spine.set(color=GREY, linewidth=0.5)
    return figure
