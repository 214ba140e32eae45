"""Tables and figures of the papers as data, and our results next to the papers'."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from graphattn._validation import suggest
from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.tables import format_markdown
from graphattn.experiments.papers._result_rows import format_mean
from graphattn.experiments.papers._runs import Run, row_key
from graphattn.experiments.papers._settings import Changes, merge_changes

SEPARATOR = " / "
"""Between the parts of a label."""


@dataclass(frozen=True)
class Measure:
    """A column of numbers."""

    heading: str  # of the column
    value: Callable[[Mapping[str, Any]], float]  # row of results -> number; a KeyError if it has none
    form: str = ".1f"  # of one number


def _per_128_texts(row: Mapping[str, Any]) -> float:
    return 128_000 * float(row["inference_seconds"]) / float(row["inference_texts"])


def _read_decisions(when: str, name: str, row: Mapping[str, Any]) -> float:
    return float(row["decisions"][when][name])


MEASURES = {
    "test": Measure("test", lambda row: row["test"] if "test" in row else row["held_out"]),
    "int8": Measure("test, int8", lambda row: row["int8"]["test"]),
    "int8_kept": Measure("int8 / float32, %", lambda row: 100 * row["int8"]["test"] / row["test"], ".2f"),
    "parameters": Measure("parameters, M", lambda row: row["parameters"] / 1e6, ".2f"),
    "parameters_besides_words": Measure(
        "parameters besides words, M", lambda row: row["parameters_besides_words"] / 1e6, ".2f"
    ),
    "training_seconds": Measure("CPU seconds of training", lambda row: row["training_seconds"], ".0f"),
    "seconds_per_epoch": Measure("seconds per epoch", lambda row: row["seconds_per_epoch"]),
    "inference_seconds": Measure("inference, seconds", lambda row: row["inference_seconds"], ".2f"),
    "ms_per_128_texts": Measure("ms per 128 texts", _per_128_texts),
    "texts_per_second": Measure("texts per second", lambda row: 128_000 / _per_128_texts(row)),
    "mse": Measure("test MSE", lambda row: row["mse"], ".4f"),
    "unexplained": Measure("unexplained variance, %", lambda row: 100 * row["mse"] / row["mse_of_mean"]),
    "milliseconds": Measure("milliseconds", lambda row: row["milliseconds"]),
    "mebibytes": Measure("MiB", lambda row: row["mebibytes"], ",.0f"),
    "last_bleu": Measure("dev BLEU, last epoch", lambda row: row["by_epoch"][-1]["dev_bleu"]),
    **{
        f"{name}_{when}": Measure(f"{heading}, {words}", partial(_read_decisions, when, name), form)
        for name, heading, form in (
            ("f1", "F1", ".1f"),
            ("brier", "Brier score", ".4f"),
            ("calibration_error", "calibration error, %", ".2f"),
        )
        for when, words in (("before", "without"), ("after", "with"))
    },
    "last_perplexity": Measure("dev perplexity, last epoch", lambda row: row["by_epoch"][-1]["dev_perplexity"], ".2f"),
}
"""Name -> column of :func:`show_experiment`."""
_DEV = Measure("dev", lambda row: row["dev"])


@dataclass(frozen=True)
class Row:
    """A row of a table, a cell of a table with several columns, or a point of a figure."""

    label: str  # as in the paper; parts such as row and column are separated by " / "
    data_set: str
    encoder: str
    changes: Changes = field(default_factory=dict)
    paper: Mapping[str, float] = field(default_factory=dict)  # name of a measure -> the paper's number

    def parts(self) -> list[str]:
        """The parts of the label."""
        return self.label.split(SEPARATOR)


@dataclass(frozen=True)
class Experiment:
    """A table or a figure."""

    paper: str  # its name: ``ms-trans``, ``mtsa``, ``umst``, ``duo``, ``pretrained`` or ``decisions``
    name: str  # such as ``table 6``
    title: str  # what it compares
    rows: tuple[Row, ...]  # its rows
    measures: tuple[str, ...] = ("test",)  # names of :data:`MEASURES`, its columns
    note: str = ""  # what differs from the paper
    observe: tuple[str, ...] = ()  # names of observations that its runs add
    timed: bool = False  # whether it compares times, so that a run must be alone on the machine
    averages: Mapping[str, float | None] = field(default_factory=dict)
    curves: str | None = None  # of a picture: label of the horizontal axis; None for a table

    @property
    def full_name(self) -> str:
        """Paper and name."""
        return f"{self.paper} {self.name}"

    @property
    def labels(self) -> set[str]:
        """The labels of the rows, and their parts."""
        return {label for row in self.rows for label in (*row.parts(), row.label)}

    def select(self, labels: Sequence[str]) -> list[Row]:
        """The rows with these labels, or with these parts of a label; all rows without labels."""
        for label in labels:
            if label not in self.labels:
                raise ConfigError(
                    f"{self.full_name} has no row {label!r}; {suggest(label, self.labels)}choose among: "
                    f"{', '.join(dict.fromkeys(part for row in self.rows for part in row.parts()))}"
                )
        return [row for row in self.rows if not labels or {row.label, *row.parts()} & set(labels)]

    def run(self, row: Row, changes: Changes, **options: Any) -> Run:
        """The run of a row with further changes and seed 0; ``options`` as for :class:`Run`."""
        return Run(
            row.data_set,
            row.encoder,
            0,
            merge_changes(row.changes, changes),
            observe=self.observe,
            name=f"{self.full_name} {row.label}",
            timed=self.timed,
            **options,
        )


def find_results(plan: Mapping[str, Run], results: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Label of a row -> results of its run with all seeds; of two with one seed, the later counts."""
    by_key: dict[str, dict[int, Mapping[str, Any]]] = {}
    for result in results:
        by_key.setdefault(row_key({**result, "seed": 0}), {})[result["seed"]] = result
    made = {label: by_key.get(run.key(), {}).values() for label, run in plan.items()}
    return {label: [result for result in made[label] if run.has_made(result)] for label, run in plan.items()}


def show_experiment(
    experiment: Experiment, rows: Sequence[Row], results: Mapping[str, Sequence[Mapping[str, Any]]]
) -> str:
    """Our numbers next to the paper's, as Markdown: mean and standard deviation over the seeds that have run.

    Columns of the paper and the dev set are left out if they are empty.
    """
    measures = [MEASURES[name] for name in experiment.measures]
    heads = ["row", *(head for measure in measures for head in (f"{measure.heading}, paper", measure.heading))]
    lines = [[*heads, "dev", "seeds"]]
    for row in rows:
        cells = [row.label]
        for name, measure in zip(experiment.measures, measures, strict=True):
            cells += [_format(row.paper.get(name), measure.form), _format_runs(results[row.label], measure)]
        lines.append([*cells, _format_runs(results[row.label], _DEV), str(len(results[row.label]))])
    form = measures[0].form
    for part, figure in experiment.averages.items():
        values = [measure_runs(results[row.label], measures[0]) for row in rows if row.parts()[-1] == part]
        if values:  # the average is empty until each row has a result
            ours = statistics.mean(map(statistics.mean, values)) if all(values) else None
            cells = [f"Average{SEPARATOR}{part}", _format(figure, form), _format(ours, form)]
            lines.append(cells + [""] * (len(lines[0]) - len(cells)))
    title = f"{experiment.full_name}: {experiment.title}"
    return "\n\n".join(filter(None, [title, experiment.note, format_markdown(_drop_empty_columns(lines))]))


def _drop_empty_columns(lines: list[list[str]]) -> list[list[str]]:
    """Leave out columns of the paper and the dev set without a cell."""
    filled = [
        number
        for number, head in enumerate(lines[0])
        if any(line[number] for line in lines[1:]) or not (head == "dev" or head.endswith(", paper"))
    ]
    return [[line[number] for number in filled] for line in lines]


def measure_runs(runs: Sequence[Mapping[str, Any]], measure: Measure) -> list[float]:
    """The measure of each run that has it."""
    values = []
    for run in runs:
        try:
            values.append(float(measure.value(run)))
        except KeyError:
            continue
    return values


def _format_runs(runs: Sequence[Mapping[str, Any]], measure: Measure) -> str:
    mean = format_mean(measure_runs(runs, measure), measure.form)
    return mean or ("failed" if any("failed" in run for run in runs) else "")


def _format(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
