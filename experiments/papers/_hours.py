"""Core hours that tables take, from the seconds of recorded runs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers._experiment import Experiment
from graphattn.experiments.papers._runs import row_key
from graphattn.experiments.papers._settings import MTL, encoder_name


def hours_table(experiments: Sequence[Experiment], rows: Iterable[Mapping[str, Any]], seeds: int) -> str:
    """Runs and core hours of each table and figure, as Markdown.

    A run takes as long as the median of its recorded ones; without any as those of its encoder on its data set (MTL-16
    is one data set), or else of all encoders. Runs of which none of these is known are counted, not timed. A table that
    shares runs with an earlier one only adds its own.
    """
    recorded: defaultdict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        for key in _list_keys(row):
            recorded[key].append(row)
    lines = [["paper", "table", "runs", "not timed", "core hours"]]
    seen: set[str] = set()
    for experiment in experiments:
        runs = {run.key(): vars(run) for run in (experiment.run(row, {}) for row in experiment.rows)}
        new = [run for key, run in runs.items() if key not in seen]
        seen |= runs.keys()
        similar = [next((recorded[key] for key in _list_keys(run) if key in recorded), []) for run in new]
        hours = seeds * sum(starmap(_estimate_seconds, zip(new, similar, strict=True))) / 3600
        counts = seeds * len(new), seeds * similar.count([])
        lines.append([experiment.paper, experiment.name, *map(str, counts), f"{hours:.1f}"])
    return format_markdown(lines)


def _estimate_seconds(run: Mapping[str, Any], similar: Sequence[Mapping[str, Any]]) -> float:
    """The median of similar runs, for as many epochs as the run has if it sets them."""
    epochs = run["changes"].get("training", {}).get("epochs")
    times = [row["seconds"] * (epochs / row["epochs"] if epochs and "epochs" in row else 1) for row in similar]
    return statistics.median(times) if times else 0.0


def _list_keys(run: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Keys of runs that take about as long, the most similar ones first."""
    family = "MTL-16" if run["data_set"] in MTL else run["data_set"]
    return [(row_key({**run, "seed": 0}),), (family, encoder_name(run["encoder"])), (family,)]
