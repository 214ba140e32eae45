"""Inputs of a translator: subwords that sources and targets share, and how pairs are encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from itertools import count as count_from
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders._subwords import Subwords, mark_blanks
from graphattn.builders._word_boundaries import Source, WordSplitter
from graphattn.builders.parsers import make_parser
from graphattn.exceptions import DataError
from graphattn.models._corpus import Corpus
from graphattn.models._decoders.model import SharedEmbedding, WordVectorEmbedding
from graphattn.models._decoders.options import SubwordOptions
from graphattn.models._encoders import EncoderOptions, make_encoder
from graphattn.models._estimators.parsing import add_heads, make_roots, warn_about_missing_parses
from graphattn.models._estimators.text_inputs import InputLayers, TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.options import ParsingOptions


class SubwordInputs(TextInputs):
    """Subwords that mark blanks, so that they spell a text; learnt from sources and targets.

    ``vectors`` are (V, D) word vectors of the subwords, until the embedding is made; ``longest`` is the maximum number
    of subwords of a source or target, as the options say at the moment.
    """

    options: SubwordOptions
    subwords: Subwords
    vectors: npt.NDArray[np.float32] | None = None
    longest: int
    warned_of_parses = False

    @override
    def fit(self, texts: Texts, seed: int) -> Texts:
        """Learn the subwords of all columns: of sources and targets; return their words, too."""
        options = self.options
        splitter = WordSplitter.by_rule(options.split)
        words = [mark_blanks(column, splitter) for column in texts.columns]
        rules: dict[str, Any] = {"split": options.split, "lowercase": options.lowercase}
        self.set_subwords(Subwords.learn(chain.from_iterable(words), size=options.vocabulary_size, **rules))
        if options.vectors is not None:
            self.vectors = self.subwords.look_up(options.vectors, seed=seed)
        return replace(texts, words=words)

    def set_subwords(self, subwords: Subwords) -> None:
        """Use these subwords."""
        self.subwords, self.vocabulary = subwords, subwords.vocabulary

    @override
    def extend(self, previous: Self, model: Any, texts: Texts) -> Texts:
        self.set_subwords(previous.subwords)
        self.deprels = previous.deprels
        if self.options.vectors is not None:  # the weights of the model are copied later
            self.vectors = model.embedding.pretrained.detach().numpy()
        return texts

    @override
    def make_layers(self, encoder: EncoderOptions, dropout: float) -> InputLayers:
        options = encoder.for_parts(self.list_widths(encoder))
        made = make_encoder(options)
        cls = bool(self.options.cls)
        self.builder = TextGraphBuilder(made.relations(), cls=cls, vocabulary=self.vocabulary)
        return InputLayers(None, made, options)

    def make_embedding(self, encoder: EncoderOptions) -> SharedEmbedding:
        """The embedding, with word vectors of a file or, for a trained model, of any numbers."""
        count, rate = len(self.vocabulary), self.options.embedding_dropout
        vectors, self.vectors = self.vectors, None
        if vectors is None:
            return SharedEmbedding(count, encoder.hidden * encoder.streams, rate)
        return WordVectorEmbedding(count, encoder.hidden, rate, torch.from_numpy(vectors))

    @override
    def list_widths(self, encoder: EncoderOptions) -> Sequence[int]:
        return [encoder.hidden] * encoder.streams

    # -- encoding ------------------------------------------------------------------------------------------------------

    @override
    def encode(self, texts: Texts, make_targets: Callable[[Any, str], Any], parsing: ParsingOptions) -> Corpus:
        return encode_pairs(self, texts, make_targets, parsing)

    def split(self, texts: Texts) -> Texts:
        """The texts with their marked words, so that later steps split them no more."""
        return texts if texts.words is not None else replace(texts, words=list(map(self.subwords.mark, texts.columns)))

    def count_subwords(self, texts: Texts) -> list[int]:
        """The number of subwords of each text."""
        return list(map(len, self.subwords.number(self._list_words(texts))))

    def _list_words(self, texts: Texts) -> Any:
        """The marked words of each text."""
        (words,) = self.split(texts).sources
        return words

    def check_source_lengths(self, lengths: Sequence[int], numbers: Sequence[int] | None, where: str) -> None:
        """Sources may have any length."""

    def ids(self, texts: Sequence[Source]) -> Sequence[npt.NDArray[np.integer]]:
        """The ids of each text's subwords."""
        return self.subwords.ids(texts)

    @override
    def add_heads(self, texts: Texts, parsing: ParsingOptions) -> Texts:
        """Sentences of marked words, with the parser's heads if the encoder uses dependency arcs."""
        (column,), words = texts.columns, self._list_words(texts)
        sentences, parser = self.subwords.sources(column, words), None
        if self.builder.deprel_id is not None:
            parser = make_parser(parsing)
        if parser is not None:
            sentences = add_heads(sentences, column, self.subwords.splitter, parser)
        return replace(texts, columns=[sentences], words=None)

    @override
    def sentences(self, texts: Texts) -> list[list[Sentence]]:
        return [self.vocabulary.sentences(column) for column in texts.columns]

    @override
    def count_tokens(self, text: str) -> int:
        return self.builder.cls + len(self.ids([text])[0])

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    def to_config(self) -> dict[str, Any]:
        return {"deprels": self.deprels}

    @override
    def restore(self, config: Mapping[str, Any], tokenizer: str, weights: Mapping[str, Any]) -> None:
        self.set_subwords(Subwords(Vocabulary.from_json(tokenizer), self.options.split))
        self.deprels = config["deprels"]
        if self.options.vectors is not None:
            self.vectors = weights["embedding.pretrained"].numpy()


def encode_pairs(inputs: Any, texts: Texts, make_targets: Callable[[Any, str], Any], parsing: ParsingOptions) -> Corpus:
    """Encode sources, and their targets if they are known, with the inputs of a translator."""
    ids = None if texts.labels is None else make_targets(texts.labels, texts.where)
    texts = inputs.split(texts)
    if inputs.builder.deprel_id is not None:
        _check_lengths(inputs, texts, inputs.count_subwords(texts), ids)  # parsing may take hours
    texts = inputs.add_heads(texts, parsing)
    if inputs.builder.deprel_id is not None:
        texts = _make_roots(inputs, texts)
        inputs.check_relations(texts)
    corpus = Corpus.of_pairs(inputs.builder, texts.columns[0], ids)
    _check_lengths(inputs, texts, corpus.layouts[0].lengths - inputs.builder.cls, ids)
    return corpus.with_weights(texts.weights)


def _check_lengths(inputs: Any, texts: Texts, lengths: Sequence[int], ids: Any) -> None:
    """Reject sources with too many subwords, of which ``lengths`` are the numbers, and targets."""
    is_dev_set = texts.where == "dev set"  # held-out texts have numbers of the training set
    for name, counts in (("source", lengths), ("target", map(len, ids or []))):
        _reject_long("dev " * is_dev_set + name, counts, inputs.longest, texts.numbers)
    inputs.check_source_lengths(lengths, texts.numbers, "dev set" * is_dev_set)


def _reject_long(what: str, lengths: Iterable[int], longest: int, numbers: Iterable[int] | None) -> None:
    """Reject texts of more than ``longest`` subwords; errors count texts from 1, like lines."""
    for number, length in zip(count_from() if numbers is None else numbers, lengths, strict=False):
        if length > longest:
            raise DataError(
                f"{what} {number + 1} has {length:,} subwords; the limit is {longest:,}",
                hint="Shorten it, delete it, or raise {longest}.",
                options=("longest",),
            )


def _make_roots(inputs: Any, texts: Texts) -> Texts:
    """Each word of a source without a parse is a root; a warning says so once."""
    column: Any = texts.columns[0]
    sentences, missing = make_roots(column)
    if missing and not inputs.warned_of_parses:
        inputs.warned_of_parses = True
        warn_about_missing_parses(missing, len(texts))
    return replace(texts, columns=[sentences])
