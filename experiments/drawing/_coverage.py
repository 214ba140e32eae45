"""The accuracy of the most confident predictions of a classifier, over the share of texts that they are."""

from __future__ import annotations

from matplotlib.figure import Figure

from graphattn.builders._paths import FilePath
from graphattn.experiments.drawing._canvas import GREY, INK, PALETTE, new_picture
from graphattn.experiments.drawing._curves import style_axes
from graphattn.models._results.coverage import Coverage

_MARKED = (0.5, 0.8, 0.9, 0.95, 0.99)
"""Confidences whose places on the curve are named."""


def draw_coverage(coverage: Coverage, path: FilePath | None = None) -> Figure:
    """Draw the accuracy over the coverage, with its 95 % interval, and the places of some confidences.

    Parameters
    ----------
    coverage : ``coverage`` of a :class:`~graphattn.models.Report`
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix
    DataError
        if the file cannot be written

    Examples
    --------
    >>> from graphattn.models import Coverage
    >>> coverage = Coverage.of([0.9, 0.8, 0.6], [True, True, False])
    >>> _ = draw_coverage(coverage, getfixture("tmp_path") / "coverage.png")
    """
    rows = coverage.to_rows()
    across, accuracy, low, high = ([row[name] for row in rows] for name in ("coverage", "accuracy", "low", "high"))
    with new_picture(path, 5.0, 4.0) as figure:
        figure.set_layout_engine("constrained")
        axes = figure.subplots()
        axes.fill_between(across, low, high, color=PALETTE[0], alpha=0.15, lw=0, label="95 % interval")
        axes.plot(across, accuracy, lw=1.6, color=PALETTE[0], label=f"accuracy (area {coverage.area:.1f})")
        axes.axhline(accuracy[-1], color=GREY, lw=0.8, ls="--", label=f"all texts: {accuracy[-1]:.1f} %")
        for confidence in _MARKED:
            decided = coverage.at(confidence)
            if 0 < decided.texts < len(coverage.right):
                at = decided.coverage, decided.accuracy
                axes.plot(*at, marker="o", ms=3.5, color=PALETTE[1])
                axes.annotate(f"{confidence:g}", at, xytext=(4, 6), textcoords="offset points", size=7, color=INK)
        style_axes(axes, "% of the texts decided (points: from this confidence on)")
        axes.set_ylabel("% of them right", color=INK, size=9)
        axes.set(xlim=(-2, 102), ylim=(max(0.0, min(accuracy) - 15), 101))
        axes.legend(fontsize=7, frameon=False, loc="lower right")
    return figure
