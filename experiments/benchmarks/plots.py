"""Plots of cost against length: a panel for each task, a line for each contender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from graphattn.builders.files import atomic_file
from graphattn.experiments.benchmarks.report import Record
from graphattn.experiments.drawing.canvas import PALETTE

Points = dict[str, list[tuple[float, float]]]
"""Contender -> the points of its line."""
_PANEL_WIDTH, _HEIGHT, _DPI = 5.0, 3.8, 120


@dataclass(frozen=True)
class Panel:
    """One plot of a row of plots."""

    heading: str  # its title
    across: str  # label of the horizontal axis
    points: Points  # its lines


def plot_cost(rows: Sequence[Record], path: Path) -> None:
    """Plot microseconds a token against the length of sentences, both on logarithmic axes.

    If a length was measured with batches of several sizes, the largest batch is shown.
    """
    panels = [
        Panel(heading, "tokens of a sentence", collect_costs([row for row in rows if row["task"] == heading]))
        for heading in dict.fromkeys(row["task"] for row in rows)
    ]
    draw(panels, path, up="microseconds a token")


def collect_costs(rows: Sequence[Record]) -> Points:
    """Contender -> (length, microseconds a token), by length."""
    largest: dict[tuple[str, int], Record] = {}
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
    """Write a picture in the format of its extension."""
    figure = Figure(figsize=(_PANEL_WIDTH * len(panels), _HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(name for panel in panels for name in panel.points))
    colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}
    for number, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for name, line in panel.points.items():
            axes.plot(*zip(*line, strict=True), marker="o", markersize=4, color=colours[name], label=name)
        axes.set(title=panel.heading, xscale="log", yscale="log", xlabel=panel.across, ylabel=up if number == 1 else "")
        axes.grid(color="#DDDDDD", linewidth=0.6)
        _set_ticks(axes, panel.points)
        if panel.points:
            axes.legend(fontsize=7, frameon=False)
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=_DPI)


def _set_ticks(axes: Any, points: Points) -> None:
    """Put horizontal ticks at the measurements, vertical ones at 1, 2 and 5."""
    ticks = sorted({x for line in points.values() for x, _ in line})
    axes.set_xticks(ticks, [shorten(tick) for tick in ticks], fontsize=7, rotation=45)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shorten(value)))
    axes.yaxis.set_minor_locator(NullLocator())


def shorten(number: float) -> str:
    """Write a number in few characters.

    Examples
    --------
    >>> [shorten(number) for number in (0.5, 201, 2048, 16384, 234848, 1663156)]
    ['0.5', '201', '2048', '16k', '235k', '1.7M']
    """
    for letter, unit in (("M", 1e6), ("k", 1e3)):
        if number >= 10 * unit or (unit > 1e3 and number >= unit):
            return f"{number / unit:.{0 if number >= 10 * unit else 1}f}{letter}"
    return f"{number:g}"
