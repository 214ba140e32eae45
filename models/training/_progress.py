"""The progress bar of a training run."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from typing_extensions import override

from graphattn.models.training._callback import Callback
from graphattn.models.training.callbacks import KeepBest, TimeLeft, describe_duration


class Progress(Callback):
    """A progress bar with the loss and the dev metric of the last epoch, and the time left; epochs count from 1."""

    def __init__(self, keep: KeepBest):
        self.keep, self.left, self.metrics = keep, TimeLeft(), ""
        self.bar: Bar | None = None  # made by the process that shows it

    @override
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.is_global_zero:
            return
        name = f"Epoch {trainer.current_epoch + 1}/{trainer.max_epochs}"
        batches = int(trainer.num_training_batches)
        if self.bar is None:
            columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "{task.fields[metrics]}")
            self.bar = Bar("{task.description}", *columns, console=Console(stderr=True))
            self.bar.add_task(name, total=batches, metrics="")
            self.bar.start()
        else:
            self.bar.reset(self.bar.task_ids[0], total=batches, description=name)

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.left.add_batch()
        seconds = self.left.estimate(trainer, pl_module, batch_idx)
        left = "" if seconds is None else f" left: at most {describe_duration(seconds)}"
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=batch_idx + 1, metrics=f"{self.metrics}{left}")

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        row = self.keep.rows[-1]
        names = (name for name in ("train_loss", f"dev_{self.keep.metric}") if name in row)
        self.metrics = " ".join(f"{name}: {row[name]:.3f}" for name in names)

    @override
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._stop()

    @override
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._stop()

    def _stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
