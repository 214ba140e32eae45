"""A store as a sequence of sentences, and the part of it that an estimator trains on."""

from __future__ import annotations

import hashlib
import os
import sys
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn._ragged import Ints, offsets_from_counts
from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._layout import Layout
from graphattn.builders._regular_files import NAMES, file_sha256, read_bytes
from graphattn.builders._sentence import Sentence
from graphattn.builders._spelling import compose
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders.relations import Relation, parse_relation
from graphattn.builders.store._layouts import table_layout
from graphattn.builders.store._manifest import MANIFEST, REPAIR, TOKENIZER, Manifest, ShardEntry, find_damaged
from graphattn.builders.store._shards import Shard, damage_error, system_error
from graphattn.builders.store._tables import count_names, count_words, list_lengths, to_sentences
from graphattn.exceptions import DataError

_OF_SENTENCES = ("lengths", "_pair_positions")
"""Cached values with a row for each sentence."""
OPEN_SHARDS = 16
"""Shards that a store keeps open; each takes a file descriptor and the metadata of its chunks."""


class _NameIndex(dict[str, int]):
    """Name in any Unicode form -> its index; a name that ``store.json`` lacks is an error."""

    def __init__(self, names: Iterable[str], path: Path):
        super().__init__((name, number) for number, name in enumerate(names))
        self._path = path

    def __missing__(self, name: str) -> int:
        if (composed := compose(name)) in self:
            return self[composed]
        raise DataError(f"does not list {name!r}, which a sentence has", path=self._path, hint=REPAIR)


class Store(Sequence[Sentence]):
    """Sentences that ``graphattn build`` wrote, or some of them, read when they are needed.

    Parameters
    ----------
    folder : of the store
    cached_chunks : decoded chunks (up to 16,384 sentences or about half a million tokens each) to keep in memory

    Raises
    ------
    DataError
        when there is no store, or it is incomplete or of another version

    Examples
    --------
    A store is a sequence, so an estimator accepts it:

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
        self.chunk_starts: Ints = offsets_from_counts(np.array(sizes, np.int64))
        self._chunk_files = [(entry, i) for entry in self.manifest.shards for i in range(len(entry.chunks))]
        self._cached_chunks = cached_chunks
        self._open: OrderedDict[str, Shard] = OrderedDict()
        self._verified: dict[str, tuple[int, int]] = {}  # stamps of shards whose checksum was compared
        self._chunks: OrderedDict[int, pa.Table] = OrderedDict()
        self._numbers: Ints | None = None  # of the sentences in the files; None for all

    def __len__(self) -> int:
        return int(self.chunk_starts[-1]) if self._numbers is None else len(self._numbers)

    @property
    def num_chunks(self) -> int:
        """Number of chunks, the units of decoding."""
        return len(self._chunk_files)

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
        number = number if self._numbers is None else int(self._numbers[number])
        chunk = bisect_right(self.chunk_starts, number) - 1
        return to_sentences(self._load_chunk(chunk).slice(number - int(self.chunk_starts[chunk]), 1))[0]

    def __iter__(self) -> Iterator[Sentence]:
        return chain.from_iterable(self.parts())

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r}: {len(self):,} sentences)"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.folder, self._cached_chunks, self._numbers)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary that the build was given or learned.

        Raises
        ------
        DataError
            when its file is missing or damaged
        """
        path = self.folder / TOKENIZER
        try:
            content = read_bytes(path, NAMES)
        except OSError as error:
            unreadable = DataError(f"cannot be read ({error.strerror})", path=path, hint=REPAIR)
            raise system_error(path, error) or unreadable from error
        if hashlib.sha256(content).hexdigest() != self.manifest.sha256.get(TOKENIZER):
            raise DataError(f"is damaged: its checksum is not the one in {MANIFEST}", path=path, hint=REPAIR)
        return Vocabulary.from_json(content.decode("utf-8"))

    @property
    def tokenized_by(self) -> str | None:
        """The rule that tokenized raw texts, ``"another"`` for a foreign one; None for corpora of words."""
        return (self.vocabulary.splitter.rule or "another") if self.manifest.cut else None

    def builder(self, like: TextGraphBuilder | None = None) -> TextGraphBuilder:
        """A builder with this store's relations, ``[CLS]`` setting and vocabulary.

        It requires dependencies if all sentences have heads; otherwise sentences without heads get self-loops only.

        Parameters
        ----------
        like : take relations and ``[CLS]`` from this builder; needed for relations that their names do not define:
            unregistered ones of your own, dependencies with other labels, neighbours by other vectors

        Raises
        ------
        UnregisteredError
            when a relation is neither built in nor registered
        """
        if like is not None:
            builder = copy(like)
            builder.vocabulary = self.vocabulary
            return builder
        settings, required = self.manifest.settings, self.manifest.parsed == len(self)
        relations: list[Relation] = []
        included: set[str] = set()
        for name in settings["relations"]:
            if name not in included:
                relations.append(parse_relation(name, required=required))
                included |= {part.spec for part in relations[-1].parts()}
        return TextGraphBuilder(relations, cls=settings["cls"], vocabulary=self.vocabulary)

    @property
    def label_index(self) -> Mapping[str, int]:
        """Label -> its index in ``manifest.labels``."""
        return _NameIndex(self.manifest.labels, self.folder / MANIFEST)

    @property
    def tag_index(self) -> Mapping[str, int]:
        """Tag -> its index in ``manifest.tags``."""
        return _NameIndex(self.manifest.tags, self.folder / MANIFEST)

    @cached_property
    def lengths(self) -> npt.NDArray[np.int32]:
        """(S,) tokens of each sentence in the corpus, before a vocabulary splits words into subwords."""
        columns = [table["length"].to_numpy() for table in self.tables(["length"])]
        return np.concatenate([np.empty(0, np.int32), *columns])

    def take(self, numbers: Sequence[int] | Ints) -> Store:
        """Some of the sentences, in the given order, as a store that reads the same files."""
        taken = np.asarray(numbers, np.int64)
        some = object.__new__(type(self))
        vars(some).update({name: value for name, value in vars(self).items() if name not in _OF_SENTENCES})
        some._numbers = taken if self._numbers is None else self._numbers[taken]
        return some

    def texts(self) -> Store:
        """The texts; of a pair the first."""
        return self.take(np.flatnonzero(self._pair_positions != 1)) if self.manifest.pairs else self

    def pairs(self) -> tuple[Store, Store]:
        """The first and the second texts of the pairs.

        Raises
        ------
        DataError
            when a text is not part of a pair
        """
        positions = self._pair_positions
        single = np.flatnonzero(positions < 0)
        if len(single):
            raise DataError(
                f"sentence {single[0]} is not part of a pair",
                path=self.folder,
                hint="Build a store of pairs alone: graphattn build --pairs.",
            )
        return self.take(np.flatnonzero(positions == 0)), self.take(np.flatnonzero(positions == 1))

    @cached_property
    def _pair_positions(self) -> npt.NDArray[np.int8]:
        """(S,) 0 for the first and 1 for the second text of a pair, -1 for a single text."""
        if not self.manifest.pairs:
            return np.full(len(self), -1, np.int8)
        tables = self.tables(["second"])
        return np.concatenate([table["second"].cast("int8").fill_null(-1).to_numpy() for table in tables])

    def column(self, field: str) -> Sequence[Any]:
        """The ``label`` or the ``tags`` of each sentence, or None."""
        if field == "tags":
            return StoredTags(self)
        return [label for table in self.tables(["label", "labels"]) for label in _intern_labels(table)]

    def words(self) -> Counter[str]:
        """Word -> number of its occurrences, in the order of first appearance."""
        counts: Counter[str] = Counter()
        for table in self.tables(["tokens", "word_ids"]):
            counts.update(count_words(table))
        return counts

    def deprels(self) -> Counter[str]:
        """Dependency relation -> number of its occurrences."""
        counts: Counter[str] = Counter()
        for table in self.tables(["deprels"]):
            counts.update(count_names(table["deprels"]))
        return counts

    def num_words(self) -> Ints:
        """(S,) words of each sentence."""
        return np.concatenate([np.empty(0, np.int64), *map(_num_words, self.tables(["tokens", "word_ids"]))])

    def parts(self) -> Iterator[list[Sentence]]:
        """All sentences in parts that fit into memory."""
        return map(to_sentences, self.tables())

    def layouts(self, builder: TextGraphBuilder) -> Iterator[Layout]:
        """The layout of each part."""
        return (table_layout(table, builder) for table in self.tables())

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, those that follow each other in one chunk as a table; of some sentences at least one table."""
        if self._numbers is None:
            yield from (self.chunk(number, columns) for number in range(self.num_chunks))
            return
        starts = self.chunk_starts
        chunks = np.searchsorted(starts, self._numbers, side="right") - 1
        for numbers in np.split(self._numbers, np.flatnonzero(np.diff(chunks)) + 1):
            chunk = int(np.searchsorted(starts, numbers[0], side="right")) - 1 if len(numbers) else 0
            yield self.chunk(chunk, columns).take(numbers - starts[chunk])

    def chunk(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read a chunk, with the columns that :mod:`graphattn.builders.store._tables` describes.

        Raises
        ------
        DataError
            when the shard is missing or damaged; the others can still be read
        """
        entry, position = self._chunk_files[number]
        file = entry.file
        if file not in self._open:
            while len(self._open) >= OPEN_SHARDS:
                self._open.popitem(last=False)[1].close()
            self._open[file] = self._open_shard(entry)
        self._open.move_to_end(file)
        return self._open[file].chunk(position, None if columns is None else list(columns))

    def _open_shard(self, entry: ShardEntry) -> Shard:
        """Open a shard; compare its bytes unless they were before, since Arrow does not notice every flipped bit."""
        shard = Shard(self.folder / entry.file)
        if self._verified.get(entry.file) != shard.stamp and (
            shard.stamp[0] != entry.bytes or file_sha256(shard.path) != entry.sha256
        ):
            raise damage_error(shard.path, f"its checksum is not the one in {MANIFEST}")
        if shard.chunk_sizes != entry.chunks:
            raise damage_error(shard.path, f"it does not have the sentences that {MANIFEST} lists")
        self._verified[entry.file] = shard.stamp
        return shard

    def find_damaged(self) -> dict[str, str]:
        """Read every byte; return the damaged files with the reason."""
        return find_damaged(self.folder, self.manifest)

    def _load_chunk(self, number: int) -> pa.Table:
        if number not in self._chunks:
            while len(self._chunks) >= max(1, self._cached_chunks):
                self._chunks.popitem(last=False)
            self._chunks[number] = self.chunk(number)
        self._chunks.move_to_end(number)
        return self._chunks[number]


def open_store(path: Path) -> Store:
    """Open a store that is not empty."""
    store = Store(path)
    if not len(store):
        raise DataError("has no sentence", path=path, hint="Build it from a corpus with at least one.")
    return store


def _reopen(folder: Path, cached_chunks: int, numbers: Ints | None) -> Store:
    """Open a store in another process."""
    store = Store(folder, cached_chunks=cached_chunks)
    return store if numbers is None else store.take(numbers)


class StoredTags(Sequence[Any]):
    """The tags of each text, read when they are needed."""

    def __init__(self, texts: Store):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.take(range(*index.indices(len(self))))
        return self._texts[index].tags

    def __iter__(self) -> Iterator[list[str] | None]:
        return chain.from_iterable(_intern_lists(table["tags"]) for table in self._texts.tables(["tags"]))

    def take(self, numbers: Sequence[int]) -> StoredTags:
        """The tags of some texts."""
        return StoredTags(self._texts.take(numbers))


def _intern_labels(table: pa.Table) -> Iterator[str | tuple[str, ...] | None]:
    for label, labels in zip(table["label"].to_pylist(), _intern_lists(table["labels"]), strict=True):
        if labels is not None:
            yield tuple(labels)
        else:
            yield None if label is None else sys.intern(label)


def _intern_lists(column: pa.ChunkedArray) -> Iterator[list[str] | None]:
    """Rows in which equal strings share memory."""
    for row in column.to_pylist():
        yield None if row is None else [sys.intern(name) for name in row]


def _num_words(table: pa.Table) -> Ints:
    counts = list_lengths(table["tokens"])
    if table["word_ids"].null_count < table.num_rows:
        for row, word_ids in enumerate(table["word_ids"].to_pylist()):
            if word_ids is not None:
                counts[row] = word_ids[-1] + 1 if word_ids else 0
    return counts
