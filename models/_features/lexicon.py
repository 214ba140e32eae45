"""Features of words: suffixes, entries of a gazetteer (MS-Trans, Table 4; Chiu and Nichols 2016), further columns."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from graphattn._devices import to_device
from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Sentence
from graphattn.builders._spelling import compose, spell, split_clusters
from graphattn.builders._text_lines import read_numbered_lines
from graphattn.builders._word_boundaries import WordSplitter
from graphattn.exceptions import DataError
from graphattn.layers._linear import Embedding

SUFFIX_BUCKETS, SUFFIX_WIDTH = 1 << 14, 20
"""Rows and columns of the table of suffixes; equal hashes share a row. Row 0 is for ``[CLS]``."""
COLUMN_WIDTH = 20
"""Columns of the table of a feature's values. Row 0, of zeros, is for ``[CLS]`` and unknown values."""
PLACES = ("begin", "inside", "end", "single")
"""Places of a word in an entry."""
_DEFAULT_TYPE = "entry"


class Gazetteer:
    """Entries of several words, each with a type; case and Unicode form are ignored.

    Examples
    --------
    >>> gazetteer = Gazetteer([("New York", "place"), ("York", "name")])
    >>> gazetteer.types, gazetteer.mark(["in", "new", "York"]).tolist()
    (('place', 'name'), [[0, 0, 0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1]])
    """

    def __init__(self, entries: Iterable[tuple[str, str]]):
        self.entries = tuple(dict.fromkeys((entry, entry_type) for entry, entry_type in entries))
        self.types = tuple(dict.fromkeys(compose(entry_type) for _, entry_type in self.entries))
        self._numbers: dict[tuple[str, ...], list[int]] = {}
        numbers = {entry_type: number for number, entry_type in enumerate(self.types)}
        for entry, entry_type in self.entries:
            self._numbers.setdefault(tuple(_fold(entry).split(" ")), []).append(numbers[compose(entry_type)])
        self._longest: dict[str, int] = {}
        for words in self._numbers:
            self._longest[words[0]] = max(len(words), self._longest.get(words[0], 0))

    @classmethod
    def read(cls, path: FilePath, splitter: WordSplitter) -> Gazetteer:
        """Read a file with an entry per line and, after a tab, its type; blank lines are skipped.

        ``splitter`` splits entries into words as the model splits texts.
        """
        rows: list[tuple[str, str]] = []
        for number, line in read_numbered_lines(path):
            entry, _, entry_type = line.partition("\t")
            if not entry.strip() and entry_type.strip():
                raise DataError("there is a type but no entry", path=path, line=number, hint="Write ENTRY<TAB>TYPE.")
            if entry.strip():
                rows.append((entry, entry_type.strip() or _DEFAULT_TYPE))
        words = splitter.split_sources([entry for entry, _ in rows])
        entries = [(" ".join(split), entry_type) for split, (_, entry_type) in zip(words, rows, strict=True) if split]
        if not entries:
            raise DataError("there are no entries", path=path, hint="Write one entry per line.")
        return cls(entries)

    @property
    def width(self) -> int:
        """Features of a word: its place in an entry of each type."""
        return len(self.types) * len(PLACES)

    def mark(self, words: Sequence[str]) -> npt.NDArray[np.uint8]:
        """(words, width) zeros and ones: for each type the place of the word in an entry, or none.

        Of each type, entries do not overlap: the longest one at the first word counts, then the search goes on behind.
        """
        lower = list(map(_fold, words))
        marks = np.zeros((len(words), len(self.types), len(PLACES)), np.uint8)
        free = [0] * len(self.types)
        for start, first in enumerate(lower):
            for size in range(min(self._longest.get(first, 0), len(lower) - start), 0, -1):
                for type_number in self._numbers.get(tuple(lower[start : start + size]), ()):
                    if free[type_number] <= start:
                        free[type_number] = start + size
                        _mark_entry(marks[start : start + size, type_number])
        return marks.reshape(len(words), self.width)


@lru_cache(1 << 17)
def _fold(word: str) -> str:
    """The spelling in which words are compared."""
    return spell(word, lowercase=True)


def _mark_entry(places: npt.NDArray[np.uint8]) -> None:
    """Mark the words of one entry, (words, places)."""
    if len(places) == 1:
        places[0, 3] = 1
    else:
        places[0, 0] = places[-1, 2] = 1
        places[1:-1, 1] = 1


def suffix_ids(word: str, longest: int) -> list[int]:
    """Row in the table for the suffixes of 1 to ``longest`` grapheme clusters; of a shorter word, of the whole word.

    Examples
    --------
    >>> suffix_ids("Walking", 3)[1:] == suffix_ids("talking", 3)[1:], len(suffix_ids("a", 3))
    (True, 3)
    """
    clusters = split_clusters(_fold(word))
    keys = (f"{size} {''.join(clusters[-size:])}" for size in range(1, longest + 1))
    return [1 + zlib.crc32(key.encode()) % (SUFFIX_BUCKETS - 1) for key in keys]


class FeatureValues:
    """The values of the features that words have in further columns of a corpus, such as parts of speech.

    Examples
    --------
    >>> values = FeatureValues({"pos": ["DET", "NOUN"]})
    >>> values.ids(Sentence(["a", "dog", "!"], features={"pos": ["DET", "NOUN", "PUNCT"]})).tolist()
    [[1], [2], [0]]
    """

    def __init__(self, values: Mapping[str, Iterable[str]]):
        self.values = {name: tuple(of_feature) for name, of_feature in values.items()}
        self._ids = {
            name: {value: number for number, value in enumerate(of_feature, start=1)}
            for name, of_feature in self.values.items()
        }

    def extend(self, sentences: Iterable[Sentence]) -> Self:
        """These values, then the new ones of sentences, which have all features."""
        values = {name: dict.fromkeys(of_feature) for name, of_feature in self.values.items()}
        for sentence in sentences:
            assert sentence.features is not None
            for name, of_feature in values.items():
                of_feature.update(dict.fromkeys(map(compose, sentence.features[name])))
        return type(self)(values)

    def ids(self, sentence: Sentence) -> npt.NDArray[np.int32]:
        """(words, features) rows in the tables of values; 0 for unknown ones."""
        assert sentence.features is not None
        columns = [[ids.get(compose(value), 0) for value in sentence.features[name]] for name, ids in self._ids.items()]
        return np.array(columns, np.int32).reshape(len(columns), sentence.num_words).T


class Lexicon:
    """Features of words besides vectors and characters: suffixes up to a length, a gazetteer, values in columns."""

    def __init__(self, suffixes: int, gazetteer: Gazetteer | None, columns: FeatureValues | None = None):
        self.suffixes, self.gazetteer, self.columns = suffixes, gazetteer, columns
        self._ids: dict[str, list[int]] = {}

    @property
    def width(self) -> int:
        """Features that a token vector gets."""
        of_gazetteer = 0 if self.gazetteer is None else self.gazetteer.width
        of_columns = 0 if self.columns is None else COLUMN_WIDTH * len(self.columns.values)
        return SUFFIX_WIDTH * (self.suffixes > 0) + of_gazetteer + of_columns

    def features(self, sentences: Sequence[Sentence]) -> Mapping[str, tuple[list[npt.NDArray[Any]], Any]]:
        """Features of tokens for :meth:`~graphattn.builders.TextGraphBuilder.layout`; a token has those of its word."""
        columns: dict[str, tuple[list[npt.NDArray[Any]], Any]] = {}
        if self.suffixes:
            columns["suffixes"] = [self._by_token(s, self._suffixes(s.words)) for s in sentences], 0
        if self.gazetteer is not None:
            columns["gazetteer"] = [self._by_token(s, self.gazetteer.mark(s.words)) for s in sentences], 0
        if self.columns is not None:
            columns["columns"] = [self._by_token(s, self.columns.ids(s)) for s in sentences], 0
        return columns

    def _suffixes(self, words: Sequence[str]) -> npt.NDArray[np.int32]:
        for word in words:
            if word not in self._ids:
                self._ids[word] = suffix_ids(word, self.suffixes)
        return np.array([self._ids[word] for word in words], np.int32).reshape(len(words), self.suffixes)

    @staticmethod
    def _by_token(sentence: Sentence, by_word: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return by_word if sentence.word_ids is None else by_word[np.asarray(sentence.word_ids, np.int64)]


class LexiconFeatures(nn.Module):
    """The sum of embeddings of a token's suffixes, its marks in the gazetteer, and embeddings of its values in columns.

    The sizes of the lexicon count, not its entries.
    """

    def __init__(self, lexicon: Lexicon):
        super().__init__()
        self.marks = lexicon.gazetteer is not None
        self.suffixes = Embedding(SUFFIX_BUCKETS, SUFFIX_WIDTH, padding_idx=0) if lexicon.suffixes else None
        sizes = [] if lexicon.columns is None else [1 + len(values) for values in lexicon.columns.values.values()]
        self.columns = nn.ModuleList(Embedding(size, COLUMN_WIDTH, padding_idx=0) for size in sizes)

    def forward(self, features: Mapping[str, Tensor], vectors: Tensor) -> Tensor:
        """Append to (N, D) vectors the features of columns (N, suffixes), (N, marks) and (N, columns)."""
        parts = [vectors]
        if self.suffixes is not None:
            parts.append(self.suffixes(to_device(features["suffixes"], vectors.device).long()).sum(1))
        if self.marks:
            parts.append(to_device(features["gazetteer"], vectors.device).to(vectors.dtype))
        if self.columns:
            ids = to_device(features["columns"], vectors.device).long()
            parts += [embed(ids[:, number]) for number, embed in enumerate(self.columns)]
        return torch.cat(parts, dim=1)
