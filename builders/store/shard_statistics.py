"""What a shard holds, counted: words for a vocabulary, and lengths, edges and names for the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.validation import is_third_party, validated_counts
from graphattn.builders.store.layouts import layout_of
from graphattn.builders.store.manifest import Manifest, ShardEntry
from graphattn.builders.store.shard import Shard, checksum, shard_name
from graphattn.builders.store.table import words_of

_LOOKED_AT = 1 << 20
"""Pairs of tokens, of the shortest texts of a chunk, whose edges by users' relations are looked at."""
_COUNTED = ("lengths", "edges", "labels", "tags", "deprels", "counts")


@dataclass(frozen=True)
class WordCount:
    """Counts the words of a numbered shard, in the order of their first appearance."""

    folder: Path

    def __call__(self, number: int) -> tuple[int, dict[str, int]]:
        """The shard's number and word -> how often."""
        counts: Counter[str] = Counter()
        for table in _chunks(Shard(self.folder / shard_name(number)), ["tokens", "word_ids"]):
            counts.update(words_of(table))
        return number, dict(counts)


@dataclass(frozen=True)
class Survey:
    """Sums up a numbered shard.

    Parameters
    ----------
    folder : the store
    builder : whose edges to count; without a vocabulary when tokens are words
    """

    folder: Path
    builder: TextGraphBuilder

    def __call__(self, number: int) -> tuple[int, dict[str, Any]]:
        """The shard's number and what it holds."""
        path = self.folder / shard_name(number)
        shard = Shard(path)
        totals: dict[str, Counter[str]] = {name: Counter() for name in _COUNTED}
        longest = most_edges = 0
        cls = int(self.builder.cls)
        for table in _chunks(shard):
            layout = layout_of(table, self.builder)
            tokens = layout.lengths - cls
            per_sentence = np.zeros(len(layout), np.int64)
            if any(map(is_third_party, self.builder.relations)) and len(short := _short_ones(layout)):
                self.builder.vet(layout.take(short))
            for relation in self.builder.relations:
                own = validated_counts(relation, layout)
                totals["edges"][relation.name] += int(own.sum())
                per_sentence += own
            longest = max(longest, int(tokens.max(initial=0)))
            most_edges = max(most_edges, int(per_sentence.max(initial=0)))
            totals["lengths"].update(_lengths(tokens))
            totals["counts"].update(
                sentences=len(layout),
                tokens=int(tokens.sum()),
                words=int((layout.word_counts - cls).sum()),
                parsed=table.num_rows - table["heads"].null_count,
                pairs=pc.sum(table["second"]).as_py() or 0,
            )
            texts = table.filter(pc.invert(table["second"].fill_null(False)))  # a pair has one label, on both rows
            for name, column in (("labels", "label"), ("labels", "labels"), ("tags", "tags"), ("deprels", "deprels")):
                totals[name].update(_names((texts if name == "labels" else table)[column]))
        entry = {
            "file": shard_name(number),
            "chunks": shard.chunk_sizes,
            "bytes": path.stat().st_size,
            "sha256": checksum(path),
            "digest": shard.notes["digest"],
        }
        return number, {
            "entry": entry,
            "longest": longest,
            "most_edges": most_edges,
            "cut": shard.notes["cut"],
            "skipped": shard.notes["skipped"],
            **{name: dict(counts) for name, counts in totals.items()},
        }


def finalize_manifest(manifest: Manifest, summaries: Sequence[dict[str, Any]], relations: Sequence[str]) -> Manifest:
    """The manifest of a complete store.

    Parameters
    ----------
    manifest : settings and corpora
    summaries : what :class:`Survey` found in each shard, in order
    relations : their names, in order
    """
    totals = {name: _total(summaries, name) for name in _COUNTED}
    counts = totals["counts"]
    return replace(
        manifest,
        shards=[ShardEntry(**summary["entry"]) for summary in summaries],
        sentences=counts["sentences"],
        words=counts["words"],
        tokens=counts["tokens"],
        parsed=counts["parsed"],
        pairs=counts["pairs"],
        longest=max((summary["longest"] for summary in summaries), default=0),
        lengths={low: totals["lengths"][low] for low in sorted(totals["lengths"], key=int)},
        edges={name: totals["edges"][name] for name in relations},
        most_edges=max((summary["most_edges"] for summary in summaries), default=0),
        labels=dict(totals["labels"].most_common()),
        tags=dict(totals["tags"].most_common()),
        deprels=dict(totals["deprels"].most_common()),
        cut=sum(summary["cut"] for summary in summaries),
        skipped=sum(len(summary["skipped"]) for summary in summaries),
        complete=True,
    )


def _total(summaries: Sequence[dict[str, Any]], name: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for summary in summaries:
        total.update(summary[name])
    return total


def length_class(tokens: int) -> int:
    """The smallest length of the class a length belongs to: 0, 1, 2, 4, 8, ...

    Examples
    --------
    >>> [length_class(tokens) for tokens in (0, 1, 3, 4, 100)]
    [0, 1, 2, 4, 64]
    """
    return 0 if tokens == 0 else 1 << (tokens.bit_length() - 1)


def _lengths(tokens: Ints) -> Counter[str]:
    counts: Counter[str] = Counter()
    for length, count in zip(*np.unique(tokens, return_counts=True), strict=True):
        counts[str(length_class(int(length)))] += int(count)
    return counts


def _chunks(shard: Shard, columns: list[str] | None = None) -> Iterator[pa.Table]:
    return (shard.chunk(number, columns) for number in range(len(shard.chunk_sizes)))


def _names(column: pa.ChunkedArray) -> dict[str, int]:
    values = column.combine_chunks()
    if pa.types.is_list(values.type):
        values = values.flatten()
    values = values.drop_null()
    counts = np.bincount(values.indices.to_numpy(), minlength=len(values.dictionary))
    return {name: int(count) for name, count in zip(values.dictionary.to_pylist(), counts, strict=True) if count}


def _short_ones(layout: Layout) -> npt.NDArray[np.integer]:
    """The shortest texts, as many as are looked at."""
    pairs = np.maximum(layout.lengths, layout.word_counts).astype(np.int64) ** 2
    order = np.argsort(pairs, kind="stable")
    return np.sort(order[np.cumsum(pairs[order]) <= _LOOKED_AT])
