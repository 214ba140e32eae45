"""``bench mtsa``: time and memory of layers that fuse context, against the length of sentences (MTSA, Figure 1)."""

from __future__ import annotations

from collections.abc import Callable

from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, compare, merged
from graphattn.experiments.benchmarks.contenders import OURS, chosen
from graphattn.experiments.benchmarks.fresh_process import CONTEXT, GIVE_BACK, Failed, measured_apart
from graphattn.experiments.benchmarks.mtsa_contenders import CONTENDERS, ContextProblem, MultiHead, the_length
from graphattn.experiments.benchmarks.plots import cost_against_length
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import Target
from graphattn.experiments.benchmarks.workloads import parse_workloads
from graphattn.experiments.cli.progress_bars import shown

LENGTHS = ("64x16", "64x32", "64x64", "64x128", "64x256", "64x384")
QUICK = ("8x16", "8x64")
FASTEST = Target(1 / 1.3)
"""Time of multi-head attention over ours: ours takes at most 1.3 times as long."""
SMALLEST = Target(1)
FROM_LENGTH = 128
"""Length from which multi-head attention is to need more memory than ours."""

COMPARED = """\
One layer that fuses context, 600 wide, forward and backward in float32, as in Figure 1 of the MTSA paper: MTSA with two
heads of 300 on `forward` and `backward`, multi-head attention, the dense multi-dimensional attention that MTSA does
without, a BiLSTM and a CNN. `added` is the most memory that one run puts on top of weights and inputs, measured in
a process of its own whose allocator gives freed blocks of a megabyte or more back at once
(MALLOC_MMAP_THRESHOLD_): what a layer needs, not what the allocator keeps. Each run of MTSA takes its edges from a new
graph."""

MEBIBYTE = 2**20
_COLUMNS: dict[str, Callable[[Row], str]] = {
    **{heading: cell for heading, cell in COLUMNS.items() if heading != "target"},
    "added, MiB": lambda row: f"{row['added'] / MEBIBYTE:,.0f}" if "added" in row else "",
    "memory, peer / ours": lambda row: f"{row['memory_ratio']:.2f}" if "memory_ratio" in row else "",
    "target": lambda row: row.get("target") or "",
}


def measure(settings: Settings) -> Report:
    """Time everybody, then measure their memory."""
    contenders = chosen(CONTENDERS, settings.peers)
    workloads, absent = parse_workloads(settings.lengths)
    for workload in workloads:
        the_length(workload)  # before an hour has gone into those that come first
    rows, left_out = compare(contenders, workloads, {CONTEXT: True}, ContextProblem, settings)
    failed = []
    by_name = {workload.name: workload for workload in workloads}
    for row in shown(rows, "measuring memory"):
        try:
            workload = by_name[row["workload"]]
            row["added"] = measured_apart(CONTEXT, row["contender"], workload, variables=GIVE_BACK)["added"]
        except Failed as error:
            failed.append(f"{row['title']}, {row['workload']}, memory: {error}")
    _judge(rows)
    return Report(
        "mtsa",
        COMPARED,
        _COLUMNS,
        rows,
        settings.as_row(),
        left_out=absent + left_out + merged(failed),
        picture=cost_against_length,
    )


def _judge(rows: list[Row]) -> None:
    """Set memory against ours, and say of multi-head attention what was promised."""
    ours = {row["workload"]: row for row in rows if row["contender"] == OURS}
    for row in rows:
        own = ours[row["workload"]]
        if row["contender"] == OURS:
            continue
        verdicts = []
        if row["contender"] == MultiHead.name and row["length"] >= FROM_LENGTH:
            verdicts.append(f"time {FASTEST.verdict(row['ratio'])}")
        if "added" in row and "added" in own:
            row["memory_ratio"] = row["added"] / max(1, own["added"])
            if row["contender"] == MultiHead.name and row["length"] >= FROM_LENGTH:
                verdicts.append(f"memory {SMALLEST.verdict(row['memory_ratio'])}")
        row["target"] = ", ".join(verdicts)
