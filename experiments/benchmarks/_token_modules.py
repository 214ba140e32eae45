"""Contenders that are PyTorch modules from token vectors to token vectors: layers and whole encoders.

Letters: N tokens, B sentences, T tokens of the longest one, C features of a token.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.experiments.benchmarks._contenders import Contender, Job, Problem
from graphattn.experiments.benchmarks._workloads import Lengths, Workload
from graphattn.models._padding import pad

LEARNING_RATE = 1e-4


class TokenProblem(Problem):
    """Random token vectors for a workload, and the weights of a loss that depends on every number of the output."""

    def __init__(self, workload: Workload, width: int):
        super().__init__(workload)
        random = torch.Generator().manual_seed(0)
        sizes = [(sum(batch), width) for batch in workload.batches]
        self.tokens, self.weights = ([torch.randn(size, generator=random) for size in sizes] for _ in range(2))


class ModuleContender(Contender):
    """A module over all batches: inference, or a training step; without dropout.

    A training step is forward, backward down to the token vectors, and a step of the optimizer for each batch.
    """

    infers_under_autocast: ClassVar[bool] = True
    """In bfloat16; otherwise weights and inputs of inference are bfloat16."""

    @override
    def make_job(self, problem: TokenProblem, *, backward: bool) -> Job:
        placement = problem.placement
        is_cast = placement.in_bfloat16 and not (backward or self.infers_under_autocast)
        dtype = placement.dtype if is_cast else torch.float32
        autocast = nullcontext if is_cast else placement.autocast
        module = self.make_module(problem).train(backward).to(placement.device, dtype)
        prepare = self.prepare(problem, module)
        batches = problem.workload.batches
        inputs = [
            self.to_layout(*pair).clone().to(placement.device, dtype).requires_grad_(backward)
            for pair in zip(problem.tokens, batches, strict=True)
        ]

        def infer(contexts: Sequence[Any]) -> list[Tensor]:
            with torch.inference_mode(), autocast():
                return [self.apply(module, tokens, context) for tokens, context in zip(inputs, contexts, strict=True)]

        if not backward:
            return Job(infer, prepare)
        weights = [self.to_layout(*pair).to(placement.device) for pair in zip(problem.weights, batches, strict=True)]
        optimizer = self.make_optimizer(module)

        def train(contexts: Sequence[Any]) -> None:
            for tokens, weight, context in zip(inputs, weights, contexts, strict=True):
                with autocast():
                    output = self.apply(module, tokens, context)
                self.backward(output, weight)
                tokens.grad = None
                if optimizer is not None:
                    optimizer.step()
                module.zero_grad(set_to_none=True)

        return Job(train, prepare)

    @abstractmethod
    def make_module(self, problem: Any) -> nn.Module:
        """The module, with new weights."""

    def to_layout(self, flat: Tensor, lengths: Lengths) -> Tensor:
        """Pad (N, C) to (B, T, C)."""
        return pad(flat, torch.tensor(lengths))

    def prepare(self, problem: Any, module: Any) -> Callable[[], Sequence[Any]]:
        """A function that makes the context of each batch before each run: its graph or its mask."""
        contexts = [None] * len(problem.workload.batches)
        return lambda: contexts

    def apply(self, module: Any, tokens: Tensor, context: Any) -> Tensor:
        """Run the module on a batch."""
        return module(tokens)

    def backward(self, output: Tensor, weight: Tensor) -> None:
        """Compute the loss and all gradients."""
        (output * weight).mean().backward()

    def make_optimizer(self, module: nn.Module) -> torch.optim.Optimizer | None:
        """The optimizer of a training step; None for gradients only."""
        return torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, fused=True)


class GraphContender(ModuleContender):
    """A module on graphs and flat tokens (N, C); every run gets new graphs, whose construction is not timed."""

    @override
    def to_layout(self, flat: Tensor, lengths: Lengths) -> Tensor:
        return flat

    @override
    def prepare(self, problem: Any, module: Any) -> Callable[[], Sequence[Any]]:
        return lambda: self.build_graphs(problem, module)

    @abstractmethod
    def build_graphs(self, problem: Any, module: Any) -> list[Any]:
        """New graphs of the batches."""

    @override
    def apply(self, module: Any, tokens: Tensor, context: Any) -> Tensor:
        return module(context, tokens)
