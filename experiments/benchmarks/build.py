"""``bench build``: making a batch's graph beside one forward pass over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from graphattn.builders import Dependency, Sentence, TextGraphBuilder
from graphattn.builders.layout import Layout
from graphattn.experiments.benchmarks.clock import Job, interleaved
from graphattn.experiments.benchmarks.comparison import COLUMNS, Settings, timing_row
from graphattn.experiments.benchmarks.contenders import OURS
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads
from graphattn.models import MSTransOptions
from graphattn.models.encoders import MSTransEncoder

LENGTHS = QUICK = ("22", "109", "201")
ARRAYS, GRAPH = "build", "build-dgl"
TITLES = {ARRAYS: "build, for models", GRAPH: "build, as DGL graph", OURS: "forward"}

COMPARED = """\
Making a batch's graph (windows of scales 1, 3, N/16, N/8, N/4, and dependencies of random trees) from sentences
encoded in columns, as in training, beside one MS-Trans forward pass over it (three layers, 300 wide, ten heads,
inference mode, float32). `for models` are the arrays that models read edges off; `as DGL graph` is what the builder's
`graph` and `batch` return. `build / forward` is what building adds to inference."""

TABLE: dict[str, Callable[[Row], str]] = {
    "workload": COLUMNS["workload"],
    "step": lambda row: row["title"],
    **{heading: COLUMNS[heading] for heading in ("median, ms", "quartiles, ms", "runs")},
    "edges": lambda row: f"{row['edges']:,}",
    "build / forward": lambda row: f"{row['ratio']:.1%}" if "ratio" in row else "",
}


def measure(settings: Settings, *, seed: int = 0) -> Report:
    """Time building and encoding in turns.

    Parameters
    ----------
    settings : workloads and repeats; there are no peers
    seed : of the random trees and vectors
    """
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    encoder = MSTransEncoder(MSTransOptions()).eval()
    workloads, absent = parse_workloads(settings.lengths)
    rows = [row for workload in workloads for row in _rows(workload, encoder, random, settings)]
    return Report("build", COMPARED, TABLE, rows, settings.as_row(), left_out=absent)


def _rows(workload: Workload, encoder: MSTransEncoder, random: np.random.Generator, settings: Settings) -> list[Row]:
    builder = TextGraphBuilder([*encoder.options.windows(), Dependency()])
    layouts = [
        builder.layout([Sentence(("word",) * length, heads=random_tree(length, random)) for length in batch])
        for batch in workload.batches
    ]
    tokens = [torch.randn(layout.num_tokens, encoder.width) for layout in layouts]
    arrays = partial(_each, builder.arrays, layouts)
    jobs = {
        OURS: Job(lambda graphs: _encoded(encoder, graphs, tokens), arrays),
        ARRAYS: Job(lambda _: arrays()),
        GRAPH: Job(lambda _: _each(builder.graph, layouts)),
    }
    spreads = interleaved(jobs, settings.repeats, seconds=settings.seconds)
    edges = sum(int(builder.num_edges(layout).sum()) for layout in layouts)
    rows = [timing_row(workload, "build", name, title, spreads[name], spreads[OURS]) for name, title in TITLES.items()]
    return [{**row, "edges": edges} for row in rows]


def _each(make: Callable[[Layout], Any], layouts: Sequence[Layout]) -> list[Any]:
    return [make(layout) for layout in layouts]


def _encoded(encoder: MSTransEncoder, graphs: list[Any], tokens: list[torch.Tensor]) -> list[torch.Tensor]:
    with torch.inference_mode():
        return [encoder(graph, own) for graph, own in zip(graphs, tokens, strict=True)]


def random_tree(length: int, random: np.random.Generator) -> tuple[int, ...]:
    """Heads of a random tree over ``length`` words: each word depends on an earlier one, the first on none."""
    return (0, *(int(random.integers(1, word)) for word in range(2, length + 1)))
