"""Training on Lightning: optimiser and schedule, the best epoch, resuming, several processes."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from graphattn.builders import BudgetBatches
from graphattn.exceptions import ConfigError, TrainingError
from graphattn.models.batches import Batch, Corpus, Share
from graphattn.models.options import TrainingOptions
from graphattn.models.prediction import predict_corpus
from graphattn.models.text_model import TextModel

Evaluate = Callable[[list[Any]], dict[str, float]]
"""Decisions for each sentence of the dev set -> metrics."""


class SharedBatches(Sampler[Share]):
    """Each process's part of every batch, so that several processes make the steps of one.

    Parameters
    ----------
    batches : the batches of all processes together
    """

    def __init__(self, batches: BudgetBatches):
        self.batches, self.rank, self.processes = batches, 0, 1

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of another epoch; Lightning calls this."""
        self.batches.set_epoch(epoch)

    def __iter__(self) -> Iterator[Share]:
        for batch in self.batches:
            yield Share(batch[self.rank :: self.processes], batch, self.processes)

    def __len__(self) -> int:
        return len(self.batches)


class TrainingModule(pl.LightningModule):
    """What Lightning trains: a model, its optimiser, and the evaluation of its decisions on the dev set.

    Parameters
    ----------
    model : what is trained
    options : how
    steps : optimiser steps in all
    dev, evaluate : dev set and what to measure on it; None for no dev set
    metric : the dev metric that chooses the best epoch
    """

    def __init__(
        self,
        model: TextModel,
        options: TrainingOptions,
        steps: int,
        dev: Corpus | None,
        evaluate: Evaluate | None,
        metric: str,
    ):
        super().__init__()
        self.model, self.options, self.steps = model, options, steps
        self.dev, self.evaluate, self.metric = dev, evaluate, metric
        self.losses: list[float] = []

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw each step's dropout from its own seed: a resumed run repeats an undisturbed one bit for bit."""
        step = self.current_epoch * 1_000_003 + batch_idx
        torch.manual_seed((self.options.seed * 7_919 + step) * 64 + self.global_rank)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss, refused when it is not finite."""
        loss, _ = self.model.loss(batch)
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss is {loss.item()} in epoch {self.current_epoch + 1}, batch {batch_idx + 1}; the weights of "
                "the best epoch so far are kept. Lower the learning rate, clip gradients, or use precision 32"
            )
        self.losses.append(float(loss.detach()))
        return loss

    def finish_epoch(self) -> dict[str, float]:
        """Measure on the dev set; the epoch's figures are logged and returned."""
        row: dict[str, float] = {"epoch": self.current_epoch, "train_loss": sum(self.losses) / len(self.losses)}
        self.losses.clear()
        if self.dev is not None and self.evaluate is not None:
            figures = self.evaluate(predict_corpus(self.model, self.dev).decisions)
            row.update({f"dev_{name}": value for name, value in figures.items()})
        self.log_dict({name: value for name, value in row.items() if name != "epoch"}, on_step=False, on_epoch=True)
        return row

    def configure_optimizers(self) -> Any:
        """Adam or AdamW; no decay on biases and norms; warm-up, then decay."""
        options = self.options
        decayed = [p for p in self.parameters() if p.requires_grad and p.dim() >= 2]
        plain = [p for p in self.parameters() if p.requires_grad and p.dim() < 2]
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
        optimizer = kind(groups, lr=options.learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: self.rate(step))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def rate(self, step: int) -> float:
        """Share of the highest learning rate at a step."""
        warmup = max(1, round(self.options.warmup * self.steps))
        if step < warmup:
            return (step + 1) / warmup
        if self.options.schedule == "constant":
            return 1.0
        done = min(1.0, (step - warmup) / max(1, self.steps - warmup))
        return 1 - done if self.options.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * done))

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        """Leave the graph on the CPU; the model moves what it computes with."""
        return batch


class KeepBest(Callback):
    """Remembers the weights of the best epoch, also across a resume, and puts them back at the end."""

    def __init__(self, metric: str, history: Path):
        self.metric, self.history = metric, history
        self.best: float | None = None
        self.weights: dict[str, Tensor] = {}
        self.rows: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Keep the weights when the metric is better than before."""
        row = pl_module.finish_epoch()
        self.rows = [*self.rows, row]
        value = row.get(self.metric)
        if value is None or self.best is None or value > self.best:
            self.best = value
            self.weights = {name: p.detach().cpu().clone() for name, p in pl_module.model.state_dict().items()}
        if trainer.is_global_zero:
            write_text(self.history, json.dumps({"best": self.best, "epochs": self.rows}, indent=1))

    def on_fit_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Put the best weights back."""
        if self.weights:
            pl_module.model.load_state_dict(self.weights)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self.best, "weights": self.weights, "rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.best, self.weights, self.rows = state_dict["best"], state_dict["weights"], state_dict["rows"]


class ShareBatches(Callback):
    """Tells the sampler which of the processes it works for, once Lightning knows."""

    def __init__(self, sampler: SharedBatches):
        self.sampler = sampler

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Set rank and number of processes."""
        self.sampler.rank, self.sampler.processes = trainer.global_rank, trainer.world_size


def train(
    model: TextModel,
    corpus: Corpus,
    options: TrainingOptions,
    *,
    dev: Corpus | None = None,
    evaluate: Evaluate | None = None,
    metric: str = "accuracy",
) -> list[dict[str, float]]:
    """Train a model in place; it ends with the weights of the best epoch on the dev set.

    Parameters
    ----------
    model : what is trained
    corpus : training set with targets
    options : how; ``run_dir`` makes the run resumable
    dev : dev set; without one the last epoch counts
    evaluate : decisions on the dev set -> metrics
    metric : the one that chooses the best epoch

    Returns
    -------
    One dictionary for each epoch: ``epoch``, ``train_loss``, ``dev_...``.

    Raises
    ------
    TrainingError
        when the loss is no longer finite; the model then has the weights of the best epoch so far
    ConfigError
        when options are impossible, or ``run_dir`` holds a run with other options
    """
    options.check()
    batches = BudgetBatches(
        corpus.lengths,
        max_sentences=options.batch_size,
        max_tokens=options.max_tokens,
        max_edges=options.max_edges,
        edges=corpus.num_edges() if options.max_edges else None,
        seed=options.seed,
    )
    sampler = SharedBatches(batches)
    steps = math.ceil(len(batches) / options.accumulate) * options.epochs
    module = TrainingModule(model, options, steps, dev, evaluate, metric)
    loader = DataLoader(corpus, sampler=sampler, batch_size=None)
    with _run_folder(options) as folder, _quiet(), torch.random.fork_rng():
        keep = KeepBest(f"dev_{metric}", folder / "history.json")
        checkpoint = _checkpoint_to_resume(folder, options)
        trainer = _trainer(options, folder, [keep, ShareBatches(sampler)], metric if dev is not None else None)
        on_interrupt = signal.getsignal(signal.SIGINT)
        try:
            trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=True)
        except TrainingError:
            if keep.weights:
                model.load_state_dict(keep.weights)
            raise
        except OSError as error:
            raise TrainingError(
                f"{folder} cannot be written to ({error.strerror or error}); make room and train again, "
                "which goes on from the last checkpoint there"
            ) from error
        except SystemExit:  # Lightning's answer to Ctrl-C, and it leaves the signal ignored
            signal.signal(signal.SIGINT, on_interrupt)
            raise KeyboardInterrupt from None
        return json.loads((folder / "history.json").read_text())["epochs"]


def _trainer(options: TrainingOptions, folder: Path, callbacks: list[Callback], metric: str | None) -> pl.Trainer:
    if options.patience is not None and metric is not None:
        callbacks.append(
            EarlyStopping(f"dev_{metric}", mode="max", patience=options.patience, check_on_train_epoch_end=True)
        )
    show = options.progress and sys.stderr.isatty()
    if show:
        callbacks.append(RichProgressBar())
    if options.run_dir is not None:
        callbacks.append(
            ModelCheckpoint(folder, filename="last", enable_version_counter=False, save_on_train_epoch_end=True)
        )
    loggers = []
    if options.run_dir is not None and options.logs:
        loggers = [CSVLogger(folder, "logs", "csv"), TensorBoardLogger(str(folder), "logs", "tensorboard")]
    return pl.Trainer(
        accelerator=options.accelerator,
        devices=options.devices,
        num_nodes=options.nodes,
        strategy=_strategy(options),
        precision="bf16-mixed" if options.precision == "bf16" else "32-true",
        max_epochs=options.epochs,
        accumulate_grad_batches=options.accumulate,
        gradient_clip_val=options.clip,
        callbacks=callbacks,
        logger=loggers or False,
        log_every_n_steps=10,
        enable_checkpointing=options.run_dir is not None,
        enable_progress_bar=show,
        enable_model_summary=False,
        use_distributed_sampler=False,
        num_sanity_val_steps=0,
        default_root_dir=folder,
    )


def _strategy(options: TrainingOptions) -> str:
    """Processes of this one's making when several are asked for, so that calls from a notebook work too."""
    several = options.devices * options.nodes > 1
    return "ddp_spawn" if several and options.strategy == "auto" and options.nodes == 1 else options.strategy


@contextmanager
def _run_folder(options: TrainingOptions) -> Iterator[Path]:
    if options.run_dir is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
        return
    folder_path = Path(options.run_dir)
    folder_path.mkdir(parents=True, exist_ok=True)
    yield folder_path


def _checkpoint_to_resume(folder: Path, options: TrainingOptions) -> str | None:
    """The checkpoint of an earlier run with the same options; a run with others is refused, not overwritten."""
    if options.run_dir is None:
        return None
    described, checkpoint = folder / "training.json", folder / "last.ckpt"
    own = {name: value for name, value in options.to_dict().items() if name not in ("resume", "progress", "run_dir")}
    if checkpoint.exists() and not options.resume:
        checkpoint.unlink()
    if checkpoint.exists() and described.exists():
        earlier = json.loads(described.read_text())
        changed = sorted(name for name in own if earlier.get(name) != own[name])
        if changed:
            raise ConfigError(
                f"{folder} holds a run with another {changed[0]}: "
                f"{earlier.get(changed[0])!r}, now {own[changed[0]]!r}. "
                "Give another run_dir, the same options to resume, or resume=False to start anew"
            )
    write_text(described, json.dumps(own, indent=1))
    return str(checkpoint) if checkpoint.exists() else None


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning's hints about loaders and devices to itself; errors and our own progress remain."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning")
        warnings.filterwarnings("ignore", message=".*lightning.*")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def write_text(path: Path, text: str) -> None:
    """Write beside, then rename: the file is never half-written."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def count_parameters(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
