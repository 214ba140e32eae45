"""``bench attention``: the operator alone, forward and backward, against other ways to attend."""

from __future__ import annotations

from collections.abc import Sequence

from graphattn.experiments.benchmarks.attention_contenders import (
    AttentionContender,
    AttentionProblem,
    DenseAttention,
    DGLOperators,
    Flex,
    Ours,
    PyGTransformerConv,
)
from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, compare
from graphattn.experiments.benchmarks.contenders import OURS, chosen
from graphattn.experiments.benchmarks.plots import cost_against_length
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.targets import BOTH, FORWARD, Target
from graphattn.experiments.benchmarks.workloads import parse_workloads

CONTENDERS: tuple[type[AttentionContender], ...] = (Ours, DenseAttention, DGLOperators, Flex, PyGTransformerConv)
LENGTHS = ("22", "1024x22", "109", "201", "512", "2048", "8192", "32768", "mr", "mtl16", "imdb")
QUICK = ("22", "109", "4x512")
LONG = 2048
PER_PAIR = Target(2, at_least=False, unit="times")

COMPARED = """\
Attention of three layers with MS-Trans heads (alpha 0.5, scales 1, 3, N/16, N/8, N/4), ten heads of 30 features,
float32. All get the same random queries, keys and values, in the layout they like best. GraphAttn, DGL and PyTorch
Geometric follow the windows' edges; FlexAttention has a block mask of every head's window; dense SDPA attends to all
tokens in all heads, as a plain Transformer of the same width does. GraphAttn gets no queries and keys of heads whose
window is one token, as in its models: their softmax is one, whatever the score, and gradients of both are zero. Outputs
stay in the layout they come in. `forward` runs in inference mode; `forward + backward` ends with the gradients of
queries, keys and values. Not timed: random numbers, padding, masks, compilation, making graphs (each run of GraphAttn
and of DGL gets a new graph, so that nothing is remembered)."""


def measure(settings: Settings) -> Report:
    """Time everybody on every workload."""
    contenders = chosen(CONTENDERS, settings.peers)
    workloads, absent = parse_workloads(settings.lengths)
    tasks = {FORWARD: False, BOTH: True}
    rows, left_out = compare(contenders, workloads, tasks, AttentionProblem, settings)
    pairs = {workload.name: AttentionProblem(workload).heads.pairs for workload in workloads}
    for row in rows:
        row["pairs"] = pairs[row["workload"]]
    return Report(
        "attention",
        COMPARED,
        COLUMNS,
        rows,
        settings.as_row(),
        notes=[line for task in tasks if (line := cost_per_pair(rows, task))],
        left_out=absent + left_out,
        picture=cost_against_length,
    )


def cost_per_pair(rows: Sequence[Row], task: str) -> str | None:
    """How our cost of one query-key pair changes from :data:`LONG` tokens on; None when there is one length only."""
    long = [
        row
        for row in rows
        if row["contender"] == OURS and row["task"] == task and row["pairs"] and (row["length"] or 0) >= LONG
    ]
    if len({row["length"] for row in long}) < 2:
        return None
    costs = {row["workload"]: 1e6 * row["median_ms"] / row["pairs"] for row in long}
    spread = max(costs.values()) / min(costs.values())
    each = ", ".join(f"{name} {cost:.3f} ns" for name, cost in costs.items())
    return (
        f"{task}, cost of one edge of one head: {each}; largest over smallest {spread:.2f} ({PER_PAIR.verdict(spread)})"
    )
