"""What Lightning trains: a model with its loss, optimiser, schedule and evaluation, and its share of each batch."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from graphattn.builders import BudgetBatches
from graphattn.exceptions import DivergenceError
from graphattn.models.corpus import Batch, BatchShard, Corpus
from graphattn.models.estimators.prediction import predicted_decisions
from graphattn.models.options import TrainingOptions
from graphattn.models.text_model import Trainable

Evaluate = Callable[[list[Any]], dict[str, float]]
"""Decisions for each sentence of the dev set -> metrics."""

Decide = Callable[[Any, Any], list[Any]]
"""Model and corpus -> decisions for each of its sentences."""

_TALKATIVE = ("lightning.pytorch", "lightning.fabric")


class SharedBatches(Sampler[BatchShard]):
    """Each process's part of every batch, so that several processes make the steps of one.

    Parameters
    ----------
    batches : the batches of all processes together

    Attributes
    ----------
    done : batches of this epoch that need not be seen again, since a checkpoint was made after them
    """

    def __init__(self, batches: BudgetBatches):
        self.batches, self.rank, self.processes, self.done = batches, 0, 1, 0
        self._of_epoch = list(batches)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of another epoch; Lightning calls this."""
        if epoch != self.batches.epoch:
            self.batches.set_epoch(epoch)
            self._of_epoch = list(self.batches)

    def __iter__(self) -> Iterator[BatchShard]:
        for batch in self._of_epoch[self.done :]:
            yield BatchShard(batch[self.rank :: self.processes], batch, self.processes)

    def __len__(self) -> int:
        return len(self._of_epoch)


class TrainingModule(pl.LightningModule):
    """What Lightning trains: a model, its optimiser, and the evaluation of its decisions on the dev set.

    Parameters
    ----------
    model : what is trained
    options : how
    loader : batches of the training set, chosen by :class:`SharedBatches`
    dev, evaluate : dev set and what to measure on it; None for no dev set
    decide : how the model decides
    """

    def __init__(
        self,
        model: Trainable,
        options: TrainingOptions,
        loader: DataLoader[Batch],
        dev: Corpus | None,
        evaluate: Evaluate | None,
        decide: Decide = predicted_decisions,
    ):
        super().__init__()
        self.model, self.options, self.loader = model, options, loader
        self.dev, self.evaluate, self.decide = dev, evaluate, decide
        self.steps = math.ceil(len(loader) / options.accumulate) * options.epochs
        self.losses: list[float] = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in a process of its own, which has to be told again to keep quiet."""
        super().__setstate__(state)
        hush()

    def train_dataloader(self) -> DataLoader[Batch]:
        """This process's part of the epoch's batches; called for each epoch, since their number may change."""
        sampler = self.loader.sampler
        assert isinstance(sampler, SharedBatches)
        sampler.rank, sampler.processes = self.trainer.global_rank, self.trainer.world_size
        sampler.set_epoch(self.current_epoch)
        loop = self.trainer.fit_loop
        sampler.done = loop.epoch_loop.batch_progress.current.ready if loop.restarting else 0
        return self.loader

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the losses of the epoch so far, of which the history tells the mean."""
        checkpoint["losses"] = self.losses

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with them."""
        self.losses = checkpoint["losses"]

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw each step's dropout from its own seed: a resumed run repeats an undisturbed one bit for bit."""
        step = self.current_epoch * 1_000_003 + batch_idx
        seed = (self.options.seed * 7_919 + step) * 64 + self.global_rank
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # the same bits; `torch.manual_seed` asks for every other device
        else:
            torch.manual_seed(seed)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss, refused when it is not finite."""
        loss, _ = self.model.loss(batch)
        if not torch.isfinite(loss):
            raise self._diverged(f"the loss is {loss.item()} in epoch {self.current_epoch + 1}, batch {batch_idx + 1}")
        self.losses.append(float(loss.detach()))
        return loss * self._share(batch_idx)

    def _share(self, batch_idx: int) -> float:
        """Makes the last step of an epoch an average, too, of fewer batches; Lightning divides by ``accumulate``."""
        left = len(self.loader) % self.options.accumulate
        return self.options.accumulate / left if batch_idx >= len(self.loader) - left else 1.0

    def finish_epoch(self) -> dict[str, float]:
        """Measure on the dev set; the epoch's figures are logged and returned.

        Raises
        ------
        DivergenceError
            when the last step has left weights that are not finite, which no loss has met yet
        """
        if not all(bool(torch.isfinite(weights).all()) for weights in self.parameters()):
            raise self._diverged(f"weights are not finite after epoch {self.current_epoch + 1}")
        loss = torch.tensor(sum(self.losses) / len(self.losses), dtype=torch.float64, device=self.device)
        loss = self.trainer.strategy.reduce(loss, reduce_op="mean")
        row: dict[str, float] = {"epoch": self.current_epoch, "train_loss": float(loss)}
        self.losses.clear()
        if self.dev is not None and self.evaluate is not None:
            figures = self.evaluate(self.decide(self.model, self.dev))
            row.update({f"dev_{name}": value for name, value in figures.items()})
        self.log_dict({name: value for name, value in row.items() if name != "epoch"}, on_step=False, on_epoch=True)
        return row

    def _diverged(self, seen: str) -> DivergenceError:
        kept = (
            "the weights of the best epoch so far are kept"
            if self.current_epoch
            else "no epoch of this training has ended"
        )
        return DivergenceError(f"{seen}; {kept}. Lower the learning rate, clip gradients, or use precision 32")

    def configure_optimizers(self) -> Any:
        """Adam or AdamW; no decay on biases, norms and vectors of words, characters and classes; warm-up, then decay.

        Adam turns even a tiny decay into full steps where no other gradient comes, as for words a batch lacks.
        """
        options = self.options
        spared = {id(parameter) for parameter in _without_decay(self)} | {id(self.model.embedding.trained)}
        decayed, plain = (
            [p for p in self.parameters() if p.requires_grad and (id(p) in spared) is own] for own in (False, True)
        )
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
        whole = not options.strategy.startswith(("fsdp", "deepspeed"))
        betas = (0.9, options.beta2)
        optimizer = kind(groups, lr=options.learning_rate, betas=betas, fused=whole)  # a ninth of the time on a CPU
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.rate(step))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip by norm; Lightning itself refuses fused optimisers, for the sake of float16's scaled gradients."""
        if optimizer.defaults["fused"]:
            if gradient_clip_val:
                nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def rate(self, step: int) -> float:
        """Share of the highest learning rate at a step."""
        warmup = self.options.warmup_steps or max(1, round(self.options.warmup * self.steps))
        if step < warmup:
            return (step + 1) / warmup
        if self.options.schedule == "constant":
            return 1.0
        if self.options.schedule == "inverse-sqrt":
            return math.sqrt(warmup / (step + 1))
        done = min(1.0, (step - warmup) / max(1, self.steps - warmup))
        return 1 - done if self.options.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Leave the graph on the CPU; the model moves what it computes with."""
        return batch


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Lightning's hints about loaders and devices to itself; errors and our own progress remain."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        hush()
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def hush() -> None:
    """Keep quiet for good."""
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*lightning.*")
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)


def _without_decay(model: nn.Module) -> Iterator[nn.Parameter]:
    """Biases, which may have rows for several heads or streams, what norms learn, and vectors that are looked up."""
    for module in model.modules():
        whole = isinstance(module, nn.Embedding) or "Norm" in type(module).__name__
        for name, parameter in module.named_parameters(recurse=False):
            if whole or parameter.dim() < 2 or name.endswith("bias"):
                yield parameter
