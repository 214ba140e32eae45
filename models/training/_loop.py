"""Training: the loop for one device, and the best epoch, resuming and Ctrl-C of every run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, cast

import torch

from graphattn._devices import find_device
from graphattn.layers._linear import forget_gradients
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._files.saving import CHECKPOINT, ModelFiles, pack_model
from graphattn.models._options import TrainingOptions
from graphattn.models._text_model import TextModel, Trainable
from graphattn.models.training._averaging import make_average
from graphattn.models.training._budget import make_batches
from graphattn.models.training._callback import AnyCallback, Callback
from graphattn.models.training._checkpoints import checkpoint_to_resume, read_checkpoint, run_folder, write_checkpoint
from graphattn.models.training._logs import Log, make_logs
from graphattn.models.training._mixture import LinearModel
from graphattn.models.training._module import BatchLoader, Measure, SharedBatches, Shares, TrainingModule
from graphattn.models.training._optimizer import clip_gradients
from graphattn.models.training._processes import ignore_launcher_rank, is_alone
from graphattn.models.training._progress import Progress
from graphattn.models.training.callbacks import CheckpointsInEpochs, KeepBest, StopEarly, shows_bar


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

    One device is trained by :class:`Loop`, several devices and callbacks of Lightning's by Lightning.
    """
    module_class, average = TrainingModule, make_average(options)
    fit: Callable[[Any, KeepBest, Sequence[Any], Path | None], None] = fit_alone
    if not is_alone(options) or not all(isinstance(callback, Callback) for callback in callbacks):
        from graphattn.models.training import _lightning

        module_class, fit = _lightning.LightningTraining, _lightning.fit_with_lightning
        callbacks = _lightning.wrap_callbacks(callbacks)
        average = None if _lightning.average_weights(callbacks) else average
    history = [] if history is None else history
    loader = BatchLoader(Shares(corpus), batch_sampler=SharedBatches(make_batches(corpus, options)), collate_fn=list)
    module = module_class(model, options, loader, dev, measure)
    sets = {"training set": corpus.fingerprint(), "dev set": None if dev is None else dev.fingerprint()}
    with ignore_launcher_rank(options), run_folder(options) as folder, torch.random.fork_rng():
        checkpoint = checkpoint_to_resume(folder, options, {**(about or {}), **sets})
        packed = None if files is None else pack_model(files, model.state_dict().keys())
        if packed is not None and linear is not None:
            packed["linear"] = linear.pack(cast(TextModel, model))
        keep = KeepBest(metric if dev is not None else None, folder, average, model=packed, first=first)
        if packed is not None and first is not None:
            keep.save_linear_model(model)
        announce()
        # this process has its rows; the folder's may be of a checkpoint that was not loaded
        list_rows: Callable[[], list[dict[str, float]]]
        list_rows = (lambda: keep.rows) if is_alone(options) else keep.read_history
        has_ended, ctrl_c = False, CtrlC()
        try:
            with ctrl_c:
                fit(module, keep, callbacks, checkpoint)
            has_ended = True
        except KeyboardInterrupt:
            rows = list_rows()
            if on_interrupt is None or not ctrl_c.pressed or not rows or options.devices * options.nodes > 1:
                raise
            has_ended = True
            on_interrupt(rows)
        finally:
            if keep.restore(model) or has_ended:  # else the folder's history is of a checkpoint that was not loaded
                history.extend(list_rows())
            model.zero_grad()
            forget_gradients()
    return history


def fit_alone(
    module: TrainingModule, keep: KeepBest, callbacks: Sequence[AnyCallback], checkpoint: Path | None
) -> None:
    """Train on one device, from a checkpoint if there is one."""
    options = module.options
    ours: list[Callback] = [] if keep.average is None else [keep.average]
    ours.append(keep)
    if options.patience is not None and keep.metric is not None:
        ours.append(StopEarly(keep, options.patience))
    if shows_bar(options):
        ours.append(Progress(keep))
    if options.run_dir is not None and options.checkpoint_minutes is not None:
        ours.append(CheckpointsInEpochs(keep.folder / CHECKPOINT, options.checkpoint_minutes))
    logs = make_logs(keep.folder) if options.run_dir is not None and options.logs else []
    loop = Loop(module, [*ours, *cast(Sequence[Callback], callbacks)], logs, find_device(options.device))
    loop.fit(checkpoint, None if options.run_dir is None else keep.folder / CHECKPOINT)


class OneProcess:
    """What callbacks ask of Lightning's strategies, where there is only one process."""

    launcher = None

    def broadcast(self, value: Any) -> Any:
        """The value that the first process has."""
        return value


class Loop:
    """Trains a module on one device, as Lightning does with the same options, bit for bit.

    To import Lightning takes longer than to train a small model. Callbacks take the loop for a ``lightning.Trainer``;
    checkpoints are those of Lightning, which can continue them.
    """

    strategy = OneProcess()
    world_size, is_global_zero = 1, True
    progress_bar_callback = None

    def __init__(self, module: TrainingModule, callbacks: list[Callback], loggers: list[Log], device: torch.device):
        assert module.options.epochs is not None
        self.module, self.callbacks, self.loggers, self.device = module, callbacks, loggers, device
        self.max_epochs, self.accumulate_grad_batches = module.options.epochs, module.options.accumulate
        self.current_epoch = 0
        self.global_step = 0
        """Steps of the optimizer so far."""
        self.num_batches_done = 0
        """Batches of this epoch so far."""
        self.num_training_batches = 0
        """Batches of this epoch."""
        self.should_stop = self.is_last_batch = False
        self.optimizer, self.schedule = module.make_optimizer()

    def fit(self, checkpoint: Path | None, save_to: Path | None) -> None:
        """Train, from a ``checkpoint`` if there is one; one is written after each epoch if ``save_to`` says where."""
        status = "failed"
        self._call("setup", "fit")
        try:
            self.module.to(self.device)
            if checkpoint is not None:
                self._load_checkpoint(checkpoint)
            self._call("on_fit_start")
            self.module.train()
            while self.current_epoch < self.max_epochs and not self.should_stop:
                self._run_epoch()
                if save_to is not None:
                    self.save_checkpoint(save_to, has_ended=True)
                self.current_epoch += 1
                self.num_batches_done = 0
            self._call("on_train_end")
            self._call("on_fit_end")
            status = "success"
        except BaseException as error:
            self._call("on_exception", error)
            raise
        finally:
            for logger in self.loggers:
                logger.finalize(status)
            self.module.to("cpu")

    def _run_epoch(self) -> None:
        module = self.module
        loader = module.start_epoch(self.current_epoch, self.num_batches_done, self.device)
        self.num_training_batches = len(loader)
        self._call("on_train_epoch_start")
        for number, batch in enumerate(loader, start=self.num_batches_done):
            self.is_last_batch = number + 1 == self.num_training_batches
            self._train_batch(batch, number)
            self.num_batches_done = number + 1
            self._call("on_train_batch_end", None, batch, number)
        self._call("on_train_epoch_end")
        for logger in self.loggers:
            logger.log_metrics(dict(self._find_row()), self.global_step - 1)
            logger.save()

    def _find_row(self) -> dict[str, float]:
        return next(callback.rows[-1] for callback in self.callbacks if isinstance(callback, KeepBest))

    def _train_batch(self, batch: list[Batch], number: int) -> None:
        """Add the gradients of a batch, and take a step if it is the last of those that one step accumulates."""
        module, options = self.module, self.module.options
        module.on_train_batch_start(batch, number)
        with self._autocast():
            loss = module.training_step(batch, number)
        if number % options.accumulate == 0:
            self.optimizer.zero_grad()
        with module.explain_memory_errors():
            (loss / options.accumulate).backward()
            if (number + 1) % options.accumulate and not self.is_last_batch:
                return
            if options.clip:
                clip_gradients(module.parameters(), options.clip)
            self.optimizer.step()
        self.schedule.step()
        self.global_step += 1

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.module.options.resolve_precision() == "32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False)

    def _call(self, hook: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, self.module, *arguments)

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save_checkpoint(self, path: Path, *, has_ended: bool = False) -> None:
        """Write a checkpoint atomically, within an epoch or after its end."""
        states = {callback.state_key: callback.state_dict() for callback in self.callbacks}
        checkpoint: dict[str, Any] = {
            "epoch": self.current_epoch,
            "global_step": self.global_step,
            "pytorch-lightning_version": version("lightning"),
            "state_dict": self.module.state_dict(),
            "loops": {"fit_loop": self._describe_progress(has_ended)},
            "callbacks": {name: state for name, state in states.items() if state},
            "optimizer_states": [self.optimizer.state_dict()],
            "lr_schedulers": [self.schedule.state_dict()],
        }
        self._call("on_save_checkpoint", checkpoint)
        self.module.on_save_checkpoint(checkpoint)
        write_checkpoint(path, checkpoint)

    def _describe_progress(self, has_ended: bool) -> dict[str, Any]:
        """How far the run is, as Lightning's loops save it."""
        epochs, steps = self.current_epoch + has_ended, self.global_step
        batch = dict.fromkeys(("ready", "started", "processed", "completed"), self.num_batches_done)
        epoch = {"ready": self.current_epoch + 1, "started": self.current_epoch + 1, "processed": epochs}
        step = {part: {"ready": steps, "completed": steps} for part in ("total", "current")}
        zero_grad = {part: {**step["total"], "started": steps} for part in ("total", "current")}
        optimizer = "epoch_loop.automatic_optimization"
        return {
            "state_dict": {},
            "epoch_progress": {part: {**epoch, "completed": self.current_epoch} for part in step},
            "epoch_loop.state_dict": {"_batches_that_stepped": steps},
            "epoch_loop.batch_progress": {"total": batch, "current": batch, "is_last_batch": has_ended},
            "epoch_loop.scheduler_progress": step,
            f"{optimizer}.state_dict": {},
            f"{optimizer}.optim_progress": {"optimizer": {"step": step, "zero_grad": zero_grad}},
            "epoch_loop.manual_optimization.state_dict": {},
            "epoch_loop.val_loop.state_dict": {},
        }

    def _load_checkpoint(self, path: Path) -> None:
        checkpoint = read_checkpoint(path, self.device)
        self.module.load_state_dict(checkpoint["state_dict"])
        self.module.on_load_checkpoint(checkpoint)
        self._call("on_load_checkpoint", checkpoint)
        for callback in self.callbacks:
            if callback.state_key in checkpoint["callbacks"]:
                callback.load_state_dict(checkpoint["callbacks"][callback.state_key])
        self.optimizer.load_state_dict(checkpoint["optimizer_states"][0])
        self.schedule.load_state_dict(checkpoint["lr_schedulers"][0])
        progress = checkpoint["loops"]["fit_loop"]
        self.global_step = checkpoint["global_step"]
        self.current_epoch = progress["epoch_progress"]["current"]["processed"]
        batches = progress["epoch_loop.batch_progress"]
        self.num_batches_done = 0 if batches["is_last_batch"] else batches["current"]["ready"]


class CtrlC:
    """Raises KeyboardInterrupt on Ctrl-C in the block; Lightning would exit the program and ignore further ones.

    ``pressed`` tells Ctrl-C from other reasons for KeyboardInterrupt, such as SIGTERM.
    """

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> CtrlC:
        self.handler = signal.getsignal(signal.SIGINT)
        if self.handler is signal.default_int_handler and current_thread() is main_thread():
            signal.signal(signal.SIGINT, self._press)
        return self

    def _press(self, number: int, frame: FrameType | None) -> None:
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
