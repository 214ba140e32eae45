"""How reliable the probabilities of a classifier are, and which precision it has at which recall."""

from __future__ import annotations

from matplotlib.figure import Figure

from graphattn.builders._paths import FilePath
from graphattn.exceptions import DataError
from graphattn.experiments.drawing._canvas import GREY, INK, add_fonts, assign_colours, new_picture
from graphattn.experiments.drawing._curves import style_axes
from graphattn.models._results.class_probabilities import ALL, ClassProbabilities
from graphattn.models.inspection.notebook import printable

_BINS, _MOST = 10, 6


def draw_probability_curves(probabilities: ClassProbabilities, path: FilePath | None = None) -> Figure:
    """Draw reliability and precision-recall curves of the six most frequent classes, and of all together.

    Points of a reliability curve are tenths of the probability: its mean, and the share of texts that have the class.

    Parameters
    ----------
    probabilities : ``probabilities`` of a :class:`~graphattn.models.Report`
    path : writes this file, whose name ends in ``.png``, ``.svg`` or ``.pdf``

    Returns
    -------
    the figure, which notebooks show; ``savefig`` writes it

    Raises
    ------
    ConfigError
        for another suffix
    DataError
        if no text has a known class, or the file cannot be written

    Examples
    --------
    >>> from graphattn.models import ClassProbabilities
    >>> shares = [[0.9, 0.1], [0.4, 0.6]]
    >>> probabilities = ClassProbabilities.of(["bad", "good"], shares, ["bad", "good"], multilabel=False)
    >>> _ = draw_probability_curves(probabilities, getfixture("tmp_path") / "curves.png")
    """
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import precision_recall_curve

    curves = {printable(name): curve for name, curve in probabilities.select_curves(_MOST).items()}
    if not any(gold.any() for gold, _ in curves.values()):
        raise DataError("no text has a class that the model knows, so there are no curves")
    add_fonts(curves)
    colours = assign_colours(curves)
    with new_picture(path, 10.4, 4.0) as figure:
        figure.set_layout_engine("constrained")
        reliability, precision_recall = figure.subplots(1, 2)
        reliability.plot((0, 1), (0, 1), color=GREY, lw=0.8, ls="--")
        for name, (gold, shares) in curves.items():
            observed, predicted = calibration_curve(gold, shares, n_bins=_BINS)
            reliability.plot(predicted, observed, marker="o", ms=3.5, lw=1.6, color=colours[name], label=name)
            precision, recall, _ = precision_recall_curve(gold, shares)
            precision_recall.plot(recall, precision, drawstyle="steps-post", lw=1.6, color=colours[name])
        for axes, across, up in (
            (reliability, "probability", "share of texts with the class"),
            (precision_recall, "recall", "precision"),
        ):
            style_axes(axes, across)
            axes.set_ylabel(up, color=INK, size=9)
            axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        shown, known = sum(name != ALL for name in curves), int(probabilities.gold.any(0).sum())
        title = "classes" if shown == known else f"the {shown} most frequent\nof {known} classes"
        legend = figure.legend(loc="outside right upper", title=title, title_fontsize=8, fontsize=8, frameon=False)
        legend.set(alignment="left")
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure
