"""``graphattn reproduce``: the runs behind the result tables, and the tables and figures of the papers."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning
from graphattn.options import list_options

if TYPE_CHECKING:
    from graphattn.experiments.papers._experiment import Experiment
    from graphattn.experiments.papers._runs import Run

EXAMPLES = (
    "graphattn reproduce sst2 sst5 --encoder ms-trans --seeds 3 --data DATA --out results.jsonl\n\n"
    "graphattn reproduce multi30k --encoder umst --set encoder.layers=6 --dev-only --out results.jsonl\n\n"
    "graphattn reproduce --show --side-by-side --out results.jsonl\n\n"
    "graphattn reproduce ms-trans --table 6 --row A --row F --data DATA\n\n"
    "graphattn reproduce ms-trans --figure 2 --show --picture mirrored.png"
)


@dataclass(frozen=True)
class Request:
    """Arguments of the command besides names.

    ``words`` are those of ``--set``, ``labels`` of rows (all if empty), ``options`` the ``fold`` and ``on_test`` of the
    runs, ``folder`` that of the data (None: named by the environment). With ``only_show`` nothing runs.
    """

    words: Sequence[str]
    labels: Sequence[str]
    seeds: Sequence[int]
    options: Mapping[str, Any]
    folder: Path | None
    out: Path
    jobs: int | None
    only_show: bool
    picture: Path | None

    def changes(self, data_set: str, encoder: str) -> dict[str, dict[str, Any]]:
        """The changes of ``--set`` to a run."""
        return parse_changes(self.words, data_set, encoder)


def parse_changes(words: Sequence[str], data_set: str, encoder: str) -> dict[str, dict[str, Any]]:
    """Group of options -> options that ``--set`` changes, with values as in the flags of ``train``.

    Examples
    --------
    >>> parse_changes(["encoder.alpha=0", "training.clip=none"], "sst2", "ms-trans")
    {'encoder': {'alpha': 0.0}, 'training': {'clip': None}}
    """
    from graphattn.experiments.papers._runs import check_changes, option_groups

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


DataSetNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="Data sets, or papers: ms-trans, mtsa, umst, duo, pretrained, decisions. See docs/reproduce.md."
    ),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option(help="Encoder, baseline, default or pretrained, for data sets; may be repeated (default: all)."),
]
Table = Annotated[str | None, typer.Option(help="Number of a paper's table (default: all).")]
Figure = Annotated[str | None, typer.Option(help="Number of a paper's figure (default: all).")]
RowLabels = Annotated[
    list[str] | None, typer.Option(help="Row of a table, or a part of its label; may be given several times.")
]
Words = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change an option: encoder.alpha=0, training.epochs=3; may be given several times."),
]
Fold = Annotated[
    int | None, typer.Option(help="Hold out this fold of the training set instead of using the test set.", min=0, max=3)
]
Data = Annotated[Path | None, typer.Option(help="Data folder (default: the one GRAPHATTN_DATA names).")]
Out = Annotated[Path, typer.Option(help="File of JSON lines; runs it holds already are not repeated.")]
OptionalJobs = Annotated[
    int | None, typer.Option(help="Processes with a thread each (default: 1; papers: all cores). Times need 1.", min=1)
]


def reproduce(
    names: DataSetNames = None,
    *,
    encoder: Encoders = None,
    table: Table = None,
    figure: Figure = None,
    row: RowLabels = None,
    changes: Words = None,
    seeds: Annotated[int, typer.Option(help="Runs with the seeds 0, 1, ...", min=1)] = 3,
    fold: Fold = None,
    dev_only: Annotated[bool, typer.Option("--dev-only", help="Do not read the test set.")] = False,
    data: Data = None,
    out: Out = Path("results.jsonl"),
    jobs: OptionalJobs = None,
    threads: Annotated[int | None, typer.Option(help="Threads of PyTorch with one process.", min=1)] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Only print the runs in --out, for papers next to the paper's numbers.")
    ] = False,
    side_by_side: Annotated[
        bool,
        typer.Option(
            "--side-by-side",
            help="Print test scores: the best in bold, in italics those within a standard error of it, the paper's in "
            "brackets.",
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw a figure, or with --encoder the first one's scores minus the others': .png, .svg or .pdf."
        ),
    ] = None,
    parameters: Annotated[
        bool, typer.Option("--parameters", help="Print our numbers of parameters next to the papers'.")
    ] = False,
    hours: Annotated[
        list[Path] | None,
        typer.Option(
            help="Print the core hours of tables, from the seconds of the runs in this file; may be repeated."
        ),
    ] = None,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Run tables and figures with generated corpora, small models and one step.")
    ] = False,
) -> None:
    """Train and test on the corpora of the result tables, write each run's figures as it ends, print the table.

    With the name of a paper, run the rows of its tables and figures, and print our numbers next to the paper's.
    """
    _set_threads(threads)
    request = Request(
        changes or [], row or [], range(seeds), {"fold": fold, "on_test": not dev_only}, data, out, jobs, show, picture
    )
    if parameters:
        _print_parameters(names)
    elif hours:
        _print_hours(_find_experiments(names, table, figure, request.labels), hours, seeds)
    elif smoke:
        _smoke(_find_experiments(names, table, figure, request.labels), request)
    elif _names_paper(names) or any(option is not None for option in (table, figure, row)) or (picture and not encoder):
        _reproduce_papers(_find_experiments(names, table, figure, request.labels), request, side_by_side=side_by_side)
    else:
        _reproduce_data_sets(names, encoder, request, side_by_side=side_by_side)


def _set_threads(threads: int | None) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


def _print_parameters(names: Sequence[str] | None) -> None:
    from graphattn.experiments.papers._parameters import parameters_table

    print(parameters_table(_require_papers(names)))


def _print_hours(experiments: Sequence[Experiment], files: Sequence[Path], seeds: int) -> None:
    from graphattn.experiments.papers._hours import hours_table
    from graphattn.experiments.papers._rows import read_rows

    for path in files:
        _require_runs(path)
    print(hours_table(experiments, [row for path in files for row in read_rows(path)], seeds))


def _require_runs(path: Path) -> None:
    if not path.exists():
        raise DataError("does not exist", path=path, hint="Name the file that runs were written to.")


def _names_paper(names: Sequence[str] | None) -> bool:
    from graphattn.experiments.papers._catalogue import PAPERS

    return any(name in PAPERS for name in names or ())


def _require_papers(names: Sequence[str] | None) -> Sequence[str]:
    """The names of papers; all of them without names."""
    from graphattn.experiments.papers._catalogue import PAPERS
    from graphattn.experiments.papers._data_sets import DATA_SETS

    for name in names or ():
        if name not in PAPERS:
            what = "is a data set, and these options are for papers" if name in DATA_SETS else "is not a paper"
            raise ConfigError(f"{name!r} {what}; {suggest(name, PAPERS)}choose among: {', '.join(PAPERS)}")
    return names or list(PAPERS)


def _find_experiments(
    names: Sequence[str] | None, table: str | None, figure: str | None, labels: Sequence[str]
) -> list[Experiment]:
    """Tables and figures of some papers; without a number, those that have the rows."""
    from graphattn.experiments.papers._catalogue import PAPERS, find_experiments

    if (table or figure) and not names:
        raise ConfigError(f"name the paper of the table or figure: {', '.join(PAPERS)}")
    experiments = [
        experiment
        for name in _require_papers(names)
        for experiment in find_experiments(name, table=table, figure=figure)
    ]
    if table or figure:
        return experiments
    return [experiment for experiment in experiments if set(labels) <= experiment.labels] or experiments


def _reproduce_data_sets(
    names: Sequence[str] | None, encoders: Sequence[str] | None, request: Request, *, side_by_side: bool
) -> None:
    """Run data sets with encoders, and print the table of the runs."""
    from graphattn.experiments.papers import _rows as rows
    from graphattn.experiments.papers._comparison import compare_data_sets

    if request.picture is not None:
        _check_picture(request.picture, encoders or ())
    if not request.only_show:
        _run_data_sets(names, encoders, request)
    filters = (("data_set", names), ("encoder", encoders)) if request.only_show else ()
    selected = [
        row for row in rows.read_rows(request.out) if all(not values or row[name] in values for name, values in filters)
    ]
    if request.only_show and not selected:
        hint = "Name the file that runs were written to, and data sets and encoders that are in it."
        raise DataError("holds no such runs", path=request.out, hint=hint)
    print(compare_data_sets(rows.group_runs(selected)) if side_by_side else rows.results_table(selected))
    if request.picture is not None:
        from graphattn.experiments.papers._figures import draw_differences

        unchanged = [row for row in selected if not any((row.get("changes") or {}).values())]
        draw_differences(rows.group_runs(unchanged), encoders or (), request.picture)


def _check_picture(path: Path, encoders: Sequence[str]) -> None:
    """Reject a picture that cannot be drawn before anything runs."""
    from graphattn.experiments.drawing._canvas import check_format

    check_format(path)
    if len(encoders) < 2:
        raise ConfigError("{picture} compares encoders; name two with {encoder}", options=("picture", "encoder"))


def _run_data_sets(names: Sequence[str] | None, encoders: Sequence[str] | None, request: Request) -> None:
    from graphattn.experiments.papers._baselines import BASELINES
    from graphattn.experiments.papers._data_sets import DATA_SETS, data_folder
    from graphattn.experiments.papers._rows import describe_run
    from graphattn.experiments.papers._runs import combine, execute, with_changes
    from graphattn.models._encoders import ENCODERS

    folder = request.folder or data_folder()
    complete = [name for name, corpus in DATA_SETS.items() if all((folder / file).exists() for file in corpus.files())]
    runs = combine(names or complete, encoders or [*ENCODERS, *BASELINES], request.seeds, **request.options)
    changed = [with_changes(run, request.changes(run.data_set, run.encoder)) for run in runs]

    def report(row: Mapping[str, Any]) -> None:
        print(describe_run(row), flush=True)

    execute(changed, request.out, folder=folder, jobs=request.jobs or 1, report=report)


def _reproduce_papers(experiments: Sequence[Experiment], request: Request, *, side_by_side: bool) -> None:
    """Run the rows of tables and figures, print and draw them."""
    from graphattn.experiments.papers._comparison import compare_rows
    from graphattn.experiments.papers._experiment import find_results, show_experiment
    from graphattn.experiments.papers._rows import read_rows

    if request.picture is not None:
        from graphattn.experiments.drawing._canvas import check_format

        check_format(request.picture)
        if len(experiments) > 1:
            options = ("picture", "figure", "table")
            raise ConfigError("{picture} is of one figure; name it with {figure} or {table}", options=options)
    if request.only_show:
        _require_runs(request.out)
    plans = [_plan(experiment, request) for experiment in experiments]
    for experiment, plan in zip(experiments, plans, strict=True):
        if not request.only_show:
            _run_plan(experiment, plan, request)
        results = find_results(plan, read_rows(request.out))
        rows = [row for row in experiment.rows if row.label in plan]
        show = compare_rows if side_by_side else show_experiment
        print(show(experiment, rows, results), end="\n\n", flush=True)
        if request.picture is not None:
            from graphattn.experiments.papers._figures import draw_experiment

            draw_experiment(experiment, results, request.picture)


def _plan(experiment: Experiment, request: Request) -> dict[str, Run]:
    """Label of a row -> its run with seed 0."""
    return {
        row.label: experiment.run(row, request.changes(row.data_set, row.encoder), **request.options)
        for row in experiment.select(request.labels)
    }


def _run_plan(experiment: Experiment, plan: Mapping[str, Run], request: Request) -> None:
    from graphattn.experiments.papers._rows import describe_run
    from graphattn.experiments.papers._runs import execute, row_key

    runs = [replace(run, seed=seed) for seed in request.seeds for run in plan.values()]
    names = {run.key(): run.name for run in runs}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def report(row: Mapping[str, Any]) -> None:
        print(f"{names[row_key(row)]}: {describe_run(row)}", flush=True)

    jobs = 1 if experiment.timed else request.jobs or cores
    execute(runs, request.out, folder=request.folder, jobs=jobs, report=report)


def _smoke(experiments: Sequence[Experiment], request: Request) -> None:
    """Run small versions of all rows with one seed, without keeping their results."""
    from graphattn.experiments.papers._runs import execute
    from graphattn.experiments.papers._smoke import shrink, smoke_folder

    with smoke_folder() as folder, TemporaryDirectory() as results, warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphAttnWarning)  # generated texts have no parses, and models learn nothing
        for experiment in experiments:
            runs = [shrink(run) for run in _plan(experiment, request).values()]
            start = time.perf_counter()
            execute(runs, Path(results) / "results.jsonl", folder=folder, jobs=request.jobs or 1)
            print(f"{experiment.full_name}: {len(runs)} rows, {time.perf_counter() - start:.1f} s", flush=True)
