"""Build a store: corpora -> blocks -> shards -> vocabulary and manifest.

Which sentences a shard contains depends on the corpora alone, and shards appear only when they are complete. So an
interrupted build resumes with the missing shards, and ends with the same bytes as an uninterrupted one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from graphattn.builders._atomic import atomic_file, is_vacant, remove_leftovers, write_text
from graphattn.builders._graph_builder import TextGraphBuilder
from graphattn.builders._jobs import Engine, LocalEngine
from graphattn.builders._locks import folder_lock
from graphattn.builders._paths import display_name, resolve_path, write_error
from graphattn.builders._regular_files import file_sha256
from graphattn.builders._vocabulary import Vocabulary, check_options
from graphattn.builders._word_boundaries import DEFAULT_SPLIT, rule_digest
from graphattn.builders.parsers import Parser
from graphattn.builders.relations._relation_checks import may_read_ids
from graphattn.builders.store._blocks import BLOCK_BYTES, PARSED_BLOCK_BYTES, Block, CorpusFile, corpus_blocks
from graphattn.builders.store._manifest import (
    GRAPHS,
    MANIFEST,
    SKIPPED,
    TOKENIZER,
    DamagedManifestError,
    Manifest,
    ShardEntry,
    find_damaged_shards,
)
from graphattn.builders.store._shard_statistics import collect_statistics, count_shard_words, finalize_manifest
from graphattn.builders.store._shard_writer import ShardSettings, write_block
from graphattn.builders.store._shards import SHARDS
from graphattn.exceptions import DataError

Watch = Callable[[Iterable[Any], str], Iterable[Any]]
"""Passes items on and shows how many, with a description."""


@dataclass(frozen=True)
class StoreSettings:
    """How to build a store.

    Parameters
    ----------
    builder : its edges are counted, and its relations determine whether sentences need heads. The store keeps its
        vocabulary, or else learns one from the words
    learn : options of :meth:`~graphattn.builders._vocabulary.Vocabulary.train`; without ``split``, that of a store that
        exists
    skip : skip and list sentences that cannot be used, instead of raising an error
    parser : parses sentences without heads; None leaves them unparsed
    raw : the parser splits raw texts into sentences and words, instead of our own rules
    block_bytes : size of the blocks; each becomes a shard. None for that of a store that exists; in a new one, blocks
        have 1,000 texts or more (of CoNLL-U and parsed JSON Lines, 1 MiB), and later ones up to 32 MiB (1 MiB with a
        parser)
    """

    builder: TextGraphBuilder
    learn: Mapping[str, Any] = field(default_factory=dict)
    skip: bool = False
    parser: Parser | None = None
    raw: bool = False
    block_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON values; the manifest keeps them to compare them with those of the next build."""
        vocabulary = self.builder.vocabulary
        digest = None if vocabulary is None else hashlib.sha256(vocabulary.to_json().encode()).hexdigest()
        split = self.learn.get("split", DEFAULT_SPLIT)
        settings = {
            "relations": [relation.spec for relation in self.builder.relations],
            "cls": self.builder.cls,
            "tokenizer": digest or {"split": split, "rule": rule_digest(split), **self.learn},
            "skip": self.skip,
            "parser": None if self.parser is None else self.parser.name,
            "raw": self.raw,
            "block_bytes": self.block_bytes,
        }
        if vocabulary is not None and vocabulary.splitter.context is not None:
            settings["blanks"] = True  # words of texts are marked
        return json.loads(json.dumps(settings))

    def shard_settings(self) -> ShardSettings:
        """The settings that determine the content of a shard."""
        relations, vocabulary = self.builder.relations, self.builder.vocabulary
        return ShardSettings(
            tokenizer=None if vocabulary is None else vocabulary.to_json(),
            needed=tuple(name for name in ("heads", "links") if any(getattr(r, f"needs_{name}") for r in relations)),
            skip=self.skip,
            parser=self.parser,
            raw=self.raw,
            split=self.learn.get("split", DEFAULT_SPLIT),
        )


def build_store(
    corpora: Sequence[CorpusFile],
    folder: Path,
    settings: StoreSettings,
    *,
    engine: Engine | None = None,
    append: bool = False,
    watch: Watch = lambda items, _: items,
) -> Manifest:
    """Build a store, or resume an interrupted build; shards that are up to date stay.

    Parameters
    ----------
    corpora : in the order of their sentences
    folder : of the store
    settings : how to build it
    engine : runs the work; this process by default
    append : add the corpora after those of a complete store
    watch : wraps each iteration, for a progress bar

    Raises
    ------
    ConfigError
        when an option of the vocabulary is out of range
    DataError
        when a corpus is invalid, the folder contains something else or a store of other settings or corpora, or another
        process is writing there, or the folder cannot be written
    """
    if settings.builder.vocabulary is None:
        learn = {"level": "word", "min_count": 1, "size": None, **settings.learn}
        check_options(learn["level"], learn["min_count"], learn["size"])
    is_new = False
    try:
        folder = resolve_path(folder)
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(folder):
            return _Build(corpora, folder, settings, engine or LocalEngine(), watch).run(append=append)
    except OSError as error:
        raise write_error(folder, error) from error
    finally:
        if is_new:
            with suppress(OSError):
                folder.rmdir()  # fails unless it is empty


class _Build:
    """One call of :func:`build_store`."""

    def __init__(
        self, corpora: Sequence[CorpusFile], folder: Path, settings: StoreSettings, engine: Engine, watch: Watch
    ):
        self.corpora, self.folder, self.settings = corpora, folder, settings
        self.engine, self.watch = engine, watch
        self.shards = folder / SHARDS

    def run(self, *, append: bool) -> Manifest:
        is_new = not (self.folder / MANIFEST).exists()
        try:
            return self._run(append=append)
        except BaseException:
            if is_new and not any(self.shards.glob("part-*")):
                with suppress(OSError):  # a worker may still be writing
                    if self.shards.exists():
                        self.shards.rmdir()
                    (self.folder / MANIFEST).unlink(missing_ok=True)
            raise

    def _run(self, *, append: bool) -> Manifest:
        for name in (MANIFEST, TOKENIZER, SKIPPED):
            remove_leftovers(self.folder / name, seconds=0)  # the lock keeps other writers out
        previous = self._start(append=append)
        if append and (damaged := find_damaged_shards(self.folder, previous)):
            raise DataError(
                f"the shard {next(iter(damaged.values()))}",
                path=self.folder,
                hint="Run graphattn build with its first corpora and without --append to rebuild the shard.",
            )
        self.shards.mkdir(exist_ok=True)
        count = self._write_shards(previous, append=append)
        for leftover in self.shards.glob(".part-*"):  # of killed writers, also of actors that were restarted
            leftover.unlink()
        for path in self.shards.glob("part-*.parquet"):
            if int(path.stem.removeprefix("part-")) >= count:
                path.unlink()
        vocabulary = self.settings.builder.vocabulary or self._learn_vocabulary(count)
        corpora = [*(previous.corpora if append else []), *(corpus.name for corpus in self.corpora)]
        manifest = self._finalize(Manifest(self.settings.to_json(), corpora), count, vocabulary)
        if manifest != previous:
            shutil.rmtree(self.folder / GRAPHS, ignore_errors=True)  # graphs of the previous content
        manifest.write(self.folder)
        return manifest

    def _start(self, *, append: bool) -> Manifest:
        """Read the manifest, or write a new one; reject folders that this build must not change."""
        names = [corpus.name for corpus in self.corpora]
        manifest = self._read_manifest(append=append)
        if manifest is None:
            manifest = Manifest(self.settings.to_json(), names)
            manifest.write(self.folder)
        earlier = manifest.settings
        learn, block_bytes = self.settings.learn, self.settings.block_bytes
        if isinstance(earlier["tokenizer"], dict):
            learn = {"split": earlier["tokenizer"]["split"], **learn}
        if block_bytes is None:
            block_bytes = earlier.get("block_bytes")
        self.settings = replace(self.settings, learn=learn, block_bytes=block_bytes)
        settings = self.settings.to_json()
        different = [name for name in settings if settings[name] != earlier.get(name)]
        if different and manifest.complete:
            previous = json.dumps(earlier.get(different[0]))
            raise DataError(
                f"has a store with other settings ({different[0]}: {previous})",
                path=self.folder,
                hint="Repeat them, choose another --out, or remove the folder.",
            )
        if not append and names[: len(manifest.corpora)] != manifest.corpora:
            raise DataError(
                f"has a store of other corpora ({', '.join(manifest.corpora)})",
                path=self.folder,
                hint="Repeat them, give --append to add these, choose another --out, or remove the folder.",
            )
        if different:  # an interrupted build may resume with other settings; outdated shards are rebuilt
            manifest = replace(manifest, settings=settings)
            manifest.write(self.folder)
        return manifest

    def _read_manifest(self, *, append: bool) -> Manifest | None:
        """The manifest of an earlier build; None in an empty folder, or if it is damaged: valid shards stay anyway."""
        if (self.folder / MANIFEST).exists():
            try:
                return Manifest.read(self.folder, complete=append)
            except DamagedManifestError:
                if append:
                    raise
        elif not is_vacant(self.folder):
            raise DataError("exists already", path=self.folder, hint="Choose another --out, or remove it.")
        elif append:
            raise DataError("has no store to append to", path=self.folder, hint="Leave out --append.")
        return None

    def _write_shards(self, previous: Manifest, *, append: bool) -> int:
        """Write the missing and damaged shards; return the number of all."""
        settings = self.settings.shard_settings()
        first = len(previous.shards) if append else 0
        job = partial(write_block, self.folder, settings)
        blocks = self._number_blocks(first, previous.shards if previous.complete else [], settings)
        numbers = self.watch(self.engine.run(job, blocks), "writing shards")
        return 1 + max(numbers, default=first - 1)

    def _number_blocks(
        self, first: int, complete: Sequence[ShardEntry], settings: ShardSettings
    ) -> Iterator[tuple[int, Block]]:
        """Number all blocks; those of a complete store must not have changed."""
        number, size = first, self.settings.block_bytes
        most = BLOCK_BYTES if self.settings.parser is None else PARSED_BLOCK_BYTES
        for corpus in self.corpora:
            for block in corpus_blocks(corpus, size=size, most=most, skip=self.settings.skip):
                if number < len(complete) and complete[number].digest != settings.digest(block):
                    raise self._change_error(corpus)
                yield number, block
                number += 1
        if number < len(complete):
            raise self._change_error(self.corpora[-1])

    def _change_error(self, corpus: CorpusFile) -> DataError:
        return DataError(
            "has changed since the complete store was built",
            path=display_name(corpus.path),
            hint=f"Choose another --out, or remove {self.folder}.",
        )

    def _learn_vocabulary(self, count: int) -> Vocabulary:
        words: Counter[str] = Counter()
        for shard in self._run_on_shards(count_shard_words, count, "counting words"):
            words.update(shard)  # the order of the corpora breaks ties
        return Vocabulary.train(words, **self.settings.learn)

    def _finalize(self, manifest: Manifest, count: int, vocabulary: Vocabulary) -> Manifest:
        """Write the vocabulary and the list of skipped sentences; return the complete manifest."""
        builder = copy(self.settings.builder)
        ids_matter = vocabulary.level == "bpe" or any(map(may_read_ids, builder.relations))
        builder.vocabulary = vocabulary if ids_matter else None
        statistics = self._run_on_shards(collect_statistics, count, "counting edges", builder)
        rows = [json.dumps(row, ensure_ascii=False) + "\n" for shard in statistics for row in shard.skipped]
        manifest = finalize_manifest(manifest, statistics, [relation.name for relation in builder.relations])
        # right before the manifest: with files of two builds, a store cannot be read
        with atomic_file(self.folder / SKIPPED, sync=True) as temporary:
            write_text(temporary, "".join(rows))
        vocabulary.save(self.folder / TOKENIZER)
        return replace(manifest, sha256={name: file_sha256(self.folder / name) for name in (TOKENIZER, SKIPPED)})

    def _run_on_shards(self, job: Callable[..., Any], count: int, description: str, *args: Any) -> list[Any]:
        """The results of a job on every shard, in order."""
        results = self.engine.run(partial(job, self.folder, *args), range(count), in_order=True)
        return list(self.watch(results, description))
