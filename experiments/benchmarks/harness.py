"""The harness of all benchmarks: contenders, interleaved timing, and the rows of a table."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
import psutil

from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks.processes import PeakMemory, ProcessError, measure_peak_memory
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads
from graphattn.experiments.cli.output import show_progress

OURS = "ours"
FORWARD, BOTH = "forward", "forward + backward"
INFERENCE, TRAINING = "inference", "training step"
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Job:
    """A function to time.

    Parameters
    ----------
    run : gets what ``prepare`` returns
    prepare : called before every run, not timed, so that no run can reuse what an earlier one cached
    """

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None

    def time(self) -> float:
        """Run once and return the milliseconds."""
        state = self.prepare()
        start = time.perf_counter()
        self.run(state)
        return 1000 * (time.perf_counter() - start)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of each run of a job, in the order of the rounds."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median in milliseconds."""
        return float(np.median(self.times))

    def as_row(self) -> Row:
        """Median, quartiles and all times, for JSON."""
        return {
            "median_ms": self.median,
            "quartiles_ms": _quartiles(self.times),
            "times_ms": list(self.times),
        }

    def compare_to(self, ours: Timing) -> Row:
        """The ratio of the medians, and the quartiles of the ratios within each round."""
        ratios = [time / our_time for time, our_time in zip(self.times, ours.times, strict=True)]
        return {"ratio": self.median / ours.median, "ratio_quartiles": _quartiles(ratios)}


def _quartiles(values: Sequence[float]) -> list[float]:
    return [float(quartile) for quartile in np.percentile(values, [25, 75])]


def time_interleaved(jobs: Mapping[str, Job], rounds: int, *, seconds: float = math.inf) -> dict[str, Timing]:
    """Time jobs in rounds, so that a busy machine slows all of them; the first job of a round rotates.

    Parameters
    ----------
    jobs : name -> job; each runs once untimed before the first round
    rounds : timed runs of each job
    seconds : start no further round after this much measured time
    """
    for job in jobs.values():
        job.time()
    times: dict[str, list[float]] = {name: [] for name in jobs}
    names, spent = list(jobs), 0.0
    for number in range(rounds):
        if spent > 1000 * seconds:
            break
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            times[name].append(jobs[name].time())
            spent += times[name][-1]
    return {name: Timing(tuple(runs)) for name, runs in times.items()}


class UnableError(RuntimeError):
    """A contender cannot run here, which it notices while it prepares; the message says why."""


class Contender(ABC):
    """One way to compute what a benchmark compares.

    Attributes
    ----------
    name : in ``--peers`` and in JSON
    title : in tables; without commas
    problem : makes the inputs of all contenders from a workload
    package : the package it needs besides our dependencies
    has_backward : whether it has gradients on a CPU
    """

    name: ClassVar[str]
    title: ClassVar[str]
    problem: ClassVar[type[Any]]
    package: ClassVar[str | None] = None
    has_backward: ClassVar[bool] = True

    def missing_requirement(self) -> str | None:
        """Why it cannot run on this machine; None if it can."""
        if self.package is not None and find_spec(self.package) is None:
            return f"{self.package} is not installed (pip install {self.package})"
        return None

    def estimate_bytes(self, problem: Any, *, backward: bool) -> int:
        """Estimated peak memory; 0 if it grows only with the inputs."""
        return 0

    @abstractmethod
    def make_job(self, problem: Any, *, backward: bool) -> Job:
        """The job to time; what all runs can share is prepared here.

        Raises
        ------
        UnableError
            if the contender cannot run here
        """

    def skip_reason(self, problem: Any, *, backward: bool) -> str | None:
        """Why it cannot solve a problem; None if it can."""
        if backward and not self.has_backward:
            return "no backward pass on a CPU"
        needed, available = self.estimate_bytes(problem, backward=backward), available_bytes()
        if needed > available:
            return f"needs about {needed / 2**30:.1f} GiB; {available / 2**30:.1f} GiB may be used"
        return None


def available_bytes() -> int:
    """Most of the free memory."""
    return int(0.8 * psutil.virtual_memory().available)


@dataclass(frozen=True)
class Settings:
    """Options of a benchmark.

    Parameters
    ----------
    lengths : workloads, as ``--lengths`` names them
    repeats : timed runs of each contender
    peers : their names; None for all
    seconds : start no further round on a workload after this much measured time
    """

    lengths: tuple[str, ...]
    repeats: int = 9
    peers: tuple[str, ...] | None = None
    seconds: float = 120.0


def select(contenders: Iterable[type[Contender]], names: Sequence[str] | None) -> list[Contender]:
    """Our contender and the peers with these names, or all peers.

    Raises
    ------
    ConfigError
        if there is no peer of that name
    """
    known = {contender.name: contender for contender in contenders}
    peers = [name for name in known if name != OURS]
    for name in names or ():
        if name not in peers:
            raise ConfigError(f"--peers has {name!r}; choose from: {', '.join(peers)}; or none")
    return [known[OURS](), *(known[name]() for name in peers if names is None or name in names)]


def split_able(contenders: Sequence[Contender]) -> tuple[list[Contender], list[str]]:
    """The contenders that can run on this machine, and a line for each of the others."""
    reasons = [contender.missing_requirement() for contender in contenders]
    pairs = list(zip(contenders, reasons, strict=True))
    able = [contender for contender, reason in pairs if reason is None]
    return able, [f"{contender.title}: {reason}" for contender, reason in pairs if reason is not None]


def compare(
    report: Report,
    contenders: Iterable[type[Contender]],
    tasks: Mapping[str, bool],
    settings: Settings,
    *,
    add_columns: Callable[[Contender, Workload], Row] = lambda contender, workload: {},
) -> list[Workload]:
    """Time all contenders on all workloads and add the rows to a report.

    Parameters
    ----------
    report : gets rows, and a line for everything that is left out
    contenders : ours first
    tasks : name -> whether with gradients
    settings : workloads, peers and repeats
    add_columns : more columns of a row

    Returns
    -------
    The workloads.
    """
    selected = select(contenders, settings.peers)
    workloads, missing = parse_workloads(settings.lengths)
    able, unable = split_able(selected)
    skipped: list[str] = []
    for workload in show_progress(workloads, "measuring"):
        problem = able[0].problem(workload)
        for task, backward in tasks.items():
            label = f"{workload.name}, {task}"
            jobs = make_jobs(able, problem, backward=backward, label=label, skipped=skipped)
            timings = time_interleaved(jobs, settings.repeats, seconds=settings.seconds)
            for contender in able:
                if contender.name in timings:
                    timing, ours = timings[contender.name], timings[OURS]
                    row = timing_row(workload, task, contender.name, contender.title, timing, ours)
                    report.rows.append(row | add_columns(contender, workload))
    report.left_out += missing + unable + merge_lines(skipped)
    return workloads


def make_jobs(
    contenders: Sequence[Contender], problem: Any, *, backward: bool, label: str, skipped: list[str]
) -> dict[str, Job]:
    """The jobs of the contenders that can solve a problem; ``skipped`` gets a line for each of the others."""
    jobs = {}
    for contender in contenders:
        reason = contender.skip_reason(problem, backward=backward)
        if reason is None:
            try:
                jobs[contender.name] = contender.make_job(problem, backward=backward)
            except UnableError as error:
                reason = str(error)
        if reason is not None:
            skipped.append(f"{contender.title}, {label}: {reason}")
    return jobs


def timing_row(workload: Workload, task: str, name: str, title: str, timing: Timing, ours: Timing) -> Row:
    """The row of one contender: its times, and their ratio to ours."""
    row: Row = {
        "workload": workload.name,
        "length": workload.uniform_length,
        "tokens": workload.tokens,
        "task": task,
        "contender": name,
        "title": title,
    }
    return row | timing.as_row() | (timing.compare_to(ours) if name != OURS else {})


def add_peak_memory(
    report: Report,
    contenders: Iterable[type[Contender]],
    workloads: Iterable[Workload],
    task: str,
    column: str,
    choose: Callable[[PeakMemory], float],
) -> None:
    """Measure the peak memory of each row of a task in a fresh process whose allocator keeps no freed memory.

    Parameters
    ----------
    report : its rows get the column, and it gets a line for each process that fails
    contenders, workloads : those of the rows
    task : the rows to measure
    column : name of the new column
    choose : the number to write there
    """
    contender_of = {contender.name: contender for contender in contenders}
    workload_of = {workload.name: workload for workload in workloads}
    failed = []
    for row in show_progress([row for row in report.rows if row["task"] == task], "measuring memory"):
        contender, workload = contender_of[row["contender"]], workload_of[row["workload"]]
        try:
            row[column] = choose(measure_peak_memory(contender, workload, keep_freed=False))
        except ProcessError as error:
            failed.append(f"{row['title']}, {row['workload']}, memory: {error}")
    report.left_out += merge_lines(failed)


def format_number(value: float) -> str:
    """Three significant digits, whole numbers from 100 on.

    Examples
    --------
    >>> format_number(0.01234), format_number(12.34), format_number(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def column(name: str, spec: str = "", scale: float = 1) -> Callable[[Row], str]:
    """A column of a table: the value ``name`` of a row in units of ``scale``; empty if the row lacks it."""

    def write_cell(row: Row) -> str:
        value = row.get(name, "")
        return "" if value == "" else format(value if scale == 1 else value / scale, spec)

    return write_cell


TIMES: dict[str, Callable[[Row], str]] = {
    "median, ms": lambda row: format_number(row["median_ms"]),
    "quartiles, ms": lambda row: " - ".join(map(format_number, row["quartiles_ms"])),
    "runs": lambda row: str(len(row["times_ms"])),
}
"""Heading -> cell, for rows with a :class:`Timing`."""

CONTENDER_TIMES: dict[str, Callable[[Row], str]] = {
    "workload": lambda row: row["workload"],
    "pass": lambda row: row["task"],
    "contender": lambda row: row["title"],
    **TIMES,
}
COLUMNS: dict[str, Callable[[Row], str]] = {
    **CONTENDER_TIMES,
    "peer / ours": column("ratio", ".2f"),
    "within rounds": lambda row: " - ".join(f"{r:.2f}" for r in row["ratio_quartiles"]) if "ratio" in row else "",
}
"""Heading -> cell, for rows of :func:`compare`."""


def merge_lines(lines: Iterable[str]) -> list[str]:
    """Merge lines ``who, where: why`` that differ only in where.

    Examples
    --------
    >>> merge_lines(["Flex, 1x2, backward: no gradients", "Flex, 3x4, backward: no gradients"])
    ['Flex: no gradients (1x2, backward; 3x4, backward)']
    """
    places: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        head, _, reason = line.partition(": ")
        who, _, where = head.partition(", ")
        places.setdefault((who, reason), []).append(where)
    return [f"{who}: {reason} ({'; '.join(where)})" for (who, reason), where in places.items()]
