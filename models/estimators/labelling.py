"""Base of classifiers and taggers: a vocabulary, classes, and a model with a head."""

from __future__ import annotations

import json
import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Example, Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders.files import TextLines, display_name, is_store, open_text
from graphattn.builders.lazy_texts import LazyTexts
from graphattn.builders.parsers import make_parser
from graphattn.builders.pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders.readers.corpus import describe_corpus
from graphattn.builders.readers.formats import resolve_like_training
from graphattn.builders.readers.rows import Skip, raise_or_skip
from graphattn.builders.vocabulary import SPECIAL_TOKENS
from graphattn.builders.word_boundaries import strip_html
from graphattn.exceptions import (
    ConfigError,
    DataError,
    GraphAttnWarning,
    Hint,
    ModelDirectoryError,
    TruncationWarning,
    UnknownLabelError,
)
from graphattn.models.corpus import Batch, Corpus, digest_of, truncated_lengths
from graphattn.models.encoders import Encoder, EncoderOptions, encoder_options, make_encoder
from graphattn.models.estimators.base import Estimator, Predicted
from graphattn.models.estimators.class_weights import class_weights, deserialize_class_weight, serialize_class_weight
from graphattn.models.estimators.inputs import (
    Columns,
    as_list,
    check_same_tokenization,
    pair_columns,
    single_column,
)
from graphattn.models.estimators.labels import LabelSet, find_respellings
from graphattn.models.estimators.parsing import parse_column
from graphattn.models.estimators.prediction import Predictions, encode_corpus, predict_corpus, predict_decisions
from graphattn.models.estimators.task import EncodedInputs, Examples
from graphattn.models.estimators.token_inputs import TokenInputs
from graphattn.models.estimators.warm_start import check_same_kind, copy_vectors, copy_weights
from graphattn.models.estimators.word_checks import (
    expect_unknown_words,
    hint_at_unsplit_texts,
    share_of_cut_words,
    warn_about_words,
)
from graphattn.models.heads import Head
from graphattn.models.heads.ngrams import NgramBranch
from graphattn.models.heads.pooling import CLS_POOLINGS
from graphattn.models.heads.wide import WideBranch
from graphattn.models.heads.word_features import WordFeatureBranch
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained.architecture import Architecture
from graphattn.models.pretrained.options import DEFAULT_EPOCHS, FINE_TUNING, PretrainedOptions, pretrained_options
from graphattn.models.pretrained.stack import find_pretrained
from graphattn.models.reports import Outcomes, Report
from graphattn.models.saving import ModelFiles, number_epochs
from graphattn.models.spelling import FEATURES
from graphattn.models.text_model import TextModel
from graphattn.models.token_embedding import TokenEmbedding
from graphattn.options import Options, ParsingOptions, option

if TYPE_CHECKING:
    import pandas as pd
    from lightning.pytorch.callbacks import Callback

    from graphattn.builders.store import Store
    from graphattn.models.inspection.attributions.targets import ExplanationTarget
    from graphattn.models.inspection.capture import ForwardCapture

PRESETS = ("default", "paper")
PAPER: Mapping[str, Mapping[str, Any]] = {
    "inputs": {"embedding_start": "random", "word_dropout": 0.0, "characters": False, "tune_vectors": False},
    "head": {"wide": False, "crf": False},
    "training": {"epochs": 20, "patience": None, "precision": "32"},
}
"""Settings of the papers where the defaults differ: group of options -> values."""
PRESET_HELP = "defaults for a good model, or the settings of the papers"


@dataclass
class FileOptions(Options):
    """Corpora besides the training set."""

    init_from: str | None = option(
        None, "trained model to continue from, with its options; labels and words may be new", common=True
    )
    dev: str | None = option(
        None, "dev set that chooses the best epoch (default: a tenth of the training set)", common=True
    )
    test: Sequence[str] | None = option(None, "test set, evaluated once at the end; may be repeated", common=True)


_OF_ANY_FORMAT = frozenset({"split", "multilabel", "drop_label", "skip"})
"""Options of :func:`~graphattn.builders.readers.read_corpus` that say nothing about the format of a corpus."""


class LabellingEstimator(Estimator):
    """Base of the estimators that predict labels.

    Parameters
    ----------
    encoder : name of an encoder, or its options; when None, MS-Trans, or with ``pretrained`` no other encoder
    inputs, head, training : options; None for the defaults
    class_weight : weights of classes in the loss: None, ``"balanced"``, or class -> weight
    parsing : the parser of texts without heads, for encoders that use dependency arcs; None for no parser
    pretrained : a Hugging Face directory or a name on the hub, or options with it: its states are the token vectors
    preset : ``"paper"`` for the papers' settings, without what :data:`PAPER` turns off: defaults for options that are
        None
    warm_start : whether ``fit`` continues from the fitted model, if there is one

    Attributes
    ----------
    label_field : attribute of an ``Example`` or ``Sentence`` with its label
    """

    option_groups: ClassVar[Mapping[str, type[Options]]] = {
        "files": FileOptions,
        "task": Options,
        "inputs": InputOptions,
        "encoder": EncoderOptions,
        "head": HeadOptions,
        "training": TrainingOptions,
        "parsing": ParsingOptions,
        "pretrained": PretrainedOptions,
    }
    label_field: ClassVar[str] = "label"
    late_options = frozenset({"parsing"})
    _wide_kind: ClassVar[type[WideBranch]] = NgramBranch
    _characters_by_default: ClassVar[bool] = False
    prediction_options = frozenset({"probabilities", "picture", "mistakes"})
    corpus_: Mapping[str, Any] = {}
    """How the training corpus was read: format and options; empty if :meth:`read` has not read it."""
    inputs_: InputOptions
    head_: HeadOptions
    pretrained_: PretrainedOptions
    model_: TextModel
    labels_: LabelSet
    classes_: npt.NDArray[Any]
    mixture_: dict[str, float]
    tokens_: TokenInputs
    builder_: TextGraphBuilder
    architecture_: Architecture | None = None
    """Of the pretrained model."""
    _transient = ("_pretrained_folder", "_warned_of_words")
    _warned_of_words = False

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        preset: str = "default",
        warm_start: bool = False,
    ):
        self.encoder, self.preset = encoder, preset
        self.inputs = InputOptions() if inputs is None else inputs
        self.head = HeadOptions() if head is None else head
        self.training = TrainingOptions() if training is None else training
        self.class_weight = class_weight
        self.parsing = ParsingOptions() if parsing is None else parsing
        self.pretrained = pretrained_options(pretrained)
        self.warm_start = warm_start

    @property
    def vocabulary_(self) -> Vocabulary:
        """The words or subwords of the fitted model."""
        return self.tokens_.vocabulary

    @property
    def joins_pairs(self) -> bool:
        """Whether the fitted model reads the two texts of a pair as one sequence."""
        return self.architecture_ is not None and self.pretrained_.join_pairs

    @property
    @override
    def vectors_per_input(self) -> int:
        return 1 if self.joins_pairs else self.texts_per_input

    @property
    def _can_truncate(self) -> bool:
        return "max_tokens_per_text" not in self.unused_options

    @property
    def _length_limits(self) -> tuple[int | None, int | None]:
        """Maximum number of tokens of each text, and of a pair that is one sequence, without special tokens."""
        if not self._can_truncate:
            return None, None
        limit, lower = self.inputs_.max_tokens_per_text, find_pretrained(self.model_.encoder)
        if lower is None:
            return limit, None
        texts = self.texts_per_input if self.builder_.joins_pairs else 1
        longest = max(lower.max_length - self.builder_.count_special_tokens(texts), texts)
        return (limit, longest) if texts > 1 else (min(limit or longest, longest), None)

    @override
    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        (limit, total), given = self._length_limits, self.inputs_.max_tokens_per_text
        most = total or limit or 0
        if self.architecture_ is None or (given is not None and given * (2 if total else 1) <= most):
            return TruncationWarning(count, given or 0, tokens, where)
        return TruncationWarning(
            count,
            most,
            tokens,
            where,
            noun="pair" if total else "text",
            hint="The model reads no more. {max_tokens_per_text} sets a lower limit; to read longer texts, train with "
            "{pretrained_length} and windows, {pretrained_heads=window:257|global}.",
            options=("max_tokens_per_text", "pretrained_length", "pretrained_heads"),
        )

    # -- interface of a subclass --------------------------------------------------------------------------------------

    @abstractmethod
    def _label_set(self, labels: Sequence[Any]) -> LabelSet:
        """Collect the classes of the training set."""

    @abstractmethod
    def _targets(self, labels: Sequence[Any], where: str) -> Any:
        """Labels as targets of a :class:`~graphattn.models.corpus.Corpus`."""

    @abstractmethod
    def _make_head(self, width: int, weights: Tensor | None) -> Head:
        """Create the head."""

    @abstractmethod
    def _decode_labels(self, decisions: list[Any]) -> Any:
        """Convert ids to labels for ``predict``."""

    def _readable_labels(self, decisions: list[Any]) -> Any:
        return self._decode_labels(decisions)

    @abstractmethod
    def _format_prediction(self, x: Any, prediction: Any) -> dict[str, Any]:
        """Input and prediction as a row of JSON."""

    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return labels

    def _unify_spelling(self, labels: Sequence[Any], known: Iterable[Any] = ()) -> Sequence[Any]:
        """Labels whose names have one Unicode form each: the known one, or the first.

        Without known ones, a hint says that there are several.
        """
        respellings = find_respellings(dict.fromkeys(self._names(labels)), known)
        if not respellings:
            return labels
        if not known:
            count = sum(name in respellings for name in self._names(labels))
            example = next(iter(respellings.values()))
            warnings.warn(
                Hint(
                    f"{self.label_field.removesuffix('s')}s such as {example!r} are written in several Unicode forms; "
                    f"{count:,} are read as the form that occurs first"
                ),
                stacklevel=6,
            )
        return [self._respell(label, respellings) for label in labels]

    def _names(self, labels: Sequence[Any]) -> Iterable[Any]:
        """The names in labels, each as often as it occurs."""
        return labels

    def _respell(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        """A label in which names have other spellings."""
        return respellings.get(label, label)

    @override
    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        return self._unify_spelling(labels, self.labels_.classes)

    @abstractmethod
    def _outcomes(self, labels: Sequence[Any], decisions: list[Any]) -> Outcomes:
        """Compare decisions with labels."""

    @abstractmethod
    def _find_mistakes(self, examples: Examples) -> list[dict[str, Any]]:
        """Predict examples again; rows of the wrong decisions, see :attr:`Report.mistakes`."""

    def _check_sizes(
        self, labels: Sequence[Any], columns: Columns, where: str, numbers: Sequence[int] | None = None
    ) -> None:
        """Reject labels whose number does not fit their inputs; ``numbers`` are those in the user's data."""

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        weights = str | list[list[Any]] | None
        characters = list[str] | None
        types: dict[str, Any] = {"widths": list[int], "characters": characters, "class_weight": weights}
        types |= {"mixture": dict[str, float] | None, "gazetteer": list[list[str]] | None, "preset": str | None}
        types |= {"architecture": Architecture | None, "pretrained": PretrainedOptions | None}
        types |= {"features": int | None, "cut_words": float | None, "unknown_words": float | None}
        types |= {"corpus": dict[str, Any] | None}
        return {**super().config_types(), **types}

    def _extra_config(self) -> dict[str, Any]:
        """Values for ``config.json`` besides the groups of options."""
        return {}

    # -- reading and writing -------------------------------------------------------------------------------------------

    @override
    def read(self, paths: Sequence[str | Path], *, format: str = "auto", **options: Any) -> tuple[Any, Any]:
        files = [Path(path) for path in paths]
        if options.get("drop_label") and any(map(is_store, files)):
            raise ConfigError("{drop_label} is for files; give it to graphattn build", options=("drop_label",))
        corpora = [self._read_store(file) or self._read_file(file, format, options) for file in files]
        if len(corpora) == 1:
            return corpora[0], None
        store = next((file for file, corpus in zip(files, corpora, strict=True) if not isinstance(corpus, list)), None)
        if store is not None:
            hint = "Append them to the store: graphattn build --append."
            raise DataError("a store cannot be combined with other corpora", path=store, hint=hint)
        return list(chain.from_iterable(corpora)), None

    def _read_store(self, path: Path) -> Store | None:
        from graphattn.builders.store.store import open_store

        if not is_store(path):
            return None
        store = open_store(path)
        self._check_stored(store, path)
        return store

    def _check_stored(self, store: Store, path: Path) -> None:
        self._check_read(store.texts().column(self.label_field), path)

    def _read_file(self, path: Path, format: str, options: dict[str, Any]) -> list[Example | Sentence]:
        from graphattn.builders.readers import read_corpus

        skip: Skip | None = options.get("skip")
        items, errors = [], list[DataError]()
        reading = {**options, "skip": errors.append} if skip else options
        try:
            with nullcontext(path) if os.path.isdir(path) else open_text(path) as source:
                if isinstance(source, TextLines):
                    format, reading = self._resolve_reading(source, format, reading)
                items_of_file = read_corpus(source, format=format, task=self.corpus_kind, **reading)
                for number, item in enumerate(items_of_file, 1):
                    _, line = getattr(item, "origin", None) or ("", getattr(source, "line", number))
                    try:
                        self._check_item(item, display_name(path), line)
                        if skip and getattr(item, self.label_field, None) is None:
                            raise DataError(f"there is no {self.label_field}", path=display_name(path), line=line)
                    except DataError as error:
                        raise_or_skip(error, errors.append if skip else None)
                    else:
                        items.append(item)
        except DataError as error:
            error.alternative = None  # it reads texts without labels
            raise
        if errors and not items:
            raise errors[0]
        if skip:
            for each in errors:
                skip(each)
        self._check_read([getattr(item, self.label_field, None) for item in items], path)
        return items

    def _resolve_reading(self, lines: TextLines, format: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The format and options of a corpus; where the user leaves them open, those of the training corpus."""
        of_any_format = {name: value for name, value in options.items() if name in _OF_ANY_FORMAT}
        own = {name: value for name, value in options.items() if name not in _OF_ANY_FORMAT}
        format, own = resolve_like_training(lines, self.corpus_, self.corpus_kind, format, own)
        if not self.corpus_ or self.warm_start:
            self.corpus_ = describe_corpus(lines, format=format, task=self.corpus_kind, **own)
        return format, own | of_any_format

    @override
    def reading_defaults(self) -> dict[str, Any]:
        return {"training": self.corpus_, "labels": frozenset(map(str, self.classes_.tolist()))}

    def _check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        """Reject a label in a line of a file."""

    def _check_read(self, labels: Sequence[Any], path: Path) -> None:
        """Reject a corpus with unlabelled texts."""
        missing = next((number for number, label in enumerate(labels, 1) if label is None), None)
        if missing is not None:
            hint = "Label every text, or delete those without labels."
            raise DataError(f"text {missing} has no {self.label_field}", path=path, hint=hint)

    @override
    def format_row(self, x: Any, prediction: Any, probabilities: Any = None) -> dict[str, Any]:
        row = self._format_prediction(x, prediction)
        if probabilities is not None:
            row["probabilities"] = (
                [self._by_class(word) for word in probabilities]
                if probabilities.ndim == 2
                else self._by_class(probabilities)
            )
        return row

    def _by_class(self, probabilities: npt.NDArray[np.float32]) -> dict[str, float]:
        """Class -> probability; keys are JSON strings, such as ``true`` for True."""
        names = (name if isinstance(name, str) else json.dumps(name) for name in self.classes_.tolist())
        return {name: round(float(share), 6) for name, share in zip(names, probabilities, strict=True)}

    # -- fitting -------------------------------------------------------------------------------------------------------

    @classmethod
    @override
    def default_encoder(cls, pretrained: str | None) -> str:
        return "pretrained" if pretrained else super().default_encoder(pretrained)

    @classmethod
    @override
    def option_defaults(cls, preset: str, pretrained: str | None) -> Mapping[str, Mapping[str, Any]]:
        return FINE_TUNING if pretrained else PAPER if preset == "paper" else {}

    @override
    def _resolve_options(self) -> None:
        super()._resolve_options()
        if self.encoder_.name == "pretrained" and not self.pretrained_.pretrained:
            raise ConfigError(
                "{encoder=pretrained} needs {pretrained}: a Hugging Face directory, or OWNER/NAME on the hub",
                options=("encoder", "pretrained"),
            )
        joins = self.texts_per_input == 2 and self.pretrained_.join_pairs
        if self.pretrained_.pretrained and joins and self.head_.wide:
            raise ConfigError("{wide} needs {join_pairs=False}", options=("wide", "join_pairs"))
        self.mixture_ = {}
        if self.head_.pooling is None:
            self.head_.pooling = self.encoder_.pooling
            if self.head_.pooling == "cls+max" and not self.inputs_.cls:
                self.head_.pooling = "max"
        if self.head_.pooling in CLS_POOLINGS and not self.inputs_.cls:
            raise ConfigError(
                f"{{pooling}} {self.head_.pooling} needs [CLS]; set {{cls=True}}, or choose another {{pooling}}",
                options=("pooling", "cls"),
            )
        if self.inputs_.characters is None:
            self.inputs_.characters = self._characters_by_default
        if self.head_.head_hidden is None and self.encoder_.linear_head:
            self.head_.head_hidden = 0

    @override
    def _epochs_by_default(self) -> Mapping[str, int]:
        return DEFAULT_EPOCHS if self.pretrained_.pretrained else {}

    @override
    def _fit_labels(self, examples: Examples) -> None:
        from graphattn.models.training.hints import hint_at_invisible_ends

        self.labels_ = self._label_set(examples.labels)
        self.classes_ = np.asarray(self.labels_.classes)
        if hint := hint_at_invisible_ends(self.labels_.classes):
            warnings.warn(hint, stacklevel=4)

    @override
    def _strata(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return self.labels_.ids(labels)

    @override
    def _class_weights(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        return class_weights(self.class_weight, self.labels_, self._flat_labels(labels), weights)

    @override
    def _fit_vocabulary(self, examples: Examples) -> None:
        from graphattn.models.training.hints import hint_at_half_pairs

        columns, options, previous = examples.columns, self.inputs_, self._previous
        if len(columns) == 2 and (hint := hint_at_half_pairs(*columns)):
            warnings.warn(hint, stacklevel=3)
        check_same_kind(self.pretrained_, previous)
        if self.pretrained_.pretrained:
            self._fit_pretrained_vocabulary(self.pretrained_.pretrained, columns)
        else:
            self.architecture_ = None
            check_same_tokenization(columns, options.split)
            if previous is None:
                self.tokens_ = TokenInputs.fit(options, columns, self.training_.seed)
            else:
                self.tokens_ = previous.tokens_.with_new_words(options, columns, previous.model_.embedding)
        splitter = self.vocabulary_.splitter
        self.tokens_.cut_words = share_of_cut_words(columns, splitter)
        hint = hint_at_unsplit_texts(columns, splitter) if self.vocabulary_.level == "word" else None
        if hint is not None:
            warnings.warn(hint, stacklevel=3)

    def _fit_pretrained_vocabulary(self, name: str, columns: Columns) -> None:
        """The tokenizer and the architecture of a pretrained model."""
        from graphattn.models.pretrained.checkpoint import (
            check_segments,
            find_transformer,
            read_architecture,
            read_vocabulary,
        )

        if self._previous is not None:
            self.architecture_ = self._previous.architecture_
            self.tokens_ = replace(self._previous.tokens_, options=self._options_of_tokens())
            return
        self._pretrained_folder = find_transformer(name)
        self.architecture_ = read_architecture(self._pretrained_folder)
        vocabulary = read_vocabulary(self._pretrained_folder, self.architecture_)
        if self.joins_pairs and self.texts_per_input == 2:
            check_segments(vocabulary, self.architecture_)
        self.tokens_ = TokenInputs(self._options_of_tokens(), vocabulary)
        self.tokens_.fit_features(columns)

    def _options_of_tokens(self) -> InputOptions:
        """Options of the input layer; a pretrained model has its own width and dropout."""
        if self.architecture_ is None:
            return self.inputs_
        return replace(self.inputs_, embedding=self.architecture_.embedding, embedding_dropout=0.0, word_dropout=0.0)

    @override
    def _copy_model(self, previous: Self) -> None:
        embedding = self.model_.embedding
        copied = []
        if self.architecture_ is None:
            copy_vectors(previous.model_.embedding, previous.vocabulary_.words, embedding, self.vocabulary_.words)
            copied = ["embedding.trained"]
        classes = self.labels_.ids(previous.labels_.classes).tolist()
        copy_weights(previous.model_, self.model_, classes, without=copied)
        self.builder_ = self._make_builder(self.model_.encoder, embedding)

    def _list_known_classes(self) -> list[Any]:
        """The classes of the model to continue from, if any."""
        return [] if self._previous is None else self._previous.labels_.classes

    @override
    def _make_model(self, weights: Tensor | None = None) -> TextModel:
        if self.architecture_ is not None:
            return self._make_pretrained_model(self.architecture_, weights)
        self.encoder_ = self.encoder_.for_parts(self._part_widths(), of_files=bool(self.tokens_.widths))
        encoder = make_encoder(self.encoder_)
        hidden = None if self.encoder_.takes_parts else self.encoder_.hidden
        embedding = self.tokens_.make_embedding(hidden, trains_special=self.encoder_.trains_special)
        return self._assemble_model(embedding, encoder, weights)

    @override
    def _part_widths(self) -> Sequence[int]:
        widths = self.tokens_.part_widths
        return widths if self.architecture_ is None else [self.architecture_.hidden, *widths[1:]]

    def _assemble_model(self, embedding: TokenEmbedding, encoder: Encoder, weights: Tensor | None) -> TextModel:
        self.builder_ = self._make_builder(encoder, embedding)
        return TextModel(embedding, encoder, self._make_head(encoder.width, weights))

    def _make_pretrained_model(self, architecture: Architecture, weights: Tensor | None) -> TextModel:
        """A model whose token vectors are states of a pretrained one, read from its directory unless it was saved."""
        from graphattn.models.pretrained.stack import learning_rates, make_pretrained, stack_encoders

        lower = make_pretrained(self.pretrained_, architecture, getattr(self, "_pretrained_folder", None))
        embedding = self.tokens_.make_embedding(None, num_tokens=architecture.vocabulary)
        assert lower.embedding is not None
        embedding.trained, lower.embedding = lower.embedding.trained, None
        widths = self._part_widths()
        self.encoder_ = self.encoder_.for_parts(widths)
        encoder = stack_encoders(lower, self.encoder_, widths, self.head_.head_dropout)
        model = self._assemble_model(embedding, encoder, weights)
        model.learning_rates = learning_rates(self.pretrained_, encoder)
        return model

    def _make_builder(self, encoder: Encoder, embedding: TokenEmbedding) -> TextGraphBuilder:
        """A builder that gives relations the word vectors, unless these are trained."""
        if self.architecture_ is not None:
            return TextGraphBuilder(
                encoder.relations(), vocabulary=self.vocabulary_, joins_pairs=self.pretrained_.join_pairs
            )
        vectors = None
        if self.inputs_.vectors and not self.inputs_.tune_vectors:
            frozen = embedding.table.numpy()
            vectors = np.pad(frozen, ((len(SPECIAL_TOKENS), 0), (0, 0)))  # zeros for special tokens
        cls = bool(self.inputs_.cls)
        return TextGraphBuilder(encoder.relations(), cls=cls, vocabulary=self.vocabulary_, vectors=vectors)

    @override
    def non_default_options(self) -> dict[str, Any]:
        preset = {} if self.preset == PRESETS[0] else {"preset": self.preset}
        return {**preset, **super().non_default_options()}

    @override
    def _with_defaults(self) -> Self:
        return type(self)(self.encoder_.name, preset=self.preset, pretrained=self.pretrained_.pretrained)

    @override
    def _fingerprint(self, held_out: Examples | None) -> dict[str, Any]:
        vectors = None
        if self.inputs_.vectors:
            table, trained = self.model_.embedding.table, self.model_.embedding.trained
            vectors = digest_of(table.numpy(), trained.detach().numpy())
        shared = super()._fingerprint(held_out)
        return {**shared, "class_weight": repr(self.class_weight), "vectors": vectors, **self._extra_config()}

    @override
    def _corpus(
        self,
        columns: Columns,
        labels: Sequence[Any] | None = None,
        *,
        where: str = "data",
        numbers: Sequence[int] | None = None,
    ) -> Corpus:
        if self.architecture_ is None:
            check_same_tokenization(columns, self.inputs_.split)
        targets = None
        if labels is not None:
            self._check_sizes(labels, columns, where, numbers)
            targets = self._targets(labels, where)
        columns = self._add_heads(columns)  # last, since it may take hours
        self._check_relations(columns, where)
        has_branch = self.model_.wide is not None if labels is None else self.head_.wide  # it may be left out
        spelling = self._wide_kind is WordFeatureBranch and has_branch
        corpus = Corpus.encode(
            self.builder_,
            columns,
            characters=self.tokens_.characters,
            spelling=spelling,
            lexicon=self.tokens_.lexicon,
            predicates=self.tokens_.predicates,
            targets=targets,
        )
        data_set = "" if where == "data" else where
        corpus, cut, tokens = corpus.truncate(*self._length_limits)
        if cut:
            warnings.warn(self.describe_truncation(cut, tokens, data_set), stacklevel=2)
        self._check_lengths(corpus, numbers, data_set)
        if labels is None:
            self._check_words(columns, corpus)
        return corpus

    def _check_words(self, columns: Columns, corpus: Corpus) -> None:
        """Warn, once, about texts whose words are not those of the training set."""
        if self._warned_of_words:
            return
        cut, expected = self.tokens_.cut_words, self.tokens_.unknown_words
        warning = warn_about_words(columns, corpus.layouts, self.vocabulary_, cut=cut, expected=expected)
        if warning is not None:
            self._warned_of_words = True
            warnings.warn(warning, stacklevel=3)

    def _check_lengths(self, corpus: Corpus, numbers: Sequence[int] | None, where: str) -> None:
        """Reject texts that a pretrained model cannot read."""
        lower = find_pretrained(self.model_.encoder)
        if lower is None:
            return
        joins = self.builder_.joins_pairs
        texts = len(corpus.layouts) if joins else 1
        special = self.builder_.count_special_tokens(texts)
        options = ("pretrained_length", "pretrained_heads")
        for lengths in [corpus.lengths] if joins else [layout.lengths + special for layout in corpus.layouts]:
            lower.check_lengths(lengths, numbers, where=where, options=options)

    @override
    def _finish_model(
        self,
        corpus: Corpus,
        dev: Corpus | None,
        held_out: Examples | None,
        *,
        refit: bool,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        from graphattn.models.training.callbacks import shows_epochs
        from graphattn.models.training.wide import add_wide_branch

        if self.vocabulary_.level == "word":
            self.tokens_.unknown_words = expect_unknown_words(corpus.layouts, self.vocabulary_)
        if not self.head_.wide:
            return
        weights = self.model_.head.class_weights
        words = self.vocabulary_.words
        metric, metrics = self.training_.metric or self.main_metric, dict[str, float]()
        shown = shows_epochs(self.training_, callbacks)

        def report(line: str) -> None:
            if shown:
                print(line, file=sys.stderr, flush=True)

        def accept(decisions: list[Any]) -> bool:
            assert held_out is not None
            alone, of_examples = self.best_epoch()[f"dev_{metric}"], held_out.weights if self.weighted_metrics else None
            metrics.update(self._metrics(held_out.labels, decisions, of_examples))
            accepted = metrics[metric] >= alone
            report(
                f"linear branch {'added' if accepted else 'left out'}: dev {metric.replace('_', ' ')} "
                f"{metrics[metric]:.2f} with it, {alone:.2f} without"
            )
            return accepted

        mixture = add_wide_branch(
            self.model_, corpus, dev, words, refit=refit, class_weights=weights, accept=accept, report=report
        )
        if mixture is not None:
            self.mixture_ = {"deep": mixture.deep, "wide": mixture.wide}
            self.mixture_ |= {f"dev_{name}": value for name, value in metrics.items()}

    @property
    @override
    def epoch_note(self) -> str | None:
        return "graph encoder alone" if self.resolved_options()["head"].wide else None

    @override
    def dev_metrics(self) -> dict[str, float]:
        return {name: self.mixture_.get(f"dev_{name}", value) for name, value in super().dev_metrics().items()}

    @override
    def _columns(self, X: Iterable[Any]) -> Columns:
        """The texts, without HTML if the option says so; a store keeps its words."""
        columns = pair_columns(X) if self.texts_per_input == 2 else single_column(X)
        if not self.inputs_.strip_html:
            return columns
        return [
            column
            if isinstance(column, LazyTexts)
            else [strip_html(source) if isinstance(source, str) else source for source in column]
            for column in columns
        ]

    def _add_heads(self, columns: Columns) -> Columns:
        """The texts with the parser's heads, if the encoder uses dependency arcs; a store keeps its own."""
        parser = None if self.builder_.deprel_id is None else make_parser(self.parsing)
        if parser is None:
            return columns
        splitter = self.vocabulary_.splitter
        return [
            column if isinstance(column, LazyTexts) else parse_column(column, splitter, parser) for column in columns
        ]

    # -- using ---------------------------------------------------------------------------------------------------------

    @override
    def _predict_corpus(self, model: TextModel, corpus: Corpus) -> list[Any]:
        return predict_decisions(model, corpus)

    @override
    def _hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any]) -> Hint | None:
        from graphattn.models.training.hints import hint_at_single_class

        gold, predicted = self._hashable_labels(labels), self._hashable_labels(self._readable_labels(decisions))
        return hint_at_single_class(
            gold, predicted, has_vectors=self.architecture_ is not None or bool(self.inputs_.vectors)
        )

    def _hashable_labels(self, labels: Iterable[Any]) -> list[Any]:
        """The class of each item, hashable."""
        return list(labels)

    @override
    def _check_labels(self, labels: Sequence[Any], columns: Columns, *, unknown: str) -> None:
        self._check_sizes(labels, columns, "evaluation set")
        try:
            self._targets(labels, "evaluation set")
        except UnknownLabelError as error:
            if unknown == "error":
                raise
            advice = error.alternative or "{unknown=error} rejects them"
            message = f"{error.message} ({error.count:,} in all); these count as wrong. {advice}"
            warnings.warn(GraphAttnWarning(message, options=("unknown", *error.options)), stacklevel=5)

    def _run(self, X: Iterable[Any], **options: Any) -> Predictions:
        """See :func:`predict_corpus`."""
        self._check_fitted()
        return predict_corpus(self.model_, self._corpus(self._columns(X)), **options)

    def predict_with_probabilities(self, X: Iterable[Any]) -> tuple[Predicted, list[npt.NDArray[np.float32]]]:
        """Labels as from :meth:`predict`, and the probabilities of each input, in one pass."""
        run = self._run(X, probabilities=True)
        return self._decode_labels(run.decisions), run.probabilities or []

    @override
    def predict_rows(
        self, X: Sequence[Any], *, first: int = 1, n_best: int = 1, probabilities: bool = False
    ) -> list[dict[str, Any]]:
        if not probabilities:
            return super().predict_rows(X)
        X = as_list(X, self.texts_per_input)
        labels, rows = self.predict_with_probabilities(X)
        return [self.format_row(*row) for row in zip(X, labels, rows, strict=True)]

    @override
    def report(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str = "wrong",
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        examples = self._evaluation_set(X, y, unknown)
        decisions = self._predict_columns(examples.columns)
        outcomes = self._outcomes(examples.labels, decisions)
        wrong = examples.select(outcomes.wrong_inputs)
        metrics = self._metrics(examples.labels, decisions)
        return Report(metrics, self.main_metric, outcomes, find_mistakes=partial(self._find_mistakes, wrong))

    @override
    def sentence_vectors(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, F) inputs of the last layers, for scikit-learn or semantic search; for pairs, those of both texts."""
        self._check_fitted()
        if self.model_.head.per_word:
            return super().sentence_vectors(X)
        return encode_corpus(self.model_, self._corpus(self._columns(X)))

    @override
    def encode_inputs(self, X: Iterable[Any], *, targets: Sequence[str] | None = None) -> EncodedInputs:
        self._check_fitted()
        if targets is not None:
            raise ConfigError("{target} is for translators only", options=("target",))
        columns = self._add_heads(self._columns(X))
        sentences = [self.vocabulary_.sentences(column) for column in columns]
        lengths = [np.fromiter(map(len, column), np.int64) for column in sentences]
        sentences = [
            [sentence.truncate(count) for sentence, count in zip(column, counts.tolist(), strict=True)]
            for column, counts in zip(sentences, truncated_lengths(lengths, *self._length_limits), strict=True)
        ]
        if isinstance(self.vocabulary_, PretrainedVocabulary):
            joined = [list(zip(*sentences, strict=True))] if self.builder_.joins_pairs else None
            groups = joined or [[(sentence,) for sentence in column] for column in sentences]
            sentences = [[self.vocabulary_.add_special_tokens(parts) for parts in group] for group in groups]
        names = ("text",) if len(sentences) == 1 else ("first", "second")
        return EncodedInputs(self._corpus(columns), dict(zip(names, sentences, strict=True)))

    @override
    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        from graphattn.models.inspection.capture import capture_scores

        return capture_scores(self.model_, batch, features=features)

    @override
    def target(
        self, inputs: EncodedInputs, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        from graphattn.models.inspection.attributions.targets import select_class

        classes = self.classes_.tolist()
        label = find_respellings([label], classes).get(label, label)
        return select_class(self.model_.head, classes, scores, label=label, word=word)

    @override
    def _describe_prediction(self, inputs: EncodedInputs, scores: Tensor) -> tuple[str, Any, Any]:
        head, graph = self.model_.head, inputs.batch.graph
        decisions = head.decide(scores, graph).cpu().numpy()
        rows = head.probabilities(scores, graph).cpu().numpy().tolist()
        label = self._readable_labels([decisions if head.per_word else decisions[0]])[0]
        probabilities = [dict(zip(self.classes_.tolist(), row, strict=True)) for row in rows]
        return (
            " / ".join(" ".join(sentence.words) for sentence in inputs.single.values()),
            label.item() if isinstance(label, np.generic) else label,
            tuple(probabilities) if head.per_word else probabilities[0],
        )

    @override
    def _copy_scores(
        self,
        batch: Batch,
        *,
        vectors: Tensor | None = None,
        presence: Tensor | None = None,
        hidden: pd.DataFrame | None = None,
    ) -> Tensor:
        model = self.model_
        if vectors is None:
            rows = model(batch)
        else:
            encoded = model.head(model.encoder(batch.graph, vectors), batch.graph)
            rows = model.add_wide_scores(encoded, batch, presence)
        scores: Tensor = rows.unflatten(0, (batch.size, -1))
        return scores

    @override
    def count_tokens(self, text: str) -> int:
        special = self.builder_.cls + self.builder_.count_special_tokens(1)
        return special + len(self.vocabulary_.sentence(text))

    def to_huggingface(self, directory: str | Path) -> None:
        """Write the tuned pretrained model for ``transformers`` and ``sentence-transformers``.

        A linear head on ``[CLS]``, or on the first token of each word, is written, too, if nothing else is on top; the
        directory's README says what is missing.

        Parameters
        ----------
        directory : a new directory

        Raises
        ------
        ConfigError
            without a pretrained model, for other edges than those of pretraining, or when the directory exists
        """
        from graphattn.models.pretrained.native_head import convert_head, find_missing_layers

        self._check_fitted()
        lower = find_pretrained(self.model_.encoder)
        if lower is None or not isinstance(self.vocabulary_, PretrainedVocabulary):
            raise ConfigError(
                "the model is not built on a pretrained one; train with {pretrained}", options=("pretrained",)
            )
        family = lower.architecture.family
        missing = find_missing_layers(self.model_, family)
        head = None if missing else convert_head(self.model_.head, family, self.classes_.tolist())
        lower.to_huggingface(
            directory,
            embedding=self.model_.embedding.trained,
            vocabulary=self.vocabulary_,
            head=head,
            missing=missing,
        )

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    def _files(self, notes: Mapping[str, str]) -> ModelFiles:
        weights = self._state()
        weights["embedding.table"] = self.model_.embedding.table  # frozen vectors are not in the state
        config = {
            **self._serialize_options(),
            **self.tokens_.to_config(),
            "corpus": self.corpus_,
            "class_weight": serialize_class_weight(self.class_weight),
            "mixture": self.mixture_,
            "features": self._features_version(),
            "preset": self.preset,
            "architecture": None if self.architecture_ is None else self.architecture_.to_dict(),
            **self._extra_config(),
        }
        return ModelFiles(config, self.labels_.classes, self.vocabulary_.to_json(), weights, notes)

    @override
    @classmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        config = {**files.config, "preset": files.config.get("preset") or "paper"}
        names = {item.name for item in fields(cls.option_groups["task"])}
        arguments: dict[str, Any] = {name: config[name] for name in names if config.get(name) is not None}
        if "class_weight" in arguments:
            arguments["class_weight"] = deserialize_class_weight(arguments["class_weight"])
        parts: dict[str, Any] = {name: kind.from_dict(config.get(name) or {}) for name, kind in cls._parts().items()}
        estimator = cls(encoder_options(config["encoder"]), **parts, **arguments)
        estimator._resolve_options()
        estimator._forget_unset(config.get("set_options"))
        estimator.corpus_ = config.get("corpus") or {}
        estimator.labels_ = LabelSet(files.labels)
        estimator.classes_ = np.asarray(files.labels)
        architecture = config.get("architecture")
        estimator.architecture_ = None if architecture is None else Architecture.from_dict(architecture)
        estimator.tokens_ = TokenInputs.from_config(config, estimator._options_of_tokens(), files.tokenizer)
        estimator.tokens_.predicates = "embedding.predicate.weight" in files.weights
        estimator.history_, estimator.deprels_ = number_epochs(config["history"]), config.get("deprels")
        trained, table = files.weights["embedding.trained"], files.weights.pop("embedding.table")
        if estimator.inputs_.vectors:
            estimator.tokens_.vectors = torch.cat([trained, table]).numpy()
            estimator.tokens_.num_trained = len(trained) if estimator.inputs_.tune_vectors else 0
        with torch.random.fork_rng():
            estimator.model_ = estimator._make_model()
        estimator.model_.embedding.table = table
        estimator.builder_ = estimator._make_builder(estimator.model_.encoder, estimator.model_.embedding)
        estimator.mixture_ = config.get("mixture") or {}
        if "wide.keys" in files.weights:
            wide = {name: value for name, value in files.weights.items() if name.startswith("wide.")}
            estimator.model_.wide = cls._wide_kind.like(wide)
        estimator.model_.load_state_dict(files.weights)
        estimator.model_.eval()
        if config.get("features") != estimator._features_version():
            raise ModelDirectoryError(
                "another version of GraphAttn computes other features of words. Install the GraphAttn that wrote the "
                "model, or train again"
            )
        return estimator

    def _features_version(self) -> int | None:
        """The version of the features of words, if the model has any."""
        has_features = self.tokens_.lexicon is not None or isinstance(self.model_.wide, WordFeatureBranch)
        return FEATURES if has_features else None
