"""Averages of the weights over steps or epochs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn
from typing_extensions import override

from graphattn.models._options import TrainingOptions
from graphattn.models.training._callback import Callback


class Average(Callback):
    """Base class of callbacks that keep an average of the weights."""

    @abstractmethod
    def mean(self) -> list[Tensor]:
        """The average of each trained parameter, in their order."""

    @contextmanager
    def swap_in(self, model: nn.Module) -> Iterator[None]:
        """Replace a model's weights by the average inside the block."""
        weights = _trainable(model)
        saved = [weight.detach().clone() for weight in weights]
        _copy(self.mean(), weights)
        try:
            yield
        finally:
            _copy(saved, weights)


class WeightAverage(Average):
    r"""An exponential moving average of the trained weights, also across a resume.

    After step n, counted from 1, :math:`a_n = d_n a_{n-1} + (1 - d_n) w_n`, with :math:`a_0 = w_0` and
    :math:`d_n = \min(decay, (1 + n) / (10 + n))`, so that the initial weights soon vanish. Unlike Lightning's
    callback it does not copy frozen word vectors.
    """

    def __init__(self, decay: float):
        self.decay = decay
        self.average: list[Tensor] = []  # one for each trained parameter, in their order
        self.steps = 0

    def start(self, model: nn.Module) -> None:
        """Begin with a model's weights, or continue with the average, on the model's device."""
        weights = _trainable(model)
        start = self.average or weights
        self.average = [tensor.detach().to(w.device, copy=True) for tensor, w in zip(start, weights, strict=True)]

    def update(self, model: nn.Module) -> None:
        """Add the weights after a step."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        get_ema_multi_avg_fn(decay)(self.average, _trainable(model), self.steps)

    @override
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        self.start(pl_module.model)

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step > self.steps:  # otherwise gradients are still accumulated
            self.update(pl_module.model)

    @override
    def mean(self) -> list[Tensor]:
        return self.average

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"average": self.average, "steps": self.steps}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.average, self.steps = state_dict["average"], state_dict["steps"]


class EpochAverage(Average):
    """The mean of the weights after the last epochs (Vaswani et al. 2017, section 6.1), also across a resume."""

    def __init__(self, epochs: int):
        self.epochs = epochs
        self.ends: list[list[Tensor]] = []  # the trained parameters after each of these epochs

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        weights = [weight.detach().clone() for weight in _trainable(pl_module.model)]
        self.ends = [*self.ends, weights][-self.epochs :]

    @override
    def mean(self) -> list[Tensor]:
        return [torch.stack(ends).mean(0) for ends in zip(*self.ends, strict=True)]

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"ends": self.ends}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.ends = state_dict["ends"]


def make_average(options: TrainingOptions) -> Average | None:
    """The average that options ask for."""
    if options.average_epochs is not None:
        return EpochAverage(options.average_epochs)
    return None if options.average is None else WeightAverage(options.average)


def _trainable(model: nn.Module) -> list[Tensor]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@torch.no_grad()
def _copy(values: list[Tensor], into: list[Tensor]) -> None:
    for value, tensor in zip(values, into, strict=True):
        tensor.copy_(value)
