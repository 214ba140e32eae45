"""A corpus cut into blocks of whole sentences, each of which becomes one shard wherever and whenever it is built."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphattn.builders.files import FilePath, is_stream, open_text, split_suffix
from graphattn.builders.sentence import Example, Sentence

BLOCK_BYTES = 32 << 20
"""Text in a block. A worker needs about twelve times as much memory."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SENTENCE_ENDS = {"conllu": (b"\n\n", b"\n\r\n"), "sentences": (b"\n",)}
"""Formats that are cut as bytes -> what stands at the end of a sentence."""


@dataclass(frozen=True)
class TextBlock:
    """Whole sentences of a corpus as bytes, or where they stand in a plain file.

    Parameters
    ----------
    corpus : what errors call the corpus
    format, options : as for ``read_corpus``; the format is a key of ``SENTENCE_ENDS``
    line : 1-based line that the block begins on
    digest : of the bytes
    data : the bytes; None when a worker reads them itself
    path, offset, size : where, then
    """

    corpus: str
    format: str
    options: Mapping[str, Any]
    line: int
    digest: str
    data: bytes | None = None
    path: str = ""
    offset: int = 0
    size: int = 0

    def read(self) -> bytes:
        """The bytes."""
        if self.data is not None:
            return self.data
        with open(self.path, "rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


@dataclass(frozen=True)
class Skipped:
    """A sentence that was left out.

    Parameters
    ----------
    corpus : the file it stands in
    place : ``"line 12"``, or ``"sentence 12"`` where lines are not known
    reason : what is wrong with it
    """

    corpus: str
    place: str
    reason: str


@dataclass(frozen=True)
class ItemBlock:
    """Items that the corpus' reader has made, for formats that only it can cut.

    Parameters
    ----------
    corpus : what errors call the corpus
    first : number of the first item in its corpus, from 1
    digest : of the items
    items : examples and sentences
    skipped : what the reader has left out
    """

    corpus: str
    first: int
    digest: str
    items: tuple[Example | Sentence, ...]
    skipped: tuple[Skipped, ...] = ()


Block = TextBlock | ItemBlock


def text_blocks(
    path: FilePath, format: str, options: Mapping[str, Any] | None = None, *, size: int = BLOCK_BYTES
) -> Iterator[TextBlock]:
    """Cut a text file behind sentences, into blocks of about ``size`` bytes.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"``
    format : a key of ``SENTENCE_ENDS``
    options : of its reader
    size : bytes to read at a time; a longer sentence makes a larger block

    Raises
    ------
    DataError
        when the file cannot be read
    """
    by_offset = not split_suffix(path)[1] and not is_stream(path)
    with open_text(path) as source:
        line, offset, rest = 1, 0, b""
        while True:
            fresh = source.read(size)
            text = rest + fresh
            place = _last_end(text, SENTENCE_ENDS[format]) if fresh else len(text)
            block, rest = text[:place], text[place:]
            if block:
                skipped = len(_BYTE_ORDER_MARK) if line == 1 and block.startswith(_BYTE_ORDER_MARK) else 0
                content, digest = block[skipped:], _digest(block)
                if by_offset:
                    place = offset + skipped
                    yield TextBlock(
                        source.path, format, options or {}, line, digest, None, os.fspath(path), place, len(content)
                    )
                else:
                    yield TextBlock(source.path, format, options or {}, line, digest, content)
                line += int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
                offset += len(block)
            if not fresh:
                return


def item_blocks(
    corpus: str, items: Iterable[Example | Sentence], *, skipped: list[Skipped] | None = None, size: int = BLOCK_BYTES
) -> Iterator[ItemBlock]:
    """Gather items into blocks of about ``size`` characters.

    Parameters
    ----------
    corpus : what errors call the corpus
    items : in the order of the corpus
    skipped : fills while the items are read; each block takes over what was left out since the one before
    size : characters of a block; a longer item makes a larger one
    """
    skipped = [] if skipped is None else skipped
    gathered: list[Example | Sentence] = []
    first, characters = 1, 0
    for item in items:
        gathered.append(item)
        characters += _characters(item)
        if characters >= size:
            yield _item_block(corpus, first, gathered, skipped)
            first, gathered, characters = first + len(gathered), [], 0
    if gathered or skipped:
        yield _item_block(corpus, first, gathered, skipped)


def _item_block(corpus: str, first: int, items: list[Example | Sentence], skipped: list[Skipped]) -> ItemBlock:
    content = repr((items, skipped)) if skipped else repr(items)
    left_out = tuple(skipped)
    skipped.clear()
    return ItemBlock(corpus, first, _digest(content.encode("utf-8", "surrogatepass")), tuple(items), left_out)


def _characters(item: Example | Sentence) -> int:
    if isinstance(item, Sentence):
        return sum(map(len, item.tokens)) + 8 * len(item)
    return 1 + len(item.text) + len(item.second or "")


def _last_end(text: bytes, ends: tuple[bytes, ...]) -> int:
    """Where the last whole sentence ends; 0 when there is none."""
    return max(place + len(end) if (place := text.rfind(end)) >= 0 else 0 for end in ends)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
