"""What a task defines: its inputs, labels, model, metrics and files."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.exceptions import DataError, Hint
from graphattn.models.corpus import Batch, Corpus
from graphattn.models.decoders.options import SubwordOptions
from graphattn.models.encoders import EncoderOptions
from graphattn.models.estimators.inputs import Columns, select
from graphattn.models.options import InputOptions, TrainingOptions
from graphattn.models.saving import ModelFiles
from graphattn.models.text_model import Trainable
from graphattn.options import Options, Parameters
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    import pandas as pd

    from graphattn.models.inspection.attributions.targets import ExplanationTarget
    from graphattn.models.inspection.capture import ForwardCapture


@dataclass(frozen=True)
class Examples:
    """Inputs with their labels.

    Parameters
    ----------
    columns : one column of texts, or two for pairs
    labels : one for each input
    numbers : each input's index in the user's data; None for all of them in order
    weights : one for each input; None for equal weights
    """

    columns: Columns
    labels: Sequence[Any]
    numbers: Sequence[int] | None = None
    weights: npt.NDArray[np.float64] | None = None

    def select(self, numbers: Sequence[int]) -> Examples:
        """The examples with these indices; lazy ones stay lazy."""
        columns = [select(column, numbers) for column in self.columns]
        weights = None if self.weights is None else self.weights[numbers]
        return Examples(columns, select(self.labels, numbers), numbers, weights)


@dataclass(frozen=True, eq=False)
class EncodedInputs:
    """Encoded inputs, with a translator's outputs.

    Parameters
    ----------
    corpus : the inputs, with targets for a translator
    sentences : part of the input -> its sentences: ``text``, ``first`` and ``second``, or ``source`` and ``target``
    outputs : a translator's target texts
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


class Task(Parameters):
    """The interface of a task, for :class:`~graphattn.models.estimators.base.Estimator` and the command line.

    Attributes
    ----------
    task : the name in ``graphattn train NAME`` and in a saved model
    description : a predicate for ``graphattn info``, such as "classifies texts"
    corpus_kind : kind of corpus for the readers: ``classify`` (texts with labels), ``pair``, ``tag`` or ``translate``
    texts_per_input : 2 for pairs
    option_groups : name -> class of options, in the order of the flags. Each group is one argument of the constructor,
        with two exceptions: each field of ``task`` is an argument, and ``files`` (dev and test sets) is none
    unused_options : options of the groups that have no effect on this task
    late_options : groups that may still change after training
    prediction_options : flags of ``graphattn predict`` and ``evaluate`` that only some tasks have
    output_formats : of ``graphattn predict --output``; :meth:`format_predictions` writes those besides ``json`` and
        tables
    source_and_target_files : whether a corpus is a file of sources and a file of targets
    weighted_metrics : whether examples can have weights in metrics
    dev_search : the search that generates outputs for dev metrics, if :meth:`predict` uses another
    """

    task: ClassVar[str]
    description: ClassVar[str]
    corpus_kind: ClassVar[str]
    texts_per_input: ClassVar[int] = 1
    option_groups: ClassVar[Mapping[str, type[Options]]]
    unused_options: ClassVar[frozenset[str]] = frozenset()
    late_options: ClassVar[frozenset[str]] = frozenset()
    prediction_options: ClassVar[frozenset[str]] = frozenset()
    output_formats: ClassVar[tuple[str, ...]] = ("json", "csv", "tsv")
    source_and_target_files: ClassVar[bool] = False
    weighted_metrics: ClassVar[bool] = True
    dev_search: ClassVar[str | None] = None
    encoder: str | EncoderOptions | None
    training: TrainingOptions
    encoder_: EncoderOptions
    inputs_: InputOptions | SubwordOptions
    builder_: TextGraphBuilder
    training_: TrainingOptions
    model_: Trainable
    history_: list[dict[str, float]]

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """The metric of :meth:`score`, which chooses the best epoch unless ``training.metric`` names another."""

    @abstractmethod
    def __init__(self, encoder: str | EncoderOptions | None = ..., **arguments: Any): ...

    @property
    def vectors_per_input(self) -> int:
        """Rows of :meth:`sentence_vectors` for each input."""
        return self.texts_per_input

    @abstractmethod
    def read(self, paths: Sequence[str | Path], *, format: str = "auto", **options: Any) -> tuple[Any, Any]:
        """Read corpora for :meth:`fit` or :meth:`evaluate`.

        Parameters
        ----------
        paths : files or a store
        format, options : as for :func:`~graphattn.builders.readers.read_corpus`, ``skip`` included

        Returns
        -------
        Inputs, and their labels; None if the inputs contain them
        """

    def reading_defaults(self) -> dict[str, Any]:
        """How the training corpus was read, to read texts to predict in the same way."""
        return {}

    @classmethod
    def name_corpora(cls, paths: Sequence[str | Path]) -> dict[str, Sequence[str | Path]]:
        """Name -> paths of each corpus to evaluate; each path is one, except a file of sources and one of targets."""
        joined = cls.source_and_target_files and not all("," in str(path) for path in paths)
        corpora = [paths] if joined else [[path] for path in paths]
        return {" ".join(map(str, corpus)): corpus for corpus in corpora if corpus}

    @abstractmethod
    def format_row(self, x: Any, prediction: Any, probabilities: Any = None) -> dict[str, Any]:
        """An input and its prediction as a row of JSON; with ``probabilities``, also those of all classes."""

    @abstractmethod
    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        """Run the model on a batch and keep its attention weights.

        Parameters
        ----------
        batch : with targets for a translator
        features : also keep the weights by feature of an encoder that has them (MTSA)

        Raises
        ------
        DataError
            when there are more weights than :data:`graphattn.models.inspection.limits.MOST_WEIGHTS`
        """

    @abstractmethod
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> EncodedInputs:
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

    def encode_input(self, x: Any, *, target: str | None = None) -> EncodedInputs:
        """:meth:`encode_inputs` for one input; a row of a one-column array is its text.

        Raises
        ------
        DataError
            for an input without tokens
        """
        x = x.item() if isinstance(x, np.ndarray) and x.shape == (1,) else x
        if self.texts_per_input == 1 and isinstance(x, list):
            text = next((word for word in x if isinstance(word, str) and " " in word.strip()), None)
            if text is not None:
                problem = (
                    f"a list has the words of one text, and {text[:30]!r} is one word of it; give a text without a list"
                )
                warnings.warn(Hint(problem), stacklevel=3)
        inputs = self.encode_inputs([x], targets=None if target is None else [target])
        if not inputs.batch.graph.num_nodes(TOKEN):
            raise DataError("the text has no words, so there is no attention", hint="Give a text with words.")
        return inputs

    @abstractmethod
    def target(
        self, inputs: EncodedInputs, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        """The quantity that attributions explain for one input.

        Parameters
        ----------
        inputs : the input
        scores : its (items, classes) scores
        label : a class; the predicted one when None
        word : a word of a tagger's input or of a translator's output; all words when None

        Raises
        ------
        ConfigError
            when there is no such class or word
        """

    @abstractmethod
    def _describe_prediction(self, inputs: EncodedInputs, scores: Tensor) -> tuple[str, Any, Any]:
        """Title, prediction and probabilities of an :class:`~graphattn.models.inspection.Attention`."""

    @abstractmethod
    def _copy_scores(
        self,
        batch: Batch,
        *,
        vectors: Tensor | None = None,
        presence: Tensor | None = None,
        hidden: pd.DataFrame | None = None,
    ) -> Tensor:
        """(copies, items, classes) scores of a batch of copies of one input.

        Parameters
        ----------
        batch : the copies
        vectors : (N, D) token vectors that replace those of the batch's ids
        presence : with ``vectors``, (N,) share of each token in the linear branch
        hidden : decoder edges to mask, with the columns copy, source and target
        """

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """The number of token nodes of a text."""

    @abstractmethod
    def _columns(self, X: Iterable[Any]) -> Columns:
        """Inputs as one column of sources, or two for pairs."""

    @abstractmethod
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        """One label per input; the inputs' own when ``y`` is None."""

    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        """Convert labels of a dev or evaluation set to the training set's notation."""
        return labels

    @abstractmethod
    def _fit_labels(self, examples: Examples) -> None:
        """Collect the classes, and reject examples without labels or texts to learn from."""

    def _strata(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        """(S,) class ids for a stratified split; None for a random one."""
        return None

    @abstractmethod
    def _fit_vocabulary(self, examples: Examples) -> None:
        """Learn the vocabulary of the training set."""

    @abstractmethod
    def _make_model(self, weights: Tensor | None = None) -> Trainable:
        """Create the model and ``builder_``; ``weights`` are those of the classes in the loss."""

    def _class_weights(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        """The weight of each class in the loss; ``weights`` are those of the examples."""
        return None

    @abstractmethod
    def _corpus(
        self,
        columns: Columns,
        labels: Sequence[Any] | None = None,
        *,
        where: str = "data",
        numbers: Sequence[int] | None = None,
    ) -> Corpus:
        """Encode inputs, and targets if there are labels; error messages use ``where`` and ``numbers``."""

    @abstractmethod
    def _predict_corpus(self, model: Any, corpus: Corpus) -> list[Any]:
        """Predict, for the dev set during training; :meth:`_metrics` takes the results."""

    def _predict_columns(self, columns: Columns) -> list[Any]:
        return self._predict_corpus(self.model_, self._corpus(columns))

    @abstractmethod
    def _metrics(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        """Metrics in percent; ``weights`` are those of the examples, unless ``weighted_metrics`` is False."""

    @abstractmethod
    def _metric_names(self) -> Sequence[str]: ...

    def _choose_dev_metric(self, labels: Sequence[Any]) -> str | None:
        """The metric that chooses the best epoch on a dev set with these labels; None for the main one."""
        return self.training_.metric

    @abstractmethod
    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
        """The contents of the model directory."""

    @classmethod
    @abstractmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        """Restore an estimator from :meth:`_files`."""
