"""A store as a stream of shuffled batches, and as files of DGL graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from graphattn._dgl_graphs import save_graphs
from graphattn._ragged import Ints, concatenate_ranges
from graphattn.builders._atomic import atomic_folder
from graphattn.builders._batch import TextBatch
from graphattn.builders._batching import BudgetBatches
from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._paths import write_error
from graphattn.builders.store._layouts import DecodedRows, table_layout
from graphattn.builders.store._manifest import GRAPHS, write_graph_sums
from graphattn.builders.store._shards import CHUNK_SENTENCES, CHUNK_TOKENS
from graphattn.builders.store._store import Store
from graphattn.exceptions import ConfigError, GraphError

if TYPE_CHECKING:
    from dgl import DGLGraph

GRAPHS_PER_FILE, EDGES_PER_FILE = 4096, 20_000_000
"""Graphs and edges that complete a file of graphs, so that long texts fit into memory too."""


@dataclass(frozen=True, eq=False)
class StoreBatch:
    """Sentences of a store as a batch, with their labels and tags.

    Parameters
    ----------
    batch : of B sentences
    numbers : (B,) their numbers in the store
    labels : (B,) index of each label in ``store.manifest.labels``; -1 without a label or with several
    label_sets : (2, P) sentence and index of each label of texts that may have several
    num_labels : labels in the store
    tags : (T,) index of each word's tag in ``store.manifest.tags``
    """

    batch: TextBatch
    numbers: Tensor
    labels: Tensor
    label_sets: Tensor
    num_labels: int
    tags: Tensor

    @property
    def label_matrix(self) -> Tensor:
        """(B, L) whether a sentence has a label."""
        matrix = torch.zeros(len(self.labels), self.num_labels, dtype=torch.bool)
        labelled = torch.nonzero(self.labels >= 0).squeeze(1)
        matrix[labelled, self.labels[labelled]] = True
        matrix[self.label_sets[0], self.label_sets[1]] = True
        return matrix

    @property
    def graph(self) -> DGLGraph:
        """The batch as a DGL graph."""
        return self.batch.to_dgl()


class GraphStream(IterableDataset[StoreBatch]):
    """One pass over the store in shuffled batches, with constant memory for a store of any size.

    Chunks come in random order; each pool of chunks is shuffled and cut into batches by
    :class:`~graphattn.builders._batching.BudgetBatches`. Processes and their data loader workers take chunks in turn:
    together they see each sentence once, but the number of batches may differ.

    Parameters
    ----------
    store : the store
    builder : builds the graphs; its vocabulary gives the ids
    max_sentences, max_tokens, max_edges : budgets of a batch; None for no limit
    shuffle : a new order in each epoch; otherwise chunk by chunk, each from long to short
    pool : full chunks to shuffle together (16,384 sentences or about half a million tokens, about 20 MB each), or as
        many sentences in smaller ones
    seed : determines the order, together with the epoch
    rank, processes : number of this process, and of all

    Raises
    ------
    ConfigError
        when no budget is given, or a value is out of range
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
            raise ConfigError(f"{{rank}} is {rank} of {processes} processes; ranks count from 0", options=("rank",))
        self.store, self.builder, self.shuffle, self.pool = store, builder, shuffle, max(1, pool)
        self.seed, self.epoch, self.rank, self.processes = seed, 0, rank, processes
        self._budgets: dict[str, Any] = {
            "max_sentences": max_sentences,
            "max_tokens": max_tokens,
            "max_edges": max_edges,
        }
        BudgetBatches(np.ones(1, np.int64), **self._budgets, edges=np.ones(1, np.int64))  # validates the budgets
        self._labels, self._tags = store.label_index, store.tag_index

    def set_epoch(self, epoch: int) -> None:
        """Select the order of an epoch."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[StoreBatch]:
        for chunks in self._pools():
            yield from self._batches(chunks.tolist())

    def _pools(self) -> list[Ints]:
        """The chunks to shuffle together."""
        chunks, manifest = self._worker_chunks(), self.store.manifest
        if not len(chunks):
            return []
        if not self.shuffle:
            return np.split(chunks, len(chunks))
        of_full_chunk = min(CHUNK_SENTENCES, CHUNK_TOKENS * manifest.sentences / max(manifest.tokens, 1))
        sizes = np.diff(self.store.chunk_starts)[chunks]
        pools = (np.cumsum(sizes) - sizes) // max(self.pool * of_full_chunk, 1)
        return np.split(chunks, np.flatnonzero(np.diff(pools)) + 1)

    def _worker_chunks(self) -> Ints:
        """The chunks of this process and worker, in the order of this epoch."""
        count = self.store.num_chunks
        order = np.random.default_rng((self.seed, self.epoch)).permutation(count) if self.shuffle else np.arange(count)
        worker = get_worker_info()
        workers, worker_id = (1, 0) if worker is None else (worker.num_workers, worker.id)
        return order[self.rank * workers + worker_id :: self.processes * workers]

    def _batches(self, chunks: list[int]) -> Iterator[StoreBatch]:
        tables = map(self.store.chunk, chunks)
        pool = DecodedRows.concatenate(
            [DecodedRows.from_table(t, self.builder, self._labels, self._tags) for t in tables]
        )
        starts, sizes = self.store.chunk_starts[chunks], np.diff(self.store.chunk_starts)[chunks]
        numbers = concatenate_ranges(starts, sizes)
        edges = None if self._budgets["max_edges"] is None else self.builder.num_edges(pool.layout)
        batches = BudgetBatches(
            pool.layout.lengths, **self._budgets, edges=edges, shuffle=self.shuffle, seed=self.seed + chunks[0]
        )
        batches.set_epoch(self.epoch)
        for rows in map(np.asarray, batches):
            yield self._batch(pool.take(rows), numbers[rows])

    def _batch(self, chunk: DecodedRows, numbers: Ints) -> StoreBatch:
        sets = chunk.label_sets
        return StoreBatch(
            self.builder.text_batch(chunk.layout),
            torch.from_numpy(numbers),
            torch.from_numpy(chunk.labels),
            torch.from_numpy(np.stack([sets.row_of_value, sets.values])),
            len(self._labels),
            torch.from_numpy(chunk.tags.values),
        )


def materialize(store: Store, builder: TextGraphBuilder) -> list[Path]:
    """Write the graph of each sentence into the store's folder ``graphs``, for ``dgl.load_graphs``.

    Returns the files, in the order of the sentences.
    """
    folder = store.folder / GRAPHS
    try:
        with atomic_folder(folder, sync=True) as temporary:
            names = _write_graphs(store, builder, temporary)
            write_graph_sums(temporary)
    except OSError as error:
        raise write_error(folder, error) from error
    return [folder / name for name in names]


def _write_graphs(store: Store, builder: TextGraphBuilder, folder: Path) -> list[str]:
    names: list[str] = []
    graphs: list[DGLGraph] = []
    edges = 0
    for number in range(store.num_chunks):
        layout = table_layout(store.chunk(number), builder)
        for sentence in range(len(layout)):
            graphs.append(builder.graph(layout.take([sentence])))
            edges += graphs[-1].num_edges()
            if len(graphs) >= GRAPHS_PER_FILE or edges >= EDGES_PER_FILE:
                names.append(_save(graphs, folder, len(names)))
                graphs, edges = [], 0
    if graphs:
        names.append(_save(graphs, folder, len(names)))
    return names


def _save(graphs: list[DGLGraph], folder: Path, number: int) -> str:
    name = f"graphs-{number:05d}.dgl"
    try:
        save_graphs(graphs, str(folder / name))
    except GraphError as error:  # its message names the temporary folder
        raise OSError(f"DGL could not write {name}") from error
    return name
