"""Dropout without a stored mask: on a CPU, both passes recompute it from a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._gradients import Function, apply
from graphattn._precision import at_least_float32
from graphattn._transforms import operator
from graphattn._validation import require_range


def dropout(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Zero a share of the numbers and scale the others up, so that the expectation is the input.

    On a CPU, PyTorch draws a Bernoulli number for each element, which is slow, and keeps a mask. Here PyTorch's
    generator draws one seed, from which a compiled kernel computes the mask in both passes; neither mask
    nor inputs are kept.
    """
    return _drop(inputs, probability) if training and probability else inputs  # without a break in compiled code


@operator
def _drop(inputs: Tensor, probability: float) -> Tensor:
    if inputs.device.type != "cpu":
        return F.dropout(inputs, probability)
    out = apply(_DropoutFunction, at_least_float32(inputs), probability, int(torch.randint(1 << 32, ())))
    return out.to(inputs.dtype)


class _DropoutFunction(Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, probability: float, seed: int) -> Tensor:
        from graphattn._backends.cpu.dropout_kernel import apply_dropout  # imports Numba: only when needed

        ctx.probability, ctx.seed = probability, seed
        return apply_dropout(inputs, probability, seed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return apply(_DropoutFunction, gradients[0], ctx.probability, ctx.seed), None, None


class Dropout(nn.Module):
    """:func:`dropout` as a module; the probability is the share of zeros in training."""

    def __init__(self, probability: float):
        super().__init__()
        require_range("dropout", probability, min=0, below=1)
        self.probability = probability

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, self.probability, self.training)

    @override
    def extra_repr(self) -> str:
        return f"{self.probability}"


def make_dropouts(residual: float, inner: float | None) -> tuple[Dropout, Dropout]:
    """Dropout on outputs of sub-layers, and inside a feed-forward layer, there ``residual`` when ``inner`` is None."""
    return Dropout(residual), Dropout(residual if inner is None else inner)
