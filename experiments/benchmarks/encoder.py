"""``bench encoder``: whole encoders, inference, beside the limit that arithmetic sets."""

from __future__ import annotations

from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, compare
from graphattn.experiments.benchmarks.contenders import chosen
from graphattn.experiments.benchmarks.encoder_contenders import CONTENDERS, FFN, DenseTransformer, EncoderProblem
from graphattn.experiments.benchmarks.operations import ms_trans_operations, transformer_operations
from graphattn.experiments.benchmarks.plots import cost_against_length
from graphattn.experiments.benchmarks.report import Report
from graphattn.experiments.benchmarks.targets import INFERENCE
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads
from graphattn.models import MSTransOptions

LENGTHS = ("22", "1024x22", "109", "201", "512", "2048", "8192", "mr", "mtl16", "imdb")
QUICK = ("22", "109", "4x512")

COMPARED = """\
Whole encoders in inference mode, float32: three layers, 300 wide, ten heads, from token vectors to token vectors.
nn.TransformerEncoder has a feed-forward part of 1200 and runs on its fast path; MS-Trans has none, as in its paper.
"MS-Trans (dense with masks)" computes the same numbers as GraphAttn by dense attention with masks. Not timed: making
graphs (see `bench build`), padding and masks. Each run of GraphAttn gets new graphs. `limit` is the ratio of
floating-point operations, padding not counted: no implementation of equal efficiency gets beyond it."""

COLUMNS_WITH_LIMIT = {**COLUMNS, "limit": lambda row: f"{row['limit']:.2f}" if row.get("limit") else ""}


def measure(settings: Settings) -> Report:
    """Time every encoder on every workload."""
    return encoders_report("encoder", COMPARED, {INFERENCE: False}, settings)


def encoders_report(name: str, compared: str, tasks: dict[str, bool], settings: Settings) -> Report:
    """Time encoders on tasks, and set the arithmetic limit beside the Transformer's figures.

    Parameters
    ----------
    name, compared : as in :class:`Report`
    tasks : name -> whether with gradients
    settings : what was asked for
    """
    contenders = chosen(CONTENDERS, settings.peers)
    workloads, absent = parse_workloads(settings.lengths)
    rows, left_out = compare(contenders, workloads, tasks, EncoderProblem, settings)
    limits = {workload.name: arithmetic_limit(workload) for workload in workloads}
    for row in rows:
        if row["contender"] == DenseTransformer.name:
            row["limit"] = limits[row["workload"]]
    return Report(
        name,
        compared,
        COLUMNS_WITH_LIMIT,
        rows,
        settings.as_row(),
        left_out=absent + left_out,
        picture=cost_against_length,
    )


def arithmetic_limit(workload: Workload) -> float:
    """Floating-point operations of the Transformer over those of MS-Trans; the backward pass is twice both."""
    options = MSTransOptions()
    dense = transformer_operations(workload.lengths, hidden=options.hidden, layers=options.layers, ffn=FFN)
    return dense / ms_trans_operations(workload.lengths, options)
