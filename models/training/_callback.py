"""What follows a training run: callbacks of ours, which load no Lightning, and a user's, which may be Lightning's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from lightning.pytorch.callbacks import Callback as LightningCallback


class Callback:
    """Base class of our callbacks: hooks of Lightning's callbacks, with the same names and arguments.

    To import Lightning takes longer than to import PyTorch, and what needs no trainer does without.
    """

    @property
    def state_key(self) -> str:
        """Name of its state in a checkpoint."""
        return type(self).__qualname__

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Called before a run."""

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Called when a run starts or resumes."""

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Called before each epoch."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Called after each batch."""

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Called after each epoch."""

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Called after the last epoch."""

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Called when a run ends."""

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Called when an error or Ctrl-C ends a run."""

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Add to a checkpoint."""

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Read what was added to a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of a checkpoint."""


AnyCallback: TypeAlias = "Callback | LightningCallback"

Found = TypeVar("Found", bound=Callback)


def find_callback(trainer: Any, callback_class: type[Found]) -> Found | None:
    """The first of our callbacks of a class that a trainer calls."""
    ours = (getattr(callback, "callback", callback) for callback in trainer.callbacks)
    return next((callback for callback in ours if isinstance(callback, callback_class)), None)
