"""Pictures of figures, and of tables with a column for each epoch, from rows of results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphattn.exceptions import ConfigError
from graphattn.experiments.drawing._curves import Curves, Panel, draw_panels
from graphattn.experiments.papers._experiment import MEASURES, SEPARATOR, Experiment, measure_runs

Results = Mapping[str, Sequence[Mapping[str, Any]]]
"""Label of a row -> rows of results, one for each seed."""
_BY_EPOCH = {"last_bleu": "dev_bleu", "last_perplexity": "dev_perplexity"}


def draw_experiment(experiment: Experiment, results: Results, path: Path) -> None:
    """Draw the curves of a figure, means over seeds."""
    if experiment.curves is None:
        raise ConfigError(f"{experiment.full_name} is not drawn; leave {{picture}} out", options=("picture",))
    panels = {heading: curves for heading, curves in collect_panels(experiment, results).items() if curves}
    if not panels:
        raise ConfigError(f"{experiment.full_name} has no results to draw yet; run it first")
    draw_panels([Panel(heading, experiment.curves, curves) for heading, curves in panels.items()], path)


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
