"""``bench build``: constructing the graph of a batch, beside one forward pass over it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from graphattn.builders import Dependency, Sentence, TextGraphBuilder
from graphattn.experiments.benchmarks._contenders import Job, Settings
from graphattn.experiments.benchmarks._harness import OURS, TIMES, Case, column, time_jobs
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record
from graphattn.experiments.benchmarks._workloads import Workload, parse_workloads
from graphattn.models import MSTransOptions
from graphattn.models._encoders import MSTransEncoder

LENGTHS = QUICK = ("22", "109", "201")
ARRAYS, GRAPH = "build", "build-dgl"
TITLES = {ARRAYS: "build, for models", GRAPH: "build, as DGL graph", OURS: "forward"}

DESCRIPTION = """\
Constructing a batch's graph (windows of scales 1, 3, N/16, N/8, N/4, and dependencies of random trees) from encoded
sentences, as in training, beside one MS-Trans forward pass over it (three layers, 300 wide, ten heads, inference mode,
float32). `for models` is the form that models read edges from; `as DGL graph` is the form that the builder's `build`
and `batch` return. `build / forward` is what construction adds to inference."""
_COLUMNS: dict[str, Callable[[Record], str]] = {
    "workload": column("workload"),
    "step": column("title"),
    **TIMES,
    "edges": column("edges", ","),
    "build / forward": column("ratio", ".1%"),
}


def measure(settings: Settings) -> BenchmarkReport:
    """Time building and encoding interleaved."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    encoder = MSTransEncoder(MSTransOptions()).eval()
    workloads, missing = parse_workloads(settings.lengths)
    rows = [row for workload in workloads for row in _measure_rows(workload, encoder, random, settings)]
    if find_spec("dgl") is None:
        missing.append(f"{TITLES[GRAPH]}: dgl is not installed")
    return BenchmarkReport("build", DESCRIPTION, _COLUMNS, settings, rows, left_out=missing)


def _measure_rows(
    workload: Workload, encoder: MSTransEncoder, random: np.random.Generator, settings: Settings
) -> list[Record]:
    builder = TextGraphBuilder([*encoder.options.windows(), Dependency()])
    layouts = [
        builder.layout([Sentence(("word",) * length, heads=make_tree(length, random)) for length in batch])
        for batch in workload.batches
    ]
    tokens = [torch.randn(layout.num_tokens, encoder.width) for layout in layouts]

    def build_arrays() -> list[Any]:
        return [builder.text_batch(layout) for layout in layouts]

    def encode(graphs: list[Any]) -> list[torch.Tensor]:
        with torch.inference_mode():
            return [encoder(graph, vectors) for graph, vectors in zip(graphs, tokens, strict=True)]

    jobs = {
        ARRAYS: Job(lambda _: build_arrays()),
        GRAPH: Job(lambda _: [builder.graph(layout) for layout in layouts]),
        OURS: Job(encode, build_arrays),
    }
    if find_spec("dgl") is None:
        del jobs[GRAPH]
    edges = sum(int(builder.num_edges(layout).sum()) for layout in layouts)
    return [
        Case(workload, "build", False).as_row(name, TITLES[name]) | row | {"edges": edges}
        for name, row in time_jobs(jobs, settings).items()
    ]


def make_tree(length: int, random: np.random.Generator) -> tuple[int, ...]:
    """The heads of a random tree over ``length`` words: each word depends on an earlier one, the first on none."""
    return (0, *(int(random.integers(1, word)) for word in range(2, length + 1)))
