"""Who encodes sub-words and words: UMST, itself without words, and the Transformer of the same width.

Letters: N tokens, C width.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphattn.builders import TextGraphBuilder
from graphattn.builders.layout import Layout
from graphattn.experiments.benchmarks.clock import Job
from graphattn.experiments.benchmarks.contenders import OURS, Contender
from graphattn.experiments.benchmarks.workloads import Lengths, Workload
from graphattn.models import TransformerOptions, UMSTOptions
from graphattn.models.encoders import Encoder, make_encoder

OPTIONS = UMSTOptions.of_size("base", layers=2, dropout=0.0)
EVERY = 7
"""One word in so many is split in two."""
LEARNING_RATE = 1e-4


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


def split_layout(lengths: Lengths) -> Layout:
    """Where tokens and words lie when one word in seven has two tokens, and the head of word i is word (i - 1) / 2.

    Parameters
    ----------
    lengths : tokens of each sentence

    Examples
    --------
    >>> split_layout((10,)).word_ids.tolist(), split_layout((10,)).heads.tolist()
    ([0, 1, 2, 3, 4, 5, 6, 6, 7, 8], [-1, 0, 0, 1, 1, 2, 2, 3, 3])
    """
    flat = np.asarray(lengths, np.int64)
    places = np.arange(int(flat.sum())) - np.repeat(np.cumsum(flat) - flat, flat)
    word_ids = places - (places + 1) // (EVERY + 1)
    word_counts = flat - flat // (EVERY + 1)
    words = np.arange(int(word_counts.sum())) - np.repeat(np.cumsum(word_counts) - word_counts, word_counts)
    heads = np.where(words > 0, (words - 1) // 2, -1)
    return Layout(flat, word_counts, word_ids, heads, np.zeros_like(heads))


class SplitContender(Contender[SplitProblem]):
    """An encoder over all batches: inference, or a training step with Adam; without dropout."""

    def job(self, problem: SplitProblem, *, backward: bool) -> Job:
        """Forward in inference mode, or forward, backward (down to the token vectors) and a step of the optimizer."""
        encoder = self.encoder().train(backward)
        builder = TextGraphBuilder(encoder.relations(), cls=False)
        inputs = [tokens.clone().requires_grad_(backward) for tokens in problem.tokens]

        def graphs() -> list[Any]:
            return [builder.arrays(layout) for layout in problem.layouts]

        def infer(made: list[Any]) -> list[Tensor]:
            with torch.inference_mode():
                return [encoder(graph, tokens) for graph, tokens in zip(made, inputs, strict=True)]

        if not backward:
            return Job(infer, graphs)
        optimizer = torch.optim.Adam(encoder.parameters(), lr=LEARNING_RATE, fused=True)

        def step(made: list[Any]) -> None:
            for graph, tokens, weight in zip(made, inputs, problem.weights, strict=True):
                (encoder(graph, tokens) * weight).mean().backward()
                tokens.grad = None
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)

        return Job(step, graphs)

    @abstractmethod
    def encoder(self) -> Encoder:
        """The encoder, with fresh weights."""


class OursUMST(SplitContender):
    """UMST with all its parts."""

    name, title = OURS, "UMST"

    def encoder(self) -> Encoder:
        """As it is."""
        return make_encoder(OPTIONS)


class PlainTransformer(SplitContender):
    """The pre-norm Transformer of the same width, on the same operator."""

    name, title = "transformer", "Transformer"

    def encoder(self) -> Encoder:
        """The same widths."""
        names = ("hidden", "layers", "heads", "ffn", "dropout")
        return make_encoder(TransformerOptions(**{name: getattr(OPTIONS, name) for name in names}, norm="pre"))


class WithoutWords(SplitContender):
    """UMST without inter-group interaction."""

    name, title = "without-words", "UMST without words"

    def encoder(self) -> Encoder:
        """Neither phrase convolution nor the attention of words."""
        return make_encoder(replace(OPTIONS, inter_group=False))


CONTENDERS: tuple[type[Contender[SplitProblem]], ...] = (OursUMST, PlainTransformer, WithoutWords)
"""Ours first."""
