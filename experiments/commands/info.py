"""``graphattn info``: what a store holds, and what its batches will cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from graphattn.exceptions import DataError

if TYPE_CHECKING:
    from graphattn.builders.store.manifest import Manifest

EXAMPLES = "graphattn info store\n\ngraphattn info store --check"
_BAR = 40
_MOST_NAMES = 20
_BYTES_PER_EDGE, _BYTES_PER_TOKEN = 4, 12
"""An edge is one int32, and a token has a position, a word and an id."""


def info(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A folder that graphattn build wrote.")],
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences in the batch whose memory is told.")] = 32,
    check: Annotated[bool, typer.Option("--check", help="Read every byte and compare the checksums.")] = False,
) -> None:
    """Show what a store holds: counts, lengths, edges of each relation, the memory of a batch."""
    from graphattn.builders.store import Store

    opened = Store(store)
    print("\n".join(_lines(store, opened.manifest, batch_size)))
    if check:
        damaged = opened.damaged()
        for reason in damaged.values():
            print(f"damaged: {reason}")
        if damaged:
            raise DataError(
                f"{len(damaged)} of {len(opened.manifest.shards)} shards are damaged",
                path=store,
                hint="Run the same graphattn build again: it makes them anew.",
            )
        print("all shards are as they were written")


def _lines(folder: Path, manifest: Manifest, batch_size: int) -> list[str]:
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
        *_table(("relation", "edges", "a sentence"), _edges(manifest)),
        "",
        _memory(manifest, batch_size),
    ]
    for name, counts in (("labels", manifest.labels), ("tags", manifest.tags), ("dependencies", manifest.deprels)):
        if counts:
            lines.append(f"{name}: {_names(counts)}")
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
    return _table(("tokens", "sentences", ""), rows)


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


def _names(counts: dict[str, int]) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:_MOST_NAMES])
    more = len(counts) - _MOST_NAMES
    return f"{shown}, and {more} more" if more > 0 else shown


def _table(header: tuple[str, ...], rows: list[tuple[str, str, str]]) -> list[str]:
    """Columns, the second and third of figures to the right unless they are a bar."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    bar = not header[-1]

    def line(row: tuple[str, ...]) -> str:
        last = row[2] if bar else row[2].rjust(widths[2])
        return f"{row[0].ljust(widths[0])}  {row[1].rjust(widths[1])}  {last}".rstrip()

    return [line(header), *map(line, rows)]
