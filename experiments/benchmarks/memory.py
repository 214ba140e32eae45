"""``bench memory``: peak memory of forward and backward, every contender in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from graphattn.experiments.benchmarks.attention import (
    DenseAttention,
    DGLOperators,
    Ours,
    PyGTransformerConv,
    TorchSegments,
)
from graphattn.experiments.benchmarks.encoder import OursEncoder
from graphattn.experiments.benchmarks.harness import (
    BOTH,
    MEBIBYTE,
    OURS,
    TRAINING,
    Contender,
    Settings,
    column,
    merge_lines,
    select,
    split_able,
)
from graphattn.experiments.benchmarks.operations import WindowHeads
from graphattn.experiments.benchmarks.plots import Panel, Points, draw
from graphattn.experiments.benchmarks.processes import ProcessError, measure_peak_memory
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads, uniform
from graphattn.experiments.cli.output import show_progress
from graphattn.models import MSTransOptions

LENGTHS = ("128x128", "2x512", "8x512", "32x512", "8x2048", "2x8192")
QUICK = ("8x128", "2x512", "1x1024", "4x512")
LONG_TEXT, QUICK_TEXT = uniform(1, 32_768), uniform(1, 1024)
DESCRIPTION = """\
Peak memory of attention, forward and backward, three layers of MS-Trans heads as in `bench attention`; and of a
training step of the whole MS-Trans encoder on one long text. Every contender runs once in a fresh process for each
workload, after a small run that loads libraries and compiles kernels. `graph and inputs` is the memory before the run,
`added` the peak of the run on top of it, `whole process` the peak from the start of the process on, with libraries
(about 0.5 GiB) and graph construction. An edge of a head is one query-key pair that a head scores."""
CONTENDERS = (Ours, TorchSegments, DGLOperators, DenseAttention, PyGTransformerConv)
_COLUMNS: dict[str, Callable[[Row], str]] = {
    "workload": column("workload"),
    "tokens": column("tokens", ","),
    "edges of heads": column("pairs", ","),
    "pass": column("task"),
    "contender": column("title"),
    "graph and inputs, MiB": column("held", ",.0f", MEBIBYTE),
    "added, MiB": column("added", ",.0f", MEBIBYTE),
    "whole process, MiB": column("whole", ",.0f", MEBIBYTE),
    "peer / ours": column("ratio", ".1f"),
}


def measure(settings: Settings, *, text: Workload = LONG_TEXT) -> Report:
    """Measure all contenders on all workloads, and a training step on one long text.

    Parameters
    ----------
    settings : workloads and peers; every contender runs once
    text : the long text
    """
    workloads, missing = parse_workloads(settings.lengths)
    contenders, unable = split_able(select(CONTENDERS, settings.peers))
    report = Report("memory", DESCRIPTION, _COLUMNS, settings, left_out=missing + unable, plot=plot_memory)
    groups: list[tuple[str, Workload, Sequence[Contender]]] = [(BOTH, workload, contenders) for workload in workloads]
    groups.append((TRAINING, text, [OursEncoder()]))
    skipped: list[str] = []
    for task, workload, members in show_progress(groups, "measuring"):
        report.rows += _measure_rows(task, workload, members, skipped)
    report.left_out += merge_lines(skipped)
    growth = summarize_growth(report.rows)
    report.notes = [growth] if growth else []
    return report


def _measure_rows(task: str, workload: Workload, contenders: Sequence[Contender], skipped: list[str]) -> list[Row]:
    """A row for each contender, ours first; ``skipped`` gets a line for each that does not run."""
    rows: list[Row] = []
    pairs = WindowHeads(workload, MSTransOptions()).pairs
    for contender in contenders:
        reason = contender.skip_reason(contender.problem(workload), backward=True)
        if reason is None:
            try:
                memory = measure_peak_memory(type(contender), workload)
            except ProcessError as error:
                reason = str(error)
        if reason is not None:
            skipped.append(f"{contender.title}, {workload.name}, {task}: {reason}")
            continue
        row = {"workload": workload.name, "length": workload.uniform_length, "tokens": workload.tokens}
        row |= {"pairs": pairs, "task": task, "contender": contender.name, "title": contender.title}
        row |= asdict(memory)
        if contender.name != OURS and rows and rows[0]["contender"] == OURS:
            row["ratio"] = row["added"] / max(1, rows[0]["added"])
        rows.append(row)
    return rows


def summarize_growth(rows: Sequence[Row]) -> str | None:
    """How our memory grows with edges at one number of tokens; None if no two workloads share it."""
    ours = [row for row in rows if row["contender"] == OURS and row["task"] == BOTH]
    comparable = sorted(_most_frequent(ours, "tokens"), key=lambda row: row["pairs"])
    if len(comparable) < 2:
        return None
    few, many = comparable[0], comparable[-1]
    return (
        f"GraphAttn at {few['tokens']:,} tokens: {many['pairs'] / max(1, few['pairs']):.1f} times the edges "
        f"({few['workload']} to {many['workload']}), {many['added'] / max(1, few['added']):.2f} times the memory"
    )


def _most_frequent(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows with the most frequent value of a column."""
    values = [row[name] for row in rows if row[name] is not None]
    usual = max(values, key=values.count, default=None)
    return [row for row in rows if usual is not None and row[name] == usual]


def plot_memory(rows: Sequence[Row], path: Path) -> None:
    """Plot memory against edges at one number of tokens, and against tokens at one length."""
    attention = [row for row in rows if row["task"] == BOTH]
    by_edges, by_tokens = _most_frequent(attention, "tokens"), _most_frequent(attention, "length")
    panels = []
    if by_edges:
        heading = f"batches of {by_edges[0]['tokens']:,} tokens"
        panels.append(Panel(heading, "edges of all heads", _collect_points(by_edges, "pairs")))
    if by_tokens:
        heading = f"sentences of {by_tokens[0]['length']:,} tokens"
        panels.append(Panel(heading, "tokens of a batch", _collect_points(by_tokens, "tokens")))
    draw(panels, path, up="MiB added by forward + backward")


def _collect_points(rows: Sequence[Row], name: str) -> Points:
    points: Points = {}
    for row in sorted(rows, key=lambda row: row[name]):
        points.setdefault(row["title"], []).append((row[name], row["added"] / MEBIBYTE))
    return points
