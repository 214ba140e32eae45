"""Training by Lightning: several devices or machines, and callbacks of a user that are Lightning's."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment, find_free_network_port
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LearningRateFinder,
    ModelCheckpoint,
    ProgressBar,
    StochasticWeightAveraging,
    WeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from torch import Tensor
from torch.multiprocessing.spawn import ProcessRaisedException
from typing_extensions import override

from graphattn import exceptions
from graphattn._devices import find_device
from graphattn.exceptions import ConfigError, GraphAttnError, verbatim
from graphattn.models._corpus import Batch
from graphattn.models._files.saving import CHECKPOINT
from graphattn.models._options import TrainingOptions
from graphattn.models.training import _callback
from graphattn.models.training._checkpoints import read_checkpoint, write_checkpoint
from graphattn.models.training._module import BatchLoader, TrainingModule
from graphattn.models.training._optimizer import clip_gradients
from graphattn.models.training._processes import choose_strategy, is_launched
from graphattn.models.training._progress import Progress
from graphattn.models.training._tracker import fits_tensorboard
from graphattn.models.training.callbacks import CheckpointsInEpochs, KeepBest, StopEarly, shows_bar

LIGHTNING_PRECISIONS: dict[str, Literal["32-true", "bf16-mixed"]] = {"32": "32-true", "bf16": "bf16-mixed"}
"""Precision -> Lightning's name."""
_LOGGERS = ("lightning.pytorch", "lightning.fabric")
_HOOKS = {name for name in vars(_callback.Callback) if not name.startswith("_")}


class CallbackOfOurs(Callback):
    """One of our callbacks as one of Lightning's: its hooks, and what Lightning does where it has none."""

    def __init__(self, callback: _callback.Callback):
        self.callback = callback

    @override
    def __getattribute__(self, name: str) -> Any:
        if name in _HOOKS:
            hooks = type(self.callback)
            if name == "state_key" or getattr(hooks, name) is not getattr(_callback.Callback, name):
                return getattr(self.callback, name)
        return super().__getattribute__(name)


def wrap_callbacks(callbacks: Sequence[_callback.AnyCallback]) -> list[Callback]:
    """A user's callbacks for Lightning; a ConfigError for other objects, and for those that would change options."""
    for each in callbacks:
        if not isinstance(each, (Callback, _callback.Callback)):
            raise ConfigError(f"callbacks has {verbatim(repr(each))}; give instances of Lightning's Callback")
    wrapped = [CallbackOfOurs(each) if isinstance(each, _callback.Callback) else each for each in callbacks]
    if _has(wrapped, StochasticWeightAveraging):
        raise ConfigError(
            "StochasticWeightAveraging sets another schedule, by epoch, and the best epoch would replace its average; "
            "set {average_epochs}, or use EMAWeightAveraging",
            options=("average_epochs",),
        )
    if _has(wrapped, LearningRateFinder):
        raise ConfigError(
            "LearningRateFinder would replace the option {learning_rate}; set it, or tune it",
            options=("learning_rate",),
        )
    return wrapped


def average_weights(callbacks: Sequence[Callback]) -> bool:
    """Whether one of some callbacks averages weights."""
    return _has(callbacks, WeightAveraging)


def fit_with_lightning(
    module: LightningTraining, keep: KeepBest, callbacks: Sequence[Callback], checkpoint: Path | None
) -> None:
    """Train, from a checkpoint if there is one; the ``callbacks`` are the user's."""
    with quiet():
        trainer = _make_trainer(module.options, keep, callbacks)
        with _explain_errors(trainer, callbacks):
            trainer.fit(module, ckpt_path=checkpoint, weights_only=True)


class LightningTraining(TrainingModule, pl.LightningModule):
    """The module whose hooks Lightning calls."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore: Callable[[dict[str, Any]], None] = super().__setstate__
        restore(state)
        silence()  # this is a new process

    def __deepcopy__(self, memo: dict[int, Any]) -> LightningTraining:
        """A copy for Lightning's averaging callbacks, which shares the data: only the model is copied."""
        memo |= {id(shared): shared for shared in (self.loader, self.dev, self.measure)}
        copied = type(self).__new__(type(self))
        copied.__setstate__(deepcopy(self.__getstate__(), memo))
        return copied

    @override
    def train_dataloader(self) -> BatchLoader:
        # Lightning calls this for each epoch, as the number of batches may change
        trainer, loop = self.trainer, self.trainer.fit_loop
        done = loop.epoch_loop.batch_progress.current.ready if loop.restarting else 0
        where = {"rank": trainer.global_rank, "processes": trainer.world_size}
        return self.start_epoch(self.current_epoch, done, self.device, **where)

    @override
    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        with self.explain_memory_errors():
            super().backward(loss, *args, **kwargs)

    @override
    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        with self.explain_memory_errors():
            super().optimizer_step(*args, **kwargs)

    @override
    def finish_epoch(self) -> dict[str, float]:
        row = super().finish_epoch()
        self.log_dict({name: float(value) for name, value in row.items()}, on_step=False, on_epoch=True)
        return row

    @override
    def average_over_processes(self, value: float) -> float:
        values = torch.tensor(value, dtype=torch.float64, device=self.device)
        return float(self.trainer.strategy.reduce(values, reduce_op="mean"))

    @override
    @contextmanager
    def swap_in_averages(self) -> Iterator[None]:
        trainer: Any = self.trainer
        averages = [callback for callback in trainer.callbacks if isinstance(callback, WeightAveraging)]
        for average in averages:  # as in Lightning's own validation
            average.on_validation_epoch_start(trainer, self)
        try:
            yield
        finally:
            for average in averages:
                average.on_validation_epoch_end(trainer, self)

    @override
    def configure_optimizers(self) -> Any:
        optimizer, schedule = self.make_optimizer()
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    @override
    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        # Lightning rejects fused optimizers because of float16's scaled gradients
        if optimizer.defaults["fused"]:
            if gradient_clip_val:
                clip_gradients(self.parameters(), gradient_clip_val)
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    @override
    def transfer_batch_to_device(self, batch: list[Batch], device: torch.device, dataloader_idx: int) -> list[Batch]:
        return batch  # the loader has copied it to a GPU


def _make_callbacks(options: TrainingOptions, keep: KeepBest, others: Sequence[Callback]) -> list[Callback]:
    """Our callbacks, and the user's ``others`` after them; callbacks that average weights come first."""
    averages: list[Callback] = [callback for callback in others if isinstance(callback, WeightAveraging)]
    if keep.average is not None:
        averages = [CallbackOfOurs(keep.average)]
    callbacks = [*averages, CallbackOfOurs(keep)]
    if options.patience is not None and keep.metric is not None:
        monitor = f"dev_{keep.metric}"
        if not any(isinstance(callback, EarlyStopping) and callback.monitor == monitor for callback in others):
            callbacks.append(CallbackOfOurs(StopEarly(keep, options.patience)))
    if shows_bar(options) and not _has(others, ProgressBar):
        callbacks.append(CallbackOfOurs(Progress(keep)))
    if options.run_dir is not None:
        callbacks.append(
            ModelCheckpoint(keep.folder, filename="last", enable_version_counter=False, save_on_train_epoch_end=True)
        )
        if options.checkpoint_minutes is not None:
            callbacks.append(CallbackOfOurs(CheckpointsInEpochs(keep.folder / CHECKPOINT, options.checkpoint_minutes)))
    return [*callbacks, *(callback for callback in others if not isinstance(callback, WeightAveraging))]


def _make_trainer(options: TrainingOptions, keep: KeepBest, others: Sequence[Callback]) -> pl.Trainer:
    callbacks, device = _make_callbacks(options, keep, others), find_device(options.device)
    loggers: list[Logger] = []
    if options.run_dir is not None and options.logs:
        loggers = [CSVLogger(keep.folder / "logs", "csv")]
        if find_spec("tensorboard") and fits_tensorboard(keep.folder):
            loggers.append(TensorBoardLogger(str(keep.folder), "logs", "tensorboard"))
    precision = LIGHTNING_PRECISIONS[options.resolve_precision()]
    try:
        return pl.Trainer(
            accelerator=device.type,
            devices=options.devices if device.index is None or options.devices > 1 else [device.index],
            num_nodes=options.nodes,
            strategy=choose_strategy(options),
            precision=precision,
            max_epochs=options.epochs,
            accumulate_grad_batches=options.accumulate,
            gradient_clip_val=options.clip,
            callbacks=callbacks,
            logger=loggers or False,
            plugins=[AtomicCheckpointIO(), *([] if is_launched(options) else [OwnProcesses()])],
            log_every_n_steps=10,
            enable_checkpointing=_has(callbacks, Checkpoint),
            enable_progress_bar=_has(callbacks, ProgressBar),
            enable_model_summary=False,
            use_distributed_sampler=False,
            reload_dataloaders_every_n_epochs=1,
            num_sanity_val_steps=0,
            default_root_dir=keep.folder,
        )
    except (MisconfigurationException, RuntimeError, ValueError, ImportError) as error:
        reason = ", or the callbacks do not fit each other" if others else ""
        raise ConfigError(
            f"{{device}}, {{devices}}, {{nodes}} or {{strategy}} do not fit this machine{reason}: {error}",
            options=("device", "devices", "nodes", "strategy"),
        ) from None


def _has(callbacks: Sequence[Callback], callback_type: type[Callback]) -> bool:
    return any(isinstance(callback, callback_type) for callback in callbacks)


@contextmanager
def _explain_errors(trainer: pl.Trainer, callbacks: Sequence[Callback]) -> Iterator[None]:
    """Raise our errors from other processes, and ConfigError for callbacks that do not fit."""
    try:
        yield
    except ProcessRaisedException as error:
        raise unwrap_error(error) from None
    except MisconfigurationException as error:
        hint = "" if trainer.loggers else " A logger needs {run_dir} and {logs}."
        raise ConfigError(f"a callback does not fit: {error}{hint}", options=("run_dir", "logs")) from error
    except RuntimeError:
        metrics = trainer.callback_metrics
        monitored = [callback.monitor for callback in callbacks if isinstance(callback, EarlyStopping)]
        missing = [name for name in monitored if name not in metrics]
        if not metrics or not missing:
            raise
        raise ConfigError(f"EarlyStopping monitors {missing[0]!r}; there are: {', '.join(metrics)}") from None


def unwrap_error(error: ProcessRaisedException) -> Exception:
    """The GraphAttnError that another process raised; other errors unchanged."""
    name, _, message = str(error).strip().rpartition("\n")[2].partition(": ")
    error_class = getattr(exceptions, name.removeprefix(f"{exceptions.__name__}."), None)
    return error_class(message) if isinstance(error_class, type) and issubclass(error_class, GraphAttnError) else error


class OwnProcesses(LightningEnvironment):
    """Processes that a run starts itself, on one machine: no variable of a launcher counts.

    Lightning numbers them by ``LOCAL_RANK``, which it sets in the processes that it forks or spawns.
    """

    def __init__(self) -> None:
        super().__init__()
        self._first = os.getpid()

    @property
    @override
    def creates_processes_externally(self) -> bool:
        return False

    @property
    @override
    def main_address(self) -> str:
        return "127.0.0.1"

    @property
    @override
    def main_port(self) -> int:
        if self._main_port == -1:
            self._main_port = find_free_network_port()
        return self._main_port

    @override
    def local_rank(self) -> int:
        return 0 if os.getpid() == self._first else super().local_rank()

    @override
    def node_rank(self) -> int:
        return 0

    @override
    def teardown(self) -> None:
        """Keep the variables of others."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write checkpoints atomically.

    Lightning writes to the system's temporary folder and moves the file, which is not atomic across file systems.
    """

    @override
    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_checkpoint(Path(path), checkpoint)

    @override
    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        return read_checkpoint(Path(path), map_location)


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
