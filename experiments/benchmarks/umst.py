"""``bench umst``: what word groups, arcs and the attention of words cost on top of a Transformer (UMST, Table 7)."""

from __future__ import annotations

from collections.abc import Callable

from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, compare, merged
from graphattn.experiments.benchmarks.contenders import OURS, chosen
from graphattn.experiments.benchmarks.fresh_process import GIVE_BACK, UMST_STEP, Failed, measured_apart
from graphattn.experiments.benchmarks.operations import transformer_operations, umst_operations
from graphattn.experiments.benchmarks.plots import cost_against_length
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import INFERENCE, TRAINING, Target
from graphattn.experiments.benchmarks.umst_contenders import (
    CONTENDERS,
    OPTIONS,
    PlainTransformer,
    SplitProblem,
    split_layout,
)
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads
from graphattn.experiments.cli.progress_bars import shown

LENGTHS = ("164x25", "41x100", "10x400")
QUICK = ("8x25", "2x100")
DEAREST = Target(1.35, at_least=False)
"""Time and memory of UMST over those of the Transformer."""

COMPARED = """\
Encoders of two layers as wide as the paper's base model (512, eight heads, feed-forward part 2048), float32, without
dropout, from token vectors to token vectors: UMST with all its parts, without inter-group interaction, and the pre-norm
Transformer on the same operator. One word in seven is split in two; every sentence has a tree over its words. Training
is forward, backward and a step of Adam. Each run takes its edges from a new graph, whose making is not timed. `memory`
is what a training step needs beside libraries (weights, inputs, gradients, moments of Adam and what is kept for the
backward pass), measured in a process of its own whose allocator gives freed blocks of a megabyte or more back at once
(MALLOC_MMAP_THRESHOLD_). `limit` is the ratio of floating-point operations: no implementation of equal efficiency gets
below it."""

MEBIBYTE = 2**20
_COLUMNS: dict[str, Callable[[Row], str]] = {
    **{
        heading: COLUMNS[heading]
        for heading in ("workload", "pass", "contender", "median, ms", "quartiles, ms", "runs")
    },
    "UMST / peer": lambda row: f"{1 / row['ratio']:.2f}" if "ratio" in row else "",
    "within rounds": lambda row: (
        " - ".join(f"{1 / r:.2f}" for r in reversed(row["ratio_quartiles"])) if "ratio" in row else ""
    ),
    "limit": lambda row: f"{row['limit']:.2f}" if "limit" in row else "",
    "memory, MiB": lambda row: f"{row['memory'] / MEBIBYTE:,.0f}" if "memory" in row else "",
    "memory, UMST / peer": lambda row: f"{row['memory_ratio']:.2f}" if "memory_ratio" in row else "",
    "target": lambda row: row.get("target") or "",
}


def measure(settings: Settings) -> Report:
    """Time everybody in inference and training, then measure the memory of training."""
    contenders = chosen(CONTENDERS, settings.peers)
    workloads, absent = parse_workloads(settings.lengths)
    rows, left_out = compare(contenders, workloads, {INFERENCE: False, TRAINING: True}, SplitProblem, settings)
    failed = []
    by_name = {workload.name: workload for workload in workloads}
    for row in shown([row for row in rows if row["task"] == TRAINING], "measuring memory"):
        try:
            figures = measured_apart(UMST_STEP, row["contender"], by_name[row["workload"]], variables=GIVE_BACK)
            row["memory"] = figures["held"] + figures["added"]
        except Failed as error:
            failed.append(f"{row['title']}, {row['workload']}, memory: {error}")
    _judge(rows)
    for row in rows:
        if row["contender"] == PlainTransformer.name:
            row["limit"] = arithmetic_limit(by_name[row["workload"]])
    return Report(
        "umst",
        COMPARED,
        _COLUMNS,
        rows,
        settings.as_row(),
        left_out=absent + left_out + merged(failed),
        picture=cost_against_length,
    )


def _judge(rows: list[Row]) -> None:
    """Set our memory against theirs, and say of the Transformer what was promised."""
    ours = {(row["workload"], row["task"]): row for row in rows if row["contender"] == OURS}
    for row in rows:
        own = ours[row["workload"], row["task"]]
        if row["contender"] == OURS:
            continue
        verdicts = [f"time {DEAREST.verdict(1 / row['ratio'])}"]
        if "memory" in row and "memory" in own:
            row["memory_ratio"] = own["memory"] / row["memory"]
            verdicts.append(f"memory {DEAREST.verdict(row['memory_ratio'])}")
        row["target"] = ", ".join(verdicts) if row["contender"] == PlainTransformer.name else None


def arithmetic_limit(workload: Workload) -> float:
    """Floating-point operations of UMST over those of the Transformer; the backward pass is twice both."""
    widths = {name: getattr(OPTIONS, name) for name in ("hidden", "layers", "ffn")}
    words = [int(count) for batch in workload.batches for count in split_layout(batch).word_counts]
    return umst_operations(workload.lengths, words, **widths) / transformer_operations(workload.lengths, **widths)
