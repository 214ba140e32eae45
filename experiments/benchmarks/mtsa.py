"""``bench mtsa``: time and memory of layers that fuse context, against the length of sentences (MTSA, Figure 1).

Letters: B sentences, T tokens, C = 600 features, D = 300 of a head.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.builders import Order, TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks.harness import (
    COLUMNS,
    MEBIBYTE,
    OURS,
    Contender,
    Job,
    Settings,
    add_peak_memory,
    column,
    compare,
)
from graphattn.experiments.benchmarks.plots import plot_cost
from graphattn.experiments.benchmarks.report import Report
from graphattn.experiments.benchmarks.workloads import Workload, parse_workloads
from graphattn.layers.multi_scale import edges_of
from graphattn.layers.tensorized import TensorizedAttention

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


def measure(settings: Settings) -> Report:
    """Time all contenders, then measure their memory."""
    for workload in parse_workloads(settings.lengths)[0]:
        uniform_length(workload)  # fail before the first workload has taken an hour
    report = Report("mtsa", DESCRIPTION, _COLUMNS, settings, plot=plot_cost)
    workloads = compare(report, CONTENDERS, {TASK: True}, settings)
    add_peak_memory(report, CONTENDERS, workloads, TASK, "added", lambda memory: memory.added)
    ours = {row["workload"]: row for row in report.rows if row["contender"] == OURS}
    for row in report.rows:
        our_row = ours[row["workload"]]
        if row is not our_row and "added" in row and "added" in our_row:
            row["memory_ratio"] = row["added"] / max(1, our_row["added"])
    return report


_COLUMNS = {
    **COLUMNS,
    "added, MiB": column("added", ",.0f", MEBIBYTE),
    "memory, peer / ours": column("memory_ratio", ".2f"),
}


def uniform_length(workload: Workload) -> int:
    """The length of all sentences of a workload of one batch.

    Raises
    ------
    ConfigError
        if lengths differ, as in corpora
    """
    if workload.uniform_length is None or len(workload.batches) != 1:
        raise ConfigError(f"--lengths has {workload.name!r}; give batches of one length, 64x128 for example")
    return workload.uniform_length


class ContextProblem:
    """Random token vectors for one batch of sentences of one length.

    Parameters
    ----------
    workload : the sentences
    seed : of the vectors
    """

    def __init__(self, workload: Workload, *, seed: int = 0):
        self.workload = workload
        self.size, self.length = len(workload.lengths), uniform_length(workload)
        random = torch.Generator().manual_seed(seed)
        self.tokens = torch.randn(self.size, self.length, WIDTH, generator=random)
        self.weights = torch.randn(self.size, self.length, WIDTH, generator=random)


class ContextContender(Contender):
    """A layer in training: forward and backward down to weights and token vectors, without dropout."""

    problem = ContextProblem

    @override
    def make_job(self, problem: ContextProblem, *, backward: bool) -> Job:
        layer = self.make_layer()
        tokens = problem.tokens.clone().requires_grad_(backward)

        def run(state: Any) -> None:
            with torch.set_grad_enabled(backward):
                out = self.apply(layer, tokens, state)
            if backward:
                layer.zero_grad(set_to_none=True)
                tokens.grad = None
                out.backward(problem.weights)

        return Job(run, lambda: self.prepare(problem))

    @abstractmethod
    def make_layer(self) -> nn.Module:
        """The layer, with new weights."""

    def apply(self, layer: Any, tokens: Tensor, state: Any) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        return layer(tokens)

    def prepare(self, problem: ContextProblem) -> Any:
        """The last argument of :meth:`apply`, new in every run."""
        return None


class Tensorized(ContextContender):
    """MTSA with two heads of 300, one forward and one backward."""

    name, title, variant = OURS, "MTSA", "gated"

    @override
    def make_layer(self) -> nn.Module:
        return TensorizedAttention(WIDTH, WIDTH // 2, RELATIONS, variant=self.variant)

    @override
    def apply(self, layer: Any, tokens: Tensor, state: Any) -> Tensor:
        return layer(edges_of(state, RELATIONS), tokens.flatten(0, 1)).view_as(tokens)

    @override
    def prepare(self, problem: ContextProblem) -> Any:
        return problem.workload.graphs(TextGraphBuilder([Order()], cls=False))[0]


class TensorizedPaper(Tensorized):
    """MTSA by the equations of the paper."""

    name, title, variant = "paper", "MTSA (Eq. 5-13)", "paper"


class MultiHead(ContextContender):
    """PyTorch's multi-head attention, 8 heads of 75 as in section 4, without weights on its fast path."""

    name, title = "multihead", "nn.MultiheadAttention, 8 heads"

    @override
    def make_layer(self) -> nn.Module:
        return nn.MultiheadAttention(WIDTH, 8, batch_first=True)

    @override
    def apply(self, layer: Any, tokens: Tensor, state: Any) -> Tensor:
        return layer(tokens, tokens, tokens, need_weights=False)[0]


class DenseMultiDim(ContextContender):
    """Multi-dimensional masked self-attention with its tensor of scores (DiSA; MTSA, Eq. 6), two directions of 300."""

    name, title = "dense", "DiSA, (T, T, D) scores"

    @override
    def estimate_bytes(self, problem: ContextProblem, *, backward: bool) -> int:
        """Scores before and after tanh and softmax, and their gradients, in two directions."""
        return 4 * problem.size * problem.length**2 * (WIDTH // 2) * (10 if backward else 4)

    @override
    def make_layer(self) -> nn.Module:
        return _DirectionalAttention()


class BiLSTM(ContextContender):
    """PyTorch's bidirectional LSTM of 300 and 300."""

    name, title = "bilstm", "BiLSTM"

    @override
    def make_layer(self) -> nn.Module:
        return nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    @override
    def apply(self, layer: Any, tokens: Tensor, state: Any) -> Tensor:
        return layer(tokens)[0]


class MultiCNN(ContextContender):
    """Three padded convolutions of 3, 4 and 5 tokens, 200 filters each (Kim 2014)."""

    name, title = "cnn", "CNN, 3/4/5-grams"

    @override
    def make_layer(self) -> nn.Module:
        return nn.ModuleList(nn.Conv1d(WIDTH, WIDTH // 3, size, padding="same") for size in (3, 4, 5))

    @override
    def apply(self, layer: Any, tokens: Tensor, state: Any) -> Tensor:
        channels = tokens.transpose(1, 2)
        return torch.cat([convolution(channels) for convolution in layer], dim=1).relu().transpose(1, 2)


class _DirectionalAttention(nn.Module):
    """c tanh((W [x_i; x_j] + b) / c), a softmax for each feature, forward and backward."""

    def __init__(self, bound: float = 5.0):
        super().__init__()
        half = WIDTH // 2
        self.bound = bound
        self.value = nn.ModuleList(nn.Linear(WIDTH, half) for _ in range(2))
        self.ends = nn.ModuleList(nn.Linear(half, 2 * half) for _ in range(2))

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1])
        outputs = []
        for value, ends, earlier in zip(self.value, self.ends, (True, False), strict=True):
            v = value(tokens)
            key, query = ends(v).chunk(2, -1)
            scores = self.bound * torch.tanh((query.unsqueeze(2) + key.unsqueeze(1)) / self.bound)  # (B, T, T, D)
            hidden = positions >= positions.unsqueeze(1) if earlier else positions <= positions.unsqueeze(1)
            weights = scores.masked_fill(hidden.unsqueeze(-1), -1e9).softmax(2)
            outputs.append((weights * v.unsqueeze(1)).sum(2))
        return torch.cat(outputs, -1)


CONTENDERS = (Tensorized, TensorizedPaper, MultiHead, DenseMultiDim, BiLSTM, MultiCNN)
