"""How texts become the rows of an encoder: what words and pretrained inputs have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders._layout import advise_parser
from graphattn.builders._stored import is_stored
from graphattn.builders.parsers import make_parser
from graphattn.exceptions import ConfigError, ModelDirectoryError, TruncationWarning, warn_caller
from graphattn.models._corpus import Corpus, truncate_lengths
from graphattn.models._encoders import Encoder, EncoderOptions
from graphattn.models._encoders.base import MOST_TOKENS
from graphattn.models._estimators.parsing import check_scheme, count_relations, parse_column
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.word_checks import (
    check_word_counts,
    expect_unknown_words,
    require_features,
    require_predicates,
    warn_about_words,
)
from graphattn.models._features.characters import CharacterVocabulary
from graphattn.models._features.hashing import FEATURES
from graphattn.models._features.lexicon import FeatureValues, Gazetteer, Lexicon
from graphattn.models._features.text_columns import TextColumns
from graphattn.models._features.token_embedding import TokenEmbedding, part_widths
from graphattn.models._options import INPUTS, InputOptions
from graphattn.models._prediction import warn_of_truncation
from graphattn.options import ParsingOptions


@dataclass(frozen=True, eq=False)
class InputLayers:
    """The layers of a model below its head: token ids -> vectors -> rows.

    ``options`` are those of the encoder, for the width of its input; ``learning_rates`` map names of parameters to
    their maximum learning rates, if other than that of the training.
    """

    embedding: Any
    encoder: Encoder
    options: EncoderOptions
    learning_rates: Mapping[str, float] = field(default_factory=dict)


class TextInputs:
    """Texts -> corpus, batches -> rows: tokenizer, vocabulary, features of words, embedding, and their files.

    Attributes
    ----------
    options : how text becomes vectors
    vocabulary : of words or subwords
    builder : builds the graphs; there is one when the layers are made
    characters : the characters of words, for a model with character features
    gazetteer : lists of names, for a model with gazetteer features
    feature_values : those of further columns of words, for a tagger with ``feature_columns``
    text_columns : columns that a classifier or regressor reads beside the texts
    predicates : whether inputs mark predicates (MTSA, section 4.2)
    deprels : dependency relations of the training set, for an encoder that uses dependency arcs
    cut_words, unknown_words : shares in the training set, see :mod:`~graphattn.models._estimators.word_checks`
    texts_per_input : 2 for pairs
    truncates : whether long texts may be truncated
    per_word : whether each word has a label
    spelling : whether tokens keep the features of their spelling, for a linear branch
    has_branch : whether the model has this branch, which is added after training
    """

    uses_pretrained: ClassVar[bool] = False
    vocabulary: Vocabulary
    builder: TextGraphBuilder
    characters: CharacterVocabulary | None = None
    gazetteer: Gazetteer | None = None
    feature_values: FeatureValues | None = None
    text_columns: TextColumns | None = None
    predicates = False
    deprels: list[str] | None = None
    cut_words: float | None = None
    unknown_words: float | None = None
    texts_per_input = 1
    truncates = True
    per_word = False
    spelling = has_branch = False
    _warned_of_words = False

    def __init__(self, options: Any):
        self.options = options

    # -- learning ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def fit(self, texts: Texts, seed: int) -> Texts:
        """Learn the vocabulary of the training set; return it, split into words if that saves work."""

    @abstractmethod
    def extend(self, previous: Self, model: Any, texts: Texts) -> Texts:
        """Continue from inputs and a model that were trained before."""

    def fit_features(self, texts: Texts) -> None:
        """Read the gazetteer and collect the characters, if the options ask for them."""
        if self.options.gazetteer is not None:
            self.gazetteer = Gazetteer.read(self.options.gazetteer, self.vocabulary.splitter)
        if self.options.characters:
            sentences = (sentence for chunk in texts.iter_chunks() for sentence in self.vocabulary.sentences(chunk))
            self.characters = CharacterVocabulary.of(token for s in sentences for token in s.tokens)

    def finish(self, corpus: Corpus) -> None:
        """Note what the encoded training set says about texts to predict."""
        if self.vocabulary.level == "word":
            self.unknown_words = expect_unknown_words(corpus.layouts, self.vocabulary)

    def start_embedding(self, model: Any) -> None:
        """Give the embedding of a new model its vectors, if they were not computed before the linear model."""

    def describe_vectors(self, model: Any) -> Sequence[Any]:
        """Arrays that were read from files of vectors, which a resumed run must have again."""
        return ()

    @property
    def has_vectors(self) -> bool:
        """Whether words have vectors from elsewhere."""
        return self.uses_pretrained or bool(self.options.vectors)

    # -- layers --------------------------------------------------------------------------------------------------------

    @property
    def embedding_options(self) -> InputOptions:
        """Options of the embedding."""
        options: InputOptions = self.options
        return options

    @property
    def lexicon(self) -> Lexicon | None:
        """Suffixes, the gazetteer and values in columns, if there are any."""
        if not self.options.suffixes and self.gazetteer is None and self.feature_values is None:
            return None
        lexicon = Lexicon(self.options.suffixes, self.gazetteer, self.feature_values)
        return lexicon if lexicon.width else None

    @abstractmethod
    def list_widths(self, encoder: EncoderOptions) -> Sequence[int]:
        """Widths of the parts that the encoder's input concatenates."""

    def _part_widths(self, widths: Sequence[int]) -> Sequence[int]:
        lexicon = self.lexicon
        return part_widths(
            self.embedding_options,
            widths,
            characters=self.characters is not None,
            lexicon=0 if lexicon is None else lexicon.width,
            predicates=self.predicates,
        )

    def _make_embedding(self, num_tokens: int, hidden: int | None, **vectors: Any) -> TokenEmbedding:
        return TokenEmbedding(
            self.embedding_options,
            num_tokens,
            hidden,
            num_characters=None if self.characters is None else len(self.characters),
            lexicon=self.lexicon,
            predicates=self.predicates,
            **vectors,
        )

    @abstractmethod
    def make_layers(self, encoder: EncoderOptions, dropout: float) -> InputLayers:
        """Create embedding and encoder, and the builder; ``dropout`` is that below an encoder on pretrained states."""

    def copy_vectors(self, previous: Self, before: Any, model: Any) -> list[str]:
        """Copy the vectors of words and values from the model to continue from; return the names of these weights."""
        if self.feature_values is None:
            return []
        tables = before.embedding.lexicon.columns, model.embedding.lexicon.columns
        for old, new in zip(*tables, strict=True):
            new.weight.data[: len(old.weight)] = old.weight.data
        return [f"embedding.lexicon.columns.{number}.weight" for number in range(len(tables[1]))]

    # -- encoding ------------------------------------------------------------------------------------------------------

    def check(self, texts: Texts) -> None:
        """Reject texts without what the model reads besides words, and tags whose number is not that of the words."""
        if self.predicates:
            require_predicates(texts)
        if self.feature_values is not None:
            require_features(texts, self.feature_values.values)
        if self.per_word and texts.labels is not None:
            check_word_counts(texts, self.vocabulary)

    @property
    def length_limits(self) -> tuple[int | None, int | None]:
        """Maximum number of tokens of each text, and of a pair that is one sequence, without special tokens."""
        return (self.options.max_tokens_per_text if self.truncates else None), None

    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        """A warning of texts that were longer than the model reads: their number, and that of tokens left out."""
        limit = getattr(self.options, "max_tokens_per_text", None) or 0
        hint = "A larger {max_tokens_per_text} reads more." if limit == MOST_TOKENS else ""
        return TruncationWarning(count, limit, tokens, where, hint=hint, options=("max_tokens_per_text",))

    def check_lengths(self, corpus: Corpus, numbers: Sequence[int] | None, where: str) -> None:
        """Reject texts that the model cannot read."""

    def encode(self, texts: Texts, make_targets: Callable[[Any, str], Any], parsing: ParsingOptions) -> Corpus:
        """Encode texts; ``make_targets`` turns labels, and the name of their corpus for errors, into targets.

        Texts without labels, which are to be predicted, are compared with those of the training set, with one warning.
        """
        self.check(texts)
        targets = None if texts.labels is None else make_targets(texts.labels, texts.where)
        texts = self.add_heads(texts, parsing)  # may take hours
        if self.builder.deprel_id is not None:
            self.check_relations(texts)
        with advise_parser():
            corpus = Corpus.encode(
                self.builder,
                texts.sources,
                characters=self.characters,
                spelling=self.spelling,
                lexicon=self.lexicon,
                predicates=self.predicates,
            )
        data_set = "" if texts.where == "data" else texts.where
        if any(limits := self.length_limits):
            corpus, cut, tokens = corpus.truncate(*limits)
            if cut:
                warn_of_truncation(self.describe_truncation(cut, tokens, data_set))
        self.check_lengths(corpus, texts.numbers, data_set)
        if targets is None and not self._warned_of_words:
            expected = self.unknown_words
            warning = warn_about_words(texts, corpus.layouts, self.vocabulary, cut=self.cut_words, expected=expected)
            if warning is not None:
                self._warned_of_words = True
                warn_caller(warning)
        corpus.targets = targets
        if self.text_columns is not None:
            assert texts.cells is not None
            corpus.cells = self.text_columns.encode(texts.cells)
            self.text_columns.hint_at_gaps(texts.cells, data_set)
        return corpus if texts.weights is None else corpus.with_weights(texts.weights)

    def add_heads(self, texts: Texts, parsing: ParsingOptions) -> Texts:
        """The texts with the parser's heads, if the encoder uses dependency arcs; a store keeps its own."""
        if self.builder.divides_texts:
            texts = replace(texts, words=None)
        if self.builder.deprel_id is None or (parser := make_parser(parsing)) is None:
            return texts
        splitter = self.vocabulary.splitter
        columns = [column if is_stored(column) else parse_column(column, splitter, parser) for column in texts.columns]
        return replace(texts, columns=columns)

    def check_relations(self, texts: Texts) -> None:
        """Keep the dependency relations of the training set, and reject those of another scheme."""
        counts = count_relations(texts)
        if self.deprels is None and texts.where == "training set":
            self.deprels = sorted(counts)
        elif self.deprels is not None:
            check_scheme(counts, self.deprels)

    def sentences(self, texts: Texts) -> list[list[Sentence]]:
        """The tokens that the model reads of each text, as sentences."""
        sentences = [self.vocabulary.sentences(column) for column in texts.columns]
        lengths = [np.fromiter(map(len, column), np.int64) for column in sentences]
        return [
            [sentence.truncate(count) for sentence, count in zip(column, counts.tolist(), strict=True)]
            for column, counts in zip(sentences, truncate_lengths(lengths, *self.length_limits), strict=True)
        ]

    def count_tokens(self, text: str) -> int:
        """The number of token nodes of a text."""
        special = self.builder.cls + self.builder.count_special_tokens(1)
        return special + len(self.vocabulary.sentence(text))

    # -- saving --------------------------------------------------------------------------------------------------------

    @classmethod
    def config_types(cls) -> dict[str, Any]:
        """Name -> JSON type of the values of :meth:`to_config`."""
        shares = {"cut_words": float | None, "unknown_words": float | None}
        words = {"characters": list[str] | None, "gazetteer": list[list[str]] | None}
        values = {"feature_values": dict[str, list[str]] | None, "predicates": bool}
        columns = {"text_columns": list[dict[str, Any]] | None}
        return {**shares, **words, **values, **columns, "deprels": list[str] | None, "features": int | None}

    @property
    def _has_features(self) -> bool:
        """Whether there are features of words, whose version counts."""
        return self.lexicon is not None or self.has_branch

    def to_config(self) -> dict[str, Any]:
        """Everything besides the options, the vocabulary and the vectors, for ``config.json``."""
        columns = {} if self.text_columns is None else {"text_columns": self.text_columns.to_config()}
        return {
            "characters": None if self.characters is None else list(self.characters.characters),
            "gazetteer": None if self.gazetteer is None else [list(entry) for entry in self.gazetteer.entries],
            "feature_values": None if self.feature_values is None else self.feature_values.values,
            "predicates": self.predicates,
            "deprels": self.deprels,
            "cut_words": self.cut_words,
            "unknown_words": self.unknown_words,
            "features": FEATURES if self._has_features else None,
            **columns,
        }

    def restore(self, config: Mapping[str, Any], tokenizer: str, weights: Mapping[str, Any]) -> None:
        """Restore what :meth:`fit` learnt from a config, the text of the tokenizer, and the weights."""
        characters, entries = config["characters"], config["gazetteer"]
        self.characters = None if characters is None else CharacterVocabulary(characters)
        self.gazetteer = None if entries is None else Gazetteer((entry, kind) for entry, kind in entries)
        values = config.get("feature_values")
        self.feature_values = None if values is None else FeatureValues(values)
        columns = config.get("text_columns")
        self.text_columns = None if columns is None else TextColumns.of_config(columns)
        self.predicates, self.deprels = config["predicates"], config["deprels"]
        self.cut_words, self.unknown_words = config["cut_words"], config["unknown_words"]
        if self._has_features and config["features"] != FEATURES:  # a run has no linear branch before its last epoch
            raise ModelDirectoryError(
                "another version of GraphAttn computes other features of words. Install the GraphAttn that wrote the "
                "model, or train again"
            )

    def list_frozen_weights(self, model: Any) -> dict[str, Tensor]:
        """Name -> weights of the model that are not in its state."""
        return {"embedding.table": model.embedding.table.cpu()} if isinstance(model.embedding, TokenEmbedding) else {}

    def restore_frozen_weights(self, model: Any, weights: dict[str, Tensor]) -> None:
        """Give a model that was saved its weights of :meth:`list_frozen_weights`, and take them out of ``weights``."""
        if isinstance(model.embedding, TokenEmbedding):
            model.embedding.table = weights.pop("embedding.table")


def register_inputs(level: str, inputs: type[TextInputs]) -> None:
    """Add inputs, which ``--level`` and ``InputOptions(level=...)`` select in all tasks but translation.

    Parameters
    ----------
    level : what their tokens are, such as ``byte``
    inputs : a subclass of :class:`TextInputs`, whose only argument is :class:`~graphattn.models.InputOptions`

    Raises
    ------
    ConfigError
        when another class has this level
    """
    other = INPUTS.setdefault(level, inputs)
    if (other.__module__, other.__qualname__) != (inputs.__module__, inputs.__qualname__):
        raise ConfigError(f"inputs {level!r} exist already ({other.__module__}); choose another name")
    INPUTS[level] = inputs
