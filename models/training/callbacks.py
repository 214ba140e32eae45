"""Callbacks of the training loop: the best epoch, checkpoints, and what is shown on standard error."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor, nn
from typing_extensions import override

from graphattn.builders._atomic import atomic_file, read_sealed, write_text, write_with_checksum
from graphattn.builders._regular_files import NAMES, read_text
from graphattn.models._files.saving import KEEP_BEST, LINEAR, PACKED
from graphattn.models._options import TrainingOptions
from graphattn.models.training._averaging import Average
from graphattn.models.training._callback import AnyCallback, Callback, find_callback
from graphattn.models.training._checkpoints import BEST, HISTORY, write_checkpoint
from graphattn.models.training._processes import is_first_process
from graphattn.models.training._tracker import Tracker as Tracker

_TIMED_BATCHES, _TIMED_SECONDS, _WORTH_SAYING, _LONG = 10, 1.0, 60.0, 300.0
"""Batches and seconds before the time of a run is estimated; the shortest time that is shown, and the shortest for
which a faster way is named."""
_PREDICTION = 1 / 3
"""Time to predict a token, relative to a training step."""


class KeepBest(Callback):
    """Keep the weights of the best epoch, also across a resume, and restore them at the end.

    ``metric`` is the dev metric that chooses the best epoch; without one, the last epoch is kept. The ``average``, if
    any, is evaluated and kept instead of the weights, and so are those of Lightning's callbacks. ``model`` are the
    other files of the model, for checkpoints, see ``pack_model``. ``first`` is the row of a linear model, with
    which the history, ``rows``, begins; ``best`` is the best value of the metric.
    """

    def __init__(
        self,
        metric: str | None,
        folder: Path,
        average: Average | None = None,
        *,
        model: Mapping[str, Any] | None = None,
        first: dict[str, float] | None = None,
    ):
        self.metric, self.folder, self.average, self.model = metric, folder, average, model
        self.rows = [] if first is None else [first]
        self.best = None if first is None or metric is None else first[f"dev_{metric}"]
        self.kept = first
        """The row of the best epoch."""
        self.weights: dict[str, Tensor] = {}
        self.stopped = False

    @property
    @override
    def state_key(self) -> str:
        return KEEP_BEST

    @override
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.should_stop = self.stopped  # do not continue a run that stopped early

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        ours = nullcontext() if self.average is None else self.average.swap_in(pl_module.model)
        with pl_module.swap_in_averages(), ours:
            self._finish_epoch(trainer, pl_module)

    def _finish_epoch(self, trainer: Any, pl_module: Any) -> None:
        """Keep the weights unless an earlier epoch has a better metric; ties go to the latest epoch."""
        row = pl_module.finish_epoch()
        value = None if self.metric is None else row[f"dev_{self.metric}"]
        self.rows = [*self.rows, row]
        if value is None or self.best is None or value >= self.best:
            self.best, self.kept = value, row
            self.weights = {name: p.detach().cpu().clone() for name, p in pl_module.model.state_dict().items()}
            in_children = trainer.world_size > 1 or trainer.strategy.launcher is not None
            if in_children and trainer.is_global_zero:
                write_with_checksum(
                    self.folder / BEST, save(self.weights)
                )  # for the parent process, in case of an error
        if trainer.is_global_zero:
            with atomic_file(self.folder / HISTORY, sync=True) as temporary:
                text = json.dumps({"best": self.best, "epochs": self.rows}, indent=1)
                write_text(temporary, text)

    @override
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint["stopped"] = trainer.should_stop
        checkpoint[PACKED] = self.model

    @override
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self.stopped = checkpoint["stopped"]

    @override
    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self.restore(pl_module.model)

    def save_linear_model(self, model: nn.Module) -> None:
        """Save what can be loaded before the first checkpoint: the linear model beside an encoder without training."""
        parts = {PACKED: self.model, "callbacks": {KEEP_BEST: self.state_dict()}, "state_dict": model.state_dict()}
        write_checkpoint(self.folder / LINEAR, parts)

    def restore(self, model: nn.Module) -> bool:
        """Load the weights of the best epoch into a model; False if no epoch was better than the linear model."""
        if not self.weights and (sealed := read_sealed(self.folder / BEST)) is not None:
            self.weights = load(sealed)
        if self.weights:
            model.load_state_dict(self.weights)
        return bool(self.weights)

    def read_history(self) -> list[dict[str, float]]:
        """The metrics of all epochs, also from other processes."""
        history = self.folder / HISTORY
        if len(self.rows) <= 1 and history.exists():
            self.rows = json.loads(read_text(history, NAMES))["epochs"]
        return self.rows

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "kept": self.kept, "weights": self.weights, "rows": self.rows}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.weights, self.rows = state_dict["best"], state_dict["weights"], state_dict["rows"]
        self.kept = state_dict.get("kept", self.rows[-1] if self.rows else None)


class StopEarly(Callback):
    """Stop after some epochs without a better dev metric; the first epochs with a metric of 0 do not count.

    The F1 of rare entities is 0 for some epochs before it rises.
    """

    def __init__(self, keep: KeepBest, patience: int):
        self.keep, self.patience = keep, patience
        self.best = -math.inf if keep.best is None else keep.best
        self.worse = 0
        """Epochs since the best one."""

    @property
    @override
    def state_key(self) -> str:
        return f"StopEarly{{'monitor': 'dev_{self.keep.metric}', 'mode': 'max'}}"  # as Lightning's would be

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        value = self.keep.rows[-1][f"dev_{self.keep.metric}"]
        if value == 0 and self.best == -math.inf:
            return
        if value > self.best:
            self.best, self.worse = value, 0
            return
        self.worse += 1
        if trainer.strategy.broadcast(self.worse >= self.patience):
            trainer.should_stop = True

    @override
    def state_dict(self) -> dict[str, Any]:
        return {"best_score": self.best, "wait_count": self.worse}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.worse = float(state_dict["best_score"]), state_dict["wait_count"]


class CheckpointsInEpochs(Callback):
    """Save checkpoints within an epoch, at least some minutes apart; each replaces the file."""

    def __init__(self, path: Path, minutes: float):
        self.path, self.seconds, self.last = path, 60 * minutes, time.monotonic()

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        accumulating = (batch_idx + 1) % trainer.accumulate_grad_batches
        if accumulating or trainer.is_last_batch:
            return
        if trainer.strategy.broadcast(time.monotonic() - self.last >= self.seconds):
            trainer.save_checkpoint(self.path)
            self.last = time.monotonic()

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.last = time.monotonic()  # each epoch ends with a checkpoint


class TimeLeft:
    """Estimates how long a run will take at most, from the batches since its first."""

    def __init__(self) -> None:
        self.start, self.batches = 0.0, -1  # the first batch compiles kernels

    def add_batch(self) -> None:
        """Count a batch that has ended."""
        self.batches += 1
        if self.batches == 0:
            self.start = time.monotonic()

    def estimate(self, trainer: Any, module: Any, number: int) -> float | None:
        """Seconds of the other batches and of the dev sets; None in the first :data:`_TIMED_BATCHES`.

        ``number`` counts the batches of this epoch, from 0.
        """
        seconds = time.monotonic() - self.start
        if self.batches < _TIMED_BATCHES or seconds < _TIMED_SECONDS:
            return None
        in_epoch, epochs = int(trainer.num_training_batches), (trainer.max_epochs or 1) - trainer.current_epoch
        dev = 0 if module.dev is None else _PREDICTION * module.dev.lengths.sum()
        share = 1 + float(dev) / int(module.loader.dataset.corpus.lengths.sum())
        return seconds / self.batches * (epochs * in_epoch * share - number - 1)


class EpochLines(Callback):
    """Print a line for each epoch to standard error, unless there is a progress bar.

    A run that will take longer than a minute begins with an estimate of its time, from its first ten batches.

    ``graphattn train`` uses it; in Python, pass ``callbacks=[EpochLines()]`` to ``fit``.

    The ``note`` is printed after the dev metric, such as how outputs were generated; ``faster`` names a faster way with
    an estimate of more than five minutes.
    """

    def __init__(self, note: str | None = None, faster: str | None = None):
        self.note, self.faster, self.started = note, faster, 0.0
        self._left: TimeLeft | None = TimeLeft()

    @override
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self.started = time.monotonic()

    @override
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._left is None:
            return
        self._left.add_batch()
        seconds = self._left.estimate(trainer, pl_module, batch_idx)
        if seconds is None:
            return
        self._left, keep = None, find_callback(trainer, KeepBest)
        if seconds >= _WORTH_SAYING and self._prints(trainer, pl_module):
            patience = None if keep is None or keep.metric is None else pl_module.options.patience
            line = describe_estimate(seconds, trainer.max_epochs - trainer.current_epoch, patience)
            faster = "" if self.faster is None or seconds < _LONG else f". Faster: {self.faster}"
            print(f"{line}{faster}", file=sys.stderr, flush=True)

    @override
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        keep = find_callback(trainer, KeepBest)
        if keep is not None and self._prints(trainer, pl_module):
            seconds = time.monotonic() - self.started
            line = describe_epoch(keep.rows, keep.metric, trainer.max_epochs, seconds, note=self.note)
            print(line, file=sys.stderr, flush=True)

    def _prints(self, trainer: Any, pl_module: Any) -> bool:
        """Whether this process prints lines: the first one, without a progress bar of ours or of Lightning."""
        has_bar = shows_bar(pl_module.options) or trainer.progress_bar_callback is not None
        return trainer.is_global_zero and not has_bar


USUAL_SHARE = 0.73
"""Share of 20 epochs that runs took on average, by early stopping: 14.7 in the 170 runs of docs/defaults.jsonl."""


def describe_estimate(seconds: float, epochs: int, patience: int | None) -> str:
    """How long some epochs will take, and usually with early stopping after ``patience`` worse ones.

    Examples
    --------
    >>> describe_estimate(360, 20, 4)
    'time: at most 6 min for 20 epochs; usually 4.4 min, by early stopping'
    >>> describe_estimate(360, 1, 3)  # which is too few to stop early
    'time: at most 6 min for 1 epoch'
    """
    longest = f"at most {describe_duration(seconds)} for {epochs} epoch{'s' * (epochs != 1)}"
    if patience is None or epochs <= 2 * patience:
        return f"time: {longest}"
    usual = max(patience + 1, USUAL_SHARE * epochs)
    return f"time: {longest}; usually {describe_duration(seconds * usual / epochs)}, by early stopping"


def describe_duration(seconds: float) -> str:
    """An estimate of a time, to two digits.

    Examples
    --------
    >>> describe_duration(75), describe_duration(8000), describe_duration(358_600)
    ('1.2 min', '2.2 h', '100 h')
    """
    value, unit = (seconds / 60, "min") if seconds < 3600 else (seconds / 3600, "h")
    return f"{value:.2g} {unit}" if value < 99.5 else f"{value:,.0f} {unit}"


def make_log(options: TrainingOptions, callbacks: Sequence[AnyCallback]) -> Callable[[str], None]:
    """A function that prints lines to standard error if this process shows epochs, as lines or with a progress bar."""
    has_lines = any(isinstance(callback, EpochLines) for callback in callbacks)
    shows_epochs = is_first_process(options) and (has_lines or shows_bar(options))

    def log(line: str) -> None:
        if shows_epochs:
            print(line, file=sys.stderr, flush=True)

    return log


def shows_bar(options: TrainingOptions) -> bool:
    """Whether there is a progress bar: on a terminal, unless the options turn it off."""
    return options.progress and sys.stderr is not None and sys.stderr.isatty()


def describe_epoch(
    rows: Sequence[Mapping[str, float]],
    metric: str | None,
    epochs: int | None,
    seconds: float,
    *,
    note: str | None = None,
) -> str:
    """The last epoch on one line.

    ``epochs`` is their maximum number, ``note`` says how outputs for the dev set were generated.

    Examples
    --------
    >>> rows = [{"epoch": 1, "train_loss": 0.7, "dev_f1": 55.0}, {"epoch": 2, "train_loss": 0.5, "dev_f1": 50.0}]
    >>> describe_epoch(rows, "f1", 20, 3.14)
    'epoch 2/20: loss 0.5000, dev f1 50.00, 3.1 s, best 55.00 (epoch 1)'
    """
    loss, time_taken = f"loss {rows[-1]['train_loss']:.4f}", f"{seconds:.1f} s"
    parts = [loss, time_taken]
    if metric is not None:
        key = f"dev_{metric}"
        best = max(reversed(rows), key=lambda row: row[key])
        name = f"epoch {best['epoch']}" if best["epoch"] else "linear model"
        shown = f"dev {metric.replace('_', ' ')} {rows[-1][key]:.2f}" + (f" ({note})" if note else "")
        parts = [loss, shown, time_taken, f"best {best[key]:.2f} ({name})"]
    return f"epoch {rows[-1]['epoch']}/{epochs}: {', '.join(parts)}"
