"""Core hours that tables take, from the seconds of recorded runs."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
    seconds: defaultdict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        for key in _list_keys(row):
            seconds[key].append(row["seconds"])
    lines = [["paper", "table", "runs", "not timed", "core hours"]]
    seen: set[str] = set()
    for experiment in experiments:
        runs = {run.key(): vars(run) for run in (experiment.run(row, {}) for row in experiment.rows)}
        new = [run for key, run in runs.items() if key not in seen]
        seen |= runs.keys()
        known = [next((seconds[key] for key in _list_keys(run) if key in seconds), None) for run in new]
        hours = seeds * sum(statistics.median(times) for times in known if times) / 3600
        counts = seeds * len(new), seeds * known.count(None)
        lines.append([experiment.paper, experiment.name, *map(str, counts), f"{hours:.1f}"])
    return format_markdown(lines)


def _list_keys(run: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Keys of runs that take about as long, the most similar ones first."""
    family = "MTL-16" if run["data_set"] in MTL else run["data_set"]
    return [(row_key({**run, "seed": 0}),), (family, encoder_name(run["encoder"])), (family,)]
