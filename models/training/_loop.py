"""Training with Lightning: best epoch, early stopping, resuming, several processes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any, Literal, cast

import lightning.pytorch as pl
import torch
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
from torch.multiprocessing.spawn import ProcessRaisedException

from graphattn import exceptions
from graphattn._devices import find_device
from graphattn.exceptions import ConfigError, GraphAttnError
from graphattn.layers._linear import forget_gradients
from graphattn.models._corpus import Corpus
from graphattn.models._files.saving import CHECKPOINT, ModelFiles, pack_model
from graphattn.models._options import TrainingOptions
from graphattn.models._text_model import TextModel, Trainable
from graphattn.models.training._averaging import Average, EpochAverage, WeightAverage
from graphattn.models.training._budget import make_batches
from graphattn.models.training._callback import AnyCallback
from graphattn.models.training._callback import Callback as OurCallback
from graphattn.models.training._checkpoints import checkpoint_to_resume, run_folder
from graphattn.models.training._lightning import AtomicCheckpointIO, CallbackOfOurs, OwnProcesses, Progress, StopEarly
from graphattn.models.training._mixture import LinearModel
from graphattn.models.training._module import (
    BatchLoader,
    Measure,
    SharedBatches,
    Shares,
    TrainingModule,
    quiet,
)
from graphattn.models.training._processes import choose_strategy, ignore_launcher_rank, is_launched
from graphattn.models.training._tracker import fits_tensorboard
from graphattn.models.training.callbacks import CheckpointsInEpochs, KeepBest, shows_bar

LIGHTNING_PRECISIONS: dict[str, Literal["32-true", "bf16-mixed"]] = {"32": "32-true", "bf16": "bf16-mixed"}
"""Precision -> Lightning's name."""


def train(
    model: Trainable,
    corpus: Corpus,
    options: TrainingOptions,
    *,
    dev: Corpus | None = None,
    measure: Measure | None = None,
    metric: str = "accuracy",
    about: Mapping[str, Any] | None = None,
    files: ModelFiles | None = None,
    linear: LinearModel | None = None,
    first: dict[str, float] | None = None,
    announce: Callable[[], None] = lambda: None,
    history: list[dict[str, float]] | None = None,
    callbacks: Sequence[AnyCallback] = (),
    on_interrupt: Callable[[list[dict[str, float]]], None] | None = None,
) -> list[dict[str, float]]:
    """Train a model in place and load the weights of the best epoch on the dev set.

    ``measure`` gives the figures of the dev set; it is picklable for several processes. ``about`` are options of the
    model that must be equal to resume a run, ``files`` those of the model at the start, for checkpoints of which the
    best epoch can be loaded. Epochs are appended to ``history``, also if training fails: ``epoch`` (from 1),
    ``train_loss``, ``dev_...``. The user's ``callbacks`` are called after ours; those that average weights before.

    A ``linear`` model is there before the first epoch: ``first`` is its row of the history, and ``announce`` is called
    once the folder of the run has it. ``on_interrupt`` is called with the history when Ctrl-C ends training after
    something that can be kept; without it, KeyboardInterrupt is raised.
    """
    others = [CallbackOfOurs(each) if isinstance(each, OurCallback) else each for each in callbacks]
    _reject_callbacks(others)
    history = [] if history is None else history
    loader = BatchLoader(Shares(corpus), batch_sampler=SharedBatches(make_batches(corpus, options)), collate_fn=list)
    module = TrainingModule(model, options, loader, dev, measure)
    sets = {"training set": corpus.fingerprint(), "dev set": None if dev is None else dev.fingerprint()}
    with ignore_launcher_rank(options), run_folder(options) as folder, quiet(), torch.random.fork_rng():
        checkpoint = checkpoint_to_resume(folder, options, {**(about or {}), **sets})
        average = None if _has(others, WeightAveraging) else _make_average(options)
        packed = None if files is None else pack_model(files, model.state_dict().keys())
        if packed is not None and linear is not None:
            packed["linear"] = linear.pack(cast(TextModel, model))
        keep = KeepBest(metric if dev is not None else None, folder, average, model=packed, first=first)
        if packed is not None and first is not None:
            keep.save_linear_model(model)
        announce()
        trainer = _make_trainer(options, folder, keep, others)
        has_ended, ctrl_c = False, _CtrlC()
        try:
            with _explain_errors(trainer, others), ctrl_c:
                trainer.fit(module, ckpt_path=checkpoint, weights_only=True)
            has_ended = True
        except KeyboardInterrupt:
            rows = keep.read_history()
            if on_interrupt is None or not ctrl_c.pressed or not rows or trainer.world_size > 1:
                raise
            has_ended = True
            on_interrupt(rows)
        finally:
            if keep.restore(model) or has_ended:  # else the folder's history is of a checkpoint that was not loaded
                history.extend(keep.read_history())
            model.zero_grad()
            forget_gradients()
    return history


def _reject_callbacks(callbacks: Sequence[Callback]) -> None:
    """Reject callbacks that would change options."""
    if _has(callbacks, StochasticWeightAveraging):
        raise ConfigError(
            "StochasticWeightAveraging sets another schedule, by epoch, and the best epoch would replace its average; "
            "set {average_epochs}, or use EMAWeightAveraging",
            options=("average_epochs",),
        )
    if _has(callbacks, LearningRateFinder):
        raise ConfigError(
            "LearningRateFinder would replace the option {learning_rate}; set it, or tune it",
            options=("learning_rate",),
        )


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


class _CtrlC:
    """Raises KeyboardInterrupt on Ctrl-C in the block; Lightning would exit the program and ignore further ones.

    ``pressed`` tells Ctrl-C from other reasons for KeyboardInterrupt, such as SIGTERM.
    """

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> _CtrlC:
        self.handler = signal.getsignal(signal.SIGINT)
        if self.handler is signal.default_int_handler and current_thread() is main_thread():
            signal.signal(signal.SIGINT, self._press)
        return self

    def _press(self, number: int, frame: Any) -> None:
        self.pressed = True
        signal.signal(signal.SIGINT, self.handler)
        raise KeyboardInterrupt

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, self.handler)
        if isinstance(error, SystemExit) or (isinstance(error, Exception) and _follows_ctrl_c(error)):
            raise KeyboardInterrupt from None


def _follows_ctrl_c(error: BaseException) -> bool:
    """Whether an error was raised while Lightning cleaned up after Ctrl-C."""
    before = error.__context__
    return before is not None and (isinstance(before, KeyboardInterrupt) or _follows_ctrl_c(before))


def unwrap_error(error: ProcessRaisedException) -> Exception:
    """The GraphAttnError that another process raised; other errors unchanged."""
    name, _, message = str(error).strip().rpartition("\n")[2].partition(": ")
    error_class = getattr(exceptions, name.removeprefix(f"{exceptions.__name__}."), None)
    return error_class(message) if isinstance(error_class, type) and issubclass(error_class, GraphAttnError) else error


def _make_average(options: TrainingOptions) -> Average | None:
    if options.average_epochs is not None:
        return EpochAverage(options.average_epochs)
    return None if options.average is None else WeightAverage(options.average)


def _make_callbacks(
    options: TrainingOptions, folder: Path, keep: KeepBest, others: Sequence[Callback]
) -> list[Callback]:
    """Our callbacks, and the user's ``others`` after them; callbacks that average weights come first."""
    averages: list[Callback] = [callback for callback in others if isinstance(callback, WeightAveraging)]
    if keep.average is not None:
        averages = [CallbackOfOurs(keep.average)]
    callbacks = [*averages, CallbackOfOurs(keep)]
    if options.patience is not None and keep.metric is not None:
        monitor = f"dev_{keep.metric}"
        if not any(isinstance(callback, EarlyStopping) and callback.monitor == monitor for callback in others):
            stop = StopEarly(monitor, mode="max", patience=options.patience, check_on_train_epoch_end=True)
            if keep.best is not None:
                stop.best_score = torch.tensor(keep.best)
            callbacks.append(stop)
    if shows_bar(options) and not _has(others, ProgressBar):
        callbacks.append(Progress(keep.metric))
    if options.run_dir is not None:
        callbacks.append(
            ModelCheckpoint(folder, filename="last", enable_version_counter=False, save_on_train_epoch_end=True)
        )
        if options.checkpoint_minutes is not None:
            callbacks.append(CallbackOfOurs(CheckpointsInEpochs(folder / CHECKPOINT, options.checkpoint_minutes)))
    return [*callbacks, *(callback for callback in others if not isinstance(callback, WeightAveraging))]


def _make_trainer(options: TrainingOptions, folder: Path, keep: KeepBest, others: Sequence[Callback]) -> pl.Trainer:
    callbacks, device = _make_callbacks(options, folder, keep, others), find_device(options.device)
    loggers: list[Logger] = []
    if options.run_dir is not None and options.logs:
        loggers = [CSVLogger(folder / "logs", "csv")]
        if find_spec("tensorboard") and fits_tensorboard(folder):
            loggers.append(TensorBoardLogger(str(folder), "logs", "tensorboard"))
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
            default_root_dir=folder,
        )
    except (MisconfigurationException, RuntimeError, ValueError, ImportError) as error:
        reason = ", or the callbacks do not fit each other" if others else ""
        raise ConfigError(
            f"{{device}}, {{devices}}, {{nodes}} or {{strategy}} do not fit this machine{reason}: {error}",
            options=("device", "devices", "nodes", "strategy"),
        ) from None


def _has(callbacks: Sequence[Callback], callback_type: type[Callback]) -> bool:
    return any(isinstance(callback, callback_type) for callback in callbacks)
