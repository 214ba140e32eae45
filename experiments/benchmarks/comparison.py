"""Contenders on workloads: timed in turns, one row of figures for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from graphattn.experiments.benchmarks.clock import Job, Spread, interleaved, ratio, ratio_quartiles
from graphattn.experiments.benchmarks.contenders import OURS, Contender, able, jobs_for
from graphattn.experiments.benchmarks.report import Row
from graphattn.experiments.benchmarks.targets import ratio_target
from graphattn.experiments.benchmarks.workloads import Workload
from graphattn.experiments.cli.progress_bars import shown


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line.

    Parameters
    ----------
    lengths : workloads, as ``--lengths`` names them
    repeats : timed runs of each contender
    peers : their names; None for all
    seconds : no further round begins on a workload when its runs have taken longer than this
    """

    lengths: tuple[str, ...]
    repeats: int = 9
    peers: tuple[str, ...] | None = None
    seconds: float = 120.0

    def as_row(self) -> Row:
        """For JSON."""
        return asdict(self)


def compare(
    contenders: Sequence[Contender[Any]],
    workloads: Iterable[Workload],
    tasks: Mapping[str, bool],
    problem: Callable[[Workload], Any],
    settings: Settings,
) -> tuple[list[Row], list[str]]:
    """Time everybody on everything.

    Parameters
    ----------
    contenders : ours first
    workloads : on what
    tasks : name -> whether with gradients
    problem : makes what contenders take
    settings : how often

    Returns
    -------
    A row for each workload, task and contender, and lines about who was left out.
    """
    contenders, unable = able(contenders)
    rows, left_out = [], []
    for workload in shown(list(workloads), "measuring"):
        given = problem(workload)
        for task, backward in tasks.items():
            label = f"{workload.name}, {task}"
            jobs, absent = jobs_for(contenders, given, backward=backward, label=label)
            left_out += absent
            rows += compared_rows(workload, task, jobs, contenders, settings)
    return rows, unable + merged(left_out)


def compared_rows(
    workload: Workload, task: str, jobs: Mapping[str, Job], contenders: Sequence[Contender[Any]], settings: Settings
) -> list[Row]:
    """Time jobs on one workload and set them against ours."""
    spreads = interleaved(jobs, settings.repeats, seconds=settings.seconds)
    titles = {contender.name: contender.title for contender in contenders}
    return [timing_row(workload, task, name, titles[name], spread, spreads[OURS]) for name, spread in spreads.items()]


def timing_row(workload: Workload, task: str, name: str, title: str, spread: Spread, ours: Spread) -> Row:
    """One contender's figures: median, quartiles, ratio to ours and what was promised of it."""
    row: Row = {
        "workload": workload.name,
        "length": workload.uniform_length,
        "tokens": workload.tokens,
        "task": task,
        "contender": name,
        "title": title,
        "median_ms": spread.median,
        "quartiles_ms": list(spread.quartiles),
        "times_ms": list(spread.times),
    }
    if name != OURS:
        target = ratio_target(task, name, workload.name)
        row["ratio"], row["ratio_quartiles"] = ratio(spread, ours), list(ratio_quartiles(spread, ours))
        row["target"] = None if target is None else target.verdict(row["ratio"])
    return row


COLUMNS: dict[str, Callable[[Row], str]] = {
    "workload": lambda row: row["workload"],
    "pass": lambda row: row["task"],
    "contender": lambda row: row["title"],
    "median, ms": lambda row: figure(row["median_ms"]),
    "quartiles, ms": lambda row: " - ".join(map(figure, row["quartiles_ms"])),
    "runs": lambda row: str(len(row["times_ms"])),
    "peer / ours": lambda row: f"{row['ratio']:.2f}" if "ratio" in row else "",
    "within rounds": lambda row: " - ".join(f"{r:.2f}" for r in row["ratio_quartiles"]) if "ratio" in row else "",
    "target": lambda row: row.get("target") or "",
}
"""Heading -> cell, for rows of :func:`timing_row`."""


def figure(value: float) -> str:
    """Three significant digits, whole numbers from 100 on.

    Examples
    --------
    >>> figure(0.01234), figure(12.34), figure(12345.6)
    ('0.0123', '12.3', '12,346')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def merged(lines: Iterable[str]) -> list[str]:
    """Of lines ``who, where: why`` that differ only in where, one for all.

    Examples
    --------
    >>> merged(["Flex, 1x2, backward: no gradients", "Flex, 3x4, backward: no gradients"])
    ['Flex: no gradients (1x2, backward; 3x4, backward)']
    """
    places: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        head, _, reason = line.partition(": ")
        who, _, where = head.partition(", ")
        places.setdefault((who, reason), []).append(where)
    return [f"{who}: {reason} ({'; '.join(where)})" for (who, reason), where in places.items()]
