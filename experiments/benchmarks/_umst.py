"""``bench umst``: the cost of word groups, arcs and attention between words on top of a Transformer (UMST, Table 7)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from typing_extensions import override

from graphattn._ragged import count_up
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.builders._layout import Layout
from graphattn.experiments.benchmarks._contenders import Contender, Settings
from graphattn.experiments.benchmarks._harness import (
    CONTENDER_TIMES,
    INFERENCE,
    MEBIBYTE,
    OURS,
    TRAINING,
    Comparison,
    column,
    compare,
    measure_times_and_memory,
)
from graphattn.experiments.benchmarks._operations import count_transformer, count_umst
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record, plot_cost
from graphattn.experiments.benchmarks._token_modules import GraphContender, TokenProblem
from graphattn.experiments.benchmarks._workloads import Lengths, Workload
from graphattn.models import TransformerOptions, UMSTOptions
from graphattn.models._encoders import Encoder, EncoderOptions, make_encoder

LENGTHS = ("164x25", "41x100", "10x400")
QUICK = ("8x25", "2x100")
OPTIONS = UMSTOptions.of_size("base", layers=2, dropout=0.0)
SPLIT_EVERY = 7
"""One word in so many has two tokens."""
DESCRIPTION = """\
Encoders of two layers as wide as the paper's base model (512, eight heads, feed-forward layer of 2048), float32,
without dropout, from token vectors to token vectors: UMST with all its parts, UMST without inter-group interaction, and
the pre-norm Transformer on the same operator. One word in seven has two tokens; every sentence has a tree over its
words. Training is forward, backward and a step of Adam. Each run takes its edges from a new graph, whose construction
is not timed. `memory` is what a training step needs besides libraries (weights, inputs, gradients, moments of Adam and
tensors kept for the backward pass), measured in a fresh process whose allocator returns freed blocks of a megabyte or
more at once (MALLOC_MMAP_THRESHOLD_). `limit` is the ratio of floating-point operations: the cost at equal
efficiency."""


def measure(settings: Settings) -> BenchmarkReport:
    """Time all contenders in inference and training, and measure the memory of training."""
    report = BenchmarkReport("umst", DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    measure_all = partial(measure_times_and_memory, column="memory")
    tasks = {INFERENCE: False, TRAINING: True}
    return compare(report, settings, Comparison(CONTENDERS, tasks, measure_all, _add_limit))


def _add_limit(contender: Contender, workload: Workload) -> Record:
    return {"limit": arithmetic_limit(workload)} if contender.name == "transformer" else {}


_COLUMNS = {
    **CONTENDER_TIMES,
    "UMST / peer": lambda row: f"{1 / row['ratio']:.2f}" if "ratio" in row else "",
    "within rounds": lambda row: " - ".join(f"{1 / r:.2f}" for r in reversed(row.get("ratio_quartiles", ()))),
    "limit": column("limit", ".2f"),
    "memory, MiB": column("memory", ",.0f", MEBIBYTE),
    "memory, UMST / peer": lambda row: f"{1 / row['memory_ratio']:.2f}" if "memory_ratio" in row else "",
}


def arithmetic_limit(workload: Workload) -> float:
    """Floating-point operations of UMST over those of the Transformer; the backward pass doubles both."""
    widths = {name: getattr(OPTIONS, name) for name in ("hidden", "layers", "ffn")}
    words = [int(count) for batch in workload.batches for count in split_layout(batch).word_counts]
    return count_umst(workload.lengths, words, **widths) / count_transformer(workload.lengths, **widths)


def split_layout(lengths: Lengths) -> Layout:
    """The columns of sentences in which one word in seven has two tokens and the head of word i is word (i - 1) / 2.

    Examples
    --------
    >>> split_layout((10,)).word_ids.tolist(), split_layout((10,)).heads.tolist()
    ([0, 1, 2, 3, 4, 5, 6, 6, 7, 8], [-1, 0, 0, 1, 1, 2, 2, 3, 3])
    """
    token_counts = np.asarray(lengths, np.int64)
    positions = count_up(token_counts)
    word_ids = positions - (positions + 1) // (SPLIT_EVERY + 1)
    word_counts = token_counts - token_counts // (SPLIT_EVERY + 1)
    words = count_up(word_counts)
    heads = np.where(words > 0, (words - 1) // 2, -1)
    return Layout(token_counts, word_counts, word_ids, heads, np.zeros_like(heads))


class SplitProblem(TokenProblem):
    """Random token vectors for sentences in which some words are split, each with a tree over its words."""

    def __init__(self, workload: Workload):
        super().__init__(workload, OPTIONS.hidden)
        self.layouts = [split_layout(batch) for batch in workload.batches]


class WordContender(GraphContender):
    """One of :data:`ENCODER_OPTIONS`, on words and trees."""

    problem = SplitProblem

    @override
    def make_module(self, problem: SplitProblem) -> Encoder:
        return make_encoder(ENCODER_OPTIONS[self.name])

    @override
    def build_graphs(self, problem: SplitProblem, module: Encoder) -> list[TextBatch]:
        builder = TextGraphBuilder(module.relations(), cls=False)
        return [builder.text_batch(layout) for layout in problem.layouts]


_SIZES = {name: getattr(OPTIONS, name) for name in ("hidden", "layers", "heads", "ffn", "dropout")}
ENCODER_OPTIONS: dict[str, EncoderOptions] = {
    OURS: OPTIONS,
    "transformer": TransformerOptions(**_SIZES, norm="pre"),
    "without-words": replace(OPTIONS, inter_group=False),
}
"""Name of a contender -> options of its encoder."""
CONTENDERS = (
    WordContender(OURS, "UMST"),
    WordContender("transformer", "Transformer"),
    WordContender("without-words", "UMST without words"),
)
