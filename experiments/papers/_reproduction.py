"""What ``graphattn reproduce`` runs, prints and draws."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning
from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers import _result_rows as rows
from graphattn.experiments.papers._baselines import BASELINES
from graphattn.experiments.papers._catalogue import PAPERS, find_experiments
from graphattn.experiments.papers._comparison import compare_data_sets, compare_rows
from graphattn.experiments.papers._data_sets import DATA_SETS, data_folder
from graphattn.experiments.papers._experiment import Experiment, find_results, show_experiment
from graphattn.experiments.papers._parameters import parameters_table
from graphattn.experiments.papers._runs import (
    Run,
    check_changes,
    combine,
    execute,
    option_groups,
    row_key,
    with_changes,
)
from graphattn.experiments.papers._settings import MTL, encoder_name
from graphattn.models._encoders import ENCODERS
from graphattn.options import list_options


@dataclass(frozen=True)
class Request:
    """Arguments of the command."""

    names: Sequence[str]  # data sets, or papers; all if empty
    encoders: Sequence[str]  # of data sets; all if empty
    table: str | None  # number of a paper's table
    figure: str | None
    labels: Sequence[str]  # rows of tables; all if empty
    words: Sequence[str]  # of ``--set``
    seeds: Sequence[int]
    options: Mapping[str, Any]  # the ``fold`` and ``on_test`` of the runs
    folder: Path | None  # of the data; None: named by the environment
    out: Path
    jobs: int | None
    only_show: bool  # run nothing
    side_by_side: bool
    picture: Path | None

    @property
    def is_for_papers(self) -> bool:
        """Whether tables and figures of papers are meant, not data sets."""
        of_papers = self.table is not None or self.figure is not None or self.labels
        return bool(of_papers or (self.picture and not self.encoders) or set(self.names) & PAPERS.keys())

    def changes(self, data_set: str, encoder: str) -> dict[str, dict[str, Any]]:
        """The changes of ``--set`` to a run."""
        return parse_changes(self.words, data_set, encoder)

    def check_picture(self) -> None:
        """Reject a picture of another format."""
        if self.picture is not None:
            from graphattn.experiments.drawing._canvas import check_format

            check_format(self.picture)

    def find_experiments(self) -> list[Experiment]:
        """Tables and figures of some papers; without a number, those that have the rows."""
        if (self.table or self.figure) and not self.names:
            raise ConfigError(f"name the paper of the table or figure: {', '.join(PAPERS)}")
        experiments = [
            experiment
            for name in _require_papers(self.names)
            for experiment in find_experiments(name, table=self.table, figure=self.figure)
        ]
        if self.table or self.figure:
            return experiments
        return [experiment for experiment in experiments if set(self.labels) <= experiment.labels] or experiments

    def plan(self, experiment: Experiment) -> dict[str, Run]:
        """Label of a row -> its run with seed 0."""
        return {
            row.label: experiment.run(row, self.changes(row.data_set, row.encoder), **self.options)
            for row in experiment.select(self.labels)
        }


def parse_changes(words: Sequence[str], data_set: str, encoder: str) -> dict[str, dict[str, Any]]:
    """Group of options -> options that ``--set`` changes, with values as in the flags of ``train``.

    Examples
    --------
    >>> parse_changes(["encoder.alpha=0", "training.clip=none"], "sst2", "ms-trans")
    {'encoder': {'alpha': 0.0}, 'training': {'clip': None}}
    """
    changes: dict[str, dict[str, Any]] = {}
    for word in words:
        path, has_value, value = word.partition("=")
        group, has_name, name = path.partition(".")
        if not has_value or not has_name:
            raise ConfigError(f"--set {word}: write GROUP.OPTION=VALUE, encoder.layers=2 for example")
        name = name.replace("-", "_")
        check_changes(data_set, encoder, {group: {name: value}})
        options = option_groups(data_set, encoder)[group]
        changed = next(each for each in list_options(options) if each.name == name)
        try:
            changes.setdefault(group, {})[name] = changed.parse(value)
        except ConfigError as error:
            raise ConfigError(f"--set {word}: {error}") from error
    return changes


def show_parameters(papers: Sequence[str]) -> str:
    """Our numbers of parameters next to the papers'."""
    return parameters_table(_require_papers(papers))


def show_hours(request: Request, files: Sequence[Path]) -> str:
    """The core hours of tables, from the runs in some files."""
    experiments = request.find_experiments()
    for path in files:
        _require_runs(path)
    return hours_table(experiments, [row for path in files for row in rows.read_rows(path)], len(request.seeds))


def hours_table(experiments: Sequence[Experiment], recorded_rows: Iterable[Mapping[str, Any]], seeds: int) -> str:
    """Runs and core hours of each table and figure, as Markdown.

    A run takes as long as the median of its recorded ones; without any as those of its encoder on its data set (MTL-16
    is one data set), or else of all encoders. Runs of which none of these is known are counted, not timed. A table that
    shares runs with an earlier one only adds its own.
    """
    recorded: defaultdict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in recorded_rows:
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


def _require_runs(path: Path) -> None:
    if not path.exists():
        raise DataError("does not exist", path=path, hint="Name the file that runs were written to.")


def _require_papers(names: Sequence[str]) -> Sequence[str]:
    """The names of papers; all of them without names."""
    for name in names:
        if name not in PAPERS:
            what = "is a data set, and these options are for papers" if name in DATA_SETS else "is not a paper"
            raise ConfigError(f"{name!r} {what}; {suggest(name, PAPERS)}choose among: {', '.join(PAPERS)}")
    return names or list(PAPERS)


def reproduce(request: Request) -> None:
    """Make the runs of papers or of data sets, and print them."""
    if request.is_for_papers:
        _reproduce_papers(request)
    else:
        _reproduce_data_sets(request)


def _reproduce_data_sets(request: Request) -> None:
    """Run data sets with encoders, and print the table of the runs."""
    request.check_picture()
    if request.picture is not None and len(request.encoders) < 2:
        raise ConfigError("{picture} compares encoders; name two with {encoder}", options=("picture", "encoder"))
    if not request.only_show:
        _run_data_sets(request)
    filters = (("data_set", request.names), ("encoder", request.encoders)) if request.only_show else ()
    selected = [
        row for row in rows.read_rows(request.out) if all(not values or row[name] in values for name, values in filters)
    ]
    if request.only_show and not selected:
        hint = "Name the file that runs were written to, and data sets and encoders that are in it."
        raise DataError("holds no such runs", path=request.out, hint=hint)
    unchanged = [row for row in selected if not any((row.get("changes") or {}).values())]
    if request.side_by_side:
        print(compare_data_sets(rows.group_runs(unchanged if request.encoders else selected)))
    else:
        print(rows.results_table(selected))
    if request.picture is not None:
        from graphattn.experiments.papers._figures import draw_differences

        draw_differences(rows.group_runs(unchanged), request.encoders, request.picture)


def _run_data_sets(request: Request) -> None:
    folder = request.folder or data_folder()
    complete = [name for name, corpus in DATA_SETS.items() if all((folder / file).exists() for file in corpus.files())]
    encoders = request.encoders or [*ENCODERS, *BASELINES]
    runs = combine(request.names or complete, encoders, request.seeds, **request.options)
    changed = [with_changes(run, request.changes(run.data_set, run.encoder)) for run in runs]

    def report(row: Mapping[str, Any]) -> None:
        print(rows.describe_run(row), flush=True)

    execute(changed, request.out, folder=folder, jobs=request.jobs or 1, report=report)


def _reproduce_papers(request: Request) -> None:
    """Run the rows of tables and figures, print and draw them."""
    experiments = request.find_experiments()
    request.check_picture()
    if request.picture is not None and len(experiments) > 1:
        options = ("picture", "figure", "table")
        raise ConfigError("{picture} is of one figure; name it with {figure} or {table}", options=options)
    if request.only_show:
        _require_runs(request.out)
    plans = [request.plan(experiment) for experiment in experiments]
    for experiment, plan in zip(experiments, plans, strict=True):
        if not request.only_show:
            _run_plan(experiment, plan, request)
        results = find_results(plan, rows.read_rows(request.out))
        planned = [row for row in experiment.rows if row.label in plan]
        show = compare_rows if request.side_by_side else show_experiment
        print(show(experiment, planned, results), end="\n\n", flush=True)
        if request.picture is not None:
            from graphattn.experiments.papers._figures import draw_experiment

            draw_experiment(experiment, results, request.picture)


def _run_plan(experiment: Experiment, plan: Mapping[str, Run], request: Request) -> None:
    runs = [replace(run, seed=seed) for seed in request.seeds for run in plan.values()]
    names = {run.key(): run.name for run in runs}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def report(row: Mapping[str, Any]) -> None:
        print(f"{names[row_key(row)]}: {rows.describe_run(row)}", flush=True)

    jobs = 1 if experiment.timed else request.jobs or cores
    execute(runs, request.out, folder=request.folder, jobs=jobs, report=report)


def smoke(request: Request) -> None:
    """Run small versions of all rows with one seed, without keeping their results."""
    from graphattn.experiments.papers._smoke import shrink, smoke_folder

    experiments = request.find_experiments()
    with smoke_folder() as folder, TemporaryDirectory() as results, warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphAttnWarning)  # generated texts have no parses, and models learn nothing
        for experiment in experiments:
            runs = [shrink(run) for run in request.plan(experiment).values()]
            start = time.perf_counter()
            execute(runs, Path(results) / "results.jsonl", folder=folder, jobs=request.jobs or 1)
            print(f"{experiment.full_name}: {len(runs)} rows, {time.perf_counter() - start:.1f} s", flush=True)
