"""A store as PyTorch data sets: graphs of chosen sentences, and a stream of shuffled batches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from graphattn.builders.batch import TextBatch
from graphattn.builders.batching import BudgetBatches
from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.layout import Ints
from graphattn.builders.relations.csc import ragged_arange
from graphattn.builders.store.chunks import Chunk
from graphattn.builders.store.store import Store
from graphattn.exceptions import ConfigError

if TYPE_CHECKING:
    from dgl import DGLGraph


@dataclass(frozen=True, eq=False)
class StoreBatch:
    """Sentences of a store as one graph.

    Parameters
    ----------
    arrays : of B sentences, for models
    numbers : (B,) their numbers in the store
    labels : (B,) place of each label in ``store.manifest.labels``, -1 for none and where a text may have several
    label_sets : (2, P) sentence, and place of the label, of each label of texts that may have several
    num_labels : labels in the store
    tags : (T,) place of each tag in ``store.manifest.tags``, one sentence after the other
    """

    arrays: TextBatch
    numbers: Tensor
    labels: Tensor
    label_sets: Tensor
    num_labels: int
    tags: Tensor

    @property
    def label_matrix(self) -> Tensor:
        """(B, L) which sentence has which of the store's labels, whether it may have one or several."""
        matrix = torch.zeros(len(self.labels), self.num_labels, dtype=torch.bool)
        labelled = torch.nonzero(self.labels >= 0).squeeze(1)
        matrix[labelled, self.labels[labelled]] = True
        matrix[self.label_sets[0], self.label_sets[1]] = True
        return matrix

    @property
    def graph(self) -> DGLGraph:
        """The graph; DGL makes it when it is asked for."""
        return self.arrays.to_dgl()


class _Decoder:
    """Chunks of a store, decoded for a builder; the last ones are kept."""

    def __init__(self, store: Store, builder: TextGraphBuilder, kept: int):
        self.store, self.builder, self.kept = store, builder, max(1, kept)
        self._labels = {name: place for place, name in enumerate(store.manifest.labels)}
        self._tags = {name: place for place, name in enumerate(store.manifest.tags)}
        self._chunks: OrderedDict[int, Chunk] = OrderedDict()

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_chunks": OrderedDict()}

    def decoded(self, number: int) -> Chunk:
        """A chunk, without keeping it."""
        return Chunk.of(self.store.chunk(number), self.builder, self._labels, self._tags)

    def __getitem__(self, number: int) -> Chunk:
        if number not in self._chunks:
            while len(self._chunks) >= self.kept:
                self._chunks.popitem(last=False)
            self._chunks[number] = self.decoded(number)
        self._chunks.move_to_end(number)
        return self._chunks[number]

    def batch(self, chunk: Chunk, numbers: Ints) -> StoreBatch:
        sets = chunk.label_sets
        return StoreBatch(
            self.builder.text_batch(chunk.layout),
            torch.from_numpy(numbers),
            torch.from_numpy(chunk.labels),
            torch.from_numpy(np.stack([np.repeat(np.arange(len(sets.counts)), sets.counts), sets.places])),
            len(self._labels),
            torch.from_numpy(chunk.tags.places),
        )


class GraphDataset(Dataset[StoreBatch]):
    """Graphs by sentence numbers: indexed with one number or many, it gives their batch.

    Use it with a batch sampler: ``DataLoader(dataset, sampler=BudgetBatches(store.lengths, ...), batch_size=None)``.
    Numbers may come in any order, but each chunk they lie in is decoded whole: for a store with many more chunks than
    ``kept_chunks``, :class:`GraphStream` shuffles at a fraction of the cost.

    Parameters
    ----------
    store : where the sentences are
    builder : makes the graphs; its vocabulary gives the ids
    kept_chunks : decoded chunks kept in memory, some 20 MB each
    """

    def __init__(self, store: Store, builder: TextGraphBuilder, *, kept_chunks: int = 64):
        self.store, self.builder = store, builder
        self._decoder = _Decoder(store, builder, kept_chunks)

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(self, index: int | Sequence[int]) -> StoreBatch:
        numbers = np.atleast_1d(np.asarray(index, np.int64))
        wrong = numbers[(numbers < 0) | (numbers >= len(self))]
        if len(wrong):
            raise IndexError(f"sentence {wrong[0]} of a store of {len(self)}")
        starts = self.store.chunk_starts
        chunk_of = np.searchsorted(starts, numbers, side="right") - 1
        parts, places = [], []
        for chunk in np.unique(chunk_of):
            chosen = np.flatnonzero(chunk_of == chunk)
            parts.append(self._decoder[int(chunk)].take(numbers[chosen] - starts[chunk]))
            places.append(chosen)
        order = np.concatenate([np.empty(0, np.int64), *places])
        together = Chunk.joined(parts) if parts else self._decoder[0].take(numbers)
        if len(parts) > 1:
            together = together.take(np.argsort(order))
        return self._decoder.batch(together, numbers)


class GraphStream(IterableDataset[StoreBatch]):
    """Batches in one pass over the store, each sentence once, in constant memory however large the store is.

    Chunks come in random order; ``pool`` of them are shuffled together and cut into batches as
    :class:`~graphattn.builders.batching.BudgetBatches` does. Several processes, and the workers of each, take turns
    with the chunks, so that each sentence still comes once; they do not get equally many batches.

    Parameters
    ----------
    store : where the sentences are
    builder : makes the graphs; its vocabulary gives the ids
    max_sentences, max_tokens, max_edges : budgets of a batch; None for no limit
    shuffle : another order in each epoch; otherwise chunk by chunk, each from long to short
    pool : chunks that are shuffled together, some 20 MB each
    seed : together with the epoch it decides the order
    rank, processes : which of how many processes this is

    Raises
    ------
    ConfigError
        when no budget is given, one is not positive, or there is no such process
    """

    def __init__(
        self,
        store: Store,
        builder: TextGraphBuilder,
        *,
        max_sentences: int | None = None,
        max_tokens: int | None = None,
        max_edges: int | None = None,
        shuffle: bool = True,
        pool: int = 8,
        seed: int = 0,
        rank: int = 0,
        processes: int = 1,
    ):
        if not 0 <= rank < processes:
            raise ConfigError(f"rank is {rank} of {processes} processes; ranks count from 0")
        self.store, self.builder, self.shuffle, self.pool = store, builder, shuffle, max(1, pool)
        self.seed, self.epoch, self.rank, self.processes = seed, 0, rank, processes
        self._budgets: dict[str, Any] = {
            "max_sentences": max_sentences,
            "max_tokens": max_tokens,
            "max_edges": max_edges,
        }
        BudgetBatches(np.ones(1, np.int64), **self._budgets, edges=np.ones(1, np.int64))  # refuses what is impossible
        self._decoder = _Decoder(store, builder, 1)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of another epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[StoreBatch]:
        own = self._own_chunks()
        width = self.pool if self.shuffle else 1
        for start in range(0, len(own), width):
            chosen = own[start : start + width]
            yield from self._batches([int(number) for number in chosen])

    def _own_chunks(self) -> Ints:
        """The chunks of this process and worker in the order of this epoch."""
        count = self.store.num_chunks
        order = np.random.default_rng((self.seed, self.epoch)).permutation(count) if self.shuffle else np.arange(count)
        worker = get_worker_info()
        workers, own = (1, 0) if worker is None else (worker.num_workers, worker.id)
        return order[self.rank * workers + own :: self.processes * workers]

    def _batches(self, chunks: list[int]) -> Iterator[StoreBatch]:
        pool = Chunk.joined([self._decoder.decoded(number) for number in chunks])
        starts, sizes = self.store.chunk_starts[chunks], np.diff(self.store.chunk_starts)[chunks]
        numbers = ragged_arange(starts, sizes)
        edges = None if self._budgets["max_edges"] is None else self.builder.num_edges(pool.layout)
        batches = BudgetBatches(
            pool.layout.lengths, **self._budgets, edges=edges, shuffle=self.shuffle, seed=self.seed + chunks[0]
        )
        batches.set_epoch(self.epoch)
        for rows in map(np.asarray, batches):
            yield self._decoder.batch(pool.take(rows), numbers[rows])
