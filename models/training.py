"""Training on Lightning: optimiser and schedule, the best epoch, resuming, several processes."""

from __future__ import annotations

import json
import logging
import math
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint, RichProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.multiprocessing import ProcessRaisedException
from torch.utils.data import DataLoader, Sampler

from graphattn import exceptions
from graphattn.builders import BudgetBatches
from graphattn.exceptions import ConfigError, GraphAttnError, TrainingError
from graphattn.models.batches import Batch, Corpus, Share
from graphattn.models.options import TrainingOptions
from graphattn.models.prediction import predict_corpus
from graphattn.models.run_folder import BEST, HISTORY, WholeCheckpoints, checkpoint_to_resume, run_folder, write_text
from graphattn.models.text_model import TextModel

Evaluate = Callable[[list[Any]], dict[str, float]]
"""Decisions for each sentence of the dev set -> metrics."""

_TALKATIVE = ("lightning.pytorch", "lightning.fabric")


class SharedBatches(Sampler[Share]):
    """Each process's part of every batch, so that several processes make the steps of one.

    Parameters
    ----------
    batches : the batches of all processes together
    """

    def __init__(self, batches: BudgetBatches):
        self.batches, self.rank, self.processes = batches, 0, 1
        self._of_epoch = list(batches)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of another epoch; Lightning calls this."""
        if epoch != self.batches.epoch:
            self.batches.set_epoch(epoch)
            self._of_epoch = list(self.batches)

    def __iter__(self) -> Iterator[Share]:
        for batch in self._of_epoch:
            yield Share(batch[self.rank :: self.processes], batch, self.processes)

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
    """

    def __init__(
        self,
        model: TextModel,
        options: TrainingOptions,
        loader: DataLoader[Batch],
        dev: Corpus | None,
        evaluate: Evaluate | None,
    ):
        super().__init__()
        self.model, self.options, self.loader = model, options, loader
        self.dev, self.evaluate = dev, evaluate
        self.steps = math.ceil(len(loader) / options.accumulate) * options.epochs
        self.losses: list[float] = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in a process of its own, which has to be told again to keep quiet."""
        super().__setstate__(state)
        _hush()

    def train_dataloader(self) -> DataLoader[Batch]:
        """This process's part of the epoch's batches; called for each epoch, since their number may change."""
        sampler = self.loader.sampler
        assert isinstance(sampler, SharedBatches)
        sampler.rank, sampler.processes = self.trainer.global_rank, self.trainer.world_size
        sampler.set_epoch(self.current_epoch)
        return self.loader

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw each step's dropout from its own seed: a resumed run repeats an undisturbed one bit for bit."""
        step = self.current_epoch * 1_000_003 + batch_idx
        torch.manual_seed((self.options.seed * 7_919 + step) * 64 + self.global_rank)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss, refused when it is not finite."""
        loss, _ = self.model.loss(batch)
        if not torch.isfinite(loss):
            kept = "the weights of the best epoch so far are kept" if self.current_epoch else "there is no model yet"
            raise TrainingError(
                f"the loss is {loss.item()} in epoch {self.current_epoch + 1}, batch {batch_idx + 1}; {kept}. "
                "Lower the learning rate, clip gradients, or use precision 32"
            )
        self.losses.append(float(loss.detach()))
        return loss

    def finish_epoch(self) -> dict[str, float]:
        """Measure on the dev set; the epoch's figures are logged and returned."""
        loss = torch.tensor(sum(self.losses) / len(self.losses), dtype=torch.float64, device=self.device)
        loss = self.trainer.strategy.reduce(loss, reduce_op="mean")
        row: dict[str, float] = {"epoch": self.current_epoch, "train_loss": float(loss)}
        self.losses.clear()
        if self.dev is not None and self.evaluate is not None:
            figures = self.evaluate(predict_corpus(self.model, self.dev).decisions)
            row.update({f"dev_{name}": value for name, value in figures.items()})
        self.log_dict({name: value for name, value in row.items() if name != "epoch"}, on_step=False, on_epoch=True)
        return row

    def configure_optimizers(self) -> Any:
        """Adam or AdamW; no decay on biases, norms and word vectors; warm-up, then decay.

        Adam turns even a tiny decay into full steps where no other gradient comes, as for words a batch lacks.
        """
        options = self.options
        vectors = self.model.embedding.trained
        decayed = [p for p in self.parameters() if p.requires_grad and p.dim() >= 2 and p is not vectors]
        plain = [p for p in self.parameters() if p.requires_grad and (p.dim() < 2 or p is vectors)]
        groups = [{"params": decayed, "weight_decay": options.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        kind = torch.optim.AdamW if options.optimizer == "adamw" else torch.optim.Adam
        whole = not options.strategy.startswith(("fsdp", "deepspeed"))
        optimizer = kind(groups, lr=options.learning_rate, fused=whole)  # in one pass: a ninth of the time on a CPU
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
    """Remembers the weights of the best epoch, also across a resume, and puts them back at the end.

    Parameters
    ----------
    metric : the dev metric that chooses the best epoch; None when there is no dev set and the last epoch counts
    folder : where the epochs' figures are written
    """

    def __init__(self, metric: str | None, folder: Path):
        self.metric, self.folder = metric, folder
        self.best: float | None = None
        self.weights: dict[str, Tensor] = {}
        self.rows: list[dict[str, float]] = []
        self.stopped = False

    def on_fit_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Do not go on with a run that had been stopped early."""
        trainer.should_stop = self.stopped

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Keep the weights when the metric is better than before."""
        row = pl_module.finish_epoch()
        value = None if self.metric is None else _measured(row, self.metric)
        self.rows = [*self.rows, row]
        if value is None or self.best is None or value > self.best:
            self.best = value
            self.weights = {name: p.detach().cpu().clone() for name, p in pl_module.model.state_dict().items()}
            if trainer.world_size > 1 and trainer.is_global_zero:
                save_file(self.weights, self.folder / BEST)  # for the process that started the others, should they fail
        if trainer.is_global_zero:
            write_text(self.folder / HISTORY, json.dumps({"best": self.best, "epochs": self.rows}, indent=1))

    def on_save_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Note whether this was the last epoch because of early stopping."""
        checkpoint["stopped"] = trainer.should_stop

    def on_load_checkpoint(self, trainer: pl.Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """See whether the run had been stopped early."""
        self.stopped = checkpoint["stopped"]

    def on_fit_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """Put the best weights back."""
        self.restore(pl_module.model)

    def restore(self, model: nn.Module) -> None:
        """Give a model the weights of the best epoch, if there was one."""
        if not self.weights and (self.folder / BEST).exists():
            self.weights = load_file(self.folder / BEST)
        if self.weights:
            model.load_state_dict(self.weights)

    def figures(self) -> list[dict[str, float]]:
        """The figures of all epochs, also of those that other processes worked on."""
        history = self.folder / HISTORY
        if not self.rows and history.exists():
            self.rows = json.loads(history.read_text(encoding="utf-8"))["epochs"]
        return self.rows

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"best": self.best, "weights": self.weights, "rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.best, self.weights, self.rows = state_dict["best"], state_dict["weights"], state_dict["rows"]


def _measured(row: Mapping[str, float], metric: str) -> float:
    if f"dev_{metric}" not in row:
        names = ", ".join(name.removeprefix("dev_") for name in row if name.startswith("dev_"))
        raise ConfigError(f"metric {metric!r} is not measured; choose one of: {names}")
    return row[f"dev_{metric}"]


def train(
    model: TextModel,
    corpus: Corpus,
    options: TrainingOptions,
    *,
    dev: Corpus | None = None,
    evaluate: Evaluate | None = None,
    metric: str = "accuracy",
    about: Mapping[str, Any] | None = None,
    history: list[dict[str, float]] | None = None,
) -> list[dict[str, float]]:
    """Train a model in place; it ends with the weights of the best epoch on the dev set.

    Parameters
    ----------
    model : what is trained
    corpus : training set with targets
    options : how; ``run_dir`` makes the run resumable
    dev : dev set; without one the last epoch counts
    evaluate : decisions on the dev set -> metrics; with several processes it must be picklable
    metric : the one that chooses the best epoch
    about : options of the model, name -> plain value; a run with others is not resumed
    history : a list to which the epochs are added, also when training fails

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
    history = [] if history is None else history
    loader = DataLoader(corpus, sampler=SharedBatches(_batches(corpus, options)), batch_size=None)
    module = TrainingModule(model, options, loader, dev, evaluate)
    sets = {"training set": corpus.fingerprint(), "dev set": None if dev is None else dev.fingerprint()}
    with run_folder(options) as folder, _quiet(), torch.random.fork_rng():
        checkpoint = checkpoint_to_resume(folder, options, {**(about or {}), **sets})
        keep = KeepBest(metric if dev is not None else None, folder)
        trainer = _trainer(options, folder, keep)
        try:
            with _interruptible():
                trainer.fit(module, ckpt_path=checkpoint, weights_only=True)
        except ProcessRaisedException as error:
            raise _as_raised(error) from None
        except OSError as error:
            raise TrainingError(
                f"{folder} cannot be written to ({error.strerror or error}); make room and train again, "
                "which goes on from the last checkpoint there"
            ) from error
        finally:
            keep.restore(model)
            history.extend(keep.figures())
    return history


def _batches(corpus: Corpus, options: TrainingOptions) -> BudgetBatches:
    return BudgetBatches(
        corpus.lengths,
        max_sentences=options.batch_size,
        max_tokens=options.max_tokens,
        max_edges=options.max_edges,
        edges=corpus.num_edges() if options.max_edges else None,
        seed=options.seed,
    )


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C mean here what it means elsewhere; Lightning ends the program and ignores further ones."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit:
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


def _as_raised(error: ProcessRaisedException) -> Exception:
    """An error of ours that another process raised, as if it had been raised here; any other as it came."""
    name, _, message = str(error).strip().rpartition("\n")[2].partition(": ")
    kind = getattr(exceptions, name.removeprefix(f"{exceptions.__name__}."), None)
    return kind(message) if isinstance(kind, type) and issubclass(kind, GraphAttnError) else error


def _trainer(options: TrainingOptions, folder: Path, keep: KeepBest) -> pl.Trainer:
    callbacks: list[Callback] = [keep]
    if options.patience is not None and keep.metric is not None:
        callbacks.append(
            EarlyStopping(f"dev_{keep.metric}", mode="max", patience=options.patience, check_on_train_epoch_end=True)
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
        loggers = [CSVLogger(folder / "logs", "csv"), TensorBoardLogger(str(folder), "logs", "tensorboard")]
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
        plugins=[WholeCheckpoints()],
        log_every_n_steps=10,
        enable_checkpointing=options.run_dir is not None,
        enable_progress_bar=show,
        enable_model_summary=False,
        use_distributed_sampler=False,
        reload_dataloaders_every_n_epochs=1,
        num_sanity_val_steps=0,
        default_root_dir=folder,
    )


def _strategy(options: TrainingOptions) -> str:
    """Processes of this one's making when several are asked for; forked where no script can be started anew."""
    if options.strategy != "auto" or options.nodes > 1 or options.devices == 1:
        return options.strategy
    return "ddp_notebook" if hasattr(sys, "ps1") else "ddp_spawn"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning's hints about loaders and devices to itself; errors and our own progress remain."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        _hush()
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def _hush() -> None:
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*lightning.*")
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)


def count_parameters(model: nn.Module) -> int:
    """Number of trained parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
