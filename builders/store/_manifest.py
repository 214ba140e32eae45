"""``store.json``: the content of a store, and its files with their checksums."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from graphattn._json_types import check_json, json_checksum, read_record, require_keys
from graphattn.builders._atomic import atomic_file, write_text
from graphattn.builders._locks import is_locked
from graphattn.builders._regular_files import NAMES, WEIGHTS, UnsuitableFileError, file_sha256, read_text
from graphattn.builders.store._shards import system_error
from graphattn.builders.store._tables import FORMAT_VERSION
from graphattn.exceptions import DataError

MANIFEST, TOKENIZER, SKIPPED, GRAPHS = "store.json", "tokenizer.json", "skipped.jsonl", "graphs"
GRAPH_SUMS = f"{GRAPHS}/SHA256SUMS"
"""Checksums of the graphs, and of the ``store.json`` that they were made from, for ``sha256sum --check``."""
REPAIR = "Run graphattn build with all corpora of the store again; it keeps undamaged shards."
_KIND = "graphattn store"
_WITH_BLANKS = 2
"""Version of a store whose words are marked with what a tokenizer's pieces depend on."""
_SETTINGS = {"relations": list[str], "cls": bool}
"""Settings that a store is read with, and their types."""


class DamagedManifestError(DataError):
    """``store.json`` is damaged; a build can write it again."""


@dataclass(frozen=True)
class ShardEntry:
    """A shard in the manifest."""

    file: str  # its path within the store
    chunks: list[int]  # sentences of each chunk
    bytes: int  # size of the file
    sha256: str
    digest: str  # digest of the block and the settings that it was made from


@dataclass(frozen=True)
class Manifest:
    """The content of a store. ``[CLS]`` does not count as a token or a word.

    Parameters
    ----------
    settings : of the build
    corpora : names of the files
    shards : their files
    sentences, words, tokens : counts
    parsed : sentences with heads
    pairs : number of pairs of texts
    longest : tokens of the longest sentence
    lengths : number of sentences by number of tokens: 0, 1, 2-3, 4-7 and so on, by the lower bound
    edges : relation -> number of edges
    most_edges : edges over all relations of the sentence that has most
    labels, tags, deprels : name -> count; a pair has one label
    cut : number of raw texts that the tokenizer's rule split into words
    skipped : number of skipped sentences, which ``skipped.jsonl`` lists
    sha256 : other files -> their SHA-256
    complete : whether the build has ended
    """

    settings: Mapping[str, Any]
    corpora: list[str] = field(default_factory=list)
    shards: list[ShardEntry] = field(default_factory=list)
    sentences: int = 0
    words: int = 0
    tokens: int = 0
    parsed: int = 0
    pairs: int = 0
    longest: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    edges: dict[str, int] = field(default_factory=dict)
    most_edges: int = 0
    labels: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    deprels: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    skipped: int = 0
    sha256: dict[str, str] = field(default_factory=dict)
    complete: bool = False

    def write(self, folder: Path) -> None:
        """Write ``store.json`` atomically, with a checksum of its content."""
        version = _WITH_BLANKS if self.settings.get("blanks") else FORMAT_VERSION
        record = {"kind": _KIND, "format_version": version, **asdict(self)}
        text = json.dumps({"checksum": json_checksum(record), **record}, indent=1, ensure_ascii=False)
        with atomic_file(folder / MANIFEST, sync=True) as temporary:
            write_text(temporary, text + "\n")

    @classmethod
    def read(cls, folder: Path, *, complete: bool = True) -> Manifest:
        """Read ``store.json``.

        Parameters
        ----------
        folder : the store
        complete : reject a store whose build has not ended

        Raises
        ------
        DataError
            when there is no manifest, or it is of another version or incomplete
        """
        path = folder / MANIFEST
        try:
            manifest = cls._parse(read_text(path, NAMES), folder)
        except (FileNotFoundError, NotADirectoryError):
            raise DataError("is not a store", path=folder, hint="Give a folder that graphattn build wrote.") from None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            damaged = DamagedManifestError(f"is damaged ({error})", path=path, hint=REPAIR)
            raise system_error(path, error) or damaged from error
        if complete and not manifest.complete:
            if is_locked(folder):
                hint = "Wait until it is complete."
                raise DataError("is being written by another process", path=folder, hint=hint)
            hint = "Run the same graphattn build again to resume."
            raise DataError("is incomplete: its build was interrupted", path=folder, hint=hint)
        return manifest

    @classmethod
    def _parse(cls, text: str, folder: Path) -> Manifest:
        record = json.loads(text)
        if record["kind"] != _KIND:
            raise ValueError(f"kind {record['kind']!r}")
        version = record.get("format_version")
        if version not in (FORMAT_VERSION, _WITH_BLANKS):
            raise DataError(
                f"the store has version {version}, this GraphAttn reads up to version {_WITH_BLANKS}",
                path=folder,
                hint="Build it again, or use the GraphAttn that built it.",
            )
        if record.pop("checksum", None) != json_checksum(record):
            raise ValueError("its checksum does not match")
        require_keys(record, [item.name for item in fields(cls)])
        manifest = read_record(record, cls)
        require_keys(manifest.settings, _SETTINGS)
        for name, annotation in _SETTINGS.items():
            check_json(manifest.settings[name], annotation, f"settings.{name}")
        sentences = sum(sum(entry.chunks) for entry in manifest.shards)
        if sentences != manifest.sentences:
            raise ValueError(f"its shards have {sentences:,} sentences, not {manifest.sentences:,}")
        return manifest


def find_damaged_shards(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Read every byte of the shards; return those that differ from what was written, with the reason."""
    reasons = {}
    for entry in manifest.shards:
        path = folder / entry.file
        if path.is_file() and (size := path.stat().st_size) != entry.bytes:
            reasons[entry.file] = f"{entry.file} has {size:,} bytes instead of {entry.bytes:,}"
        else:
            reasons |= _compare(folder, {entry.file: entry.sha256}, MANIFEST)
    return reasons


def find_damaged(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Read every byte of a store; return the files that differ from what was written, with the reason."""
    return {
        **find_damaged_shards(folder, manifest),
        **_compare(folder, manifest.sha256, MANIFEST),
        **_compare(folder, _read_graph_sums(folder), GRAPH_SUMS),
    }


def _compare(folder: Path, sums: Mapping[str, str], source: str) -> dict[str, str]:
    reasons = {}
    for file, expected in sums.items():
        if not (folder / file).exists():
            reasons[file] = f"{file} is missing"
            continue
        try:
            if file_sha256(folder / file, NAMES if file == TOKENIZER else WEIGHTS) != expected:
                reasons[file] = f"{file} has another checksum than in {source}"
        except UnsuitableFileError as error:
            reasons[file] = f"{file} is {error.strerror}"
    return reasons


def write_graph_sums(folder: Path) -> None:
    """Write the checksums of a folder of graphs in a store."""
    files = [f"../{MANIFEST}", *sorted(path.name for path in folder.iterdir())]
    lines = [f"{file_sha256(folder / file)}  {file}\n" for file in files]
    write_text(folder / Path(GRAPH_SUMS).name, "".join(lines))


def _read_graph_sums(folder: Path) -> dict[str, str]:
    """The checksums of all graphs; empty for a graph that has none."""
    sums = {f"{GRAPHS}/{path.name}": "" for path in (folder / GRAPHS).glob("*.dgl")}
    if (folder / GRAPH_SUMS).is_file():
        for line in read_text(folder / GRAPH_SUMS, NAMES, errors="replace").splitlines():
            expected, _, file = line.partition("  ")
            sums[os.path.normpath(f"{GRAPHS}/{file}")] = expected
    return sums
