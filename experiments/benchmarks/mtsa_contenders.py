"""Who fuses context: one layer each, 600 wide, over the same random token vectors (MTSA, Figure 1 and section 4).

Letters: B sentences, T tokens, C = 600 features, D = 300 of a head.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from graphattn.builders import Order, TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.experiments.benchmarks.clock import Job
from graphattn.experiments.benchmarks.contenders import OURS, Contender
from graphattn.experiments.benchmarks.workloads import Workload
from graphattn.layers.multi_scale import edges_of
from graphattn.layers.tensorized import TensorizedAttention

WIDTH = 600
RELATIONS = {"forward": 1, "backward": 1}


def the_length(workload: Workload) -> int:
    """The length of all sentences of a workload of one batch.

    Raises
    ------
    ConfigError
        when lengths differ, as they do in corpora
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

    Raises
    ------
    ConfigError
        when lengths differ, as they do in corpora
    """

    def __init__(self, workload: Workload, *, seed: int = 0):
        self.workload = workload
        self.size, self.length = len(workload.lengths), the_length(workload)
        random = torch.Generator().manual_seed(seed)
        self.tokens = torch.randn(self.size, self.length, WIDTH, generator=random)
        self.weights = torch.randn(self.size, self.length, WIDTH, generator=random)


class ContextContender(Contender[ContextProblem]):
    """A layer in training: forward and backward down to weights and token vectors, without dropout."""

    def job(self, problem: ContextProblem, *, backward: bool) -> Job:
        """Forward, and backward when asked; ours makes its edges from a new graph in every run."""
        layer = self.layer()
        tokens = problem.tokens.clone().requires_grad_(backward)

        def run(made: Any) -> None:
            with torch.set_grad_enabled(backward):
                out = self.fused(layer, tokens, made)
            if backward:
                layer.zero_grad(set_to_none=True)
                tokens.grad = None
                out.backward(problem.weights)

        return Job(run, lambda: self.made(problem))

    @abstractmethod
    def layer(self) -> nn.Module:
        """The layer with fresh weights."""

    def fused(self, layer: Any, tokens: Tensor, made: Any) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        return layer(tokens)

    def made(self, problem: ContextProblem) -> Any:
        """What is new in every run."""
        return None


class Tensorized(ContextContender):
    """MTSA as its numbers of parameters tell: two heads of 300."""

    name, title, variant = OURS, "MTSA", "gated"

    def layer(self) -> nn.Module:
        """Half of the heads look forward, half backward."""
        return TensorizedAttention(WIDTH, WIDTH // 2, RELATIONS, variant=self.variant)

    def fused(self, layer: Any, tokens: Tensor, made: Any) -> Tensor:
        """All tokens in one flat run, sentence after sentence."""
        edges = edges_of(made, RELATIONS)
        return layer(edges, tokens.flatten(0, 1)).view_as(tokens)

    def made(self, problem: ContextProblem) -> Any:
        """A new graph."""
        return problem.workload.graphs(TextGraphBuilder([Order()], cls=False))[0]


class TensorizedPaper(Tensorized):
    """MTSA as its equations say."""

    name, title, variant = "paper", "MTSA (Eq. 5-13)", "paper"


class MultiHead(ContextContender):
    """Multi-head attention of 8 heads, PyTorch's own."""

    name, title = "multihead", "nn.MultiheadAttention, 8 heads"

    def layer(self) -> nn.Module:
        """Eight heads of 75, as in section 4."""
        return nn.MultiheadAttention(WIDTH, 8, batch_first=True)

    def fused(self, layer: Any, tokens: Tensor, made: Any) -> Tensor:
        """Without weights, on its fast path."""
        return layer(tokens, tokens, tokens, need_weights=False)[0]


class DenseMultiDim(ContextContender):
    """Multi-dimensional masked self-attention with its tensor of scores (DiSA; MTSA, Eq. 6)."""

    name, title = "dense", "DiSA, (T, T, D) scores"

    def needs(self, problem: ContextProblem, *, backward: bool) -> int:
        """Scores before and after tanh and softmax, and their gradients, in two directions."""
        return 4 * problem.size * problem.length**2 * (WIDTH // 2) * (10 if backward else 4)

    def layer(self) -> nn.Module:
        """Two directions of 300."""
        return _DirectionalAttention()


class BiLSTM(ContextContender):
    """A bidirectional LSTM of 300 and 300."""

    name, title = "bilstm", "BiLSTM"

    def layer(self) -> nn.Module:
        """PyTorch's own."""
        return nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    def fused(self, layer: Any, tokens: Tensor, made: Any) -> Tensor:
        """The states of both directions."""
        return layer(tokens)[0]


class MultiCNN(ContextContender):
    """Three convolutions of 3, 4 and 5 tokens, 200 filters each (Kim 2014)."""

    name, title = "cnn", "CNN, 3/4/5-grams"

    def layer(self) -> nn.Module:
        """Padded so that every token has an output."""
        return nn.ModuleList(nn.Conv1d(WIDTH, WIDTH // 3, size, padding="same") for size in (3, 4, 5))

    def fused(self, layer: Any, tokens: Tensor, made: Any) -> Tensor:
        """The three side by side."""
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
        place = torch.arange(tokens.shape[1])
        outputs = []
        for value, ends, earlier in zip(self.value, self.ends, (True, False), strict=True):
            v = value(tokens)
            key, query = ends(v).chunk(2, -1)
            scores = self.bound * torch.tanh((query.unsqueeze(2) + key.unsqueeze(1)) / self.bound)  # (B, T, T, D)
            hidden = place >= place.unsqueeze(1) if earlier else place <= place.unsqueeze(1)
            weights = scores.masked_fill(hidden.unsqueeze(-1), -1e9).softmax(2)
            outputs.append((weights * v.unsqueeze(1)).sum(2))
        return torch.cat(outputs, -1)


CONTENDERS: tuple[type[Contender[ContextProblem]], ...] = (
    Tensorized,
    TensorizedPaper,
    MultiHead,
    DenseMultiDim,
    BiLSTM,
    MultiCNN,
)
"""Ours first."""
