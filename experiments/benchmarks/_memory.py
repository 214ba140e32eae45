"""``bench memory``: peak memory of forward and backward, every contender in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mode

from graphattn.experiments.benchmarks import _attention as attention
from graphattn.experiments.benchmarks._attention import count_pairs
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._encoder import OURS_ENCODER
from graphattn.experiments.benchmarks._harness import (
    BOTH,
    MEBIBYTE,
    OURS,
    TRAINING,
    Comparison,
    column,
    compare,
    measure_memory,
)
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.drawing._curves import Curves, Panel, draw_panels

LENGTHS = ("128x128", "2x512", "8x512", "32x512", "8x2048", "2x8192")
QUICK = ("8x128", "2x512", "1x1024", "4x512")
LONG_TEXT, QUICK_TEXTS = "1x32768", {"text": "1x1024"}
DESCRIPTION = """\
Peak memory of attention, forward and backward, three layers of MS-Trans heads as in `bench attention`; and of a
training step of the whole MS-Trans encoder on one long text. Every contender runs once in a fresh process for each
workload, after a small run that loads libraries and compiles kernels. `graph and inputs` is the memory before the run,
`added` the peak of the run on top of it, `whole process` the peak from the start of the process on, with libraries
(about 0.5 GiB) and graph construction. An edge of a head is one query-key pair that a head scores."""
CONTENDERS = (attention.OURS_ATTENTION, attention.TORCH, attention.DGL, attention.DENSE, attention.PYG)
_COLUMNS: dict[str, Callable[[Record], str]] = {
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


def measure(settings: Settings, *, text: str = LONG_TEXT) -> BenchmarkReport:
    """Measure all contenders on all workloads, and a training step on one long text."""
    report = BenchmarkReport("memory", DESCRIPTION, _COLUMNS, settings, plot=plot_memory)
    attending = Comparison(CONTENDERS, {BOTH: True}, measure_memory, count_pairs)
    long_text = Comparison((OURS_ENCODER,), {TRAINING: True}, measure_memory, count_pairs, lengths=(text,))
    compare(report, settings, attending, long_text)
    growth = summarize_growth(report.rows)
    report.notes = [growth] if growth else []
    return report


def summarize_growth(rows: Sequence[Record]) -> str | None:
    """Growth of our memory with the edges at one number of tokens; None if no two workloads share it."""
    ours = [row for row in rows if row["contender"] == OURS and row["task"] == BOTH]
    comparable = sorted(_most_frequent(ours, "tokens"), key=lambda row: row["pairs"])
    if len(comparable) < 2:
        return None
    few, many = comparable[0], comparable[-1]
    return (
        f"GraphAttn at {few['tokens']:,} tokens: {many['pairs'] / max(1, few['pairs']):.1f} times the edges "
        f"({few['workload']} to {many['workload']}), {many['added'] / max(1, few['added']):.2f} times the memory"
    )


def _most_frequent(rows: Sequence[Record], name: str) -> list[Record]:
    """The rows with the most frequent value of a column."""
    values = [row[name] for row in rows if row[name] is not None]
    return [row for row in rows if values and row[name] == mode(values)]


def plot_memory(rows: Sequence[Record], path: Path) -> None:
    """Plot memory against edges at one number of tokens, and against tokens at one length."""
    attending = [row for row in rows if row["task"] == BOTH]
    panels = []
    for constant, varied, heading, across in (
        ("tokens", "pairs", "batches of {:,} tokens", "edges of all heads"),
        ("length", "tokens", "sentences of {:,} tokens", "tokens of a batch"),
    ):
        if members := _most_frequent(attending, constant):
            panels.append(Panel(heading.format(members[0][constant]), across, _collect_points(members, varied)))
    draw_panels(panels, path, up="MiB added by forward + backward", logarithmic=True)


def _collect_points(rows: Sequence[Record], name: str) -> Curves:
    points: Curves = {}
    for row in sorted(rows, key=lambda row: row[name]):
        points.setdefault(row["title"], []).append((row[name], row["added"] / MEBIBYTE))
    return points
