"""``bench memory``: peak memory of forward and backward, every contender in processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from graphattn.experiments.benchmarks.comparison import Settings, merged
from graphattn.experiments.benchmarks.contenders import OURS, Contender, able, chosen, skip_reason, usable_bytes
from graphattn.experiments.benchmarks.fresh_process import (
    ATTENTION,
    CONTENDERS,
    PROBLEMS,
    TRAINING_STEP,
    Failed,
    measured_apart,
)
from graphattn.experiments.benchmarks.plots import Panel, Points, draw
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import Target
from graphattn.experiments.benchmarks.window_heads import WindowHeads
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads, uniform
from graphattn.experiments.cli.progress_bars import shown
from graphattn.models import MSTransOptions

LENGTHS = ("128x128", "2x512", "8x512", "32x512", "8x2048", "2x8192")
QUICK = ("8x128", "2x512", "1x1024", "4x512")
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
        reason = skip_reason(contender, PROBLEMS[task](workload), backward=True, limit=usable_bytes())
        if reason is None:
            try:
                figures = measured_apart(task, contender.name, workload)
            except Failed as error:
                reason = str(error)
        if reason is not None:
            left_out.append(f"{contender.title}, {workload.name}, {task}: {reason}")
            continue
        row = {"workload": workload.name, "length": workload.uniform_length, "tokens": workload.tokens}
        row |= {"pairs": heads.pairs, "task": task, "contender": contender.name, "title": contender.title}
        rows.append(row | figures)
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
    """How our memory grows with edges while the number of tokens stays the same; None when nothing tells."""
    own = [row for row in rows if row["contender"] == OURS and row["task"] == ATTENTION]
    alike = sorted(_most_frequent(own, "tokens"), key=lambda row: row["pairs"])
    if len(alike) < 2:
        return None
    few, many = alike[0], alike[-1]
    return (
        f"GraphAttn at {few['tokens']:,} tokens: {many['pairs'] / max(1, few['pairs']):.1f} times the edges "
        f"({few['workload']} to {many['workload']}), {many['added'] / max(1, few['added']):.2f} times the memory"
    )


def _most_frequent(rows: Sequence[Row], column: str) -> list[Row]:
    """The rows that share the value which most rows have."""
    values = [row[column] for row in rows if row[column] is not None]
    usual = max(values, key=values.count, default=None)
    return [row for row in rows if usual is not None and row[column] == usual]


def memory_plot(rows: Sequence[Row], path: Path) -> None:
    """Memory against edges at one number of tokens, and against tokens at one length."""
    own = [row for row in rows if row["task"] == ATTENTION]
    by_edges, by_tokens = _most_frequent(own, "tokens"), _most_frequent(own, "length")
    panels = []
    if by_edges:
        heading = f"batches of {by_edges[0]['tokens']:,} tokens"
        panels.append(Panel(heading, "edges of all heads", _points(by_edges, "pairs")))
    if by_tokens:
        heading = f"sentences of {by_tokens[0]['length']:,} tokens"
        panels.append(Panel(heading, "tokens of a batch", _points(by_tokens, "tokens")))
    draw(panels, path, up="MiB added by forward + backward")


def _points(rows: Sequence[Row], column: str) -> Points:
    points: Points = {}
    for row in sorted(rows, key=lambda row: row[column]):
        points.setdefault(row["title"], []).append((row[column], row["added"] / MEBIBYTE))
    return points
