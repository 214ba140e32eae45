"""``bench umst``: the cost of word groups, arcs and attention between words on top of a Transformer (UMST, Table 7)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from graphattn.builders import TextGraphBuilder
from graphattn.builders.layout import Layout
from graphattn.experiments.benchmarks.harness import (
    CONTENDER_TIMES,
    INFERENCE,
    MEBIBYTE,
    OURS,
    TRAINING,
    Contender,
    Job,
    Settings,
    add_peak_memory,
    column,
    compare,
)
from graphattn.experiments.benchmarks.operations import count_transformer, count_umst
from graphattn.experiments.benchmarks.plots import plot_cost
from graphattn.experiments.benchmarks.report import Report, Row
from graphattn.experiments.benchmarks.workloads import Lengths, Workload, count_within
from graphattn.models import TransformerOptions, UMSTOptions
from graphattn.models.encoders import Encoder, make_encoder

LENGTHS = ("164x25", "41x100", "10x400")
QUICK = ("8x25", "2x100")
OPTIONS = UMSTOptions.of_size("base", layers=2, dropout=0.0)
SPLIT_EVERY = 7
"""One word in so many has two tokens."""
LEARNING_RATE = 1e-4
DESCRIPTION = """\
Encoders of two layers as wide as the paper's base model (512, eight heads, feed-forward layer of 2048), float32,
without dropout, from token vectors to token vectors: UMST with all its parts, UMST without inter-group interaction, and
the pre-norm Transformer on the same operator. One word in seven has two tokens; every sentence has a tree over its
words. Training is forward, backward and a step of Adam. Each run takes its edges from a new graph, whose construction
is not timed. `memory` is what a training step needs besides libraries (weights, inputs, gradients, moments of Adam and
tensors kept for the backward pass), measured in a fresh process whose allocator returns freed blocks of a megabyte or
more at once (MALLOC_MMAP_THRESHOLD_). `limit` is the ratio of floating-point operations: the cost at equal
efficiency."""


def measure(settings: Settings) -> Report:
    """Time all contenders in inference and training, then measure the memory of training."""
    report = Report("umst", DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    tasks = {INFERENCE: False, TRAINING: True}
    workloads = compare(report, CONTENDERS, tasks, settings, add_columns=_add_limit)
    add_peak_memory(report, CONTENDERS, workloads, TRAINING, "memory", lambda memory: memory.held + memory.added)
    ours = {(row["workload"], row["task"]): row for row in report.rows if row["contender"] == OURS}
    for row in report.rows:
        our_row = ours[row["workload"], row["task"]]
        if row is not our_row and "memory" in row and "memory" in our_row:
            row["memory_ratio"] = our_row["memory"] / row["memory"]
    return report


def _add_limit(contender: Contender, workload: Workload) -> Row:
    return {"limit": arithmetic_limit(workload)} if isinstance(contender, PlainTransformer) else {}


_COLUMNS = {
    **CONTENDER_TIMES,
    "UMST / peer": lambda row: f"{1 / row['ratio']:.2f}" if "ratio" in row else "",
    "within rounds": lambda row: (
        " - ".join(f"{1 / r:.2f}" for r in reversed(row["ratio_quartiles"])) if "ratio" in row else ""
    ),
    "limit": column("limit", ".2f"),
    "memory, MiB": column("memory", ",.0f", MEBIBYTE),
    "memory, UMST / peer": column("memory_ratio", ".2f"),
}


def arithmetic_limit(workload: Workload) -> float:
    """Floating-point operations of UMST over those of the Transformer; the backward pass doubles both."""
    widths = {name: getattr(OPTIONS, name) for name in ("hidden", "layers", "ffn")}
    words = [int(count) for batch in workload.batches for count in split_layout(batch).word_counts]
    return count_umst(workload.lengths, words, **widths) / count_transformer(workload.lengths, **widths)


def split_layout(lengths: Lengths) -> Layout:
    """The columns of sentences in which one word in seven has two tokens and the head of word i is word (i - 1) / 2.

    Parameters
    ----------
    lengths : tokens of each sentence

    Examples
    --------
    >>> split_layout((10,)).word_ids.tolist(), split_layout((10,)).heads.tolist()
    ([0, 1, 2, 3, 4, 5, 6, 6, 7, 8], [-1, 0, 0, 1, 1, 2, 2, 3, 3])
    """
    token_counts = np.asarray(lengths, np.int64)
    positions = count_within(token_counts)
    word_ids = positions - (positions + 1) // (SPLIT_EVERY + 1)
    word_counts = token_counts - token_counts // (SPLIT_EVERY + 1)
    words = count_within(word_counts)
    heads = np.where(words > 0, (words - 1) // 2, -1)
    return Layout(token_counts, word_counts, word_ids, heads, np.zeros_like(heads))


class SplitProblem:
    """Random token vectors for sentences in which some words are split, each with a tree over its words.

    Parameters
    ----------
    workload : the sentences
    seed : of the vectors
    """

    def __init__(self, workload: Workload, *, seed: int = 0):
        self.layouts = [split_layout(batch) for batch in workload.batches]
        random = torch.Generator().manual_seed(seed)
        sizes = [(sum(batch), OPTIONS.hidden) for batch in workload.batches]
        self.tokens, self.weights = ([torch.randn(size, generator=random) for size in sizes] for _ in range(2))


class SplitContender(Contender):
    """An encoder over all batches: inference, or a training step with Adam; without dropout."""

    problem = SplitProblem

    @override
    def make_job(self, problem: SplitProblem, *, backward: bool) -> Job:
        encoder = self.make_encoder().train(backward)
        builder = TextGraphBuilder(encoder.relations(), cls=False)
        inputs = [tokens.clone().requires_grad_(backward) for tokens in problem.tokens]

        def build_graphs() -> list[Any]:
            return [builder.text_batch(layout) for layout in problem.layouts]

        def infer(graphs: list[Any]) -> list[Tensor]:
            with torch.inference_mode():
                return [encoder(graph, tokens) for graph, tokens in zip(graphs, inputs, strict=True)]

        if not backward:
            return Job(infer, build_graphs)
        optimizer = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE, fused=True)

        def step(graphs: list[Any]) -> None:
            for graph, tokens, weight in zip(graphs, inputs, problem.weights, strict=True):
                (encoder(graph, tokens) * weight).mean().backward()
                tokens.grad = None
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        return Job(step, build_graphs)

    @abstractmethod
    def make_encoder(self) -> Encoder:
        """The encoder, with new weights."""


class OursUMST(SplitContender):
    """UMST with all its parts."""

    name, title = OURS, "UMST"

    @override
    def make_encoder(self) -> Encoder:
        return make_encoder(OPTIONS)


class PlainTransformer(SplitContender):
    """The pre-norm Transformer of the same width, on the same operator."""

    name, title = "transformer", "Transformer"

    @override
    def make_encoder(self) -> Encoder:
        names = ("hidden", "layers", "heads", "ffn", "dropout")
        return make_encoder(TransformerOptions(**{name: getattr(OPTIONS, name) for name in names}, norm="pre"))


class WithoutWords(SplitContender):
    """UMST without inter-group interaction: neither phrase convolution nor attention between words."""

    name, title = "without-words", "UMST without words"

    @override
    def make_encoder(self) -> Encoder:
        return make_encoder(replace(OPTIONS, inter_group=False))


CONTENDERS = (OursUMST, PlainTransformer, WithoutWords)
