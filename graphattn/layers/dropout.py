"""Dropout without a stored mask: on a CPU, both passes recompute it from a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.gradients import apply


def dropout(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Zero a share of the numbers and scale the others up.

    On a CPU, PyTorch draws a Bernoulli number for each element, which is slow, and keeps a mask. Here PyTorch's
    generator draws one seed, and a compiled kernel computes the mask from it in both passes, so that neither the mask
    nor the inputs are kept.

    Parameters
    ----------
    inputs : any shape
    probability : share of zeros, below 1
    training : otherwise the inputs are returned

    Returns
    -------
    Same shape as ``inputs``; the expectation is the input.

    Raises
    ------
    ConfigError
        when the probability is negative, or not below 1
    """
    _check(probability)
    if not training or probability == 0:
        return inputs
    if inputs.device.type != "cpu":
        return F.dropout(inputs, probability)
    wide = inputs.float() if inputs.element_size() < 4 else inputs
    out = apply(_Dropout, wide, probability, int(torch.randint(1 << 32, ())))
    return out.to(inputs.dtype)


def _check(probability: float) -> None:
    if not 0.0 <= probability < 1.0:
        raise ConfigError(f"the probability of dropout is {probability}; it must be at least 0 and below 1")


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, probability: float, seed: int) -> Tensor:
        from graphattn.backends.cpu.dropout_kernel import apply_dropout  # imports Numba: only when needed

        ctx.probability, ctx.seed = probability, seed
        return apply_dropout(inputs, probability, seed)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return apply(_Dropout, gradients[0], ctx.probability, ctx.seed), None, None


class Dropout(nn.Module):
    """:func:`dropout` as a module.

    Parameters
    ----------
    probability : share of zeros in training

    Raises
    ------
    ConfigError
        when it is negative, or not below 1
    """

    def __init__(self, probability: float):
        super().__init__()
        _check(probability)
        self.probability = probability

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        return dropout(inputs, self.probability, self.training)

    @override
    def extra_repr(self) -> str:
        return f"{self.probability}"
