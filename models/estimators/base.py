"""What all estimators share: from texts to a corpus, from a corpus to a trained model, and back to labels."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from graphattn.builders import TextGraphBuilder, Vocabulary, WordVectors
from graphattn.builders.vocabulary import SPECIAL_TOKENS, count_words
from graphattn.builders.word_boundaries import WordSplitter
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning
from graphattn.models.characters import CharacterVocabulary
from graphattn.models.corpus import Corpus, digest_of
from graphattn.models.encoders import Encoder, EncoderOptions, encoder_options, make_encoder
from graphattn.models.estimators.class_weights import class_weights, restored_weights, saved_weights
from graphattn.models.estimators.inputs import (
    Columns,
    as_list,
    check_same_tokenization,
    dev_parts,
    held_out_split,
    iter_chunks,
    of_dev_set,
    select,
    vocabulary_source,
)
from graphattn.models.estimators.labels import LabelSet
from graphattn.models.estimators.prediction import Predictions, predict_corpus
from graphattn.models.estimators.saved import SavedEstimator
from graphattn.models.estimators.vector_coverage import warn_of_few_vectors
from graphattn.models.heads import Head
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.saving import ModelFiles
from graphattn.models.text_model import TextModel
from graphattn.models.token_embedding import TokenEmbedding, token_parts

if TYPE_CHECKING:
    from graphattn.models.inspection import Attention

EstimatorT = TypeVar("EstimatorT", bound="TextEstimator")


class TextEstimator(SavedEstimator):
    """Base of the estimators; sub-classes say what their inputs, labels and head are.

    Parameters
    ----------
    encoder : name of an encoder, or its options
    inputs, head, training : options; None for the defaults
    class_weight : weights of classes in the loss: None, ``"balanced"``, or class -> weight
    """

    task: ClassVar[str]
    main_metric: str = "accuracy"
    model_: TextModel
    _transient = ("_vectors", "_num_trained")

    def __init__(
        self,
        encoder: str | EncoderOptions = "ms-trans",
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
    ):
        self.encoder = encoder
        self.inputs = InputOptions() if inputs is None else inputs
        self.head = HeadOptions() if head is None else head
        self.training = TrainingOptions() if training is None else training
        self.class_weight = class_weight

    # -- what a task is ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _columns(self, X: Iterable[Any]) -> Columns:
        """Inputs as one column of sources, or two for pairs."""

    @abstractmethod
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        """One label (or list of tags) for each input; taken from the inputs when ``y`` is None."""

    @abstractmethod
    def _fit_labels(self, labels: Sequence[Any]) -> LabelSet:
        """The classes of the training set."""

    @abstractmethod
    def _targets(self, labels: Sequence[Any], columns: Columns, where: str) -> Any:
        """Labels as :class:`~graphattn.models.corpus.Corpus` wants them."""

    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        """Labels of another corpus, written as the training set writes them."""
        return labels

    def _check_sizes(self, labels: Sequence[Any], columns: Columns, where: str) -> None:
        """Refuse labels that do not fit the size of their inputs."""

    @abstractmethod
    def _make_head(self, width: int, weights: torch.Tensor | None) -> Head:
        """The head with fresh weights."""

    @abstractmethod
    def _metrics(self, labels: Sequence[Any], decisions: list[Any]) -> dict[str, float]:
        """Metrics in percent of decided ids against labels."""

    @abstractmethod
    def _metric_names(self) -> Sequence[str]:
        """What :meth:`evaluate` gives."""

    @abstractmethod
    def _decided(self, decisions: list[Any]) -> Any:
        """Ids as labels, in the form that ``predict`` gives."""

    def _named(self, decisions: list[Any]) -> Any:
        """Ids as labels for people to read."""
        return self._decided(decisions)

    def resolved_encoder(self) -> EncoderOptions:
        """Options of the encoder; a name stands for its defaults for this task."""
        return encoder_options(self.encoder)

    # -- fitting -------------------------------------------------------------------------------------------------------

    def fit(
        self: EstimatorT,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        dev: tuple[Sequence[Any], Sequence[Any]] | Sequence[Any] | None = None,
    ) -> EstimatorT:
        """Train on texts and labels; a fit that fails before its first epoch is finished changes nothing.

        Parameters
        ----------
        X : the inputs, or a :class:`~graphattn.builders.store.Store` of them, which memory need not hold
        y : their labels; may be left out when the inputs carry them (``Example``, ``Sentence``)
        dev : (inputs, labels), or inputs that carry labels, by which the best epoch is chosen; when None, a share
            of the training set (``training.dev_fraction``) is held out

        Raises
        ------
        DataError
            when inputs or labels are not as they must be
        ConfigError
            when options are impossible
        TrainingError
            when the loss is no longer finite
        """
        with self._rollback_on_failure():
            self._resolve_options()
            X = as_list(X)
            if not X:
                raise DataError("there are no training examples")
            columns, labels = self._columns(X), self._labels(X, y)
            with torch.random.fork_rng():
                torch.manual_seed(self.training_.seed)
                self.labels_ = self._fit_labels(labels)
                self.classes_ = np.asarray(self.labels_.classes)
                columns, labels, held_out = self._with_dev_set(columns, labels, dev)
                self._fit_inputs(columns)
                self.model_ = self._make_model(self._class_weights(labels))
            self._train(columns, labels, held_out)
        return self

    def _class_weights(self, labels: Sequence[Any]) -> torch.Tensor | None:
        return class_weights(self.class_weight, self.labels_, self._flat_labels(labels))

    def _resolve_options(self) -> None:
        """Check the options and copy them: ``set_params`` must not reach into a fitted model."""
        encoder = self.resolved_encoder()
        kinds = {"inputs": InputOptions, "head": HeadOptions, "training": TrainingOptions}
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise ConfigError(f"{name} is {getattr(self, name)!r}; give {kind.__name__}(...)")
        for options in (encoder, self.inputs, self.head, self.training):
            options.validate()
        self.encoder_, self.inputs_ = encoder.copied(), self.inputs.copied()
        self.head_, self.training_ = self.head.copied(), self.training.copied()
        if self.head_.pooling is None:
            self.head_.pooling = encoder.pooling
        if self.head_.head_hidden is None and encoder.linear_head:
            self.head_.head_hidden = 0

    def _fit_inputs(self, columns: Columns) -> None:
        """Vocabulary, vectors and characters of the training texts; held-out ones stay unseen."""
        options = self.inputs_
        check_same_tokenization(columns, options.split)
        rules: dict[str, Any] = {"level": options.level, "split": options.split, "lowercase": options.lowercase}
        spelling = Vocabulary.train([], **rules).spelling  # "Paris" has a vector for the "paris" of lower case
        sets = [WordVectors.read(path).with_spelling(spelling) for path in options.vector_files()]
        self.widths_ = [own.dim for own in sets]
        source = vocabulary_source(columns)
        counts = None
        if sets and options.level == "word":
            source = counts = count_words(source, WordSplitter.by_rule(options.split))
            warn_of_few_vectors(options.vector_files(), sets, counts, spelling)
        extra: Iterable[str] = ()
        if options.vectors_words == "all":
            extra = chain.from_iterable(own.words for own in sets)
        elif counts is not None and options.vocabulary_size is None:  # rare ones stay if they have a vector
            extra = [word for word in counts if any(word in own or spelling(word) in own for own in sets)]
        self.vocabulary_ = Vocabulary.train(
            source,
            **rules,
            min_count=options.min_count,
            size=options.vocabulary_size,
            extra_words=extra,
        )
        self._vectors = None
        if sets:
            vectors = WordVectors.concatenate(sets, normalize=options.normalize_vectors)
            self._vectors = vectors.table(self.vocabulary_, seed=self.training_.seed)
        self._num_trained = 0
        if options.tune_vectors:  # the corpus' own words come before those that only have a vector
            texts = (ids for part in iter_chunks(columns) for ids in self.vocabulary_.encode_batch(part)[1])
            self._num_trained = 1 + max((int(ids.max(initial=0)) for ids in texts), default=0)
        self.characters_ = None
        if options.characters:
            sentences = (sentence for part in iter_chunks(columns) for sentence in self.vocabulary_.sentences(part))
            self.characters_ = CharacterVocabulary.of(token for s in sentences for token in s.tokens)

    def _make_model(self, weights: torch.Tensor | None = None) -> TextModel:
        parts = token_parts(self.inputs_, self.widths_, characters=self.characters_ is not None)
        self.encoder_ = self.encoder_.for_parts(parts, of_files=bool(self.widths_))
        encoder = make_encoder(self.encoder_)
        embedding = TokenEmbedding(
            self.inputs_,
            len(self.vocabulary_),
            None if self.encoder_.takes_parts else self.encoder_.hidden,
            vectors=self._vectors,
            num_trained=self._num_trained,
            trains_special=self.encoder_.trains_special,
            widths=self.widths_,
            num_characters=None if self.characters_ is None else len(self.characters_),
        )
        for name in self._transient:
            delattr(self, name)
        self.builder_ = self._make_builder(encoder, embedding)
        return TextModel(embedding, encoder, self._make_head(encoder.width, weights))

    def _make_builder(self, encoder: Encoder, embedding: TokenEmbedding) -> TextGraphBuilder:
        """Relations may compare words by their vectors as long as no training changes these."""
        vectors = None
        if self.inputs_.vectors and not self.inputs_.tune_vectors:
            frozen = embedding.table.numpy()
            vectors = np.pad(frozen, ((len(SPECIAL_TOKENS), 0), (0, 0)))  # what is trained all the same is like nothing
        return TextGraphBuilder(encoder.relations(), vocabulary=self.vocabulary_, vectors=vectors)

    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return labels

    def _with_dev_set(
        self, columns: Columns, labels: Sequence[Any], dev: Any
    ) -> tuple[Columns, Sequence[Any], tuple[Columns, Sequence[Any]] | None]:
        """Training set and dev set; a share of the first when none is given."""
        if dev is not None:
            X, y = dev_parts(dev)
            with of_dev_set():
                X = as_list(X)
            if not X:
                raise DataError(
                    "there are no examples in the dev set",
                    hint="Leave it out, and a share of the training set is held out.",
                )
            with of_dev_set():
                own_columns, own_labels = self._columns(X), self._labels(X, y)
            return columns, labels, (own_columns, self._normalize_labels(own_labels, "dev set"))
        count = round(self.training_.dev_fraction * len(labels))
        if count < 1:
            return columns, labels, None
        left = len(labels) - count
        if left < 2:
            warnings.warn(
                f"dev_fraction {self.training_.dev_fraction} of {len(labels)} examples would leave {left} to train on: "
                "nothing is held out, and the last epoch counts; give a smaller one",
                GraphAttnWarning,
                stacklevel=3,
            )
            return columns, labels, None
        rest, held = held_out_split(len(labels), count, self._strata(labels), self.training_.seed)
        taken = [select(column, held) for column in columns], select(labels, held)
        return [select(column, rest) for column in columns], select(labels, rest), taken

    def _strata(self, labels: Sequence[Any]) -> npt.NDArray | None:
        return self.labels_.ids(labels)

    def _train(self, columns: Columns, labels: Sequence[Any], held_out: tuple[Columns, Sequence[Any]] | None) -> None:
        from graphattn.models.training.loop import train  # Lightning takes seconds to load, and only training needs it

        metric = self.training_.dev_metric(self._metric_names(), self.main_metric, dev_set=held_out is not None)
        corpus = self._corpus(columns, self._targets(labels, columns, "training set"))
        dev = evaluate = None
        if held_out is not None:
            dev_columns, dev_labels = held_out
            dev = self._corpus(dev_columns, self._targets(dev_labels, dev_columns, "dev set"))
            evaluate = partial(self._metrics, dev_labels)
        self.history_: list[dict[str, float]] = []
        train(
            self.model_,
            corpus,
            self.training_,
            dev=dev,
            evaluate=evaluate,
            metric=metric,
            about=self._about(),
            history=self.history_,
        )

    def _about(self) -> dict[str, Any]:
        """What makes a run this run, beside training options and data."""
        groups = {"encoder": self.encoder_, "inputs": self.inputs_, "head": self.head_}
        plain = {f"{group}.{name}": v for group, options in groups.items() for name, v in options.to_dict().items()}
        vectors = None
        if self.inputs_.vectors:
            table, trained = self.model_.embedding.table, self.model_.embedding.trained
            vectors = digest_of(table.numpy(), trained.detach().numpy())
        about = {"task": self.task, "class_weight": repr(self.class_weight), "vectors": vectors}
        return {**about, **plain, **self._extra_config()}

    def _corpus(self, columns: Columns, targets: Any = None) -> Corpus:
        check_same_tokenization(columns, self.inputs_.split)
        return Corpus.encode(self.builder_, columns, characters=self.characters_, targets=targets)

    # -- using ---------------------------------------------------------------------------------------------------------

    def _run(self, X: Iterable[Any], *, probabilities: bool = False) -> Predictions:
        self._check_fitted()
        return predict_corpus(self.model_, self._corpus(self._columns(as_list(X))), probabilities=probabilities)

    def predict(self, X: Iterable[Any]) -> Any:
        """Labels of the inputs, in their order."""
        return self._decided(self._run(X).decisions)

    def predict_with_probabilities(self, X: Iterable[Any]) -> tuple[Any, list[npt.NDArray[np.float32]]]:
        """What :meth:`predict` and ``predict_proba`` give, in one pass: labels and one array for each input."""
        run = self._run(X, probabilities=True)
        return self._decided(run.decisions), run.probabilities or []

    def evaluate(self, X: Iterable[Any], y: Iterable[Any] | None = None, *, unknown: str = "error") -> dict[str, float]:
        """Metrics in percent.

        Parameters
        ----------
        X, y : as for :meth:`fit`
        unknown : what to do about labels that the training set lacks: ``"error"``, or ``"wrong"`` to count them so

        Raises
        ------
        DataError
            when there is nothing to evaluate on, or there are such labels and ``unknown`` is ``"error"``
        """
        if unknown not in ("error", "wrong"):
            raise ConfigError(f"unknown is {unknown!r}; choose error or wrong")
        self._check_fitted()
        X = as_list(X)
        if not X:
            raise DataError("there are no examples to evaluate on")
        columns, labels = self._columns(X), self._normalize_labels(self._labels(X, y), "evaluation set")
        check = self._targets if unknown == "error" else self._check_sizes
        check(labels, columns, "evaluation set")
        return self._metrics(labels, self._run(X).decisions)

    def score(self, X: Iterable[Any], y: Iterable[Any] | None = None) -> float:
        """The main metric as a share of one, as scikit-learn expects; labels that training lacked count as wrong."""
        return self.evaluate(X, y, unknown="wrong")[self.main_metric] / 100

    def attention(self, x: Any, *, features: bool = False) -> Attention:
        """Predict one input and show the attention weights that made the prediction, in one pass.

        Parameters
        ----------
        x : one input, as ``predict`` takes a sequence of them
        features : also keep the weights by feature, of an encoder that has them (MTSA); they take as much memory as
            edges times the width of the encoder

        Raises
        ------
        ConfigError
            when the encoder has no attention weights
        """
        from graphattn.models.inspection.looking import look_at  # loads networkx and pandas

        return look_at(self, x, features=features)

    # -- saving --------------------------------------------------------------------------------------------------------

    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
        weights = self._state()
        weights["embedding.table"] = self.model_.embedding.table  # frozen vectors: no part of the state
        config = {
            "task": self.task,
            "encoder": self.encoder_.to_dict(),
            "inputs": self.inputs_.to_dict(),
            "head": self.head_.to_dict(),
            "training": {**self.training_.to_dict(), "run_dir": None},  # a place on one machine
            "widths": self.widths_,
            "characters": None if self.characters_ is None else list(self.characters_.characters),
            "history": self.history_,
            "class_weight": saved_weights(self.class_weight),
            **self._extra_config(),
        }
        return ModelFiles(config, self.labels_.classes, self.vocabulary_.to_json(), weights, notes)

    def _extra_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _from_files(cls: type[EstimatorT], files: ModelFiles) -> EstimatorT:
        config = files.config
        estimator = cls(
            encoder_options(config["encoder"]),
            inputs=InputOptions.from_dict(config["inputs"]),
            head=HeadOptions.from_dict(config["head"]),
            training=TrainingOptions.from_dict(config["training"]),
            class_weight=restored_weights(config.get("class_weight")),
            **cls._extra_arguments(config),
        )
        estimator._resolve_options()
        estimator.labels_ = LabelSet(files.labels)
        estimator.classes_ = np.asarray(files.labels)
        estimator.vocabulary_ = Vocabulary.from_json(files.tokenizer)
        estimator.widths_ = list(config["widths"])
        characters = config["characters"]
        estimator.characters_ = None if characters is None else CharacterVocabulary(characters)
        estimator.history_ = config["history"]
        trained, table = files.weights["embedding.trained"], files.weights.pop("embedding.table")
        estimator._num_trained = len(trained) if estimator.inputs_.tune_vectors else 0
        estimator._vectors = torch.cat([trained, table]).numpy() if estimator.inputs_.vectors else None
        with torch.random.fork_rng():
            estimator.model_ = estimator._make_model()
        estimator.model_.embedding.table = table
        estimator.builder_ = estimator._make_builder(estimator.model_.encoder, estimator.model_.embedding)
        estimator.model_.load_state_dict(files.weights)
        estimator.model_.eval()
        return estimator

    @classmethod
    def _extra_arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        return {}
