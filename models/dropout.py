"""Dropout whose random bits are cheap on a CPU, where drawing one Bernoulli number each costs more than the layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_STEPS = 1 << 16


def dropout(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Zero a share of the numbers and scale the others up; from PyTorch's generator, four numbers from each 64 bits.

    Parameters
    ----------
    inputs : any shape
    probability : share of zeros, on a CPU to the nearest of 65,536 steps
    training : otherwise the inputs pass through

    Returns
    -------
    Same shape as ``inputs``; the expectation is the input.
    """
    if not training or probability == 0:
        return inputs
    if inputs.device.type != "cpu":
        return F.dropout(inputs, probability)
    lost = round(probability * _STEPS)
    words = torch.empty((inputs.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    numbers = words.view(torch.int16)[: inputs.numel()].view(inputs.shape)
    kept = numbers >= lost - _STEPS // 2
    return inputs * kept.to(inputs.dtype).mul_(_STEPS / (_STEPS - lost))


class Dropout(nn.Module):
    """:func:`dropout` as a module.

    Parameters
    ----------
    probability : share of zeros in training
    """

    def __init__(self, probability: float):
        super().__init__()
        self.probability = probability

    def forward(self, inputs: Tensor) -> Tensor:
        """Same shape as the inputs."""
        return dropout(inputs, self.probability, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"{self.probability}"
