"""Test scores side by side: the best of a data set in bold, those within one standard error of it in italics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers._data_sets import MTL_DOMAINS
from graphattn.experiments.papers._experiment import SEPARATOR, Experiment, Row
from graphattn.experiments.papers._rows import format_mean, rank_encoder

Runs = Sequence[Mapping[str, Any]]
"""Runs that differ only in their seed."""

TEST_TEXTS = {
    **{"sst2": 1821, "sst5": 2210, "sick": 4906, "imdb": 25_000, "mrpc": 408},
    **dict.fromkeys(("r8", "gcn-r8"), 2189),
    **dict.fromkeys(("r52", "gcn-r52"), 2568),
    **dict.fromkeys(("ohsumed", "gcn-ohsumed"), 4043),
    **dict.fromkeys(("20ng", "gcn-20ng"), 7532),
    "gcn-mr": 3554,
    **dict.fromkeys(MTL_DOMAINS, 400),
}
"""Sizes of test sets, for accuracies of runs that recorded no standard error."""


def estimate_error(runs: Runs) -> float:
    """Standard error of a mean test score, over the seeds and the texts of the test set.

    Texts: the bootstrap of each run, or for an accuracy without one the binomial formula.

    Examples
    --------
    >>> round(estimate_error([{"data_set": "sst2", "test": 80.0}]), 2)  # sqrt(0.8 * 0.2 / 1821)
    0.94
    """
    scores = [float(run["test"]) for run in runs]
    of_seeds = statistics.variance(scores) / len(scores) if len(scores) > 1 else 0.0
    errors = [float(run["test_error"]) for run in runs if "test_error" in run]
    if errors:
        return math.sqrt(of_seeds + statistics.mean(errors) ** 2)
    share = statistics.mean(scores) / 100
    texts = TEST_TEXTS.get(runs[0]["data_set"], math.inf)
    return math.sqrt(of_seeds + 1e4 * share * (1 - share) / texts)


def mark_best(cells: Mapping[str, Runs]) -> dict[str, str]:
    """Name of a system -> its test score on one data set, mean and deviation over seeds, in Markdown.

    Two systems tie if their means differ by less than the standard error of a difference of independent scores. They
    read the same texts, so their difference varies less: the rule is on the safe side.

    Examples
    --------
    >>> runs = {name: [{"data_set": "sst2", "test": score}] for name, score in zip("abc", (80.0, 79.0, 77.0))}
    >>> mark_best(runs)
    {'a': '**80.0**', 'b': '*79.0*', 'c': '77.0'}
    """
    scored = {name: [run for run in runs if "test" in run] for name, runs in cells.items()}
    means = {name: statistics.mean(run["test"] for run in runs) for name, runs in scored.items() if runs}
    texts = {name: format_mean([run["test"] for run in runs], ".1f") for name, runs in scored.items()}
    if len(means) < 2:
        return texts
    best = max(means, key=lambda name: means[name])
    for name, mean in means.items():
        error = math.hypot(estimate_error(scored[name]), estimate_error(scored[best]))
        sign = "**" if name == best else "*" if means[best] - mean < error else ""
        texts[name] = f"{sign}{texts[name]}{sign}"
    return texts


def compare_data_sets(cells: Mapping[tuple[str, str], Runs]) -> str:
    """A Markdown table of (data set, encoder) -> runs, with one line for each data set."""
    data_sets, encoders = (list(dict.fromkeys(key[index] for key in cells)) for index in (0, 1))
    encoders.sort(key=rank_encoder)
    lines = [["data set", *encoders]]
    for data_set in data_sets:
        marked = mark_best({encoder: cells.get((data_set, encoder), ()) for encoder in encoders})
        lines.append([data_set, *marked.values()])
    if set(MTL_DOMAINS) <= set(data_sets):
        domains = {encoder: [cells.get((domain, encoder), ()) for domain in MTL_DOMAINS] for encoder in encoders}
        lines.append(["mean of MTL-16", *(_format_mean_of_means(domains[encoder]) for encoder in encoders)])
    return format_markdown(lines)


def compare_rows(experiment: Experiment, rows: Sequence[Row], results: Mapping[str, Runs]) -> str:
    """The test scores of a paper's table, its own in brackets: a line for each first part of the labels.

    Scores of one data set are compared, those of a line or those of a column. Lines and columns without a run are left
    out.
    """
    rows = [row for row in rows if any("test" in run for run in results[row.label])]
    if not rows:
        return f"{experiment.full_name}: no run has a test score"
    marked: dict[str, str] = {}
    for data_set in dict.fromkeys(row.data_set for row in rows):
        marked |= mark_best({row.label: results[row.label] for row in rows if row.data_set == data_set})
    table: dict[str, dict[str, str]] = {}
    for row in rows:
        *first, column = row.parts()
        figure = f" ({row.paper['test']:.1f})" if "test" in row.paper else ""
        table.setdefault(SEPARATOR.join(first) or experiment.title, {})[column] = f"{marked[row.label]}{figure}"
    columns = list(dict.fromkeys(column for line in table.values() for column in line))
    lines = [["", *columns], *([name, *(line.get(column, "") for column in columns)] for name, line in table.items())]
    if experiment.averages and len(table) > 1:
        by_column = {column: [results[row.label] for row in rows if row.parts()[-1] == column] for column in columns}
        lines.append(["mean of these", *map(_format_mean_of_means, by_column.values())])
    return f"{experiment.full_name}: {experiment.title}\n\n{format_markdown(lines)}"


def _format_mean_of_means(sets: Sequence[Runs]) -> str:
    """The mean over data sets of the mean over seeds; empty if a data set has not run."""
    scores = [[float(run["test"]) for run in runs if "test" in run] for runs in sets]
    return format_mean([statistics.mean(map(statistics.mean, scores))], ".1f") if all(scores) else ""
