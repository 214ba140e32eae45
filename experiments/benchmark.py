"""Measurements: what is compared runs in turns within one process, and only medians and their ratios are told."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from graphattn.builders import Dependency, Sentence, TextGraphBuilder
from graphattn.models import MSTransOptions
from graphattn.models.encoders import MSTransEncoder


@dataclass(frozen=True)
class BuildCost:
    """Median milliseconds of building a batch's graph and of one forward pass over it.

    Parameters
    ----------
    sentences, length : size of the batch, ``[CLS]`` not counted
    edges : edges of the graph, all relations together
    build, forward : medians in milliseconds
    """

    sentences: int
    length: int
    edges: int
    build: float
    forward: float

    @property
    def share(self) -> float:
        """Building as a share of the forward pass."""
        return self.build / self.forward


def in_turns(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each job; the jobs take turns, so that a noisy machine disturbs all alike.

    Parameters
    ----------
    jobs : name -> what to time; each runs once untimed first
    rounds : timed runs of each
    """
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.perf_counter()
            job()
            times[name].append(1000 * (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in times.items()}


def build_costs(
    lengths: Sequence[int] = (22, 109, 201), *, sentences: int = 128, rounds: int = 9, seed: int = 0
) -> list[BuildCost]:
    """Building a batch graph (the paper's five scales and ``dependency``) beside one MS-Trans forward pass.

    Parameters
    ----------
    lengths : words of each sentence
    sentences : sentences in a batch
    rounds : timed runs
    seed : of the random trees and vectors

    Notes
    -----
    Building starts from sentences encoded in columns, as in training. The encoder is the paper's Table 1: three
    layers, 300 wide, ten heads; evaluation mode, float32, no gradients.
    """
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    encoder = MSTransEncoder(MSTransOptions()).eval()
    builder = TextGraphBuilder([*MSTransOptions().windows(), Dependency()])
    costs = []
    for length in lengths:
        trees = [random_tree(length, random) for _ in range(sentences)]
        layout = builder.layout([Sentence(("word",) * length, heads=tree) for tree in trees])
        graph = builder.graph(layout)
        tokens = torch.randn(layout.num_tokens, encoder.width)

        jobs = {"build": partial(builder.graph, layout), "forward": partial(_encode, encoder, graph, tokens)}
        medians = in_turns(jobs, rounds)
        costs.append(BuildCost(sentences, length, graph.num_edges(), medians["build"], medians["forward"]))
    return costs


def _encode(encoder: MSTransEncoder, graph: Any, tokens: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return encoder(graph, tokens)


def random_tree(length: int, random: np.random.Generator) -> tuple[int, ...]:
    """Heads of a random tree over ``length`` words: each word depends on an earlier one, the first on none."""
    return (0, *(int(random.integers(1, word)) for word in range(2, length + 1)))


def build_table(costs: Sequence[BuildCost]) -> str:
    """The costs as a Markdown table, with the machine it was measured on."""
    lines = [
        f"{platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}; medians",
        "",
        "| sentences x words | edges | build, ms | forward, ms | build / forward |",
        "|---|---|---|---|---|",
    ]
    for cost in costs:
        size, times = f"{cost.sentences} x {cost.length}", f"{cost.build:.1f} | {cost.forward:.1f}"
        lines.append(f"| {size} | {cost.edges:,} | {times} | {cost.share:.1%} |")
    return "\n".join(lines)
