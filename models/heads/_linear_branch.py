"""Base of the linear branches next to a graph encoder."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.models._corpus import Batch


class LinearBranch(nn.Module):
    """A linear model on sparse features, whose scores are added to those of the head.

    It stays on the CPU when the model moves to a GPU, which would wait for the number of features of each batch.
    """

    weights: Tensor
    """(features, classes)"""
    bias: Tensor
    """(classes,)"""

    def __init__(self, features: int, classes: int):
        super().__init__()
        self.register_buffer("weights", torch.zeros(features, classes))
        self.register_buffer("bias", torch.zeros(classes))

    @classmethod
    @abstractmethod
    def like(cls, state: Mapping[str, Tensor]) -> Self:
        """A branch of the shape of a saved one, whose ``state_dict`` it takes."""

    @abstractmethod
    def forward(self, batch: Batch, presence: Tensor | None = None) -> Tensor:
        """(items, classes) scores.

        ``presence`` is the (N,) share of each token, from 0 (its features are missing) to 1; all 1 when None. The
        scores of texts are a linear function of it, those of pairs a polynomial, so attributions can divide them among
        tokens.
        """

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(lambda tensor: fn(tensor).cpu(), recurse)  # type: ignore[no-untyped-call]
        return self

    def scale(self, factor: float) -> None:
        """Multiply all scores by a factor."""
        self.weights.mul_(factor)
        self.bias.mul_(factor)
