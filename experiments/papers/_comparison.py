"""Test scores side by side: the best of a data set in bold, those within one standard error of it in italics."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers._data_sets import MTL_DOMAINS
from graphattn.experiments.papers._experiment import SEPARATOR, Experiment, Row
from graphattn.experiments.papers._result_rows import format_mean, rank_encoder

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
TRAINING_WORDS = {
    **{"mpqa": 3, "sick": 10, "conll2003": 15, "ewt": 16, "wnut17": 18, "sst2": 19, "sst5": 19, "cr": 20, "mr": 21},
    **{"mr-short": 21, "mrpc": 22, "apparel": 67, "health": 95, "kitchen": 98, "toys": 103, "r8": 105, "sports": 107},
    **{"electronics": 117, "baby": 119, "magazines": 128, "camera": 138, "music": 149, "software": 150, "video": 163},
    **{"books": 184, "dvd": 197, "imdb": 234, "imdb-short": 271},
}
"""Mean words of a text of the training set, for pairs of the first one."""
MTL_MEAN = "mean of MTL-16"
"""Heading of the mean over all of :data:`MTL_DOMAINS`."""


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


def estimate_mean(*sets: Runs) -> tuple[float, float] | None:
    """The mean test score over data sets, of each the mean over seeds, and its standard error.

    None if a data set has no test score.

    Examples
    --------
    >>> mean, error = estimate_mean([{"data_set": "sst2", "test": 80.0}], [{"data_set": "sst5", "test": 40.0}])
    >>> mean, round(error, 2)  # half of the root of 0.94^2 + 1.04^2
    (60.0, 0.7)
    """
    tested = [[run for run in runs if "test" in run] for runs in sets]
    if not all(tested):
        return None
    mean = statistics.mean(statistics.mean(float(run["test"]) for run in runs) for runs in tested)
    return mean, math.hypot(*map(estimate_error, tested)) / len(tested)


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
    texts = {name: format_mean([run["test"] for run in runs if "test" in run], ".1f") for name, runs in cells.items()}
    return _mark(texts, {name: estimate_mean(runs) for name, runs in cells.items()})


def _mark_best_mean(columns: Mapping[str, Sequence[Runs]]) -> dict[str, str]:
    """Name of a system -> its mean over data sets, marked as by :func:`mark_best`; empty if one has no test score."""
    means = {name: estimate_mean(*sets) for name, sets in columns.items()}
    return _mark({name: format(mean[0], ".1f") if mean else "" for name, mean in means.items()}, means)


def _mark(texts: Mapping[str, str], means: Mapping[str, tuple[float, float] | None]) -> dict[str, str]:
    """The texts with signs of Markdown around the best one and those that tie with it."""
    known = {name: mean for name, mean in means.items() if mean is not None}
    marked = dict(texts)
    if len(known) < 2:
        return marked
    best = max(known, key=lambda name: known[name][0])
    for name, (mean, error) in known.items():
        ties = known[best][0] - mean < math.hypot(error, known[best][1])
        sign = "**" if name == best else "*" if ties else ""
        marked[name] = f"{sign}{texts[name]}{sign}"
    return marked


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
        lines.append([MTL_MEAN, *_mark_best_mean(domains).values()])
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
    table: dict[str, dict[str, Row]] = {}
    for row in rows:
        *first, column = row.parts()
        table.setdefault(SEPARATOR.join(first) or experiment.title, {})[column] = row
    columns = list(dict.fromkeys(column for line in table.values() for column in line))

    def format_cell(row: Row | None) -> str:
        if row is None:
            return ""
        return marked[row.label] + (f" ({row.paper['test']:.1f})" if "test" in row.paper else "")

    lines = [["", *columns], *([name, *map(format_cell, map(line.get, columns))] for name, line in table.items())]
    if experiment.averages and len(table) > 1:
        filled = [column for column in columns if all(column in line for line in table.values())]
        means = _mark_best_mean({name: [results[line[name].label] for line in table.values()] for name in filled})
        lines.append(["mean of these", *(means.get(column, "") for column in columns)])
    return f"{experiment.full_name}: {experiment.title}\n\n{format_markdown(lines)}"
