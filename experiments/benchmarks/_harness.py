"""The harness of all benchmarks: times and memory of contenders side by side, as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from graphattn.exceptions import ConfigError
from graphattn.experiments._cli.output import show_progress
from graphattn.experiments.benchmarks._contenders import CPU, Contender, Job, Settings, UnableError
from graphattn.experiments.benchmarks._fresh_processes import measure_peak_memory
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, parse_workloads

OURS = "ours"
FORWARD, BOTH = "forward", "forward + backward"
INFERENCE, TRAINING = "inference", "training step"
MEBIBYTE = 2**20

Result = TypeVar("Result")


def summarize_times(times: Sequence[float]) -> Record:
    """Median, quartiles and all milliseconds, for JSON."""
    return {"median_ms": float(np.median(times)), "quartiles_ms": _quartiles(times), "times_ms": list(times)}


def compare_times(times: Sequence[float], ours: Sequence[float]) -> Record:
    """The ratio of the medians, and the quartiles of the ratios within each round."""
    ratios = [time / our_time for time, our_time in zip(times, ours, strict=True)]
    return {"ratio": float(np.median(times)) / float(np.median(ours)), "ratio_quartiles": _quartiles(ratios)}


def _quartiles(values: Sequence[float]) -> list[float]:
    return [float(quartile) for quartile in np.percentile(values, [25, 75])]


def time_interleaved(
    jobs: Mapping[str, Job], rounds: int, *, seconds: float = math.inf, device: torch.device = CPU
) -> dict[str, list[float]]:
    """Milliseconds of jobs in rounds, so that a busy machine slows all of them; the first job of a round rotates.

    Each job runs once untimed before; no round starts after so many ``seconds`` of measured time.
    """
    for job in jobs.values():
        job.time(device)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    names, spent = list(jobs), 0.0
    for number in range(rounds):
        if spent > 1000 * seconds:
            break
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            times[name].append(jobs[name].time(device))
            spent += times[name][-1]
    return times


def time_jobs(jobs: Mapping[str, Job], settings: Settings, base: str = OURS) -> dict[str, Record]:
    """Time jobs interleaved: name -> times, and for all but ``base`` their ratio to those of ``base``, if it ran."""
    device = settings.placement.device
    times = time_interleaved(jobs, settings.repeats, seconds=settings.seconds, device=device)
    return {
        name: summarize_times(runs) | (compare_times(runs, times[base]) if name != base and base in times else {})
        for name, runs in times.items()
    }


class LeftOut(NamedTuple):
    """A contender that did not run: its title, on which workload and task, and why."""

    title: str
    where: str
    reason: str


def describe_skipped(skipped: Iterable[LeftOut]) -> list[str]:
    """A line for each contender and reason.

    Examples
    --------
    >>> describe_skipped([LeftOut("Flex", "1x2", "no gradients"), LeftOut("Flex", "3x4", "no gradients")])
    ['Flex: no gradients (1x2; 3x4)']
    """
    places: dict[tuple[str, str], list[str]] = {}
    for title, where, reason in skipped:
        places.setdefault((title, reason), []).append(where)
    return [
        f"{title}: {reason}" + (f" ({'; '.join(where)})" if any(where) else "")
        for (title, reason), where in places.items()
    ]


def try_each(
    contenders: Iterable[Contender], function: Callable[[Contender], Result], skipped: list[LeftOut], where: str = ""
) -> dict[str, Result]:
    """Name -> result of a function, for each contender that can run; ``skipped`` gets the others."""
    results = {}
    for contender in contenders:
        try:
            results[contender.name] = function(contender)
        except UnableError as error:
            skipped.append(LeftOut(contender.title, where, str(error)))
    return results


def select(contenders: Iterable[Contender], names: Sequence[str] | None) -> list[Contender]:
    """Our contender and the peers with these names, or all that are no trials."""
    return [
        each for each in contenders if each.name == OURS or (not each.is_trial if names is None else each.name in names)
    ]


def check_peers(contenders: Iterable[Contender], names: Sequence[str] | None) -> None:
    """Raise a ConfigError for a peer that does not exist."""
    peers = list(dict.fromkeys(each.name for each in contenders if each.name != OURS))
    for name in names or ():
        if name not in peers:
            raise ConfigError(f"--peers has {name!r}; choose from: {', '.join(peers)}; or none")


@dataclass(frozen=True)
class Case:
    """A computation of contenders: a workload, and a task with or without gradients."""

    workload: Workload
    task: str
    backward: bool

    @property
    def name(self) -> str:
        """Workload and task."""
        return f"{self.workload.name}, {self.task}"

    def as_row(self, contender: str, title: str) -> Record:
        """The first columns of a contender's row."""
        workload = self.workload
        row: Record = {"workload": workload.name, "length": workload.uniform_length, "tokens": workload.tokens}
        return row | {"task": self.task, "contender": contender, "title": title}


MeasureFunction = Callable[[Sequence[Contender], Case, Settings, list[LeftOut]], dict[str, Record]]
"""Measures contenders: name -> columns of a row; the list gets those that cannot run."""


def measure_times(
    contenders: Sequence[Contender], case: Case, settings: Settings, skipped: list[LeftOut]
) -> dict[str, Record]:
    """Time contenders interleaved on the same inputs; on a GPU, also measure their memory."""
    problem, device = contenders[0].problem(case.workload), settings.placement.device
    if device.type != "cpu":
        problem.placement = settings.placement

    def make_job(contender: Contender) -> Job:
        contender.check_problem(problem, backward=case.backward)
        return contender.make_job(problem, backward=case.backward)

    jobs = try_each(contenders, make_job, skipped, case.name)
    rows = time_jobs(jobs, settings)
    if device.type != "cpu":
        memory = {name: job.measure_gpu_memory(device) for name, job in jobs.items()}
        _add_ratios(memory, "added", "memory_ratio")
        rows = {name: row | memory[name] for name, row in rows.items()}
    return rows


def measure_memory(
    contenders: Sequence[Contender], case: Case, settings: Settings, skipped: list[LeftOut]
) -> dict[str, Record]:
    """Measure the peak memory of forward and backward, each contender once in a fresh process."""

    def measure(contender: Contender) -> Record:
        contender.check_problem(contender.problem(case.workload), backward=True)
        return asdict(measure_peak_memory(contender, case.workload))

    rows = try_each(contenders, measure, skipped, case.name)
    _add_ratios(rows, "added", "ratio")
    return rows


def measure_times_and_memory(
    contenders: Sequence[Contender],
    case: Case,
    settings: Settings,
    skipped: list[LeftOut],
    *,
    column: str = "added",
    of_inference: bool = False,
) -> dict[str, Record]:
    """Time contenders; with gradients, also measure their memory by an allocator that keeps no freed memory.

    ``added`` is the peak on top of graph and inputs, ``memory`` includes these; ``memory_ratio`` is of ``column``.
    With ``of_inference``, memory is also measured without gradients.
    """

    def measure(contender: Contender) -> Record:
        memory = measure_peak_memory(contender, case.workload, keep_freed=False, backward=case.backward)
        return {"added": memory.added, "memory": memory.held + memory.added}

    rows = measure_times(contenders, case, settings, skipped)
    if settings.placement.device.type == "cpu" and (case.backward or of_inference):
        timed = [contender for contender in contenders if contender.name in rows]
        memory = try_each(timed, measure, skipped, f"{case.name}, memory")
        _add_ratios(memory, column, "memory_ratio")
        rows = {name: row | memory.get(name, {}) for name, row in rows.items()}
    return rows


def _add_ratios(rows: Mapping[str, Record], column: str, ratio: str) -> None:
    """Add the ratio of each peer's value to ours."""
    for name, row in rows.items():
        if name != OURS and OURS in rows:
            row[ratio] = row[column] / max(1, rows[OURS][column])


def no_columns(contender: Contender, workload: Workload) -> Record:
    """Add no columns to a row."""
    return {}


@dataclass(frozen=True)
class Comparison:
    """Contenders, ours first, at some tasks."""

    contenders: Sequence[Contender]
    tasks: Mapping[str, bool]  # name -> whether with gradients
    measure: MeasureFunction = measure_times
    add_columns: Callable[[Contender, Workload], Record] = no_columns
    lengths: tuple[str, ...] | None = None  # instead of those of the settings


def compare(report: BenchmarkReport, settings: Settings, *comparisons: Comparison) -> BenchmarkReport:
    """Measure all contenders on all workloads; the report gets rows, and lines about what is left out."""
    if settings.placement.device.type != "cpu":
        report.columns = {**report.columns, **GPU_MEMORY}
        report.description = f"{report.description}\n\n{ON_GPU.format(device=settings.device)}"
    check_peers([each for comparison in comparisons for each in comparison.contenders], settings.peers)
    for comparison in comparisons:
        skipped: list[LeftOut] = []
        selected = select(comparison.contenders, settings.peers)
        able = try_each(selected, lambda contender: contender.check_requirements(), skipped)
        workloads, missing = parse_workloads(comparison.lengths or settings.lengths)
        for workload in show_progress(workloads if able else [], "measuring"):
            for task, backward in comparison.tasks.items():
                case = Case(workload, task, backward)
                for name, row in comparison.measure(list(able.values()), case, settings, skipped).items():
                    more = comparison.add_columns(able[name], workload)
                    report.rows.append(case.as_row(name, able[name].title) | row | more)
        report.left_out += missing + describe_skipped(skipped)
    return report


def format_number(value: float) -> str:
    """Three significant digits, whole numbers from 100 on.

    Examples
    --------
    >>> format_number(0.01234), format_number(12.34), format_number(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def column(name: str, spec: str = "", scale: float = 1) -> Callable[[Record], str]:
    """A column of a table: the value ``name`` of a row in units of ``scale``; empty if the row lacks it."""

    def write_cell(row: Record) -> str:
        value = row.get(name, "")
        return "" if value == "" else format(value if scale == 1 else value / scale, spec)

    return write_cell


TIMES: dict[str, Callable[[Record], str]] = {
    "median, ms": lambda row: format_number(row["median_ms"]),
    "quartiles, ms": lambda row: " - ".join(map(format_number, row["quartiles_ms"])),
    "runs": lambda row: str(len(row["times_ms"])),
}
"""Heading -> cell, for rows of :func:`summarize_times`."""

CONTENDER_TIMES: dict[str, Callable[[Record], str]] = {
    "workload": column("workload"),
    "pass": column("task"),
    "contender": column("title"),
    **TIMES,
}
ON_GPU = """\
This run was on {device}: times are those between two of its events, and include what the CPU does between the kernels.
With `--precision bf16`, the inputs of attention are bfloat16, and encoders run under autocast; nn.TransformerEncoder
infers in bfloat16 throughout. FlexAttention has blocks of 128 tokens. `added by a run` is the peak of PyTorch's
allocator on top of what all contenders hold."""
GPU_MEMORY: dict[str, Callable[[Record], str]] = {
    "added by a run, MiB": column("added", ",.0f", MEBIBYTE),
    "memory, peer / ours": column("memory_ratio", ".2f"),
}
"""Heading -> cell, for rows of :func:`measure_times` on a GPU."""
COLUMNS: dict[str, Callable[[Record], str]] = {
    **CONTENDER_TIMES,
    "peer / ours": column("ratio", ".2f"),
    "within rounds": lambda row: " - ".join(f"{r:.2f}" for r in row.get("ratio_quartiles", ())),
}
"""Heading -> cell, for rows of :func:`compare`."""
