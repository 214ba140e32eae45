"""``bench mtsa``: time and memory of layers that fuse context, against the length of sentences (MTSA, Figure 1).

Letters: B sentences, T tokens, C = 600 features, D = 300 of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._edges import edges_of
from graphattn.builders import Order, TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._harness import (
    COLUMNS,
    MEBIBYTE,
    OURS,
    Comparison,
    column,
    compare,
    measure_times_and_memory,
)
from graphattn.experiments.benchmarks._report import BenchmarkReport, plot_cost
from graphattn.experiments.benchmarks._token_modules import GraphContender, ModuleContender, TokenProblem
from graphattn.experiments.benchmarks._workloads import Workload, parse_workloads
from graphattn.layers._tensorized import TensorizedAttention

LENGTHS = ("64x16", "64x32", "64x64", "64x128", "64x256", "64x384")
QUICK = ("8x16", "8x64")
TASK = "context, forward + backward"
WIDTH = 600
RELATIONS = {"forward": 1, "backward": 1}
DESCRIPTION = """\
One layer that fuses context, 600 wide, forward and backward in float32, as in Figure 1 of the MTSA paper: MTSA with two
heads of 300 on `forward` and `backward`, multi-head attention, the dense multi-dimensional attention that MTSA
replaces, a BiLSTM and a CNN. `added` is the peak memory of one run on top of weights and inputs, measured in a fresh
process whose allocator returns freed blocks of a megabyte or more at once (MALLOC_MMAP_THRESHOLD_): what a layer
needs, not what the allocator keeps. Each run of MTSA takes its edges from a new graph."""


def measure(settings: Settings) -> BenchmarkReport:
    """Time all contenders and measure their memory."""
    for workload in parse_workloads(settings.lengths)[0]:
        if workload.uniform_length is None:  # these layers get no masks
            raise ConfigError(f"--lengths has {workload.name!r}; give batches of one length, 64x128 for example")
    report = BenchmarkReport("mtsa", DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    return compare(report, settings, Comparison(CONTENDERS, {TASK: True}, measure_times_and_memory))


_COLUMNS = {
    **COLUMNS,
    "added, MiB": column("added", ",.0f", MEBIBYTE),
    "memory, peer / ours": column("memory_ratio", ".2f"),
}


class ContextProblem(TokenProblem):
    """Random token vectors for sentences of one length."""

    def __init__(self, workload: Workload):
        super().__init__(workload, WIDTH)


class LayerContender(ModuleContender):
    """A layer: forward, and backward down to weights and token vectors."""

    problem = ContextProblem

    @override
    def backward(self, output: Tensor, weight: Tensor) -> None:
        output.backward(weight)

    @override
    def make_optimizer(self, module: nn.Module) -> None:
        return None


@dataclass(frozen=True)
class Tensorized(LayerContender, GraphContender):
    """MTSA with two heads of 300, one forward and one backward."""

    variant: str = "gated"

    @override
    def make_module(self, problem: ContextProblem) -> nn.Module:
        return TensorizedAttention(WIDTH, WIDTH // 2, RELATIONS, variant=self.variant)

    @override
    def build_graphs(self, problem: ContextProblem, module: nn.Module) -> list[TextBatch]:
        return problem.workload.graphs(TextGraphBuilder([Order()], cls=False))

    @override
    def apply(self, module: Callable[..., Tensor], tokens: Tensor, context: TextBatch) -> Tensor:
        return module(edges_of(context, RELATIONS), tokens)


@dataclass(frozen=True)
class MultiHead(LayerContender):
    """PyTorch's multi-head attention, 8 heads of 75 as in section 4, without weights."""

    is_compiled: bool = False  # for each shape

    @override
    def make_module(self, problem: ContextProblem) -> nn.Module:
        module = nn.MultiheadAttention(WIDTH, 8, batch_first=True)
        if self.is_compiled:
            module.compile(dynamic=False)
        return module

    @override
    def apply(self, module: Callable[..., tuple[Tensor, None]], tokens: Tensor, context: None) -> Tensor:
        return module(tokens, tokens, tokens, need_weights=False)[0]


class DenseMultiDim(LayerContender):
    """Multi-dimensional masked self-attention with its tensor of scores (DiSA; MTSA, Eq. 6), two directions of 300."""

    @override
    def estimate_bytes(self, problem: ContextProblem, *, backward: bool) -> int:
        # scores before and after tanh and softmax, and their gradients, in two directions
        pairs = max(len(batch) * max(batch) ** 2 for batch in problem.workload.batches)
        return 4 * pairs * (WIDTH // 2) * (10 if backward else 4)

    @override
    def make_module(self, problem: ContextProblem) -> nn.Module:
        return _DirectionalAttention()


class BiLSTM(LayerContender):
    """PyTorch's bidirectional LSTM of 300 and 300."""

    @override
    def make_module(self, problem: ContextProblem) -> nn.Module:
        return nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    @override
    def apply(self, module: Callable[..., tuple[Tensor, object]], tokens: Tensor, context: None) -> Tensor:
        return module(tokens)[0]


class MultiCNN(LayerContender):
    """Three padded convolutions of 3, 4 and 5 tokens, 200 filters each (Kim 2014)."""

    @override
    def make_module(self, problem: ContextProblem) -> nn.Module:
        return nn.ModuleList(nn.Conv1d(WIDTH, WIDTH // 3, size, padding="same") for size in (3, 4, 5))

    @override
    def apply(self, module: nn.ModuleList, tokens: Tensor, context: None) -> Tensor:
        channels = tokens.transpose(1, 2)
        return torch.cat([convolution(channels) for convolution in module], dim=1).relu().transpose(1, 2)


_BOUND = 5.0


class _DirectionalAttention(nn.Module):
    """c tanh((W [x_i; x_j] + b) / c), a softmax for each feature, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        half = WIDTH // 2
        self.value = nn.ModuleList(nn.Linear(WIDTH, half) for _ in range(2))
        self.ends = nn.ModuleList(nn.Linear(half, 2 * half) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1])
        outputs = []
        for value, ends, earlier in zip(self.value, self.ends, (True, False), strict=True):
            v = value(tokens)
            key, query = ends(v).chunk(2, -1)
            scores = _BOUND * torch.tanh((query.unsqueeze(2) + key.unsqueeze(1)) / _BOUND)  # (B, T, T, D)
            hidden = positions >= positions.unsqueeze(1) if earlier else positions <= positions.unsqueeze(1)
            weights = scores.masked_fill(hidden.unsqueeze(-1), -1e9).softmax(2)
            outputs.append((weights * v.unsqueeze(1)).sum(2))
        return torch.cat(outputs, -1)


CONTENDERS = (
    Tensorized(OURS, "MTSA"),
    Tensorized("paper", "MTSA (Eq. 5-13)", variant="paper"),
    MultiHead("multihead", "nn.MultiheadAttention, 8 heads"),
    MultiHead("multihead-compiled", "nn.MultiheadAttention, compiled", is_compiled=True, is_trial=True),
    DenseMultiDim("dense", "DiSA, (T, T, D) scores"),
    BiLSTM("bilstm", "BiLSTM"),
    MultiCNN("cnn", "CNN, 3/4/5-grams"),
)
