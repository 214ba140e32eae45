"""Blocks of a corpus as tables; a sentence that cannot be used stops the reading, or is listed and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import product

import pyarrow as pa

from graphattn.builders.files import lines_within
from graphattn.builders.readers.conllu import conllu_sentences
from graphattn.builders.readers.sentences import json_sentences
from graphattn.builders.sentence import Example, Sentence
from graphattn.builders.store.blocks import SENTENCE_ENDS, Block, ItemBlock, Skipped, TextBlock
from graphattn.builders.store.conllu_columns import read_conllu_columns
from graphattn.builders.store.schema import SCHEMA
from graphattn.builders.store.table import table_of, with_all_columns
from graphattn.exceptions import DataError

NEEDED_BY = {
    "heads": ("dependency", "Give a parsed corpus (CoNLL-U), a --parser, or leave dependency out of --relations."),
    "links": ("links", "Give a corpus of sentences with links (JSON Lines), or leave links out of --relations."),
}
"""Column that a relation may need -> the relation, and the way out for those without."""


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks into tables.

    Parameters
    ----------
    cut : makes sentences of raw texts
    skip : leave out sentences that cannot be used, instead of stopping
    needs : columns, of ``NEEDED_BY``, without which sentences cannot be used; only text blocks are looked at
    """

    cut: Callable[[list[str]], Iterable[Sentence]]
    skip: bool = False
    needs: tuple[str, ...] = ()
    skipped: list[Skipped] = field(default_factory=list)

    def table(self, block: Block) -> pa.Table:
        """The sentences of a block; those left out are added to ``skipped``.

        Raises
        ------
        DataError
            when a sentence cannot be used and none may be skipped; it names the file and the line
        """
        if isinstance(block, ItemBlock):
            self.skipped.extend(block.skipped)
            return table_of(list(self._in_words(block)), list(_places_in_pairs(block)))
        try:
            tables = list(self._tables(block, block.read(), block.line))
        except DataError as error:
            error.skippable = True
            raise
        return pa.concat_tables(tables) if tables else SCHEMA.empty_table()

    def _in_words(self, block: ItemBlock) -> Iterator[Sentence]:
        texts = [
            text
            for item in block.items
            if isinstance(item, Example)
            for text in (item.text, item.second)
            if text is not None
        ]
        cut = iter(self.cut(texts))
        for item in block.items:
            if isinstance(item, Sentence):
                yield item
                continue
            for text in (item.text, item.second):
                if text is not None:
                    yield replace(next(cut), label=item.label)

    def _tables(self, block: TextBlock, data: bytes, line: int) -> Iterator[pa.Table]:
        """Tables of a piece of text: all of it when it is plain, else of its halves, in the end of single sentences."""
        table = read_conllu_columns(data, **block.options) if block.format == "conllu" else None
        if table is not None:
            table = with_all_columns(table)
            if not any(table[name].null_count for name in self.needs):
                yield table
                return
        if block.format == "conllu":
            middle = _end_near(data, len(data) // 2, SENTENCE_ENDS[block.format])
            if 0 < middle < len(data):
                yield from self._tables(block, data[:middle], line)
                yield from self._tables(block, data[middle:], line + data.count(b"\n", 0, middle))
                return
        yield table_of(self._sentences(block, data, line))

    def _sentences(self, block: TextBlock, data: bytes, line: int) -> list[Sentence]:
        if not self.skip and not self.needs:
            return list(self._read(block, data, line))
        kept: list[Sentence] = []
        for first, piece in _pieces(data, line, whole_lines=block.format == "sentences"):
            try:
                sentences = list(self._read(block, piece, first))
                self._refuse_lacking(sentences, block, first)
            except DataError as error:
                if not self.skip:
                    raise
                self.skipped.append(Skipped(block.corpus, f"line {error.line or first}", error.message))
            else:
                kept += sentences
        return kept

    def _refuse_lacking(self, sentences: list[Sentence], block: TextBlock, line: int) -> None:
        for sentence, name in product(sentences, self.needs):
            if getattr(sentence, name) is None and sentence.num_words:
                raise missing_column_error(name, sentence.words, path=block.corpus, line=line)

    def _read(self, block: TextBlock, data: bytes, line: int) -> Iterator[Sentence]:
        lines = lines_within(data, block.corpus, line)
        numbered = ((lines.line, content.removesuffix("\n")) for content in lines)
        if block.format == "conllu":
            return conllu_sentences(numbered, block.corpus, **block.options)
        return json_sentences(numbered, block.corpus)


def missing_column_error(
    what: str, words: Sequence[str], *, path: str, line: int | None = None, place: str = "the sentence"
) -> DataError:
    """What is said of a sentence that should have heads or links.

    Parameters
    ----------
    what : the column that it lacks
    words : of the sentence, the first ones at least
    path, line : where it stands
    place : what it is called
    """
    start, (relation, hint) = " ".join(words[:5]), NEEDED_BY[what]
    message = f"{place} ({start!r} ...) has no {what}, which the relation {relation!r} needs"
    return DataError(message, path=path, line=line, hint=hint)


def _places_in_pairs(block: ItemBlock) -> Iterator[bool | None]:
    """Of each row of a block, whether it is the second text of a pair; None outside of pairs."""
    for item in block.items:
        yield from (None,) if isinstance(item, Sentence) or item.second is None else (False, True)


def _end_near(data: bytes, place: int, ends: tuple[bytes, ...]) -> int:
    """Where the last sentence before a place ends, or the first one behind it; 0 when there is neither."""
    for find, begin, stop in ((data.rfind, 0, place), (data.find, place, len(data))):
        found = [(at, len(end)) for end in ends if (at := find(end, begin, stop)) >= 0]
        if found:
            return sum(max(found) if find == data.rfind else min(found))
    return 0


def _pieces(data: bytes, line: int, *, whole_lines: bool) -> Iterator[tuple[int, bytes]]:
    """The sentences of a text with their first lines: single lines, or lines between blank ones."""
    first, gathered = line, b""
    for number, content in enumerate(BytesIO(data), start=line):
        gathered += content
        if whole_lines or not content.strip():
            yield first, gathered
            first, gathered = number + 1, b""
    if gathered:
        yield first, gathered
