"""Inputs of a pretrained model: its tokenizer, its embedding, its length limits, its special tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders._word_boundaries import Source
from graphattn.builders.parsers import make_parser
from graphattn.exceptions import TruncationWarning
from graphattn.models._corpus import Corpus
from graphattn.models._encoders import Encoder, EncoderOptions
from graphattn.models._estimators.parsing import add_heads
from graphattn.models._estimators.subword_inputs import encode_pairs
from graphattn.models._estimators.text_inputs import InputLayers, TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.word_checks import share_of_cut_words
from graphattn.models._options import InputOptions
from graphattn.models.pretrained._checkpoint import check_segments, find_transformer
from graphattn.models.pretrained._directories import (
    ARCHITECTURE_TYPES,
    open_directory,
    restore_architecture,
    save_architecture,
)
from graphattn.models.pretrained._model import PretrainedDirectory, PretrainedModel
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.models.pretrained._stack import learning_rates, make_pretrained, stack_encoders
from graphattn.models.pretrained._transformers_architecture import AnyArchitecture
from graphattn.options import ParsingOptions


class PretrainedInputs(TextInputs):
    """The tokenizer and the word vectors of a pretrained model, whose states are the encoder's input.

    ``options`` say how text becomes vectors, for features besides the pretrained states; ``pretrained`` names the
    model, its edges and its length. ``architecture`` is that of the pretrained model, ``embedding_name`` the model's
    module with its vectors of words.
    """

    uses_pretrained = True
    options: InputOptions
    vocabulary: PretrainedVocabulary
    architecture: AnyArchitecture
    embedding_name = "embedding"
    _lower: PretrainedModel
    _source: PretrainedDirectory | None = None
    """Where the weights are read, until the layers are made."""

    def __init__(self, options: InputOptions, pretrained: PretrainedOptions):
        super().__init__(options)
        self.pretrained = pretrained

    @property
    def joins_pairs(self) -> bool:
        """Whether the two texts of a pair are one sequence."""
        return self.texts_per_input == 2 and self.pretrained.join_pairs

    @override
    def fit(self, texts: Texts, seed: int) -> Texts:
        assert self.pretrained.pretrained is not None
        self._source = open_directory(find_transformer(self.pretrained.pretrained))
        self.architecture, self.vocabulary = self._source.architecture, self._source.read_vocabulary()
        if self.joins_pairs:
            check_segments(self.vocabulary, self.architecture.types)
        self.fit_features(texts)
        self.cut_words = share_of_cut_words(texts, self.vocabulary.splitter)
        return texts

    @override
    def extend(self, previous: Self, model: Any, texts: Texts) -> Texts:
        self.architecture, self.vocabulary, self.deprels = previous.architecture, previous.vocabulary, previous.deprels
        self.characters, self.gazetteer, self.predicates = previous.characters, previous.gazetteer, previous.predicates
        self.cut_words = share_of_cut_words(texts, self.vocabulary.splitter)
        return texts

    # -- layers --------------------------------------------------------------------------------------------------------

    @property
    @override
    def embedding_options(self) -> InputOptions:
        """A pretrained model has its own width and dropout."""
        return replace(self.options, embedding=self.architecture.embedding, embedding_dropout=0.0, word_dropout=0.0)

    @override
    def list_widths(self, encoder: EncoderOptions) -> Sequence[int]:
        return [self.architecture.hidden, *self._part_widths(())[1:]]

    @override
    def make_layers(self, encoder: EncoderOptions, dropout: float) -> InputLayers:
        self._lower = make_pretrained(self.pretrained, self.architecture, self._source)
        self._source = None
        embedding = self.make_embedding()
        widths = self.list_widths(encoder)
        options = encoder.for_parts(widths)
        made = stack_encoders(self._lower, options, widths, dropout)
        self._make_builder(made)
        return InputLayers(
            embedding, made, options, learning_rates(self.pretrained, made, embedding=self.embedding_name)
        )

    def make_embedding(self) -> Any:
        """The embedding, which has the vectors of the pretrained model's words."""
        embedding = self._make_embedding(self.architecture.vocabulary, None)
        assert self._lower.embedding is not None
        embedding.trained, self._lower.embedding = self._lower.embedding.trained, None
        return embedding

    def _make_builder(self, encoder: Encoder) -> None:
        self.builder = TextGraphBuilder(
            encoder.relations(), vocabulary=self.vocabulary, joins_pairs=self.pretrained.join_pairs
        )

    # -- encoding ------------------------------------------------------------------------------------------------------

    @property
    @override
    def length_limits(self) -> tuple[int | None, int | None]:
        if not self.truncates:
            return None, None
        limit = self.options.max_tokens_per_text
        texts = self.texts_per_input if self.builder.joins_pairs else 1
        longest = max(self._lower.max_length - self.builder.count_special_tokens(texts), texts)
        return (limit, longest) if texts > 1 else (min(limit or longest, longest), None)

    @override
    def describe_truncation(self, count: int, tokens: int, where: str = "") -> TruncationWarning:
        (limit, total), chosen = self.length_limits, self.options.max_tokens_per_text
        most = total or limit or 0
        if chosen is not None and chosen * (2 if total else 1) <= most:
            return super().describe_truncation(count, tokens, where)
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

    @override
    def check_lengths(self, corpus: Corpus, numbers: Sequence[int] | None, where: str) -> None:
        joins = self.builder.joins_pairs
        texts = len(corpus.layouts) if joins else 1
        special = self.builder.count_special_tokens(texts)
        options = ("pretrained_length", "pretrained_heads")
        for lengths in [corpus.lengths] if joins else [layout.lengths + special for layout in corpus.layouts]:
            self._lower.check_lengths(lengths, numbers, where=where, options=options)

    @override
    def sentences(self, texts: Texts) -> list[list[Sentence]]:
        sentences = super().sentences(texts)
        joined = [list(zip(*sentences, strict=True))] if self.builder.joins_pairs else None
        groups = joined or [[(sentence,) for sentence in column] for column in sentences]
        return [[self.vocabulary.add_special_tokens(parts) for parts in group] for group in groups]

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), **ARCHITECTURE_TYPES}

    @override
    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), **save_architecture(self.architecture)}

    @override
    def restore(self, config: Mapping[str, Any], tokenizer: str, weights: Mapping[str, Any]) -> None:
        super().restore(config, tokenizer, weights)
        self.vocabulary = PretrainedVocabulary.from_json(tokenizer)
        self.architecture = restore_architecture(config)


class PretrainedSources(PretrainedInputs):
    """Sources of a translator that a pretrained model reads; none of them may be longer than it reads."""

    embedding_name = "sources"
    longest: int
    warned_of_parses = False

    @override
    def encode(self, texts: Texts, make_targets: Callable[[Any, str], Any], parsing: ParsingOptions) -> Corpus:
        return encode_pairs(self, texts, make_targets, parsing)

    def ids(self, texts: Sequence[Source]) -> Sequence[npt.NDArray[np.integer]]:
        """The ids of each text's subwords, without special tokens."""
        return self.vocabulary.encode_batch(texts)[1]

    @override
    def list_widths(self, encoder: EncoderOptions) -> Sequence[int]:
        return [self.architecture.hidden]

    @override
    def make_embedding(self) -> Any:
        sources, self._lower.embedding = self._lower.embedding, None
        return sources

    def split(self, texts: Texts) -> Texts:
        """The pretrained tokenizer splits texts."""
        return texts

    def count_subwords(self, texts: Texts) -> list[int]:
        """The number of subwords of each text, without special tokens."""
        return list(map(len, self.ids(texts.columns[0])))

    def check_source_lengths(self, lengths: Sequence[int], numbers: Sequence[int] | None, where: str) -> None:
        """Reject sources that are longer than the model reads; ``lengths`` are without special tokens."""
        special = self.builder.count_special_tokens(1)
        options = ("pretrained_length", "pretrained_heads")
        self._lower.check_lengths(np.array(lengths, np.int64) + special, numbers, where=where, options=options)

    @override
    def add_heads(self, texts: Texts, parsing: ParsingOptions) -> Texts:
        if self.builder.deprel_id is None:
            return texts
        (column,), splitter, parser = texts.columns, self.vocabulary.splitter, make_parser(parsing)
        sentences = splitter.sentences(column)
        if parser is not None:
            sentences = add_heads(sentences, column, splitter, parser)
        return replace(texts, columns=[sentences])

    @override
    def count_tokens(self, text: str) -> int:
        return self.builder.count_special_tokens(1) + len(self.ids([text])[0])
