"""The Lightning module: loss, optimizer, schedule and evaluation of a model, and batches for several processes."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from functools import partial
from typing import Any, cast

import lightning.pytorch as pl
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler
from typing_extensions import override

from graphattn._devices import explain_memory_errors, map_ahead
from graphattn._gradients import Function, apply
from graphattn.builders import BudgetBatches
from graphattn.exceptions import DivergenceError
from graphattn.layers._linear import sum_embedding_gradients
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._options import TrainingOptions
from graphattn.models._text_model import Trainable
from graphattn.models.training._optimizer import make_optimizer, relative_rate

Measure = Callable[[Any, Corpus], dict[str, float]]
"""Model and dev set -> figures of the history."""

_LOGGERS = ("lightning.pytorch", "lightning.fabric")


MOST_UNREAD = 64
"""Losses that stay on a GPU: it would wait for each that is read."""
MOST_CPU_TOKENS = 4096
"""Tokens whose gradients are computed together on a CPU: more need more memory, and do not fit the caches."""


Share = tuple[list[int], list[int], int]
"""Numbers of a process's texts of a batch, numbers of the whole batch, and the number of processes."""


class Shares(Dataset[Batch]):
    """A corpus as a data set of shares."""

    def __init__(self, corpus: Corpus):
        self.corpus = corpus

    @override
    def __getitem__(self, share: Share) -> Batch:
        numbers, whole, processes = share
        return self.corpus.batch(numbers, whole=whole, processes=processes)

    def __len__(self) -> int:
        return len(self.corpus)


class SharedBatches(Sampler[list[Share]]):
    """Distribute each batch over all processes, so that several take the same steps as one.

    A process computes the gradients of its part in turn for shards of about ``max_tokens`` tokens.

    ``done`` is the number of this epoch's batches before the checkpoint. If ``max_tokens`` is None, a process computes
    the gradients of its part at once.
    """

    max_tokens: int | None = None

    def __init__(self, batches: BudgetBatches):
        self.batches, self.rank, self.processes, self.done = batches, 0, 1, 0
        self._epoch_batches = list(batches)

    def set_epoch(self, epoch: int) -> None:
        """Shuffle for another epoch; Lightning calls this."""
        if epoch != self.batches.epoch:
            self.batches.set_epoch(epoch)
            self._epoch_batches = list(self.batches)

    @override
    def __iter__(self) -> Iterator[list[Share]]:
        for batch in self._epoch_batches[self.done :]:
            shards = self._split(batch[self.rank :: self.processes])
            yield [(shard, batch, self.processes) for shard in shards]

    def _split(self, sentences: list[int]) -> list[list[int]]:
        """Split into runs of about equally many tokens."""
        ends = np.cumsum(self.batches.tokens[sentences])
        shards = 1 if self.max_tokens is None or not sentences else math.ceil(ends[-1] / self.max_tokens)
        if shards <= 1:  # 0 for texts without tokens
            return [sentences]
        starts = np.flatnonzero(np.diff((ends - 1) * shards // ends[-1])) + 1
        return [shard.tolist() for shard in np.split(np.array(sentences), starts)]

    def __len__(self) -> int:
        return len(self._epoch_batches)


class BatchLoader(DataLoader[Any]):
    """Collates the batches of a training set; for a GPU, the next one while one is computed."""

    device = torch.device("cpu")

    @override
    def __iter__(self) -> Iterator[list[Batch]]:  # type: ignore[override]
        if self.device.type == "cpu":
            return super().__iter__()
        return map_ahead(self._load, cast(SharedBatches, self.batch_sampler), self.device)

    def _load(self, shards: list[Share]) -> list[Batch]:
        return [self.dataset[shard].copy_ahead(self.device) for shard in shards]


class TrainingModule(pl.LightningModule):
    """A model, its optimizer, and its figures on the dev set.

    ``loader`` has batches of the training set, from :class:`SharedBatches`. ``measure`` gives the figures of the dev
    set, if there is one.
    """

    def __init__(
        self,
        model: Trainable,
        options: TrainingOptions,
        loader: BatchLoader,
        dev: Corpus | None,
        measure: Measure | None,
    ):
        super().__init__()
        self.model, self.options, self.loader = model, options, loader
        self.dev, self.measure = dev, measure
        assert options.epochs is not None
        self.steps = math.ceil(len(loader) / options.accumulate) * options.epochs
        self.losses: list[float] = []
        """Of this epoch's batches."""
        self.unread: list[tuple[int, Tensor]] = []
        """Number and loss of the latest batches, which are still on the GPU."""
        self.batch_size = ""
        """Texts and tokens of the latest batch, for errors."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore: Callable[[dict[str, Any]], None] = super().__setstate__
        restore(state)
        silence()  # this is a new process

    def __deepcopy__(self, memo: dict[int, Any]) -> TrainingModule:
        """A copy for Lightning's averaging callbacks, which shares the data: only the model is copied."""
        memo |= {id(shared): shared for shared in (self.loader, self.dev, self.measure)}
        copied = type(self).__new__(type(self))
        copied.__setstate__(deepcopy(self.__getstate__(), memo))
        return copied

    @override
    def train_dataloader(self) -> BatchLoader:
        # Lightning calls this for each epoch, as the number of batches may change
        sampler = self.loader.batch_sampler
        assert isinstance(sampler, SharedBatches)
        sampler.max_tokens = MOST_CPU_TOKENS if self.device.type == "cpu" else None
        sampler.rank, sampler.processes = self.trainer.global_rank, self.trainer.world_size
        sampler.set_epoch(self.current_epoch)
        loop = self.trainer.fit_loop
        sampler.done = loop.epoch_loop.batch_progress.current.ready if loop.restarting else 0
        self.loader.device = self.device
        return self.loader

    @override
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._read_losses()
        checkpoint["losses"] = self.losses  # for the mean in the history

    @override
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.losses = checkpoint["losses"]

    @override
    def on_train_batch_start(self, batch: list[Batch], batch_idx: int) -> None:
        texts, tokens = sum(shard.size for shard in batch), sum(shard.graph.num_nodes() for shard in batch)
        self.batch_size = (
            f"batch {batch_idx + 1} of epoch {self.current_epoch + 1} ({texts:,} texts, {tokens:,} tokens)"
        )
        # seed each step's dropout, so that a resumed run equals an uninterrupted one bit for bit
        step = self.current_epoch * 1_000_003 + batch_idx
        seed = (self.options.seed * 7_919 + step) * 64 + self.global_rank
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed also seeds all devices
        else:
            torch.manual_seed(seed)

    @override
    def training_step(self, batch: list[Batch], batch_idx: int) -> Tensor:
        with self._explain_memory_errors():
            loss = self._sum_losses(batch)
        self.unread.append((batch_idx + 1, loss.detach()))
        if self.device.type == "cpu" or len(self.unread) >= MOST_UNREAD:
            self._read_losses()
        return loss * self._scale_last_step(batch_idx)

    def _read_losses(self) -> None:
        """Wait for the losses that are still on the GPU; a DivergenceError says that one is not finite."""
        if not self.unread:
            return
        numbers, losses = zip(*self.unread, strict=True)
        self.unread = []
        for number, loss in zip(numbers, torch.stack(losses).tolist(), strict=True):
            if not math.isfinite(loss):
                raise self._divergence_error(f"the loss is {loss} in epoch {self.current_epoch + 1}, batch {number}")
            self.losses.append(loss)

    def _explain_memory_errors(self) -> AbstractContextManager[None]:
        fix = "Lower {batch_size} or {max_tokens} and raise {accumulate}, or give {device=cpu}"
        return explain_memory_errors(self.batch_size, fix, ("batch_size", "max_tokens", "accumulate", "device"))

    @override
    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        with self._explain_memory_errors():
            super().backward(loss, *args, **kwargs)

    @override
    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        with self._explain_memory_errors():
            super().optimizer_step(*args, **kwargs)

    def _sum_losses(self, shards: list[Batch]) -> Tensor:
        """The loss of all shards. Gradients of several are computed here, which frees the activations of each."""
        if len(shards) == 1:
            loss, _ = self.model.loss(shards[0])
            return loss
        parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
        summed: list[Tensor | None] = [None] * len(parameters)
        total = 0.0
        with sum_embedding_gradients(parameters) as of_tables:
            for shard in shards:
                loss, _ = self.model.loss(shard)
                with torch.autocast(self.device.type, enabled=False):
                    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                summed = [_add(*pair) for pair in zip(summed, gradients, strict=True)]
                total += float(loss.detach())
        for number, parameter in enumerate(parameters):
            if id(parameter) in of_tables:
                summed[number] = _add(of_tables.pop(id(parameter)).to(parameter.dtype), summed[number])
        return apply(_HandOver, loss.new_tensor(total), summed, *parameters)

    def _scale_last_step(self, batch_idx: int) -> float:
        """Factor for the last, shorter accumulation of an epoch; Lightning always divides by ``accumulate``."""
        left = len(self.loader) % self.options.accumulate
        return self.options.accumulate / left if batch_idx >= len(self.loader) - left else 1.0

    def finish_epoch(self) -> dict[str, float]:
        """Evaluate on the dev set; log and return the epoch's metrics. A DivergenceError: weights are not finite."""
        self._read_losses()
        sums = torch.stack([weights.detach().sum(dtype=torch.float32) for weights in self.parameters()])
        if not sums.isfinite().all():  # ten times as fast as to look at each weight
            raise self._divergence_error(f"weights are not finite after epoch {self.current_epoch + 1}")
        loss = torch.tensor(sum(self.losses) / len(self.losses), dtype=torch.float64, device=self.device)
        loss = self.trainer.strategy.reduce(loss, reduce_op="mean")
        row: dict[str, float] = {"epoch": self.current_epoch + 1, "train_loss": float(loss)}
        self.losses.clear()
        if self.dev is not None and self.measure is not None:
            row |= self.measure(self.model, self.dev)
        figures = {name: float(value) for name, value in row.items()}  # the logs count epochs from 1, too
        self.log_dict(figures, on_step=False, on_epoch=True)
        return row

    def _divergence_error(self, problem: str) -> DivergenceError:
        kept = "the weights of the best epoch so far are kept" if self.current_epoch else "no epoch has ended"
        return DivergenceError(
            f"{problem}; {kept}. Lower {{learning_rate}} or {{clip}}, or set {{precision=32}}",
            options=("learning_rate", "clip", "precision"),
        )

    @override
    def configure_optimizers(self) -> Any:
        optimizer = make_optimizer(self.model, self.model.learning_rates, self.options)
        rate = partial(relative_rate, steps=self.steps, options=self.options)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @override
    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        # Lightning rejects fused optimizers because of float16's scaled gradients
        if optimizer.defaults["fused"]:
            if gradient_clip_val:
                nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    @override
    def transfer_batch_to_device(self, batch: list[Batch], device: torch.device, dataloader_idx: int) -> list[Batch]:
        return batch  # the loader has copied it to a GPU


def _add(total: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    """Add to a sum in place; the first gradient is copied, as several parameters may share its memory."""
    if total is None or gradient is None:
        return total if gradient is None else gradient.clone()
    return total.add_(gradient)


class _HandOver(Function):
    """A loss whose gradients have been computed already."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: list[Tensor | None], *parameters: Tensor) -> Tensor:
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        factor = gradients[0].item()
        summed, ctx.gradients = ctx.gradients, []  # autograd copies what others refer to
        if factor != 1:
            summed = [None if total is None else total.mul_(factor) for total in summed]
        return None, None, *summed


@contextmanager
def quiet() -> Iterator[None]:
    """Silence Lightning's hints about loaders and devices, but not its errors."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        silence()
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def silence() -> None:
    """Silence Lightning's messages for the rest of the process."""
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*lightning.*")
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
