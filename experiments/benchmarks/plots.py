"""Plots of cost against length, one panel for each task and one line for each contender."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graphattn.experiments.benchmarks.report import Row
from graphattn.experiments.sheet import PALETTE

Points = dict[str, list[tuple[float, float]]]
_PANEL_WIDTH, _HEIGHT, _DPI = 5.0, 3.8, 120


def cost_against_length(rows: Sequence[Row], path: Path) -> None:
    """Microseconds a token against the length of sentences, both on logarithmic axes.

    Where a length was measured with batches of several sizes, the largest one counts.
    """
    draw(
        {task: length_points([row for row in rows if row["task"] == task]) for task in _tasks(rows)},
        path,
        across="tokens of a sentence",
        up="microseconds a token",
    )


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


def draw(panels: dict[str, Points], path: Path, *, across: str, up: str) -> None:
    """Write a picture; its format is that of the extension.

    Parameters
    ----------
    panels : heading -> contender -> points
    path : the file, replaced when it is there
    across, up : names of the axes
    """
    figure = Figure(figsize=(_PANEL_WIDTH * len(panels), _HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(name for points in panels.values() for name in points))
    colours = {name: PALETTE[number % len(PALETTE)] for number, name in enumerate(names)}
    for number, (heading, points) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), number)
        for name, own in points.items():
            axes.plot(*zip(*own, strict=True), marker="o", markersize=4, color=colours[name], label=name)
        axes.set(title=heading, xscale="log", yscale="log", xlabel=across, ylabel=up if number == 1 else "")
        axes.grid(color="#DDDDDD", linewidth=0.6)
        _mark_measured(axes, points)
        if points:
            axes.legend(fontsize=7, frameon=False)
    beside = path.with_name(f".{path.name}.new{path.suffix}")
    try:
        figure.savefig(beside, dpi=_DPI)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _mark_measured(axes: Any, points: Points) -> None:
    """Put the ticks where measurements are."""
    places = sorted({place for own in points.values() for place, _ in own})
    axes.set_xticks(places, [f"{place:g}" for place in places], fontsize=8)
    axes.set_xticks([], minor=True)


def _tasks(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["task"] for row in rows))
