"""A store as a sequence of sentences: by index, in slices, or from front to back."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.layout import Ints
from graphattn.builders.lazy_texts import LazyCorpus
from graphattn.builders.relations import Relation, parse_relation
from graphattn.builders.sentence import Sentence
from graphattn.builders.store.manifest import TOKENIZER, Manifest, damaged_shards
from graphattn.builders.store.shard import Shard
from graphattn.builders.store.stored_texts import StoredTexts
from graphattn.builders.store.table import sentences_of
from graphattn.builders.vocabulary import Vocabulary
from graphattn.exceptions import DataError

OPEN_SHARDS = 16
"""Most shards that a store holds open at a time; each takes a file descriptor and the notes on its chunks."""


class Store(Sequence[Sentence], LazyCorpus):
    """Sentences that ``graphattn build`` wrote. Nothing is read before it is asked for.

    Parameters
    ----------
    folder : where they are
    cached_chunks : decoded chunks (up to 16,384 sentences or some half a million tokens each) kept in memory

    Raises
    ------
    DataError
        when there is no store, it is not complete, or it is of another version

    Examples
    --------
    A store is a sequence, so that an estimator takes it as it is:

    >>> import tempfile
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> from graphattn.builders.store import CorpusFile, StoreSettings, build_store
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("good\\ta lovely film\\nbad\\tdull\\n")
    >>> settings = StoreSettings(TextGraphBuilder([Window(3)]))
    >>> _ = build_store([CorpusFile(folder / "train.txt")], folder / "store", settings)
    >>> store = Store(folder / "store")
    >>> len(store), store[1].tokens, store[1].label
    (2, ('dull',), 'bad')
    """

    def __init__(self, folder: str | os.PathLike[str], *, cached_chunks: int = 16):
        self.folder = Path(folder)
        self.manifest = Manifest.read(self.folder)
        sizes = [size for entry in self.manifest.shards for size in entry.chunks]
        self.chunk_starts: Ints = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self._places = [(entry.file, i) for entry in self.manifest.shards for i in range(len(entry.chunks))]
        self._cached_chunks = cached_chunks
        self._open: OrderedDict[str, Shard] = OrderedDict()
        self._chunks: OrderedDict[int, pa.Table] = OrderedDict()

    def __len__(self) -> int:
        return int(self.chunk_starts[-1])

    @property
    def num_chunks(self) -> int:
        """Number of chunks, the units that are decoded at once."""
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Sentence: ...

    @overload
    def __getitem__(self, index: slice) -> list[Sentence]: ...

    def __getitem__(self, index: int | slice) -> Sentence | list[Sentence]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"sentence {index} of a store of {len(self)}")
        chunk = bisect_right(self.chunk_starts, number) - 1
        return sentences_of(self._cached(chunk).slice(number - int(self.chunk_starts[chunk]), 1))[0]

    def __iter__(self) -> Iterator[Sentence]:
        for number in range(self.num_chunks):
            yield from sentences_of(self.chunk(number))

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r}: {len(self):,} sentences)"

    def __reduce__(self) -> tuple:
        return _reopened, (self.folder, self._cached_chunks)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that was given to the building, or learnt in it."""
        return Vocabulary.load(self.folder / TOKENIZER)

    @property
    def tokenized_by(self) -> str | None:
        """As :attr:`LazyTexts.tokenized_by`: the rule of the vocabulary, if there were raw texts."""
        return (self.vocabulary.splitter.rule or "another") if self.manifest.cut else None

    def builder(self, like: TextGraphBuilder | None = None) -> TextGraphBuilder:
        """A builder of this store's graphs: its relations by their names, its ``[CLS]``, its vocabulary.

        Dependencies are required if all sentences have heads; without them a sentence has self-loops alone.

        Parameters
        ----------
        like : take relations and ``[CLS]`` from this one, for relations that their names do not tell: those of your
            own that are not registered, dependencies with other labels, neighbours by other vectors

        Raises
        ------
        UnregisteredError
            when a relation is neither one of this package nor registered
        """
        if like is not None:
            builder = copy(like)
            builder.vocabulary = self.vocabulary
            return builder
        settings, required = self.manifest.settings, self.manifest.parsed == len(self)
        relations: list[Relation] = []
        brought: set[str] = set()
        for name in settings["relations"]:
            if name not in brought:
                relations.append(parse_relation(name, required=required))
                brought |= {part.spec for part in relations[-1].parts()}
        return TextGraphBuilder(relations, cls=settings["cls"], vocabulary=self.vocabulary)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """(S,) tokens of each sentence as they stand in the corpus, before a vocabulary cuts words into pieces."""
        columns = [self.chunk(number, ["length"])["length"].to_numpy() for number in range(self.num_chunks)]
        return np.concatenate([np.empty(0, np.int32), *columns])

    def texts(self) -> StoredTexts:
        """Its texts for an estimator that takes one at a time; of a pair the first."""
        return StoredTexts(self, np.flatnonzero(self._places_in_pairs != 1))

    def pairs(self) -> tuple[StoredTexts, StoredTexts]:
        """The first texts of its pairs and the second ones.

        Raises
        ------
        DataError
            when there is a text that is not part of a pair
        """
        places = self._places_in_pairs
        alone = np.flatnonzero(places < 0)
        if len(alone):
            raise DataError(
                f"sentence {alone[0]} is not part of a pair",
                path=self.folder,
                hint="Build a store of pairs alone: graphattn build --pairs.",
            )
        return StoredTexts(self, np.flatnonzero(places == 0)), StoredTexts(self, np.flatnonzero(places == 1))

    @cached_property
    def _places_in_pairs(self) -> npt.NDArray[np.int8]:
        """(S,) 0 for the first and 1 for the second text of a pair, -1 for a text of its own."""
        if not self.manifest.pairs:
            return np.full(len(self), -1, np.int8)
        tables = [self.chunk(number, ["second"]) for number in range(self.num_chunks)]
        return np.concatenate([table["second"].cast("int8").fill_null(-1).to_numpy() for table in tables])

    def chunk(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """The sentences of a chunk as a table, whose columns :mod:`graphattn.builders.store.schema` describes.

        Raises
        ------
        DataError
            when the shard is missing or damaged; the others can still be read
        """
        file, place = self._places[number]
        if file not in self._open:
            while len(self._open) >= OPEN_SHARDS:
                self._open.popitem(last=False)[1].close()
            self._open[file] = Shard(self.folder / file)
        self._open.move_to_end(file)
        return self._open[file].chunk(place, None if columns is None else list(columns))

    def damaged(self) -> dict[str, str]:
        """The shards that are not what was written, with what is wrong; every byte is read."""
        return damaged_shards(self.folder, self.manifest)

    def _cached(self, number: int) -> pa.Table:
        if number not in self._chunks:
            while len(self._chunks) >= max(1, self._cached_chunks):
                self._chunks.popitem(last=False)
            self._chunks[number] = self.chunk(number)
        self._chunks.move_to_end(number)
        return self._chunks[number]


def _reopened(folder: Path, cached_chunks: int) -> Store:
    return Store(folder, cached_chunks=cached_chunks)
