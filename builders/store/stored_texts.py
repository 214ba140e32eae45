"""A choice of a store's sentences, for training: read chunk by chunk, never held as a whole."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.lazy_texts import LazyTexts
from graphattn.builders.sentence import Sentence
from graphattn.builders.store.layouts import layout_of
from graphattn.builders.store.table import counts_of, sentences_of, words_of

if TYPE_CHECKING:
    from graphattn.builders.graph_builder import TextGraphBuilder
    from graphattn.builders.store.store import Store

_LABELS = ("label", "labels")


class StoredTexts(LazyTexts):
    """Some sentences of a store.

    Parameters
    ----------
    store : where they are
    numbers : their numbers in it; going through them is quick when they ascend
    """

    def __init__(self, store: Store, numbers: Ints):
        self.store, self.numbers = store, np.asarray(numbers, np.int64)

    @property
    def tokenized_by(self) -> str | None:
        """That of the store."""
        return self.store.tokenized_by

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...

    @overload
    def __getitem__(self, index: slice) -> StoredTexts: ...

    def __getitem__(self, index: int | slice) -> Sentence | StoredTexts:
        if isinstance(index, slice):
            return StoredTexts(self.store, self.numbers[index])
        return self.store[int(self.numbers[index])]

    def __iter__(self) -> Iterator[Sentence]:
        for part in self.parts():
            yield from part

    def take(self, numbers: Sequence[int]) -> StoredTexts:
        """A choice of the texts."""
        return StoredTexts(self.store, self.numbers[np.asarray(numbers, np.int64)])

    def column(self, field: str) -> Sequence[Any]:
        """The ``label`` or the ``tags`` of each text, None where there is none; tags are read when they are needed."""
        column = StoredField(self, field)
        return column if field == "tags" else list(column)

    def words(self) -> Counter[str]:
        """How often each word occurs, in the order of first appearance."""
        counts: Counter[str] = Counter()
        for table in self.tables(["tokens", "word_ids"]):
            counts.update(words_of(table))
        return counts

    def num_words(self) -> Ints:
        """(S,) words of each text."""
        return np.concatenate([np.empty(0, np.int64), *map(_num_words, self.tables(["tokens", "word_ids"]))])

    def parts(self) -> Iterator[list[Sentence]]:
        """All texts, chunk by chunk."""
        return map(sentences_of, self.tables())

    def layouts(self, builder: TextGraphBuilder) -> Iterator[Layout]:
        """What ``builder.layout`` makes of each part."""
        return (layout_of(table, builder) for table in self.tables())

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, as many at a time as lie together in a chunk; one table at least."""
        starts = self.store.chunk_starts
        chunks = np.searchsorted(starts, self.numbers, side="right") - 1
        for own in np.split(self.numbers, np.flatnonzero(np.diff(chunks)) + 1):
            chunk = int(np.searchsorted(starts, own[0], side="right")) - 1 if len(own) else 0
            yield self.store.chunk(chunk, columns).take(own - starts[chunk])


class StoredField(Sequence[Any]):
    """The label or the tags of each text, read when they are asked for.

    Parameters
    ----------
    texts : whose
    field : ``"label"`` or ``"tags"``
    """

    def __init__(self, texts: StoredTexts, field: str):
        self._texts, self._field = texts, field

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return StoredField(self._texts[index], self._field)
        return getattr(self._texts[index], self._field)

    def __iter__(self) -> Iterator[Any]:
        for table in self._texts.tables(_LABELS if self._field == "label" else [self._field]):
            yield from _labels(table) if self._field == "label" else _lists(table[self._field])

    def take(self, numbers: Sequence[int]) -> StoredField:
        """Those of a choice of texts."""
        return StoredField(self._texts.take(numbers), self._field)


def _labels(table: pa.Table) -> Iterator[str | tuple[str, ...] | None]:
    for label, labels in zip(table["label"].to_pylist(), _lists(table["labels"]), strict=True):
        if labels is not None:
            yield tuple(labels)
        else:
            yield None if label is None else sys.intern(label)


def _lists(column: pa.ChunkedArray) -> Iterator[list[str] | None]:
    """Rows of strings, each distinct string one object."""
    for row in column.to_pylist():
        yield None if row is None else [sys.intern(name) for name in row]


def _num_words(table: pa.Table) -> Ints:
    counts = counts_of(table["tokens"])
    if table["word_ids"].null_count < table.num_rows:
        for row, word_ids in enumerate(table["word_ids"].to_pylist()):
            if word_ids is not None:
                counts[row] = word_ids[-1] + 1 if word_ids else 0
    return counts
