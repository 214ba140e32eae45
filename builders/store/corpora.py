"""The corpora that a store is built from, cut into numbered blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphattn.builders.files import FilePath, display_name, is_standard_input
from graphattn.builders.readers.corpus import read_corpus, resolve_reader
from graphattn.builders.store.blocks import SENTENCE_ENDS, Block, Skipped, item_blocks, text_blocks
from graphattn.builders.store.manifest import ShardEntry
from graphattn.builders.store.shard_writer import ShardSettings
from graphattn.exceptions import DataError


@dataclass(frozen=True)
class CorpusFile:
    """A corpus and how it is read.

    Parameters
    ----------
    path : the file, or ``"-"``
    format, options, task : as for :func:`~graphattn.builders.readers.read_corpus`; with the task ``"pair"`` both texts
        of each pair are kept
    """

    path: FilePath
    format: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    task: str | None = None

    @property
    def name(self) -> str:
        """What the store calls it: the file's name without its folders, which differ from machine to machine."""
        return display_name(self.path) if is_standard_input(self.path) else Path(self.path).name


@dataclass(frozen=True)
class NumberedBlocks:
    """The blocks of corpora with their numbers, cut anew each time they are gone through.

    Parameters
    ----------
    corpora : in order
    folder, settings : of the store
    size : bytes of a block
    first : number of the first block
    fixed : the shards of a complete store, whose blocks must not have changed
    """

    corpora: Sequence[CorpusFile]
    folder: Path
    settings: ShardSettings
    size: int
    first: int
    fixed: Sequence[ShardEntry]

    def __iter__(self) -> Iterator[tuple[int, Block]]:
        number = self.first - 1
        for number, block in enumerate(self._blocks(), start=self.first):
            if number < len(self.fixed) and self.fixed[number].digest not in ("", self.settings.digest_of(block)):
                raise self._changed(block.corpus)
            yield number, block
        if number + 1 < len(self.fixed):
            raise self._changed(display_name(self.corpora[-1].path))

    def _changed(self, corpus: str) -> DataError:
        return DataError(
            "is not the corpus any more that the complete store was built from",
            path=corpus,
            hint=f"Choose another --out, or remove {self.folder}.",
        )

    def _blocks(self) -> Iterator[Block]:
        for corpus in self.corpora:
            source, format, options = resolve_reader(
                corpus.path, format=corpus.format, task=corpus.task, **corpus.options
            )
            if format in SENTENCE_ENDS:
                yield from text_blocks(source, format, options, size=self.size)
            else:
                yield from self._item_blocks(corpus, source, format, options)

    def _item_blocks(
        self, corpus: CorpusFile, source: FilePath, format: str, options: Mapping[str, Any]
    ) -> Iterator[Block]:
        name = display_name(corpus.path)
        skipped: list[Skipped] = []

        def skip(error: DataError) -> None:
            skipped.append(Skipped(name, f"line {error.line}", error.message))

        told = skip if self.settings.skip else None
        items = read_corpus(source, format=format, task=corpus.task, skip=told, **options)
        return item_blocks(name, items, skipped=skipped, size=self.size)
