"""What inspection and model cards read of a fitted model, whatever it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from graphattn.exceptions import Hint, TruncationWarning, warn_caller
from graphattn.models._corpus import Corpus
from graphattn.models._estimators.tasks.explain import Explainer


class FittedModel(Protocol):
    """A model and its task: every :class:`~graphattn.models.Estimator`, and a pretrained model alone."""

    task: ClassVar[Any]
    model_: Any

    @property
    def task_(self) -> Any:
        """The fitted task."""

    @property
    def encoder_name(self) -> str:
        """The encoder's name."""


class Inspectable(FittedModel, Protocol):
    """A fitted model that encodes texts and explains what it predicts for them."""

    @property
    def explainer_(self) -> Explainer:
        """Explains the model's predictions."""

    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> Corpus:
        """Encode inputs for :class:`Explainer`.

        Parameters
        ----------
        X : the inputs
        targets : a translator's target texts; its own outputs when None

        Raises
        ------
        ConfigError
            for targets if the estimator is not a translator
        DataError
            when the number of targets differs from the number of inputs
        """

    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""


def encode_input(estimator: Inspectable, x: Any, *, target: str | None = None) -> Corpus:
    """Encode one input; a row of a one-column array is its text.

    Raises
    ------
    DataError
        for an input without tokens
    """
    x = x.item() if isinstance(x, np.ndarray) and x.shape == (1,) else x
    if estimator.task.texts_per_input == 1 and isinstance(x, list):
        text = next((word for word in x if isinstance(word, str) and " " in word.strip()), None)
        if text is not None:
            problem = (
                f"a list has the words of one text, and {text[:30]!r} is one word of it; give a text without a list"
            )
            warn_caller(Hint(problem))
    inputs = estimator.encode_inputs([x], targets=None if target is None else [target])
    estimator.explainer_.check_input(inputs)
    return inputs
