"""Attention against distance, by head and by layer (as in MS-Trans' Figure 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from graphattn.builders._paths import FilePath
from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing._canvas import INK, assign_colours, new_picture
from graphattn.experiments.drawing._curves import style_axes
from graphattn.models.inspection import AttentionSummary
from graphattn.models.inspection.notebook import printable

LINES = ("-", "--", ":", "-.")


def draw_distances(summary: AttentionSummary, path: FilePath | None = None, *, layer: int = 0) -> Figure:
    """Draw the share of attention at each distance: for the heads of a layer at the left, for all layers at the right.

    The largest distance is the one that contains 99 % of the attention of every layer.

    Parameters
    ----------
    summary : of a corpus
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``
    layer : the layer of the heads

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix, or if no head of the layer attends between tokens or words of one text
    DataError
        if the file cannot be written
    """
    heads, layers = summary.distances(), summary.layers()
    colours = assign_colours(heads.relation)
    known = sorted(set(heads.layer))
    if layer not in known:
        listing = ", ".join(map(str, known)) or "none"
        raise ConfigError(f"layer {layer} has no distances to draw; layers that have: {listing}")
    last = max(2, _common_distance(layers))
    heads = heads[heads.layer == layer]
    with new_picture(path, 9.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.07, right=0.985, top=0.87, bottom=0.15, wspace=0.2)
        drawn: Counter[str] = Counter()
        for (head, relation), curve in heads.groupby(["head", "relation"], sort=False):
            style = LINES[drawn[relation] % len(LINES)]
            drawn[relation] += 1
            label = f"head {head} · {printable(relation, 16)}"
            look = {"color": colours[relation], "ls": style, "lw": 1.6, "marker": "o", "ms": 3.5}
            left.plot(curve.distance, curve.mass, label=label, **look)
        shades = colormaps["viridis"](np.linspace(0.05, 0.8, layers.layer.nunique()))
        for shade, (number, curve) in zip(shades, layers.groupby("layer"), strict=True):
            right.plot(curve.distance, curve.mass, label=f"layer {number}", lw=2, marker="o", ms=3.5, color=shade)
        _finish_axes(left, f"Heads of layer {layer}", last, _join_units(summary, heads.relation))
        _finish_axes(right, "Layers (mean of their heads)", last, _join_units(summary, colours))
        left.set_ylabel("share of attention", color=INK, size=9)
    return figure


def _common_distance(layers: pd.DataFrame) -> int:
    """The distance that contains 99 % of the attention of every layer."""
    curves = [curve.mass for _, curve in layers.groupby("layer")]
    return max(int(np.searchsorted(np.cumsum(mass), 0.99 * mass.sum())) for mass in curves)


def _join_units(summary: AttentionSummary, relations: Iterable[str]) -> str:
    """The units of the distances of some relations."""
    return " or ".join(f"{unit}s" for unit in sorted({summary.units[relation] for relation in relations}))


def _finish_axes(axes: Axes, title: str, last: int, units: str) -> None:
    axes.set_title(title, size=10.5, color=INK, loc="left", weight="bold")
    axes.set_xlim(0, last)
    axes.set_ylim(bottom=0)
    style_axes(axes, f"distance in {units}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.legend(fontsize=8, frameon=False)
