"""What inspection reads of a fitted model, so that it does not depend on estimators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from graphattn._schema import TOKEN
from graphattn.exceptions import DataError, Hint, TruncationWarning, warn_caller
from graphattn.models._corpus import Batch, Corpus

if TYPE_CHECKING:
    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget


def check_input(inputs: Corpus) -> None:
    """Reject an input without tokens."""
    if not inputs.first_batch.graph.num_nodes(TOKEN):
        raise DataError("the text has no words, so there is no attention", hint="Give a text with words.")


class Inspectable:
    """A fitted model whose predictions can be inspected: every :class:`~graphattn.models.Estimator`."""

    task: ClassVar[Any]
    parsing: Any
    inputs_: Any
    text_inputs_: Any
    model_: Any

    @property
    @abstractmethod
    def task_(self) -> Any:
        """The fitted task."""

    @property
    @abstractmethod
    def encoder_name(self) -> str:
        """The encoder's name."""

    @property
    def reads_predicates(self) -> bool:
        """Whether it reads marks of predicates besides texts."""
        return bool(self.text_inputs_.predicates)

    @abstractmethod
    def _check_fitted(self) -> None:
        """Raise an error before ``fit``."""

    @abstractmethod
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> Corpus:
        """Encode inputs for :meth:`capture`.

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

    def encode_input(self, x: Any, *, target: str | None = None) -> Corpus:
        """:meth:`encode_inputs` for one input; a row of a one-column array is its text.

        Raises
        ------
        DataError
            for an input without tokens
        """
        x = x.item() if isinstance(x, np.ndarray) and x.shape == (1,) else x
        if self.task.texts_per_input == 1 and isinstance(x, list):
            text = next((word for word in x if isinstance(word, str) and " " in word.strip()), None)
            if text is not None:
                problem = (
                    f"a list has the words of one text, and {text[:30]!r} is one word of it; give a text without a list"
                )
                warn_caller(Hint(problem))
        inputs = self.encode_inputs([x], targets=None if target is None else [target])
        self.task_.check_input(inputs)
        return inputs

    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""
        return self.text_inputs_.describe_truncation(count, tokens, where)

    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        """Run the model on a batch and keep its attention weights, see :meth:`Task.capture`."""
        return self.task_.capture(self.model_, batch, features=features)

    def target(
        self, inputs: Corpus, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        """The quantity that attributions explain for one input, see :meth:`Task.choose_target`."""
        return self.task_.choose_target(self.model_, inputs, scores, label=label, word=word)

    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        """Title, prediction and probabilities of an :class:`~graphattn.models.inspection.Attention`."""
        return self.task_.describe_prediction(self.model_, inputs, scores)

    def score_copies(self, batch: Batch, **changes: Any) -> Tensor:
        """(copies, items, classes) scores of a batch of copies of one input, see :meth:`Task.score_copies`."""
        return self.task_.score_copies(self.model_, batch, **changes)
