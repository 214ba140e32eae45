"""Protocols of a fitted model and its encoded inputs, so that inspection does not depend on estimators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from graphattn.builders import Sentence
from graphattn.exceptions import TruncationWarning
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._encoders import EncoderOptions
from graphattn.models._text_model import Trainable

if TYPE_CHECKING:
    import pandas as pd

    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget


@dataclass(frozen=True, eq=False)
class EncodedInputs:
    """Encoded inputs, with a translator's outputs.

    ``corpus`` has targets for a translator, whose target texts are ``outputs``. ``sentences`` are by part of the input:
    ``text``, ``first`` and ``second``, or ``source`` and ``target``.
    """

    corpus: Corpus
    sentences: Mapping[str, Sequence[Sentence]]
    outputs: Sequence[str] = ()

    @cached_property
    def batch(self) -> Batch:
        """The first input as a batch."""
        return self.corpus[[0]]

    @property
    def single(self) -> dict[str, Sentence]:
        """The sentences of the first input."""
        return {name: sentences[0] for name, sentences in self.sentences.items()}

    @property
    def graph_texts(self) -> list[str]:
        """The parts whose tokens are nodes of the graph; a translator's target is not."""
        return list(self.sentences)[: len(self.corpus.layouts)]


class Inspectable(Protocol):
    """A fitted model whose predictions can be inspected, such as every :class:`~graphattn.models.Estimator`."""

    @property
    def task(self) -> Any:
        """Its ``texts_per_input`` are 2 for pairs."""

    @property
    def encoder_(self) -> EncoderOptions:
        """The options of the encoder."""

    @property
    def model_(self) -> Trainable:
        """The module."""

    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> EncodedInputs:
        """Encode inputs; ``targets`` are a translator's target texts, its own outputs when None."""

    def encode_input(self, x: Any, *, target: str | None = None) -> EncodedInputs:
        """Encode one input; a DataError for one without tokens."""

    def describe_truncation(self, count: int, tokens: int) -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""

    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        """Run the model on a batch and keep its attention weights, on request also those by feature (MTSA)."""

    def target(
        self, inputs: EncodedInputs, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        """The quantity that attributions explain for one input with (items, classes) scores."""

    def describe_prediction(self, inputs: EncodedInputs, scores: Tensor) -> tuple[str, Any, Any]:
        """Title, prediction and probabilities of one input."""

    def score_copies(
        self,
        batch: Batch,
        *,
        vectors: Tensor | None = None,
        presence: Tensor | None = None,
        hidden: pd.DataFrame | None = None,
    ) -> Tensor:
        """(copies, items, classes) scores of a batch of copies of one input.

        ``vectors`` (N, D) replace the token vectors of the batch's ids; with them, ``presence`` is (N,) the share of
        each token in the linear branch. ``hidden`` are decoder edges to mask, with the columns copy, source and target.
        """
