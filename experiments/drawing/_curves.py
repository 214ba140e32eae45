"""Curves in panels side by side: the costs of benchmarks, the figures of papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from graphattn.builders._paths import FilePath
from graphattn.experiments.drawing._canvas import FAINT, GREY, INK, PALETTE, assign_colours, new_picture

Curves = dict[str, list[tuple[float, float]]]
"""Name of a curve -> its points."""


@dataclass(frozen=True)
class Panel:
    """One of the plots, with the label of its horizontal axis."""

    heading: str
    across: str
    curves: Curves


def draw_panels(
    panels: Sequence[Panel], path: FilePath | None = None, *, up: str = "", logarithmic: bool = False
) -> Figure:
    """Draw panels from left to right; ``up`` is the label of the vertical axes.

    Curves without a colour of their own are dashed, and all panels have one legend beside them.
    """
    colours = assign_colours(name for panel in panels for name in panel.curves)
    dashed = list(colours)[len(PALETTE) :]
    with new_picture(path, 4.5 * len(panels) + 1.5 * bool(dashed), 3.6) as figure:
        figure.set_layout_engine("constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            for name, points in panel.curves.items():
                style = {"color": colours[name], "ls": "--" if name in dashed else "-"}
                axes.plot(*zip(*points, strict=True), marker="o", ms=3.5, lw=1.6, label=name, **style)
            style_axes(axes, panel.across, title=panel.heading)
            if logarithmic:
                _set_logarithmic(axes, panel.curves)
            if panel.curves and not dashed:
                axes.legend(fontsize=7, frameon=False)
        if dashed:
            lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
            figure.legend([*lines.values()], [*lines], loc="outside right center", fontsize=7, frameon=False)
        figure.axes[0].set_ylabel(up, color=INK, size=9)
    return figure


def style_axes(axes: Axes, across: str, *, title: str = "") -> None:
    """Set what all curves share, the label of the horizontal axis, and perhaps a title."""
    if title:
        axes.set_title(title, size=10, color=INK, loc="left")
    axes.set_xlabel(across, color=INK, size=9)
    axes.tick_params(colors=GREY, labelsize=8)
    axes.grid(color=FAINT)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _set_logarithmic(axes: Axes, curves: Curves) -> None:
    """Put horizontal ticks at the points, vertical ones at 1, 2 and 5."""
    axes.set(xscale="log", yscale="log")
    ticks = sorted({x for points in curves.values() for x, _ in points})
    axes.set_xticks(ticks, [shorten_number(tick) for tick in ticks], rotation=45)
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shorten_number(value)))
    axes.yaxis.set_minor_locator(NullLocator())


def shorten_number(number: float) -> str:
    """Write a number in few characters.

    Examples
    --------
    >>> [shorten_number(number) for number in (0.5, 201, 2048, 16384, 234848, 1663156)]
    ['0.5', '201', '2048', '16k', '235k', '1.7M']
    """
    for letter, unit in (("M", 1e6), ("k", 1e3)):
        if number >= 10 * unit or (unit > 1e3 and number >= unit):
            return f"{number / unit:.{0 if number >= 10 * unit else 1}f}{letter}"
    return f"{number:g}"
