"""Building a store: corpora are cut into blocks, each block becomes a shard, and at the end all are summed up.

Which sentences stand in which shard depends on the corpora alone, and a shard appears only when it is complete. So a
building that was stopped goes on with the shards that lack, and ends with the bytes of one that was not.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphattn.builders.files import atomic_file, display_name, folder_lock, is_stream
from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.parsers import Parser
from graphattn.builders.relations.composition import may_read_ids
from graphattn.builders.store.blocks import BLOCK_BYTES
from graphattn.builders.store.corpora import CorpusFile, NumberedBlocks
from graphattn.builders.store.executors import Engine, LocalEngine
from graphattn.builders.store.manifest import (
    MANIFEST,
    SKIPPED,
    TOKENIZER,
    Manifest,
    ShardEntry,
    damaged_shards,
)
from graphattn.builders.store.materializing import GRAPHS
from graphattn.builders.store.reading import NEEDED_BY
from graphattn.builders.store.shard import SHARDS
from graphattn.builders.store.shard_statistics import Survey, WordCount, finalize_manifest
from graphattn.builders.store.shard_writer import ShardMaker, ShardSettings
from graphattn.builders.vocabulary import Vocabulary, check_options
from graphattn.exceptions import DataError


@dataclass(frozen=True)
class StoreSettings:
    """How a store is built.

    Parameters
    ----------
    builder : will make its graphs; their edges are counted, and whether a relation needs heads matters. Its
        vocabulary is kept with the store; without one a vocabulary is learnt from the words
    learn : options of :meth:`~graphattn.builders.vocabulary.Vocabulary.train`
    skip : leave out sentences that cannot be used and list them, instead of stopping at the first
    parser : parses sentences without heads; None leaves them as they are
    raw : let the parser cut raw texts into sentences and words, instead of our own rules
    block_bytes : size of the blocks the corpora are cut into, one shard each
    """

    builder: TextGraphBuilder
    learn: Mapping[str, Any] = field(default_factory=dict)
    skip: bool = False
    parser: Parser | None = None
    raw: bool = False
    block_bytes: int = BLOCK_BYTES

    def described(self) -> dict[str, Any]:
        """The settings in plain words, to be kept and compared."""
        given = self.builder.vocabulary
        own = None if given is None else hashlib.sha256(given.to_json().encode()).hexdigest()
        return {
            "relations": [relation.spec for relation in self.builder.relations],
            "cls": self.builder.cls,
            "tokenizer": own or dict(self.learn),
            "skip": self.skip,
            "parser": None if self.parser is None else self.parser.name,
            "raw": self.raw,
            "block_bytes": self.block_bytes,
        }


def build_store(
    corpora: Sequence[CorpusFile],
    folder: Path,
    settings: StoreSettings,
    *,
    engine: Engine | None = None,
    append: bool = False,
    watch: Callable[[Iterable[Any], str], Iterable[Any]] = lambda items, _: items,
) -> Manifest:
    """Build a store, or go on with a building that was stopped; what is there already is not made again.

    Parameters
    ----------
    corpora : in the order of their sentences
    folder : where the store is or will be
    settings : how it is built
    engine : who does the work; this process by default
    append : put the corpora behind those that a complete store holds
    watch : is handed what is being gone through and its description, for a progress bar

    Raises
    ------
    ConfigError
        when the vocabulary's options are impossible
    DataError
        when a corpus is not as it must be, the folder holds something else or a store of other settings or corpora,
        or another process writes there
    OSError
        when the folder cannot be written to
    """
    if settings.builder.vocabulary is None:
        learn = {"level": "word", "min_count": 1, "size": None, **settings.learn}
        check_options(learn["level"], learn["min_count"], learn["size"])
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with folder_lock(folder):
            return _Building(corpora, folder, settings, engine or LocalEngine(), watch).run(append=append)
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()  # it stays, unless nothing was made


_FIRST_REPAIR = "Run graphattn build with the corpora it was built from, without --append: that makes the shard anew."


class _Building:
    """One call of :func:`build_store`."""

    def __init__(
        self,
        corpora: Sequence[CorpusFile],
        folder: Path,
        settings: StoreSettings,
        engine: Engine,
        watch: Callable[[Iterable[Any], str], Iterable[Any]],
    ):
        self.corpora, self.folder, self.settings = corpora, folder, settings
        self.engine, self.watch = engine, watch

    def run(self, *, append: bool) -> Manifest:
        is_new = not (self.folder / MANIFEST).exists()
        try:
            return self._run(append=append)
        except BaseException:
            if is_new:
                self._take_back()
            raise

    def _take_back(self) -> None:
        """Leave nothing where no shard was made."""
        shards = self.folder / SHARDS
        if not any(shards.glob("part-*")):
            with suppress(OSError):  # a worker may still be writing
                if shards.exists():
                    shards.rmdir()
                (self.folder / MANIFEST).unlink(missing_ok=True)

    def _run(self, *, append: bool) -> Manifest:
        before = self._started(append=append)
        kept = before.shards if append else []
        damaged = damaged_shards(self.folder, before)
        if append and damaged:
            raise DataError(f"the shard {next(iter(damaged.values()))}", path=self.folder, hint=_FIRST_REPAIR)
        (self.folder / SHARDS).mkdir(exist_ok=True)
        for leftover in (self.folder / SHARDS).glob(".part-*"):
            leftover.unlink()
        names = [*(before.corpora if append else []), *(corpus.name for corpus in self.corpora)]
        count = self._make_shards(len(kept), before.shards if before.complete else [], damaged)
        for path in (self.folder / SHARDS).glob("part-*.parquet"):
            if int(path.stem.removeprefix("part-")) >= count:
                path.unlink()
        vocabulary = self.settings.builder.vocabulary or self._learn(count)
        vocabulary.save(self.folder / TOKENIZER)
        manifest = self._sum_up(Manifest(self.settings.described(), names), count, vocabulary)
        if damaged or not before.complete or count != len(before.shards):
            shutil.rmtree(self.folder / GRAPHS, ignore_errors=True)  # they are those of the store as it was
        manifest.write(self.folder)
        return manifest

    def _started(self, *, append: bool) -> Manifest:
        """The manifest that is there, made new if need be; refuses folders this building must not touch."""
        names = [corpus.name for corpus in self.corpora]
        if not (self.folder / MANIFEST).exists():
            strangers = [path.name for path in self.folder.iterdir() if path.name != ".writing"]
            if strangers:
                raise DataError("is there already", path=self.folder, hint="Choose another --out, or remove it.")
            if append:
                raise DataError("holds no store to append to", path=self.folder, hint="Leave out --append.")
            manifest = Manifest(self.settings.described(), names)
            manifest.write(self.folder)
            return manifest
        manifest = Manifest.read(self.folder, complete=append)
        asked, there = json.loads(json.dumps(self.settings.described())), manifest.settings
        differs = [name for name in asked if asked[name] != there.get(name)]
        if differs and manifest.complete:
            raise DataError(
                f"holds a store with other settings ({differs[0]}: {json.dumps(there.get(differs[0]))})",
                path=self.folder,
                hint="Repeat them, choose another --out, or remove the folder.",
            )
        if not append and names[: len(manifest.corpora)] != manifest.corpora:
            raise DataError(
                f"holds a store of other corpora ({', '.join(manifest.corpora)})",
                path=self.folder,
                hint="Repeat them, give --append to put these behind, choose another --out, or remove the folder.",
            )
        if differs:  # what was stopped may go on in another way: shards that are not what it asks for are made anew
            manifest = replace(manifest, settings=asked)
            manifest.write(self.folder)
        return manifest

    def _make_shards(self, first: int, fixed: Sequence[ShardEntry], damaged: Iterable[str]) -> int:
        """Make what lacks or is damaged, and nothing else anew that a store holds; how many shards there are then."""
        for corpus in self.corpora:
            if self.engine.elsewhere and is_stream(corpus.path):
                raise DataError(
                    "can be read by this process alone, not by a cluster",
                    path=display_name(corpus.path),
                    hint="Write it to a file, or use the engine 'local'.",
                )
        settings = self._shard_settings()
        blocks = NumberedBlocks(self.corpora, self.folder, settings, self.settings.block_bytes, first, fixed)
        made = self.watch(
            self.engine.run(ShardMaker(self.folder, settings, frozenset(damaged)), blocks), "making shards"
        )
        return 1 + max(made, default=first - 1)

    def _shard_settings(self) -> ShardSettings:
        builder = self.settings.builder
        needs = tuple(name for name in NEEDED_BY if any(getattr(r, f"needs_{name}") for r in builder.relations))
        tokenizer = None if builder.vocabulary is None else builder.vocabulary.to_json()
        split = self.settings.learn.get("split", "words")
        return ShardSettings(tokenizer, needs, self.settings.skip, self.settings.parser, self.settings.raw, split)

    def _learn(self, count: int) -> Vocabulary:
        counted = dict(self.watch(self.engine.run(WordCount(self.folder), range(count)), "counting words"))
        words: Counter[str] = Counter()
        for number in range(count):  # in the corpora's order, which settles ties
            words.update(counted.pop(number))
        return Vocabulary.train(words, **self.settings.learn)

    def _sum_up(self, manifest: Manifest, count: int, vocabulary: Vocabulary) -> Manifest:
        """The complete manifest; the list of skipped sentences is written on the way."""
        builder = copy(self.settings.builder)
        ids_matter = vocabulary.level == "bpe" or any(map(may_read_ids, builder.relations))
        builder.vocabulary = vocabulary if ids_matter else None
        survey = Survey(self.folder, builder)
        found = dict(self.watch(self.engine.run(survey, range(count)), "counting edges"))
        summaries = [found[number] for number in range(count)]
        rows = [json.dumps(row, ensure_ascii=False) + "\n" for summary in summaries for row in summary["skipped"]]
        with atomic_file(self.folder / SKIPPED) as temporary:
            temporary.write_text("".join(rows), encoding="utf-8")
        return finalize_manifest(manifest, summaries, [relation.name for relation in builder.relations])
