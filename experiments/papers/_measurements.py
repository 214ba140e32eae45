"""Runs without a corpus: mirrored summation (MS-Trans, Figure 2), and time and memory of one layer (MTSA, Figure 1).

Mirrored summation is the sum of products of the first and the last vectors of a sequence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn._edges import lengths_of
from graphattn._optional_packages import import_optional
from graphattn._schema import TOKEN
from graphattn._validation import require_choice
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.exceptions import ConfigError
from graphattn.models._encoders import EncoderOptions, encoder_options, make_encoder
from graphattn.models._options import TrainingOptions
from graphattn.models.heads._pooling import pool
from graphattn.models.training._optimizer import count_parameters, relative_rate
from graphattn.options import Options, option

MIRRORED = "mirrored-summation"
LAYER_COSTS = "layer-costs"
LAYERS = {"ours": "MTSA", "multihead": "Multi-head", "dense": "DiSA", "bilstm": "Bi-LSTM", "cnn": "Multi-CNN"}
"""Contenders of the benchmark that are in the figure, with their titles."""
_TEST_SEED = 1_000_003


@dataclass
class MirroredOptions(Options):
    """The task and its training; the defaults of the first three are the paper's."""

    length: int = option(100, "vectors of a sequence (N)", min=2)
    features: int = option(50, "features of a vector (d)", min=1)
    samples: int = option(200_000, "training sequences, and as many test sequences", min=1)
    terms: int = option(10, "products in the sum (K)", min=1)
    epochs: int = option(5, "passes over the training sequences", min=1)
    batch_size: int = option(100, "sequences of a batch", min=1)
    learning_rate: float = option(1e-3, "highest learning rate, after a tenth of all steps", above=0)


def _default_encoder(name: str) -> EncoderOptions:
    return replace(encoder_options(name), hidden=100, dropout=0.0)


def make_mirrored_options(
    encoder: str, changes: Mapping[str, Mapping[str, Any]]
) -> tuple[MirroredOptions, EncoderOptions]:
    """Options of the task and of the encoder; the encoder is 100 wide and without dropout by default."""
    task = replace(MirroredOptions(), **changes.get("task", {}))
    options = replace(_default_encoder(encoder), **changes.get("encoder", {}))
    task.validate()
    options.validate()
    if task.terms > task.length:
        raise ConfigError(f"terms is {task.terms}; a sequence has {task.length} vectors (length)")
    return task, options


class MirroredModel(nn.Module):
    """A linear layer, an encoder, half the sum of ``[CLS]`` and the maximum, and a perceptron with one hidden layer."""

    def __init__(self, task: MirroredOptions, options: EncoderOptions):
        super().__init__()
        self.cls = nn.Parameter(torch.zeros(options.hidden))
        self.project = nn.Linear(task.features, options.hidden)
        self.encoder = make_encoder(options)
        width = self.encoder.width
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, task.features))

    def forward(self, graph: TextBatch, inputs: Tensor) -> Tensor:
        """(B, N, d) -> (B, d)."""
        tokens = self.project(inputs)
        tokens = torch.cat([self.cls.expand(len(tokens), 1, -1), tokens], dim=1).flatten(0, 1)
        output: Tensor = self.head(pool(self.encoder(graph, tokens), lengths_of(graph, TOKEN), "cls+max"))
        return output


def make_batcher(model: MirroredModel, task: MirroredOptions) -> Callable[[int], TextBatch]:
    """A function from a number of sequences to their graph, which is built once for each number."""
    builder = TextGraphBuilder(model.encoder.relations())
    return cache(lambda count: builder.text_batch([["x"] * task.length] * count))


def sum_mirrored(inputs: Tensor, terms: int) -> Tensor:
    r"""The target, :math:`\sum_{i=1}^K a_i \odot a_{N-i+1}`: (B, N, d) -> (B, d).

    Examples
    --------
    >>> sum_mirrored(torch.tensor([[[1.0], [2.0], [3.0], [4.0]]]), 2)
    tensor([[10.]])
    """
    return (inputs[:, :terms] * inputs.flip(1)[:, :terms]).sum(1)


def draw_batches(task: MirroredOptions, seed: int) -> Iterator[Tensor]:
    """Batches (B, N, d) of numbers from 0 to 1; a seed gives the same ones each time."""
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, task.samples, task.batch_size):
        count = min(task.batch_size, task.samples - start)
        yield torch.rand(count, task.length, task.features, generator=generator)


def run_mirrored(encoder: str, seed: int, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Train a model and return its mean squared error per feature on as many other sequences."""
    task, options = make_mirrored_options(encoder, changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = MirroredModel(task, options)
        seconds = _train(model, task, seed)
        start = time.perf_counter()
        figures = _evaluate(model, task)
    parameters = count_parameters(model)
    return {
        **figures,
        "epochs": task.epochs,
        "parameters": parameters,
        "parameters_besides_words": parameters,
        "precision": "32",
        "seconds_per_epoch": round(seconds / task.epochs, 3),
        "inference_seconds": round(time.perf_counter() - start, 3),
        "inference_texts": task.samples,
    }


def _train(model: MirroredModel, task: MirroredOptions, seed: int) -> float:
    """Train with Adam, warm-up and linear decay; return the seconds."""
    steps = task.epochs * -(-task.samples // task.batch_size)
    optimizer = torch.optim.Adam(model.parameters(), lr=task.learning_rate)
    rule = TrainingOptions(warmup=0.1, schedule="linear")
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: relative_rate(step, steps, rule))
    batch = make_batcher(model, task)
    start = time.perf_counter()
    for _ in range(task.epochs):
        for inputs in draw_batches(task, seed):
            loss = F.mse_loss(model(batch(len(inputs)), inputs), sum_mirrored(inputs, task.terms))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            schedule.step()
    return time.perf_counter() - start


@torch.no_grad()
def _evaluate(model: MirroredModel, task: MirroredOptions) -> dict[str, float]:
    model.eval()
    batch, total, squares = make_batcher(model, task), 0.0, 0.0
    mean = task.terms / 4 + (1 / 12 if 2 * task.terms > task.length and task.length % 2 else 0)  # the middle is squared
    for inputs in draw_batches(task, _TEST_SEED):
        targets = sum_mirrored(inputs, task.terms)
        total += float((model(batch(len(inputs)), inputs) - targets).square().mean(1).sum())
        squares += float((targets - mean).square().mean(1).sum())
    return {"mse": round(total / task.samples, 6), "mse_of_mean": round(squares / task.samples, 6)}


@dataclass
class LayerCostOptions(Options):
    """Options of the measurement; the defaults are the paper's batches."""

    sentences: int = option(64, "sentences of a batch", min=1)
    length: int = option(64, "tokens of a sentence", min=1)
    repeats: int = option(9, "timed runs", min=1)
    memory: bool = option(True, "also measure the peak memory, in a new process")


def measure_layer(encoder: str, seed: int, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Median milliseconds of forward and backward, and the MiB that they add to weights and inputs."""
    import_optional("psutil", f"{LAYER_COSTS} needs", "bench")
    from graphattn.experiments.benchmarks._contenders import Settings
    from graphattn.experiments.benchmarks._harness import (
        MEBIBYTE,
        Comparison,
        compare,
        measure_times,
        measure_times_and_memory,
    )
    from graphattn.experiments.benchmarks._mtsa import CONTENDERS, TASK
    from graphattn.experiments.benchmarks._report import BenchmarkReport

    require_choice("encoder", encoder, LAYERS)
    task = replace(LayerCostOptions(), **changes.get("task", {}))
    task.validate()
    peers = () if encoder == "ours" else (encoder,)
    settings = Settings((f"{task.sentences}x{task.length}",), task.repeats, peers)
    report = BenchmarkReport("mtsa", "", {}, settings)
    measure = measure_times_and_memory if task.memory else measure_times
    compare(report, settings, Comparison(CONTENDERS, {TASK: True}, measure))
    row = next((row for row in report.rows if row["contender"] == encoder), None)
    if row is None:
        return {"failed": "; ".join(report.left_out)}
    memory = {"mebibytes": round(row["added"] / MEBIBYTE, 1)} if "added" in row else {}
    return {"milliseconds": round(row["median_ms"], 3), **memory}


MEASUREMENTS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[[str], dict[str, Options]]]] = {
    MIRRORED: (run_mirrored, lambda encoder: {"task": MirroredOptions(), "encoder": _default_encoder(encoder)}),
    LAYER_COSTS: (measure_layer, lambda encoder: {"task": LayerCostOptions()}),
}
"""Generated data set -> what runs on it, and encoder -> its groups of options with the defaults."""
