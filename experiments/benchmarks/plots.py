"""Plots of cost against length, one panel for each task and one line for each contender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from graphattn.builders.files import atomic_file
from graphattn.experiments.benchmarks.report import Row
from graphattn.experiments.drawing.canvas import PALETTE

Points = dict[str, list[tuple[float, float]]]
"""Contender -> where its line goes."""
_PANEL_WIDTH, _HEIGHT, _DPI = 5.0, 3.8, 120


@dataclass(frozen=True)
class Panel:
    """One of the plots side by side.

    Parameters
    ----------
    heading : above it
    across : what its horizontal axis counts
    points : its lines
    """

    heading: str
    across: str
    points: Points


def cost_against_length(rows: Sequence[Row], path: Path) -> None:
    """Microseconds a token against the length of sentences, both on logarithmic axes.

    Where a length was measured with batches of several sizes, the largest one counts.
    """
    panels = [
        Panel(task, "tokens of a sentence", length_points([row for row in rows if row["task"] == task]))
        for task in dict.fromkeys(row["task"] for row in rows)
    ]
    draw(panels, path, up="microseconds a token")


def length_points(rows: Sequence[Row]) -> Points:
    """Contender -> (length, microseconds a token), by length."""
    largest: dict[tuple[str, int], Row] = {}
    for row in rows:
        key = row["title"], row["length"]
        if row["length"] is not None and (key not in largest or row["tokens"] > largest[key]["tokens"]):
            largest[key] = row
    points: Points = {}
    for (title, length), row in sorted(largest.items(), key=lambda item: item[0][1]):
        points.setdefault(title, []).append((length, 1000 * row["median_ms"] / row["tokens"]))
    order = list(dict.fromkeys(row["title"] for row in rows))
    return {title: points[title] for title in order if title in points}


def draw(panels: Sequence[Panel], path: Path, *, up: str) -> None:
    """Write a picture; its format is that of the extension.

    Parameters
    ----------
    panels : from left to right
    path : the file, replaced when it is there
    up : what the vertical axis of all counts
    """
    figure = Figure(figsize=(_PANEL_WIDTH * len(panels), _HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(name for panel in panels for name in panel.points))
    colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}
    for number, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for name, own in panel.points.items():
            axes.plot(*zip(*own, strict=True), marker="o", markersize=4, color=colours[name], label=name)
        axes.set(title=panel.heading, xscale="log", yscale="log", xlabel=panel.across, ylabel=up if number == 1 else "")
        axes.grid(color="#DDDDDD", linewidth=0.6)
        _mark_measured(axes, panel.points)
        if panel.points:
            axes.legend(fontsize=7, frameon=False)
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=_DPI)


def _mark_measured(axes: Any, points: Points) -> None:
    """Put ticks where measurements are, and upwards at 1, 2 and 5."""
    places = sorted({place for own in points.values() for place, _ in own})
    axes.set_xticks(places, [short(place) for place in places], fontsize=7, rotation=45)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_locator(NullLocator())


def short(number: float) -> str:
    """A number in few letters.

    Examples
    --------
    >>> [short(number) for number in (0.5, 201, 2048, 16384, 234848, 1663156)]
    ['0.5', '201', '2048', '16k', '235k', '1.7M']
    """
    for letter, unit in (("M", 1e6), ("k", 1e3)):
        if number >= 10 * unit or (unit > 1e3 and number >= unit):
            return f"{number / unit:.{0 if number >= 10 * unit else 1}f}{letter}"
    return f"{number:g}"
