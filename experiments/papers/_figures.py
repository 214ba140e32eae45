"""Pictures of figures, of tables with a column for each epoch, and of differences, from rows of results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any

from graphattn.builders._paths import FilePath
from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing._canvas import INK, PALETTE, new_picture
from graphattn.experiments.drawing._curves import Curves, Panel, draw_panels, style_axes
from graphattn.experiments.papers._comparison import MTL_MEAN, TRAINING_WORDS, Runs, estimate_mean
from graphattn.experiments.papers._data_sets import MTL_DOMAINS
from graphattn.experiments.papers._experiment import MEASURES, SEPARATOR, Experiment, Row, measure_runs
from graphattn.models._encoders.ms_trans import MSTransOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LONG = 120
"""Words of a long text, in the mean of a training set: half of the domains of MTL-16 have longer ones."""

Results = Mapping[str, Sequence[Mapping[str, Any]]]
"""Label of a row -> rows of results, one for each seed."""
_BY_EPOCH = {"last_bleu": "dev_bleu", "last_perplexity": "dev_perplexity"}


def draw_experiment(experiment: Experiment, results: Results, path: FilePath | None = None) -> Figure:
    """Draw the curves of a figure, means over seeds."""
    if experiment.curves is None:
        raise ConfigError(f"{experiment.full_name} is not drawn; leave {{picture}} out", options=("picture",))
    if experiment.averages:
        return _draw_bars(experiment, results, path)
    if experiment.curves == "alpha":
        return _draw_heads(experiment.rows, path)
    panels = {heading: curves for heading, curves in collect_panels(experiment, results).items() if curves}
    if not panels:
        raise ConfigError(f"{experiment.full_name} has no results to draw yet; run it first")
    return draw_panels([Panel(heading, experiment.curves, curves) for heading, curves in panels.items()], path)


def collect_panels(experiment: Experiment, results: Results) -> dict[str, Curves]:
    """Heading of a panel -> its curves.

    Observed distances and epochs are curves of a row. Otherwise a curve has the rows with the same label except for its
    last part, which is the horizontal coordinate; there is a panel for each measure.
    """
    if "attention_distances" in experiment.observe:
        return {
            f"{label}, {kind}": {
                name.removesuffix(" (all)"): [(float(d), 100 * share) for d, share in enumerate(shares)]
                for name, shares in runs[0]["attention_distances"][kind].items()
            }
            for label, runs in results.items()
            if runs
            for kind in ("heads", "layers")
        }
    if experiment.measures[0] in _BY_EPOCH:
        name = experiment.measures[0]
        return {MEASURES[name].heading.partition(",")[0]: _collect_epochs(_BY_EPOCH[name], results)}
    return {MEASURES[name].heading: _collect_points(name, results) for name in experiment.measures}


def _draw_heads(rows: Sequence[Row], path: FilePath | None) -> Figure:
    """Draw the heads of each scale, a panel for each layer with a bar for each alpha; needs no results."""
    options = [MSTransOptions(**row.changes["encoder"]) for row in rows]
    models = sorted((each for each in options if len(each.scales) > 1), key=lambda each: each.alpha)
    layers = list(zip(*(each.layer_heads() for each in models), strict=True))
    with new_picture(path, 2.8 * len(layers) + 1.2, 3.0) as figure:
        figure.set_layout_engine("constrained")
        for number, (axes, heads) in enumerate(zip(figure.subplots(1, len(layers)), layers, strict=True), 1):
            names, below = [f"{each.alpha:g}" for each in models], [0] * len(models)
            for colour, scale in zip(PALETTE, heads[0], strict=False):
                counts = [of_model[scale] for of_model in heads]
                axes.bar(names, counts, 0.7, below, label=scale, color=colour, edgecolor="white")
                below = list(map(add, below, counts))
            style_axes(axes, "alpha", title=f"heads of layer {number}")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=7, frameon=False)
    return figure


def _draw_bars(experiment: Experiment, results: Results, path: FilePath | None) -> Figure:
    """Draw the first measure: a bar for each last part of the labels, side by side for each first part, and averages.

    An average is over the first parts that all last parts have.
    """
    measure = MEASURES[experiment.measures[0]]
    bars: dict[str, dict[str, float]] = {}
    for label, runs in results.items():
        first, _, last = label.rpartition(SEPARATOR)
        if values := measure_runs(runs, measure):
            bars.setdefault(last, {})[first] = statistics.mean(values)
    groups = [group for group in next(iter(bars.values()), {}) if all(group in others for others in bars.values())]
    if not groups:
        raise ConfigError(f"{experiment.full_name} has no results to draw yet; run it first")
    with new_picture(path, 2.5 + 0.45 * len(groups), 3.6) as figure:
        figure.set_layout_engine("constrained")
        axes, width = figure.subplots(), 0.8 / len(bars)
        for number, (name, by_group) in enumerate(bars.items()):
            heights = [by_group[group] for group in groups]
            places = [place + (number - (len(bars) - 1) / 2) * width for place in range(len(groups) + 1)]
            axes.bar(places, [*heights, statistics.mean(heights)], width, label=name, color=PALETTE[number])
        axes.set_xticks(range(len(groups) + 1), [*groups, "average"], rotation=45, ha="right")
        axes.legend(fontsize=7, frameon=False)
        style_axes(axes, experiment.curves or "", title=measure.heading)
    return figure


def _collect_epochs(name: str, results: Results) -> Curves:
    curves: Curves = {}
    for label, runs in results.items():
        histories = [[row[name] for row in run["by_epoch"]] for run in runs if "by_epoch" in run]
        if histories:
            curves[label] = [
                (float(epoch), statistics.mean(values)) for epoch, values in enumerate(zip(*histories, strict=False), 1)
            ]
    return curves


def _collect_points(name: str, results: Results) -> Curves:
    curves: Curves = {}
    for label, runs in results.items():
        curve, _, across = label.rpartition(SEPARATOR)
        if values := measure_runs(runs, MEASURES[name]):
            curves.setdefault(curve, []).append((float(across), statistics.mean(values)))
    return curves


def find_differences(cells: Mapping[tuple[str, str], Runs], ours: str, other: str) -> list[tuple[str, float, float]]:
    """(data set, mean test score of ours minus the other's, its standard error), where both have run.

    Sets of the shortest texts come first, and means over the domains of MTL-16 last.
    """
    shorter = [name for name in MTL_DOMAINS if TRAINING_WORDS[name] < _LONG]
    longer = [name for name in MTL_DOMAINS if TRAINING_WORDS[name] >= _LONG]
    names = sorted({data_set for data_set, _ in cells}, key=lambda name: (_count_words(name), name))
    groups = {name: [name] for name in names}
    groups |= {f"MTL-16, below {_LONG} words": shorter, f"MTL-16, from {_LONG} words": longer, MTL_MEAN: [*MTL_DOMAINS]}
    found = []
    for name, group in groups.items():
        runs_of = ([cells.get((data_set, encoder), ()) for data_set in group] for encoder in (ours, other))
        first, second = (estimate_mean(*sets) for sets in runs_of)
        if first and second:
            found.append((name, first[0] - second[0], math.hypot(first[1], second[1])))
    return found


def _count_words(data_set: str) -> float:
    """Mean words of a text; infinitely many if they are not known."""
    return TRAINING_WORDS.get(data_set.partition(":")[0], math.inf)


def _label_data_set(name: str) -> str:
    words = _count_words(name)
    return name if words == math.inf else f"{name} ({words} words)"


def draw_differences(
    cells: Mapping[tuple[str, str], Runs], encoders: Sequence[str], path: FilePath | None = None
) -> Figure:
    """Draw the first encoder's scores minus each other one's, a panel for each, with bars of one standard error."""
    ours, *others = encoders
    panels = {other: differences for other in others if (differences := find_differences(cells, ours, other))}
    if not panels:
        raise ConfigError("no data set has test scores of the first encoder and another one")
    height = 1.0 + 0.22 * max(map(len, panels.values()))
    with new_picture(path, 4.2 * len(panels), height) as figure:
        figure.set_layout_engine("constrained")
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (other, differences) in zip(all_axes, panels.items(), strict=True):
            names, values, errors = zip(*reversed(differences), strict=True)
            axes.errorbar(values, range(len(names)), xerr=errors, fmt="o", ms=4, lw=1.2, color="#0072B2")
            axes.axvline(0, color=INK, lw=0.8)
            axes.set_yticks(range(len(names)), map(_label_data_set, names))
            style_axes(axes, "points on the test set", title=f"{ours} minus {other}")
    return figure
