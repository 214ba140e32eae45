"""The steps of training a model: losses, gradients and evaluation, and its batches, for one process or several."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler
from typing_extensions import override

from graphattn._devices import explain_memory_errors, prefetch_map
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
        return prefetch_map(self._load, cast(SharedBatches, self.batch_sampler), self.device)

    def _load(self, shards: list[Share]) -> list[Batch]:
        return [self.dataset[shard].prefetch(self.device) for shard in shards]


class TrainingModule(nn.Module):
    """A model, its optimizer, and its figures on the dev set.

    ``loader`` has batches of the training set, from :class:`SharedBatches`. ``measure`` gives the figures of the dev
    set, if there is one. Methods that Lightning calls, too, have the names of its hooks.
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
        self.epoch = 0
        """Of the current batches, from 0."""
        self.losses: list[float] = []
        """Of this epoch's batches."""
        self.unread: list[tuple[int, Tensor]] = []
        """Number and loss of the latest batches, which are still on the GPU."""
        self.batch_size = ""
        """Texts and tokens of the latest batch, for errors."""

    def start_epoch(
        self, epoch: int, done: int, device: torch.device, *, rank: int = 0, processes: int = 1
    ) -> BatchLoader:
        """The batches of an epoch, without those that were ``done`` before the checkpoint."""
        sampler = self.loader.batch_sampler
        assert isinstance(sampler, SharedBatches)
        sampler.max_tokens = MOST_CPU_TOKENS if device.type == "cpu" else None
        sampler.rank, sampler.processes = rank, processes
        sampler.set_epoch(epoch)
        sampler.done = done
        self.epoch, self.loader.device = epoch, device
        return self.loader

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add this epoch's losses, for their mean in the history."""
        self._read_losses()
        checkpoint["losses"] = self.losses

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Read what was added to a checkpoint."""
        self.losses = checkpoint["losses"]

    def on_train_batch_start(self, batch: list[Batch], batch_idx: int) -> None:
        """Seed the dropout of each step, so that a resumed run equals an uninterrupted one bit for bit."""
        texts, tokens = sum(shard.size for shard in batch), sum(shard.graph.num_nodes() for shard in batch)
        self.batch_size = f"batch {batch_idx + 1} of epoch {self.epoch + 1} ({texts:,} texts, {tokens:,} tokens)"
        step = self.epoch * 1_000_003 + batch_idx
        seed = (self.options.seed * 7_919 + step) * 64 + cast(SharedBatches, self.loader.batch_sampler).rank
        if self.loader.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed also seeds all devices
        else:
            torch.manual_seed(seed)

    def training_step(self, batch: list[Batch], batch_idx: int) -> Tensor:
        """The loss of a batch, whose gradients may have been computed already."""
        with self.explain_memory_errors():
            loss = self._sum_losses(batch)
        self.unread.append((batch_idx + 1, loss.detach()))
        if self.loader.device.type == "cpu" or len(self.unread) >= MOST_UNREAD:
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
                raise self._divergence_error(f"the loss is {loss} in epoch {self.epoch + 1}, batch {number}")
            self.losses.append(loss)

    def explain_memory_errors(self) -> AbstractContextManager[None]:
        """Raise an error that says what to change where memory is short."""
        fix = "Lower {batch_size} or {max_tokens} and raise {accumulate}, or give {device=cpu}"
        return explain_memory_errors(self.batch_size, fix, ("batch_size", "max_tokens", "accumulate", "device"))

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
                with torch.autocast(self.loader.device.type, enabled=False):
                    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                summed = [_add(*pair) for pair in zip(summed, gradients, strict=True)]
                total += float(loss.detach())
        for number, parameter in enumerate(parameters):
            if id(parameter) in of_tables:
                summed[number] = _add(of_tables.pop(id(parameter)).to(parameter.dtype), summed[number])
        return apply(_HandOver, loss.new_tensor(total), summed, *parameters)

    def _scale_last_step(self, batch_idx: int) -> float:
        """Factor for the last, shorter accumulation of an epoch; each batch is divided by ``accumulate``."""
        left = len(self.loader) % self.options.accumulate
        return self.options.accumulate / left if batch_idx >= len(self.loader) - left else 1.0

    def finish_epoch(self) -> dict[str, float]:
        """The epoch's loss and figures of the dev set. A DivergenceError: weights are not finite."""
        self._read_losses()
        sums = torch.stack([weights.detach().sum(dtype=torch.float32) for weights in self.parameters()])
        if not sums.isfinite().all():  # ten times as fast as to look at each weight
            raise self._divergence_error(f"weights are not finite after epoch {self.epoch + 1}")
        loss = self.average_over_processes(sum(self.losses) / len(self.losses))
        row: dict[str, float] = {"epoch": self.epoch + 1, "train_loss": loss}  # the logs count epochs from 1, too
        self.losses.clear()
        if self.dev is not None and self.measure is not None:
            row |= self.measure(self.model, self.dev)
        return row

    def average_over_processes(self, value: float) -> float:
        """The mean of a value that each process has."""
        return value

    def swap_in_averages(self) -> AbstractContextManager[None]:
        """Replace the weights by averages that the trainer keeps, if any, inside the block."""
        return nullcontext()

    def _divergence_error(self, problem: str) -> DivergenceError:
        kept = "the weights of the best epoch so far are kept" if self.epoch else "no epoch has ended"
        return DivergenceError(
            f"{problem}; {kept}. Lower {{learning_rate}} or {{clip}}, or set {{precision=32}}",
            options=("learning_rate", "clip", "precision"),
        )

    def make_optimizer(self) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
        """The optimizer, and the schedule of its rates, which counts steps."""
        optimizer = make_optimizer(self.model, self.model.learning_rates, self.options)
        rate = partial(relative_rate, steps=self.steps, options=self.options)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


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
