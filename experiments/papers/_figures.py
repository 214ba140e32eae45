"""Pictures of figures, of tables with a column for each epoch, and of differences, from rows of results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphattn.builders._files import FilePath
from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing._canvas import INK, new_picture
from graphattn.experiments.drawing._curves import Curves, Panel, draw_panels, style_axes
from graphattn.experiments.papers._comparison import Runs, estimate_error
from graphattn.experiments.papers._experiment import MEASURES, SEPARATOR, Experiment, measure_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Results = Mapping[str, Sequence[Mapping[str, Any]]]
"""Label of a row -> rows of results, one for each seed."""
_BY_EPOCH = {"last_bleu": "dev_bleu", "last_perplexity": "dev_perplexity"}


def draw_experiment(experiment: Experiment, results: Results, path: FilePath | None = None) -> Figure:
    """Draw the curves of a figure, means over seeds."""
    if experiment.curves is None:
        raise ConfigError(f"{experiment.full_name} is not drawn; leave {{picture}} out", options=("picture",))
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
    """(data set, mean test score of ours minus the other's, its standard error), where both have run."""
    found = []
    for data_set in dict.fromkeys(data_set for data_set, _ in cells):
        pair = [[run for run in cells.get((data_set, name), ()) if "test" in run] for name in (ours, other)]
        if all(pair):
            first, second = (statistics.mean(run["test"] for run in runs) for runs in pair)
            found.append((data_set, first - second, math.hypot(*map(estimate_error, pair))))
    return found


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
            axes.set_yticks(range(len(names)), names)
            axes.set_title(f"{ours} minus {other}", size=10, color=INK, loc="left")
            style_axes(axes, "points on the test set")
    return figure
