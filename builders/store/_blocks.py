"""Corpora cut into blocks of whole sentences; each block becomes one shard, whichever process writes it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphattn.builders._paths import FilePath, display_name, is_standard_input
from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._text_lines import open_text
from graphattn.builders.readers._read_corpus import read_corpus, resolve_reader
from graphattn.exceptions import DataError

BLOCK_BYTES, PARSED_BLOCK_BYTES = 32 << 20, 1 << 20
"""Largest block by default, in bytes or characters, without and with a parser, which takes minutes for a block.

A worker needs about twelve times as much memory."""
_LEAST_BYTES, _LEAST_TEXTS, _SHARE = 1 << 20, 1000, 16
"""Smallest blocks by default, and the share of the corpus before a block that determines its size: small corpora have
enough blocks for several processes and for resuming, and the number of blocks grows slowly."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SENTENCE_ENDS = {"conllu": (b"\n\n", b"\n\r\n"), "sentences": (b"\n",)}
"""Formats that are cut as bytes -> what ends a sentence."""


@dataclass(frozen=True)
class CorpusFile:
    """A corpus and how to read it.

    Parameters
    ----------
    path : the file, or ``"-"`` for standard input
    format, options, task : as for :func:`~graphattn.builders.readers.read_corpus`; the task ``"pair"`` keeps both texts
        of each pair
    """

    path: FilePath
    format: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    task: str | None = None

    @property
    def name(self) -> str:
        """The file's name without its folders, which differ between machines."""
        return display_name(self.path) if is_standard_input(self.path) else Path(self.path).name


@dataclass(frozen=True)
class TextBlock:
    """Whole sentences as bytes, or their position in an uncompressed file."""

    corpus: str  # the file's name in errors
    format: str  # a key of ``SENTENCE_ENDS``
    options: Mapping[str, Any]  # as for ``read_corpus``
    line: int  # 1-based number of the first line
    digest: str  # digest of the bytes
    data: bytes | None = None  # the bytes; None if the worker reads them from ``path``
    path: str = ""  # the file with the bytes
    offset: int = 0  # the first byte
    size: int = 0  # number of bytes

    def read(self) -> bytes:
        """The bytes."""
        if self.data is not None:
            return self.data
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if _digest(data) != self.digest:
            raise DataError("was changed while it was read", path=self.corpus, hint="Run graphattn build again.")
        return data


@dataclass(frozen=True)
class Skipped:
    """A sentence that was skipped."""

    corpus: str  # the file
    place: str  # ``"line 12"``, or ``"sentence 12"`` if the line is unknown
    reason: str


@dataclass(frozen=True)
class ItemBlock:
    """Items of a corpus whose format only its reader can cut."""

    corpus: str  # the file's name in errors
    first: int  # 1-based number of the first item in the corpus
    digest: str  # digest of the items
    items: tuple[Example | Sentence, ...]  # examples and sentences
    skipped: tuple[Skipped, ...] = ()  # what the reader skipped


Block = TextBlock | ItemBlock


def corpus_blocks(
    corpus: CorpusFile, *, size: int | None = None, most: int = BLOCK_BYTES, skip: bool = False
) -> Iterator[Block]:
    """Cut a corpus into blocks."""
    options = dict(corpus.options)
    drop_label = options.pop("drop_label", ())
    source, format, options = resolve_reader(corpus.path, format=corpus.format, task=corpus.task, **options)
    if format in SENTENCE_ENDS and not drop_label:
        yield from text_blocks(source, format, options, size=size, most=most)
        return
    name = display_name(corpus.path)
    skipped: list[Skipped] = []

    def record(error: DataError) -> None:
        in_folder = error.path != name
        place = os.path.relpath(str(error.path), corpus.path) if in_folder else f"line {error.line}"
        skipped.append(Skipped(name, place, error.problem))

    skips = record if skip and format not in SENTENCE_ENDS else None
    items = read_corpus(source, format=format, task=corpus.task, skip=skips, drop_label=drop_label, **options)
    yield from item_blocks(name, items, skipped=skipped, size=size, most=most)


def text_blocks(
    path: FilePath,
    format: str,
    options: Mapping[str, Any] | None = None,
    *,
    size: int | None = None,
    most: int = BLOCK_BYTES,
) -> Iterator[TextBlock]:
    """Cut a text file after sentences."""
    with open_text(path) as source:
        line, offset, rest = 1, 0, b""
        while True:
            more = source.read(size or min(max(offset // _SHARE, _LEAST_BYTES), most))
            text = rest + more
            end = _last_sentence_end(text, SENTENCE_ENDS[format]) if more else len(text)
            block, rest = text[:end], text[end:]
            if block:
                content = block.removeprefix(_BYTE_ORDER_MARK) if line == 1 else block
                digest = _digest(content)
                place: dict[str, Any] = {"data": content}
                if source.is_seekable:
                    start = offset + len(block) - len(content)
                    place = {"path": os.fspath(path), "offset": start, "size": len(content)}
                yield TextBlock(source.path, format, options or {}, line, digest, **place)
                line += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
                offset += len(block)
            if not more:
                return


def item_blocks(
    corpus: str,
    items: Iterable[Example | Sentence],
    *,
    skipped: list[Skipped] | None = None,
    size: int | None = None,
    most: int = BLOCK_BYTES,
) -> Iterator[ItemBlock]:
    """Group items into blocks."""
    skipped = [] if skipped is None else skipped
    group: list[Example | Sentence] = []
    first, characters, before = 1, 0, 0
    for item in items:
        group.append(item)
        characters += _num_characters(item)
        if characters >= (size or most) or (
            size is None and len(group) >= _LEAST_TEXTS and characters >= before // _SHARE
        ):
            yield _item_block(corpus, first, group, skipped)
            first, group, characters, before = first + len(group), [], 0, before + characters
    if group or skipped:
        yield _item_block(corpus, first, group, skipped)


def _item_block(corpus: str, first: int, items: list[Example | Sentence], skipped: list[Skipped]) -> ItemBlock:
    content = repr((items, skipped)) if skipped else repr(items)
    block_skipped = tuple(skipped)
    skipped.clear()
    return ItemBlock(corpus, first, _digest(content.encode("utf-8", "surrogatepass")), tuple(items), block_skipped)


def _num_characters(item: Example | Sentence) -> int:
    if isinstance(item, Sentence):
        return sum(map(len, item.tokens)) + 8 * len(item)
    return 1 + len(item.text) + len(item.second or "")


def _last_sentence_end(text: bytes, ends: tuple[bytes, ...]) -> int:
    return max(start + len(end) if (start := text.rfind(end)) >= 0 else 0 for end in ends)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
