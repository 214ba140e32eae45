"""Count what shards contain: words for a vocabulary; lengths, edges and names for the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphattn._ragged import Ints
from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._layout import Layout
from graphattn.builders._regular_files import file_sha256
from graphattn.builders._spelling import compose
from graphattn.builders.relations._relation_checks import count_edges, is_third_party
from graphattn.builders.store._layouts import table_layout
from graphattn.builders.store._manifest import Manifest, ShardEntry
from graphattn.builders.store._shards import Shard, shard_name
from graphattn.builders.store._tables import count_names, count_words

_VALIDATED_PAIRS = 1 << 20
"""Pairs of tokens, of the shortest texts of a chunk, for which edges of users' relations are validated."""


@dataclass
class ShardStatistics:
    """Counts of one shard; the fields are those of the manifest."""

    entry: ShardEntry
    cut: int
    skipped: list[dict[str, str]]
    counts: Counter[str] = field(default_factory=Counter)
    lengths: Counter[str] = field(default_factory=Counter)
    edges: Counter[str] = field(default_factory=Counter)
    labels: Counter[str] = field(default_factory=Counter)
    tags: Counter[str] = field(default_factory=Counter)
    deprels: Counter[str] = field(default_factory=Counter)
    longest: int = 0
    most_edges: int = 0

    def add_chunk(self, table: pa.Table, builder: TextGraphBuilder) -> None:
        """Add the rows of a chunk."""
        layout = table_layout(table, builder)
        cls = int(builder.cls)
        tokens = layout.lengths - cls
        if any(map(is_third_party, builder.relations)) and len(shortest := _shortest_texts(layout)):
            builder.vet(layout.take(shortest))
        edges_of = np.zeros(len(layout), np.int64)
        for relation in builder.relations:
            counts = count_edges(relation, layout)
            self.edges[relation.name] += int(counts.sum())
            edges_of += counts
        self.longest = max(self.longest, int(tokens.max(initial=0)))
        self.most_edges = max(self.most_edges, int(edges_of.max(initial=0)))
        for length, count in zip(*np.unique(tokens, return_counts=True), strict=True):
            self.lengths[str(length_class(int(length)))] += int(count)
        self.counts.update(
            sentences=len(layout),
            tokens=int(tokens.sum()),
            words=int((layout.word_counts - cls).sum()),
            parsed=table.num_rows - table["heads"].null_count,
            pairs=pc.sum(table["second"]).as_py() or 0,
        )
        texts = table.filter(pc.invert(table["second"].fill_null(False)))  # both rows of a pair have its label
        for counter, column in (
            (self.labels, texts["label"]),
            (self.labels, texts["labels"]),
            (self.tags, table["tags"]),
            (self.deprels, table["deprels"]),
        ):
            for name, count in count_names(column).items():
                counter[compose(name)] += count


def count_shard_words(folder: Path, number: int) -> dict[str, int]:
    """Count the words of a shard, in the order of first occurrence."""
    counts: Counter[str] = Counter()
    for table in _chunks(Shard(folder / shard_name(number)), ["tokens", "word_ids"]):
        counts.update(count_words(table))
    return dict(counts)


def collect_statistics(folder: Path, builder: TextGraphBuilder, number: int) -> ShardStatistics:
    """Count what a shard contains."""
    name = shard_name(number)
    path = folder / name
    shard = Shard(path)
    entry = ShardEntry(name, shard.chunk_sizes, path.stat().st_size, file_sha256(path), shard.notes["digest"])
    statistics = ShardStatistics(entry, shard.notes["cut"], shard.notes["skipped"])
    for table in _chunks(shard):
        statistics.add_chunk(table, builder)
    return statistics


def finalize_manifest(manifest: Manifest, shards: Sequence[ShardStatistics], relations: Sequence[str]) -> Manifest:
    """The manifest of a complete store."""
    counts: dict[str, Any] = dict(_sum(shards, "counts"))
    lengths = _sum(shards, "lengths")
    edges = _sum(shards, "edges")
    return replace(
        manifest,
        shards=[shard.entry for shard in shards],
        **counts,
        longest=max((shard.longest for shard in shards), default=0),
        lengths={low: lengths[low] for low in sorted(lengths, key=int)},
        edges={name: edges[name] for name in relations},
        most_edges=max((shard.most_edges for shard in shards), default=0),
        labels=dict(_sum(shards, "labels").most_common()),
        tags=dict(_sum(shards, "tags").most_common()),
        deprels=dict(_sum(shards, "deprels").most_common()),
        cut=sum(shard.cut for shard in shards),
        skipped=sum(len(shard.skipped) for shard in shards),
        complete=True,
    )


def _sum(shards: Sequence[ShardStatistics], field: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for shard in shards:
        total.update(getattr(shard, field))
    return total


def length_class(tokens: int) -> int:
    """The lower bound of the length class 0, 1, 2-3, 4-7, ... of a sentence.

    Examples
    --------
    >>> [length_class(tokens) for tokens in (0, 1, 3, 4, 100)]
    [0, 1, 2, 4, 64]
    """
    return 0 if tokens == 0 else 1 << (tokens.bit_length() - 1)


def _chunks(shard: Shard, columns: list[str] | None = None) -> Iterator[pa.Table]:
    return (shard.chunk(number, columns) for number in range(len(shard.chunk_sizes)))


def _shortest_texts(layout: Layout) -> npt.NDArray[np.integer[Any]]:
    pairs: Ints = np.maximum(layout.lengths, layout.word_counts).astype(np.int64) ** 2
    order = np.argsort(pairs, kind="stable")
    return np.sort(order[np.cumsum(pairs[order]) <= _VALIDATED_PAIRS])
