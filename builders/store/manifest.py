"""``store.json``: what a store holds, which shards it is made of, and their checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from graphattn.builders.files import atomic_file, is_locked
from graphattn.builders.store.schema import VERSION
from graphattn.builders.store.shard import checksum, refused_by_system
from graphattn.exceptions import DataError

MANIFEST, TOKENIZER, SKIPPED = "store.json", "tokenizer.json", "skipped.jsonl"
_KIND = "graphattn store"


@dataclass(frozen=True)
class ShardEntry:
    """What the manifest knows of a shard.

    Parameters
    ----------
    file : its path within the store
    chunks : sentences in each chunk
    bytes, sha256 : of the file
    digest : of the block of the corpus, and the settings, that it was made from
    """

    file: str
    chunks: list[int]
    bytes: int
    sha256: str
    digest: str = ""


@dataclass(frozen=True)
class Manifest:
    """What a store holds. ``[CLS]`` is not counted as a token or a word.

    Parameters
    ----------
    settings : how it was built
    corpora : names of the files it was built from
    shards : its files
    sentences, words, tokens, parsed : counts; parsed are the sentences with heads
    pairs : how often two sentences that follow each other are the texts of a pair
    longest : tokens of the longest sentence
    lengths : sentences by number of tokens: 0, 1, 2-3, 4-7 and so on, by the lower bound
    edges : relation -> edges
    most_edges : edges over all relations of the sentence that has most
    labels, tags, deprels : name -> how often; a pair has one label
    cut : raw texts among what was read, which the tokenizer's rule cut into words
    skipped : sentences that were left out and are listed in ``skipped.jsonl``
    complete : whether the building has come to its end
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
    complete: bool = False

    def write(self, folder: Path) -> None:
        """Write it beside its place and move it there."""
        text = json.dumps({"kind": _KIND, "version": VERSION, **asdict(self)}, indent=1, ensure_ascii=False)
        with atomic_file(folder / MANIFEST) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, folder: Path, *, complete: bool = True) -> Manifest:
        """The manifest of a folder.

        Parameters
        ----------
        folder : a store
        complete : refuse one whose building has not come to its end

        Raises
        ------
        DataError
            when there is none, or one of another version, or it is not complete
        """
        path = folder / MANIFEST
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record.pop("kind") != _KIND:
                raise ValueError("of another kind")
            version = record.pop("version")
        except (FileNotFoundError, NotADirectoryError):
            raise DataError("holds no store", path=folder, hint="Give a folder that graphattn build wrote.") from None
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            refused = refused_by_system(path, error)
            if refused is not None:
                raise refused from error
            raise DataError(f"is no manifest of a store ({error})", path=path, hint=_AGAIN) from error
        if version != VERSION:
            raise DataError(
                f"the store is of version {version}, this GraphAttn reads version {VERSION}",
                path=folder,
                hint="Build it again, or use the GraphAttn it was built with.",
            )
        try:
            record["shards"] = [ShardEntry(**entry) for entry in record["shards"]]
            manifest = cls(**{item.name: record[item.name] for item in fields(cls)})
        except (KeyError, TypeError) as error:
            raise DataError(f"is no manifest of a store ({error})", path=path, hint=_AGAIN) from error
        if complete and not manifest.complete:
            raise _incomplete(folder)
        return manifest


def damaged_shards(folder: Path, manifest: Manifest) -> dict[str, str]:
    """The shards that are not what was written, with what is wrong; every byte is read."""
    found = {}
    for entry in manifest.shards:
        path = folder / entry.file
        if not path.exists():
            found[entry.file] = f"{entry.file} is missing"
        elif path.stat().st_size != entry.bytes:
            found[entry.file] = f"{entry.file} has {path.stat().st_size:,} bytes, {entry.bytes:,} were written"
        elif checksum(path) != entry.sha256:
            found[entry.file] = f"{entry.file} has other content than was written"
    return found


_AGAIN = "Run the same graphattn build again."


def _incomplete(folder: Path) -> DataError:
    if is_locked(folder):
        return DataError("is being written by another process", path=folder, hint="Wait until it is complete.")
    return DataError(
        "is not complete: its building was stopped", path=folder, hint="Run the same graphattn build again to go on."
    )
