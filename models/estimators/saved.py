"""What every estimator that can be saved has in common."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from graphattn.exceptions import NotFittedError
from graphattn.models.encoders import EncoderOptions
from graphattn.models.options import Options
from graphattn.models.parameters import Parameters
from graphattn.models.saving import ModelFiles, directory_of, write_model
from graphattn.models.training.trainable import Trainable

_turns = threading.RLock()


def _begin_anew() -> None:
    """A process that was forked while another thread was training would wait for it for ever."""
    global _turns
    _turns = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)

SavedT = TypeVar("SavedT", bound="SavedEstimator")


class SavedEstimator(Parameters):
    """An estimator whose trained model becomes a directory; :func:`graphattn.load` reads it."""

    encoder: str | EncoderOptions
    encoder_: EncoderOptions
    model_: Trainable
    _transient: ClassVar[tuple[str, ...]] = ()
    """Attributes that are of use while a model is made, and that may be large."""

    def save(self, path: str | Path, *, notes: Mapping[str, str] | None = None) -> Path:
        """Write a self-contained model directory; one that is there already is replaced in a single step.

        Parameters
        ----------
        path : the directory
        notes : text files to put beside the model's own, name -> content

        Raises
        ------
        NotFittedError
            when there is nothing to save
        ModelDirectoryError
            when ``path`` is something else than a model directory, or cannot be written
        """
        self._check_fitted()
        return write_model(directory_of(path), self._files(notes or {}))

    @abstractmethod
    def resolved_encoder(self) -> EncoderOptions:
        """Options of the encoder; a name stands for its defaults for this task."""

    def non_default_options(self) -> dict[str, Any]:
        """Name -> value of what a fitted estimator was told, other than its encoder's name: all that is no default.

        Raises
        ------
        NotFittedError
            when it is not fitted
        """
        self._check_fitted()
        plain = self._unchanged()
        plain._resolve_options()
        changed: dict[str, Any] = {}
        for name, usual in plain.get_params(deep=False).items():
            settled = getattr(plain, f"{name}_", usual)
            if isinstance(settled, Options):
                own, usual = getattr(self, f"{name}_", getattr(self, name)).to_dict(), settled.to_dict()
                changed |= {option: value for option, value in own.items() if value != usual.get(option)}
            elif getattr(self, name) != usual:
                changed[name] = getattr(self, name)
        return changed

    def changed_options(self) -> dict[str, Any]:
        """Former name of :meth:`non_default_options`."""
        return self.non_default_options()

    def _unchanged(self: SavedT) -> SavedT:
        """An estimator with this one's encoder and the defaults."""
        return type(self)(self.encoder_.name)  # type: ignore[call-arg]

    @abstractmethod
    def _resolve_options(self) -> None:
        """Check the options and copy them: ``set_params`` must not reach into a fitted model."""

    def _part(self, name: str) -> Any:
        """An encoder that is given as a name becomes its options when one of them is to be changed."""
        if name == "encoder" and isinstance(self.encoder, str):
            self.encoder = self.resolved_encoder()
        return super()._part(name)

    @contextmanager
    def _rollback_on_failure(self) -> Iterator[None]:
        """What is done in here leaves a new model if an epoch was finished, and else what there was before.

        Fits in several threads take turns: they share the generator of random numbers that a seed stands for.
        """
        with _turns:
            yield from self._fitting_alone()

    def _fitting_alone(self) -> Iterator[None]:
        before = dict(vars(self))
        for name in ("model_", "history_"):
            vars(self).pop(name, None)
        try:
            yield
        finally:
            for name in self._transient:
                vars(self).pop(name, None)
            if vars(self).get("history_"):
                self.model_.eval()
            else:
                vars(self).clear()
                vars(self).update(before)

    @abstractmethod
    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
        """What is written."""

    def _state(self) -> dict[str, Tensor]:
        """The model's weights, on the CPU."""
        return {name: tensor.detach().cpu() for name, tensor in self.model_.state_dict().items()}

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not trained yet; call fit, or graphattn.load a saved one"
            )
