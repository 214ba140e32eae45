"""The mean of the weights of many steps or epochs: less noisy than the last, and measured and kept in their place."""

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
    """What has an average of a model's trained weights."""

    @abstractmethod
    def mean(self) -> list[Tensor]:
        """One tensor for each trained parameter, in their order."""

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
    :math:`d_n = \min(decay, (1 + n) / (10 + n))`, so that it is soon rid of the first weights. Unlike Lightning's own
    callback it has no copy of the word vectors that are not trained.

    Parameters
    ----------
    decay : share of the average that stays in a step

    Attributes
    ----------
    average : one tensor for each trained parameter, in their order
    steps : steps of the optimiser that are in it
    """

    def __init__(self, decay: float):
        self.decay = decay
        self.average: list[Tensor] = []
        self.steps = 0

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Begin with the weights as they are, or go on from a checkpoint."""
        weights = _trained(pl_module.model)
        begun = self.average or weights
        self.average = [own.detach().to(w.device, copy=True) for own, w in zip(begun, weights, strict=True)]

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Take in the new weights, when the batch ended a step."""
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
    epochs : how many at most; the first epochs have fewer before them

    Attributes
    ----------
    ends : for each of these epochs one tensor for each trained parameter, in their order
    """

    def __init__(self, epochs: int):
        self.epochs = epochs
        self.ends: list[list[Tensor]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Take in this epoch's weights."""
        ended = [weight.detach().clone() for weight in _trained(pl_module.model)]
        self.ends = [*self.ends, ended][-self.epochs :]

    def mean(self) -> list[Tensor]:
        """Of all that are kept."""
        return [torch.stack(own).mean(0) for own in zip(*self.ends, strict=True)]

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
