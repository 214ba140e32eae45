"""A store in a few lines: counts, lengths, edges of each relation, the memory of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphattn.experiments.cli.summaries.columns import as_columns, in_a_row

if TYPE_CHECKING:
    from graphattn.builders.store.manifest import Manifest

_BAR = 40
_BYTES_PER_EDGE, _BYTES_PER_TOKEN = 4, 12
"""An edge is one int32, and a token has a position, a word and an id."""


def store_lines(folder: Path, manifest: Manifest, batch_size: int) -> list[str]:
    """What a store holds, and what its batches will cost.

    Parameters
    ----------
    folder : the store's
    manifest : its contents
    batch_size : sentences in the batch whose memory is told
    """
    size = sum(shard.bytes for shard in manifest.shards)
    count = max(manifest.sentences, 1)
    lines = [
        f"{folder}: {', '.join(manifest.corpora)}",
        f"sentences: {manifest.sentences:,} ({_kinds(manifest)})",
        f"words: {manifest.words:,}",
        f"tokens: {manifest.tokens:,} ({manifest.tokens / count:.1f} a sentence, {manifest.longest:,} at most)",
        f"size: {size:,} bytes in {_shards(manifest)} ({size / max(manifest.tokens, 1):.2f} a token)",
        "",
        *_histogram(manifest.lengths),
        "",
        *as_columns(("relation", "edges", "a sentence"), _edges(manifest)),
        "",
        _memory(manifest, batch_size),
    ]
    for name, counts in (("labels", manifest.labels), ("tags", manifest.tags), ("dependencies", manifest.deprels)):
        if counts:
            lines.append(f"{name}: {in_a_row([f'{own} {count:,}' for own, count in counts.items()])}")
    return lines


def _shards(manifest: Manifest) -> str:
    count = len(manifest.shards)
    return f"{count:,} shard{'s' * (count != 1)}"


def _kinds(manifest: Manifest) -> str:
    """How many are in pairs, parsed, left out."""
    pairs = f"in {manifest.pairs:,} pairs, " if manifest.pairs else ""
    return f"{pairs}{manifest.parsed:,} parsed, {manifest.skipped:,} left out"


def _histogram(lengths: dict[str, int]) -> list[str]:
    most = max(lengths.values(), default=1)
    rows = []
    for low, count in lengths.items():
        first, last = int(low), max(2 * int(low) - 1, 0)
        rows.append(
            (f"{first}" if first == last else f"{first}-{last}", f"{count:,}", "#" * round(_BAR * count / most))
        )
    return as_columns(("tokens", "sentences", ""), rows)


def _edges(manifest: Manifest) -> list[tuple[str, str, str]]:
    count = max(manifest.sentences, 1)
    return [(name, f"{edges:,}", f"{edges / count:,.1f}") for name, edges in manifest.edges.items()]


def _memory(manifest: Manifest, batch_size: int) -> str:
    """What the graph of a batch takes, of sentences like the mean and like the largest."""
    relations, count = max(len(manifest.edges), 1), max(manifest.sentences, 1)

    def megabytes(tokens: float, edges: float) -> str:
        per_token = _BYTES_PER_TOKEN + _BYTES_PER_EDGE * relations  # each relation has a pointer for each token
        return f"{batch_size * (per_token * (tokens + 1) + _BYTES_PER_EDGE * edges) / 1e6:,.2f} MB"

    mean = megabytes(manifest.tokens / count, sum(manifest.edges.values()) / count)
    most = megabytes(manifest.longest, manifest.most_edges)
    return f"memory of a batch's graph, {batch_size} sentences: {mean}, {most} at most"
