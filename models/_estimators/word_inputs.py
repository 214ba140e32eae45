"""Inputs of words or of subwords that are learnt from the training set: a vocabulary, vectors, features of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from typing_extensions import override

from graphattn.builders import TextGraphBuilder, Vocabulary, WordVectors
from graphattn.builders._stored import is_stored
from graphattn.builders._vocabulary import SPECIAL_TOKENS
from graphattn.builders._word_boundaries import Source, WordSplitter
from graphattn.exceptions import GraphAttnWarning, warn_caller
from graphattn.models._encoders import Encoder, EncoderOptions, make_encoder
from graphattn.models._estimators.text_inputs import InputLayers, TextInputs, register_inputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._estimators.warm_start import copy_vectors
from graphattn.models._estimators.word_checks import hint_at_unsplit_texts, share_of_cut_words
from graphattn.models._features.token_embedding import TokenEmbedding
from graphattn.models._options import InputOptions
from graphattn.models.training._cooccurrence import ppmi_vectors
from graphattn.models.training._hints import hint_at_dotless_i

_FEW = 0.05
"""A file with vectors for a smaller share of the words causes a warning."""


class WordInputs(TextInputs):
    """A vocabulary of the training set, with vectors of files or random ones.

    ``widths`` are those of the vectors in each file, empty without files. ``vectors`` are (V, D) initial vectors until
    the embedding has been made, None for random ones; of them, those of the first ``num_trained`` words are trained.
    """

    options: InputOptions
    widths: Sequence[int] = ()
    vectors: npt.NDArray[np.float32] | None = None
    num_trained = 0
    start: Callable[[], npt.NDArray[np.float32]] | None = None
    """Computes the vectors, which are random until :meth:`start_embedding`: what is fitted before does without them."""

    # -- learning ------------------------------------------------------------------------------------------------------

    @override
    def fit(self, texts: Texts, seed: int) -> Texts:
        options = self.options
        words, counts = self._split(texts)
        sets, self.vocabulary = _train_vocabulary(options, counts)
        if sets:
            joint = WordVectors.concatenate(sets, normalize=options.normalize_vectors)
            self.vectors = joint.table(self.vocabulary, seed=seed)
        self.widths = [vectors.dim for vectors in sets]
        if sets and options.tune_vectors:  # the corpus' words precede those that only have a vector
            highest = max((int(ids.max(initial=0)) for ids in self._iter_ids(words)), default=0)
            self.num_trained = 1 + highest
        if not sets and options.embedding_start == "ppmi":
            self.num_trained = len(self.vocabulary)
            self.start = partial(ppmi_vectors, self._iter_ids(words), self.num_trained, options.embedding, seed)
        self.fit_features(words)
        self._check_training_texts(words)
        return words

    @override
    def extend(self, previous: Self, model: Any, texts: Texts) -> Texts:
        """Add the new words of a training set (subwords stay); vectors from files are zeros at first."""
        options, embedding = self.options, model.embedding
        self.vocabulary, self.widths, self.deprels = previous.vocabulary, previous.widths, previous.deprels
        self.characters, self.gazetteer = previous.characters, previous.gazetteer
        words, counts = self._split(texts)
        if options.level == "word":
            known, trained = self.vocabulary.words, len(embedding.trained)
            rules: dict[str, Any] = {name: getattr(options, name) for name in ("split", "lowercase", "zero_digits")}
            limits: dict[str, Any] = {"min_count": options.min_count, "size": options.vocabulary_size}
            new = Vocabulary.train(counts, **rules, **limits).words
            if options.vectors and options.tune_vectors:  # trained words precede those that only have a vector
                self.num_trained = len({*known[:trained], *new})
                known = [*known[:trained], *new, *known[trained:]]
            self.vocabulary = self.vocabulary.with_words([*known, *new])
        if options.vectors:
            self.vectors = np.zeros((len(self.vocabulary), embedding.trained.shape[1]), np.float32)
        self._check_training_texts(words)
        return words

    def _split(self, texts: Texts) -> tuple[Texts, Counter[str]]:
        """The texts with their words, and how often each word occurs, in the order of appearance.

        Raw texts are split here, once; only what divides them into sentences reads them again.
        """
        texts.check_tokenization(self.options.split)
        splitter, counts = WordSplitter.by_rule(self.options.split), Counter[str]()
        words: list[Sequence[Source]] = []
        for column in texts.columns:
            if is_stored(column):
                counts.update(column.words())
                words.append(column)
                continue
            split = splitter.split_sources(column)
            counts.update(chain.from_iterable(split))
            pairs = zip(column, split, strict=True)
            words.append([of_text if isinstance(text, str) else text for text, of_text in pairs])
        return replace(texts, words=words), counts

    def _iter_ids(self, texts: Texts) -> Iterable[npt.NDArray[Any]]:
        """The ids of each text."""
        return (ids for chunk in texts.iter_chunks() for ids in self.vocabulary.encode_batch(chunk)[1])

    def _check_training_texts(self, texts: Texts) -> None:
        """Note how the words of the training set were split, and hint at texts that were not."""
        self.cut_words = share_of_cut_words(texts, self.vocabulary.splitter)
        hint = hint_at_unsplit_texts(texts) if self.vocabulary.level == "word" else None
        if hint is not None:
            warn_caller(hint)

    @override
    def describe_vectors(self, model: Any) -> Sequence[npt.NDArray[Any]]:
        if not self.options.vectors:
            return ()
        return model.embedding.table.cpu().numpy(), model.embedding.trained.detach().cpu().numpy()

    @override
    def start_embedding(self, model: Any) -> None:
        if self.start is not None:
            model.embedding.start(self.start())
            self.start = None

    # -- layers --------------------------------------------------------------------------------------------------------

    @override
    def list_widths(self, encoder: EncoderOptions) -> Sequence[int]:
        return self._part_widths(self.widths)

    @override
    def make_layers(self, encoder: EncoderOptions, dropout: float) -> InputLayers:
        options = encoder.for_parts(self.list_widths(encoder), of_files=bool(self.widths))
        made = make_encoder(options)
        vectors, self.vectors = self.vectors, None
        embedding = self._make_embedding(
            len(self.vocabulary),
            None if options.takes_parts else options.hidden,
            vectors=vectors,
            num_trained=self.num_trained,
            trains_special=options.trains_special,
            widths=self.widths,
        )
        self._make_builder(made, embedding)
        return InputLayers(embedding, made, options)

    def _make_builder(self, encoder: Encoder, embedding: TokenEmbedding) -> None:
        """A builder that gives relations the word vectors, unless these are trained."""
        vectors = None
        if self.options.vectors and not self.options.tune_vectors:
            table = embedding.table.cpu().numpy()
            vectors = np.pad(table, ((len(SPECIAL_TOKENS), 0), (0, 0)))  # zeros for special tokens
        cls = bool(self.options.cls)
        self.builder = TextGraphBuilder(encoder.relations(), cls=cls, vocabulary=self.vocabulary, vectors=vectors)

    @override
    def copy_vectors(self, previous: Self, before: Any, model: Any) -> list[str]:
        copy_vectors(before.embedding, previous.vocabulary.words, model.embedding, self.vocabulary.words)
        self._make_builder(model.encoder, model.embedding)
        return [*super().copy_vectors(previous, before, model), "embedding.trained"]

    # -- encoding ------------------------------------------------------------------------------------------------------

    @override
    def check(self, texts: Texts) -> None:
        super().check(texts)
        texts.check_tokenization(self.options.split)

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), "widths": list[int]}

    @override
    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "widths": list(self.widths)}

    @override
    def restore(self, config: Mapping[str, Any], tokenizer: str, weights: Mapping[str, Any]) -> None:
        super().restore(config, tokenizer, weights)
        self.vocabulary, self.widths = Vocabulary.from_json(tokenizer), config["widths"]
        if self.options.vectors:
            trained = weights["embedding.trained"]
            self.vectors = torch.cat([trained, weights["embedding.table"]]).numpy()
            self.num_trained = len(trained) if self.options.tune_vectors else 0

    @override
    def restore_frozen_weights(self, model: Any, weights: dict[str, torch.Tensor]) -> None:
        super().restore_frozen_weights(model, weights)
        if self.options.vectors and not self.options.tune_vectors:
            self._make_builder(model.encoder, model.embedding)


register_inputs("word", WordInputs)
register_inputs("bpe", WordInputs)


def _train_vocabulary(options: InputOptions, counts: Counter[str]) -> tuple[list[WordVectors], Vocabulary]:
    """Read the files of vectors, and collect the counted words of the texts and those of the vectors."""
    rules = {name: getattr(options, name) for name in ("level", "split", "lowercase", "zero_digits")}
    spelling = Vocabulary.train([], **rules).spelling  # with lower case, "paris" gets the vector of "Paris"
    sets = [_prepare_vectors(WordVectors.read(path), options, counts, spelling) for path in options.vector_files()]
    if options.lowercase and (hint := hint_at_dotless_i(counts)):
        warn_caller(hint)
    extra: Iterable[str] = ()
    if sets and options.level == "word":
        warn_about_few_vectors(options.vector_files(), sets, counts, spelling)
        if options.vectors_words == "corpus" and options.vocabulary_size is None:  # rare words may have a vector
            extra = [word for word in counts if any(word in words or spelling(word) in words for words in sets)]
    if options.vectors_words == "all":
        extra = chain.from_iterable(vectors.words for vectors in sets)
    vocabulary = Vocabulary.train(
        counts, **rules, min_count=options.min_count, size=options.vocabulary_size, extra_words=extra
    )
    return sets, vocabulary


def _prepare_vectors(
    vectors: WordVectors, options: InputOptions, counts: Counter[str], spelling: Callable[[str], str]
) -> WordVectors:
    """The vectors of a file as the options ask for, found by the spelling of a vocabulary."""
    if options.zero_digits:
        vectors = vectors.with_zero_digits(map(spelling, counts))
    if options.unit_vectors:
        vectors = vectors.with_unit_length()
    return vectors.with_spelling(spelling)


def warn_about_few_vectors(
    files: Sequence[str], sets: Sequence[WordVectors], counts: Counter[str], spelling: Callable[[str], str]
) -> None:
    """Warn if few words of the training set have a vector, as with another language or spelling."""
    normalized: Counter[str] = Counter()
    for word, count in counts.items():
        normalized[spelling(word)] += count
    for file, vectors in zip(files, sets, strict=True):
        _, share = vectors.coverage(normalized)
        if normalized and share < _FEW:
            problem = f"{file} has vectors for {share:.1%} of the words of the training set"
            warn_caller(GraphAttnWarning(f"{problem}; check its language and spelling"))
