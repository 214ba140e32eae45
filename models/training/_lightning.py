"""Parts of Lightning that we replace: processes, files of checkpoints, early stopping, and the progress bar."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins.environments.lightning import LightningEnvironment, find_free_network_port
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import Callback, EarlyStopping, RichProgressBar
from typing_extensions import override

from graphattn.builders._atomic import write_sealed
from graphattn.models.training import _callback
from graphattn.models.training._checkpoints import error_for_damage
from graphattn.models.training.callbacks import TimeLeft, describe_duration

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


class StopEarly(EarlyStopping):
    """Stop after some epochs without a better dev metric; the first epochs with a metric of 0 do not count.

    The F1 of rare entities is 0 for some epochs before it rises.
    """

    @override
    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not self.best_score.isinf() or trainer.callback_metrics[self.monitor] != 0:
            super().on_train_epoch_end(trainer, pl_module)


class Progress(RichProgressBar):
    """A progress bar with the loss and the dev metric of the last epoch, and the time left; epochs count from 1."""

    def __init__(self, metric: str | None):
        super().__init__()
        self.shown = ("train_loss", f"dev_{metric}")
        self.left = TimeLeft()
        self.seconds: float | None = None

    @override
    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.left.add_batch()
        self.seconds = self.left.estimate(trainer, pl_module, batch_idx)
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    @override
    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        metrics = trainer.callback_metrics
        shown = {name: round(float(metrics[name]), 3) for name in self.shown if name in metrics}
        return {**shown, **({} if self.seconds is None else {"left": f"at most {describe_duration(self.seconds)}"})}

    @override
    def _get_train_description(self, current_epoch: int) -> str:
        return f"Epoch {current_epoch + 1}/{self.trainer.max_epochs}"


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
        content = io.BytesIO()
        torch.save(checkpoint, content)  # torch.save to a file hides the disk's error
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        # no view of the buffer: Python 3.12.1 crashes when it collects one that an error keeps
        write_sealed(Path(path), content.getvalue())

    @override
    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        try:
            return super().load_checkpoint(path, map_location, weights_only)
        except OSError:
            raise
        except Exception as error:  # a callback's state that only unpickling restores
            raise error_for_damage(Path(path)) from error
