"""What a classifier or tagger knows of words (a vocabulary, vectors, characters, a gazetteer), and its input layer."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from graphattn.builders import Vocabulary, WordVectors
from graphattn.builders.pretrained_vocabulary import PretrainedVocabulary
from graphattn.builders.vocabulary import count_words
from graphattn.builders.word_boundaries import WordSplitter
from graphattn.exceptions import GraphAttnWarning
from graphattn.models.characters import CharacterVocabulary
from graphattn.models.estimators.inputs import Columns, iter_chunks, vocabulary_source
from graphattn.models.lexicon import Gazetteer, Lexicon
from graphattn.models.options import InputOptions
from graphattn.models.token_embedding import TokenEmbedding, part_widths

_FEW = 0.05
"""A file with vectors for a smaller share of the words causes a warning."""


@dataclass
class TokenInputs:
    """The fitted part of :class:`~graphattn.models.options.InputOptions`.

    Parameters
    ----------
    options : how text becomes vectors
    vocabulary : of words or subwords
    widths : width of the vectors in each file; empty without files
    characters : the characters of words, for a model with character features
    gazetteer : lists of names, for a model with gazetteer features
    predicates : whether inputs mark predicates (MTSA, section 4.2)
    vectors : (V, D) initial vectors, until the input layer has been made; None for random ones
    num_trained : with ``vectors``, those of the first words that are trained
    cut_words, unknown_words : shares in the training set, see :mod:`~graphattn.models.estimators.word_checks`
    """

    options: InputOptions
    vocabulary: Vocabulary
    widths: Sequence[int] = ()
    characters: CharacterVocabulary | None = None
    gazetteer: Gazetteer | None = None
    predicates: bool = False
    vectors: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    num_trained: int = 0
    cut_words: float | None = None
    unknown_words: float | None = None

    @classmethod
    def fit(cls, options: InputOptions, columns: Columns, seed: int) -> Self:
        """Train a vocabulary on the texts; read vectors from files, or compute them from the texts."""
        sets, vocabulary = _train_vocabulary(options, columns)
        vectors, num_trained = None, 0
        if sets:
            joint = WordVectors.concatenate(sets, normalize=options.normalize_vectors)
            vectors = joint.table(vocabulary, seed=seed)
        if options.tune_vectors:  # the corpus' words precede those that only have a vector
            num_trained = 1 + max((int(ids.max(initial=0)) for ids in _iter_ids(vocabulary, columns)), default=0)
        if not sets and options.embedding_start == "ppmi":
            from graphattn.models.training.cooccurrence import ppmi_vectors

            num_trained = len(vocabulary)
            vectors = ppmi_vectors(_iter_ids(vocabulary, columns), num_trained, options.embedding, seed)
        widths = [vectors.dim for vectors in sets]
        inputs = cls(options, vocabulary, widths, vectors=vectors, num_trained=num_trained)
        inputs.fit_features(columns)
        return inputs

    def fit_features(self, columns: Columns) -> None:
        """Read the gazetteer and collect the characters, if the options ask for them."""
        if self.options.gazetteer is not None:
            self.gazetteer = Gazetteer.read(self.options.gazetteer, self.vocabulary.splitter)
        if self.options.characters:
            sentences = (sentence for chunk in iter_chunks(columns) for sentence in self.vocabulary.sentences(chunk))
            self.characters = CharacterVocabulary.of(token for s in sentences for token in s.tokens)

    def with_new_words(self, options: InputOptions, columns: Columns, embedding: TokenEmbedding) -> Self:
        """A copy with the new words of a training set (subwords stay); vectors from files are zeros at first.

        Parameters
        ----------
        options : of the next training
        columns : its texts
        embedding : the trained input layer
        """
        vocabulary, num_trained = self.vocabulary, 0
        if options.level == "word":
            known, trained = vocabulary.words, len(embedding.trained)
            rules: dict[str, Any] = {"split": options.split, "lowercase": options.lowercase}
            limits: dict[str, Any] = {"min_count": options.min_count, "size": options.vocabulary_size}
            words = Vocabulary.train(vocabulary_source(columns), **rules, **limits).words
            if options.vectors and options.tune_vectors:  # trained words precede those that only have a vector
                num_trained = len({*known[:trained], *words})
                known = [*known[:trained], *words, *known[trained:]]
            vocabulary = vocabulary.with_words([*known, *words])
        shape = len(vocabulary), embedding.trained.shape[1]
        vectors = np.zeros(shape, np.float32) if options.vectors else None
        features: dict[str, Any] = {"characters": self.characters, "gazetteer": self.gazetteer}
        return type(self)(options, vocabulary, self.widths, **features, vectors=vectors, num_trained=num_trained)

    @property
    def lexicon(self) -> Lexicon | None:
        """Suffixes and the gazetteer, if there are any."""
        suffixes = self.options.suffixes
        return Lexicon(suffixes, self.gazetteer) if suffixes or self.gazetteer is not None else None

    @property
    def part_widths(self) -> tuple[int, ...]:
        """Widths of the parts that a token vector concatenates."""
        lexicon = self.lexicon
        return part_widths(
            self.options,
            self.widths,
            characters=self.characters is not None,
            lexicon=0 if lexicon is None else lexicon.width,
            predicates=self.predicates,
        )

    def make_embedding(
        self, hidden: int | None, *, num_tokens: int | None = None, trains_special: bool = True
    ) -> TokenEmbedding:
        """The input layer; it takes the initial vectors.

        Parameters
        ----------
        hidden : width of the output; None for no projection
        num_tokens : rows of the table; None for one for each word
        trains_special : train the special tokens' vectors even if no others are trained
        """
        vectors, self.vectors = self.vectors, None
        return TokenEmbedding(
            self.options,
            len(self.vocabulary) if num_tokens is None else num_tokens,
            hidden,
            vectors=vectors,
            num_trained=self.num_trained,
            trains_special=trains_special,
            widths=self.widths,
            num_characters=None if self.characters is None else len(self.characters),
            lexicon=self.lexicon,
            predicates=self.predicates,
        )

    def to_config(self) -> dict[str, Any]:
        """Everything besides the options, the vocabulary and the vectors, for ``config.json``."""
        return {
            "widths": list(self.widths),
            "characters": None if self.characters is None else list(self.characters.characters),
            "gazetteer": None if self.gazetteer is None else [list(entry) for entry in self.gazetteer.entries],
            "cut_words": self.cut_words,
            "unknown_words": self.unknown_words,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], options: InputOptions, tokenizer: str) -> Self:
        """Read what :meth:`to_config` and ``Vocabulary.to_json`` wrote."""
        vocabulary = Vocabulary if config.get("architecture") is None else PretrainedVocabulary
        characters, entries = config["characters"], config.get("gazetteer")
        return cls(
            options,
            vocabulary.from_json(tokenizer),
            config["widths"],
            None if characters is None else CharacterVocabulary(characters),
            None if entries is None else Gazetteer((entry, kind) for entry, kind in entries),
            cut_words=config.get("cut_words"),
            unknown_words=config.get("unknown_words"),
        )


def _iter_ids(vocabulary: Vocabulary, columns: Columns) -> Iterator[npt.NDArray[Any]]:
    """The ids of each text."""
    return (ids for chunk in iter_chunks(columns) for ids in vocabulary.encode_batch(chunk)[1])


def _train_vocabulary(options: InputOptions, columns: Columns) -> tuple[list[WordVectors], Vocabulary]:
    """Read the files of vectors, and collect the words of the texts and of the vectors."""
    from graphattn.models.training.hints import hint_at_dotless_i

    rules: dict[str, Any] = {"level": options.level, "split": options.split, "lowercase": options.lowercase}
    spelling = Vocabulary.train([], **rules).spelling  # with lower case, "paris" gets the vector of "Paris"
    sets = [WordVectors.read(path).with_spelling(spelling) for path in options.vector_files()]
    counts = count_words(vocabulary_source(columns), WordSplitter.by_rule(options.split))
    if options.lowercase and (hint := hint_at_dotless_i(counts)):
        warnings.warn(hint, stacklevel=6)
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


def warn_about_few_vectors(
    files: Sequence[str], sets: Sequence[WordVectors], counts: Counter[str], spelling: Callable[[str], str]
) -> None:
    """Warn if few words of the training set have a vector, as with another language or spelling.

    Parameters
    ----------
    files, sets : files of vectors, and their contents
    counts : words of the training set
    spelling : normalizes words as the vocabulary does
    """
    normalized: Counter[str] = Counter()
    for word, count in counts.items():
        normalized[spelling(word)] += count
    for file, vectors in zip(files, sets, strict=True):
        _, share = vectors.coverage(normalized)
        if normalized and share < _FEW:
            warnings.warn(
                f"{file} has vectors for {share:.1%} of the words of the training set; check its language and spelling",
                GraphAttnWarning,
                stacklevel=2,
            )
