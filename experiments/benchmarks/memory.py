"""``bench memory``: peak memory of forward and backward, every contender in processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graphattn.experiments.benchmarks.comparison import Settings, merged
from graphattn.experiments.benchmarks.contenders import OURS, Contender, able, chosen, hindrance, usable_bytes
from graphattn.experiments.benchmarks.fresh_process import (
    ATTENTION,
    CONTENDERS,
    PROBLEMS,
    TRAINING_STEP,
    Failed,
    measured_apart,
)
from graphattn.experiments.benchmarks.plots import Points, draw
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import Target
from graphattn.experiments.benchmarks.window_heads import WindowHeads
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads, uniform
from graphattn.experiments.progress_bars import shown
from graphattn.models import MSTransOptions

LENGTHS = ("32x128", "128x128", "8x512", "32x512", "1x2048", "8x2048", "2x8192")
QUICK = ("8x128", "2x512", "1x1024")
LONG_TEXT, QUICK_TEXT = uniform(1, 32_768), uniform(1, 1024)

LEAST_SAVED = {("2x8192", "dgl"): Target(5)}
"""(workload, peer) -> how many times our memory the peer's must be."""
LARGEST_TEXT = Target(4, at_least=False, unit="GiB")

COMPARED = """\
Peak memory of attention, forward and backward, three layers of MS-Trans heads as in `bench attention`; and of a
training step of the whole MS-Trans encoder on one long text. Every contender runs in a new process for each workload,
after a small run that loads libraries and compiles kernels, and once. `graph and inputs` is what lies in memory
before the run, `added` the most that the run puts on top, `whole process` the most from the start of the process on,
with libraries (about 0.5 GiB) and the making of the graph. An edge of a head is one query-key pair that a head
scores."""

MEBIBYTE = 2**20
COLUMNS: dict[str, Callable[[Row], str]] = {
    "workload": lambda row: row["workload"],
    "tokens": lambda row: f"{row['tokens']:,}",
    "edges of heads": lambda row: f"{row['pairs']:,}",
    "pass": lambda row: row["task"],
    "contender": lambda row: row["title"],
    "graph and inputs, MiB": lambda row: f"{row['held'] / MEBIBYTE:,.0f}",
    "added, MiB": lambda row: f"{row['added'] / MEBIBYTE:,.0f}",
    "whole process, MiB": lambda row: f"{row['whole'] / MEBIBYTE:,.0f}",
    "peer / ours": lambda row: f"{row['ratio']:.1f}" if "ratio" in row else "",
    "target": lambda row: row.get("target") or "",
}


def measure(settings: Settings, *, text: Workload = LONG_TEXT) -> Report:
    """Measure everybody on every workload, and a training step on one long text.

    Parameters
    ----------
    settings : workloads and peers; every contender runs once
    text : the long text
    """
    workloads, absent = parse_workloads(settings.lengths)
    contenders, unable = able(chosen(CONTENDERS[ATTENTION], settings.peers))
    places = [(ATTENTION, workload, contenders) for workload in workloads]
    places += [(TRAINING_STEP, text, chosen(CONTENDERS[TRAINING_STEP], ()))]
    rows, left_out = [], []
    for task, workload, own_contenders in shown(places, "measuring"):
        own, lines = _rows(task, workload, own_contenders)
        rows += own
        left_out += lines
    return Report(
        "memory",
        COMPARED,
        COLUMNS,
        rows,
        settings.as_row(),
        notes=[line for line in (growth(rows),) if line],
        left_out=absent + unable + merged(left_out),
        picture=memory_plot,
    )


def _rows(task: str, workload: Workload, contenders: Sequence[Contender[Any]]) -> tuple[list[Row], list[str]]:
    """A row for each contender, ours first, and lines about who was left out."""
    rows: list[Row] = []
    left_out = []
    heads = WindowHeads(workload, MSTransOptions())
    for contender in contenders:
        reason = hindrance(contender, PROBLEMS[task](workload), backward=True, limit=usable_bytes())
        if reason is None:
            try:
                figures = measured_apart(task, contender.name, workload)
            except Failed as error:
                reason = str(error)
        if reason is not None:
            left_out.append(f"{contender.title}, {workload.name}, {task}: {reason}")
            continue
        row = {"workload": workload.name, "tokens": workload.tokens, "pairs": heads.pairs, "task": task}
        rows.append({**row, "contender": contender.name, "title": contender.title, **figures})
    return [_judged(row, rows[0]) for row in rows], left_out


def _judged(row: Row, ours: Row) -> Row:
    """The row with its ratio to ours and what was promised."""
    if row["contender"] != OURS:
        if ours["contender"] != OURS:
            return row
        row["ratio"] = row["added"] / max(1, ours["added"])
        target = LEAST_SAVED.get((row["workload"], row["contender"]))
        row["target"] = None if target is None else target.verdict(row["ratio"])
    elif row["task"] == TRAINING_STEP and row["workload"] == LONG_TEXT.name:
        row["target"] = LARGEST_TEXT.verdict(row["whole"] / 2**30)
    return row


def growth(rows: Sequence[Row]) -> str | None:
    """How our memory grows with edges at the number of tokens that most workloads have."""
    own = [row for row in rows if row["contender"] == OURS and row["task"] == ATTENTION]
    counts = [row["tokens"] for row in own]
    if not counts or max(map(counts.count, counts)) < 2:
        return None
    tokens = max(counts, key=counts.count)
    alike = sorted((row for row in own if row["tokens"] == tokens), key=lambda row: row["pairs"])
    few, many = alike[0], alike[-1]
    return (
        f"GraphAttn at {tokens:,} tokens: {many['pairs'] / max(1, few['pairs']):.1f} times the edges "
        f"({few['workload']} to {many['workload']}), {many['added'] / max(1, few['added']):.2f} times the memory"
    )


def memory_plot(rows: Sequence[Row], path: Path) -> None:
    """Memory against edges and against tokens."""
    own = [row for row in rows if row["task"] == ATTENTION]
    panels = {f"against {what}": _points(own, column) for what, column in (("edges", "pairs"), ("tokens", "tokens"))}
    draw(panels, path, across="number", up="MiB added by forward + backward")


def _points(rows: Sequence[Row], column: str) -> Points:
    points: Points = {}
    for row in sorted(rows, key=lambda row: row[column]):
        points.setdefault(row["title"], []).append((row[column], row["added"] / MEBIBYTE))
    return points
