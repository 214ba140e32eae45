"""Inputs of subwords that sources and targets of a translator share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders._subwords import MarkedWords, Subwords, mark_blanks
from graphattn.builders._word_boundaries import Source, WordSplitter
from graphattn.builders.parsers import make_parser
from graphattn.models._decoders.model import SharedEmbedding, WordVectorEmbedding
from graphattn.models._decoders.options import SubwordOptions
from graphattn.models._encoders import EncoderOptions, make_encoder
from graphattn.models._estimators.inputs import Columns
from graphattn.models._estimators.parsing import add_heads
from graphattn.models._estimators.text_inputs import InputLayers, TextInputs
from graphattn.options import ParsingOptions


class SubwordInputs(TextInputs):
    """Subwords that mark blanks, so that they spell a text; learnt from sources and targets.

    ``vectors`` are (V, D) word vectors of the subwords, until the embedding is made.
    """

    options: SubwordOptions
    subwords: Subwords
    vectors: npt.NDArray[np.float32] | None = None

    @override
    def fit(self, columns: Columns, seed: int) -> Columns:
        """Learn the subwords of all columns: of sources and targets; return their words, as :meth:`split` does."""
        options = self.options
        splitter = WordSplitter.by_rule(options.split)
        words = [mark_blanks(column, splitter) for column in columns]
        rules: dict[str, Any] = {"split": options.split, "lowercase": options.lowercase}
        self.set_subwords(Subwords.train(chain.from_iterable(words), size=options.vocabulary_size, **rules))
        if options.vectors is not None:
            self.vectors = self.subwords.look_up(options.vectors, seed=seed)
        return words

    def set_subwords(self, subwords: Subwords) -> None:
        """Use these subwords."""
        self.subwords, self.vocabulary = subwords, subwords.vocabulary

    @override
    def extend(self, previous: Self, model: Any, columns: Columns) -> Columns:
        self.set_subwords(previous.subwords)
        self.deprels = previous.deprels
        if self.options.vectors is not None:  # the weights of the model are copied later
            self.vectors = model.embedding.pretrained.detach().numpy()
        return columns

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

    def split(self, columns: Columns) -> Sequence[Sequence[MarkedWords]]:
        """The marked words of each text, so that later steps split it no more."""
        return [mark_blanks(column, self.subwords.splitter) for column in columns]

    def check_source_lengths(self, lengths: Sequence[int], numbers: Sequence[int] | None, where: str) -> None:
        """Sources may have any length."""

    def ids(self, texts: Sequence[Source]) -> Sequence[npt.NDArray[np.integer]]:
        """The ids of each text's subwords."""
        return self.subwords.ids(texts)

    @override
    def add_heads(self, columns: Columns, parsing: ParsingOptions) -> Columns:
        """Sentences of marked words, with the parser's heads if the encoder uses dependency arcs."""
        split, splitter = self.split(columns), self.subwords.splitter
        sentences = [self.subwords.sources(column) for column in split]
        if self.builder.deprel_id is None or (parser := make_parser(parsing)) is None:
            return sentences
        pairs = zip(sentences, split, strict=True)
        return [add_heads(of_column, [words.text for words in column], splitter, parser) for of_column, column in pairs]

    @override
    def sentences(self, columns: Columns) -> list[list[Sentence]]:
        return [self.vocabulary.sentences(column) for column in columns]

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
