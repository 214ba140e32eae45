"""Curves of attended distances, by head and by layer (as MS-Trans' Figure 3)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing.canvas import PALETTE, printable
from graphattn.experiments.drawing.picture_file import FAINT, GREY, INK, picture
from graphattn.models.inspection import AttentionSummary

LINES = ("-", "--", ":", "-.")


def draw_distances(
    summary: AttentionSummary, path: str | os.PathLike[str], *, layer: int = 0, farthest: int | None = None
) -> Path:
    """Draw how much of the attention goes how far: the heads of a layer at the left, all layers at the right.

    Parameters
    ----------
    summary : of a corpus
    path : file to write, ``.png``, ``.svg`` or ``.pdf``
    layer : whose heads are drawn
    farthest : largest distance shown; where 99 % of the mass of every layer lies when None

    Raises
    ------
    ConfigError
        for another suffix, or when no head of the layer looks from token to token or from word to word of one text
    DataError
        when the file cannot be written
    """
    heads, layers = summary.distances(), summary.layers()
    known = sorted(set(heads.layer))
    if layer not in known:
        having = ", ".join(map(str, known)) or "none"
        raise ConfigError(f"layer {layer} has no distances to draw; layers that have: {having}")
    last = farthest or max(2, _holding(layers))
    with picture(path, 9.0, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        figure.subplots_adjust(left=0.07, right=0.985, top=0.87, bottom=0.15, wspace=0.2)
        names = list(dict.fromkeys(heads.relation))
        for (head, relation), own in heads[heads.layer == layer].groupby(["head", "relation"], sort=False):
            place = names.index(relation)
            among = sum(1 for other in heads[heads.layer == layer].drop_duplicates("head").itertuples()
                        if other.relation == relation and other.head < head)  # fmt: skip
            look = {"color": PALETTE[place % len(PALETTE)], "ls": LINES[among % len(LINES)]}
            left.plot(
                own.distance,
                own.mass,
                label=f"head {head} · {printable(relation, 16)}",
                lw=1.6,
                marker="o",
                ms=3.5,
                **look,
            )
        shades = colormaps["viridis"](np.linspace(0.05, 0.8, layers.layer.nunique()))
        for shade, (number, own) in zip(shades, layers.groupby("layer"), strict=True):
            right.plot(own.distance, own.mass, label=f"layer {number}", lw=2, marker="o", ms=3.5, color=shade)
        own_names = heads[heads.layer == layer].relation
        _dress(left, f"Heads of layer {layer}", last, _units(summary, own_names))
        _dress(right, "Layers (mean of their heads)", last, _units(summary, names))
        left.set_ylabel("share of attention", color=INK, size=9)
    return Path(path)


def _holding(layers: pd.DataFrame, share: float = 0.99) -> int:
    """The distance within which every layer has that share of its mass."""
    reaches = [int(np.searchsorted(np.cumsum(own.mass), share * own.mass.sum())) for _, own in layers.groupby("layer")]
    return max(reaches)


def _units(summary: AttentionSummary, relations: Iterable[str]) -> str:
    """What the distances of some heads are counted in."""
    return " or ".join(f"{unit}s" for unit in sorted({summary.units[relation] for relation in relations}))


def _dress(axes: Axes, title: str, last: int, units: str) -> None:
    axes.set_title(title, size=10.5, color=INK, loc="left", weight="bold")
    axes.set_xlim(0, last)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"distance in {units}", color=INK, size=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.tick_params(colors=GREY, labelsize=8)
    axes.grid(color=FAINT)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
