"""Averages of the weights over many steps or epochs, which replace the noisier last weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn


class Average(Callback):
    """Base class of callbacks that keep an average of the weights."""

    @abstractmethod
    def mean(self) -> list[Tensor]:
        """The average of each trained parameter, in their order."""

    @contextmanager
    def in_place(self, model: nn.Module) -> Iterator[None]:
        """Let a model have the average for a while."""
        weights = _trained(model)
        own = [weight.detach().clone() for weight in weights]
        _copy(self.mean(), weights)
        try:
            yield
        finally:
            _copy(own, weights)


class WeightAverage(Average):
    r"""Keeps an exponential moving average of the trained weights, also across a resume.

    After step n, counted from 1, :math:`a_n = d_n a_{n-1} + (1 - d_n) w_n`, with :math:`a_0 = w_0` and
    :math:`d_n = \min(decay, (1 + n) / (10 + n))`, so that the first weights soon vanish. Unlike Lightning's
    callback it does not copy frozen word vectors.

    Parameters
    ----------
    decay : weight of the old average in a step

    Attributes
    ----------
    average : one tensor for each trained parameter, in their order
    steps : optimizer steps in the average
    """

    def __init__(self, decay: float):
        self.decay = decay
        self.average: list[Tensor] = []
        self.steps = 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Start from the current weights, or from a checkpoint."""
        weights = _trained(pl_module.model)
        start = self.average or weights
        self.average = [tensor.detach().to(w.device, copy=True) for tensor, w in zip(start, weights, strict=True)]

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Update the average if the batch ended a step."""
        if trainer.global_step == self.steps:
            return
        self.steps = trainer.global_step
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        get_ema_multi_avg_fn(decay)(self.average, _trained(pl_module.model), self.steps)

    def mean(self) -> list[Tensor]:
        """The moving average."""
        return self.average

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"average": self.average, "steps": self.steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.average, self.steps = state_dict["average"], state_dict["steps"]


class EpochAverage(Average):
    """The mean of the weights at the ends of the last epochs (Vaswani et al. 2017, section 6.1), also across a resume.

    Parameters
    ----------
    epochs : maximum number of epochs in the mean

    Attributes
    ----------
    ends : for each of these epochs the trained parameters, in their order
    """

    def __init__(self, epochs: int):
        self.epochs = epochs
        self.ends: list[list[Tensor]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Add this epoch's weights."""
        weights = [weight.detach().clone() for weight in _trained(pl_module.model)]
        self.ends = [*self.ends, weights][-self.epochs :]

    def mean(self) -> list[Tensor]:
        """The mean over the kept epochs."""
        return [torch.stack(ends).mean(0) for ends in zip(*self.ends, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"ends": self.ends}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.ends = state_dict["ends"]


def _trained(model: nn.Module) -> list[Tensor]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@torch.no_grad()
def _copy(values: list[Tensor], into: list[Tensor]) -> None:
    for value, tensor in zip(values, into, strict=True):
        tensor.copy_(value)
