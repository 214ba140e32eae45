"""The job of a build worker: read a block, write its shard."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa

from graphattn.builders._layout import advise_parser, missing_heads_error
from graphattn.builders._sentence import Example, Sentence
from graphattn.builders._text_lines import lines_within
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders._word_boundaries import DEFAULT_SPLIT, WordSplitter, rule_digest
from graphattn.builders.parsers import Parser
from graphattn.builders.parsers._parser import parse_texts
from graphattn.builders.readers import read_conllu, read_sentences
from graphattn.builders.store._blocks import SENTENCE_ENDS, Block, ItemBlock, Skipped, TextBlock
from graphattn.builders.store._conllu_columns import TAG_COLUMNS, read_conllu_columns
from graphattn.builders.store._shards import Shard, shard_name, write_shard
from graphattn.builders.store._tables import add_null_columns, to_sentences, to_table
from graphattn.exceptions import DataError


@dataclass(frozen=True)
class ShardSettings:
    """Settings that determine, together with a block, the content of its shard."""

    tokenizer: str | None  # ``tokenizer.json`` whose rule splits raw texts into words; None for the rule ``split``
    needed: tuple[str, ...]  # columns that relations read: heads, which a sentence must have, and links, which it may
    skip: bool  # skip sentences that cannot be used, instead of raising an error
    parser: Parser | None  # parses sentences without heads, or None
    # the parser splits raw texts into words; otherwise our rule does; sentences end at punctuation and blank lines
    raw: bool = False
    split: str = DEFAULT_SPLIT  # rule that splits raw texts into words without a tokenizer or parser

    def split_texts(self, texts: list[str]) -> Iterable[Sentence]:
        """Split raw texts into words."""
        if self.parser is not None and self.raw:
            return self.parser.read(texts)
        if self.tokenizer is None:
            splitter = WordSplitter.by_rule(self.split)
        else:
            splitter = Vocabulary.from_json(self.tokenizer).splitter
        if self.parser is None:
            return (Sentence(tuple(words)) for words in splitter.split_batch(texts))
        return splitter.sentences(texts)

    def count_split_texts(self, block: Block) -> int:
        """Number of texts of a block that our rule or a tokenizer splits into words."""
        if isinstance(block, TextBlock) or (self.parser is not None and self.raw):
            return 0
        return sum(1 + (item.second is not None) for item in block.items if isinstance(item, Example))

    def digest(self, block: Block) -> str:
        """Digest of a block and these settings; an existing shard with it is up to date.

        It does not contain ``skip``: a shard without skipped sentences is the same either way.
        """
        parts = [
            type(block).__name__,
            block.digest,
            "" if isinstance(block, ItemBlock) else [block.format, dict(block.options)],
            self.tokenizer,
            self.needed,
            None if self.parser is None else [self.parser.name, self.raw],
            rule_digest(self.split),
        ]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


@advise_parser()
def write_block(folder: Path, settings: ShardSettings, task: tuple[int, Block]) -> int:
    """Write the shard of a block unless it is up to date.

    Returns the number of the shard.
    """
    number, block = task
    path, digest = folder / shard_name(number), settings.digest(block)
    if path.exists() and _is_up_to_date(path, digest, skip=settings.skip):
        return number
    needs_heads = "heads" in settings.needed and settings.parser is None
    skipped: list[Skipped] = []
    if isinstance(block, ItemBlock):
        skipped += block.skipped
        table = to_table(list(_split_items(block, settings)), list(_second_flags(block)))
    else:
        table = _TextReader(block, skipped, needs_heads=needs_heads, skip=settings.skip).table()
    if settings.parser is not None:
        table = _parse_missing(table, settings.parser)
    if needs_heads and isinstance(block, ItemBlock):
        table = _drop_unparsed(table, block, skipped, skip=settings.skip)
    notes = {
        "digest": digest,
        "cut": settings.count_split_texts(block),
        "skipped": [asdict(replace(row, corpus=Path(row.corpus).name)) for row in skipped],
    }
    write_shard(table, path, notes)
    return number


def _is_up_to_date(path: Path, digest: str, *, skip: bool) -> bool:
    """Whether an undamaged shard has this digest, and skipped nothing unless that is allowed."""
    try:
        shard = Shard(path)
    except DataError:
        return False
    return shard.is_intact() and shard.notes["digest"] == digest and (skip or not shard.notes["skipped"])


def _split_items(block: ItemBlock, settings: ShardSettings) -> Iterator[Sentence]:
    texts = [text for item in block.items if isinstance(item, Example) for text in _texts(item)]
    sentences = iter(settings.split_texts(texts))
    for item in block.items:
        if isinstance(item, Sentence):
            yield item
        else:
            for _ in _texts(item):
                yield replace(next(sentences), label=item.label)


def _texts(example: Example) -> list[str]:
    return [example.text] if example.second is None else [example.text, example.second]


def _second_flags(block: ItemBlock) -> Iterator[bool | None]:
    """The column ``second`` of a block's rows."""
    for item in block.items:
        yield from (None,) if isinstance(item, Sentence) or item.second is None else (False, True)


@dataclass
class _TextReader:
    """Reads a text block in columns where it is plain CoNLL-U, and by sentence otherwise."""

    block: TextBlock
    skipped: list[Skipped]
    needs_heads: bool = field(kw_only=True)
    skip: bool = field(kw_only=True)

    def table(self) -> pa.Table:
        data = self.block.read()
        try:
            return pa.concat_tables(self._tables(data, self.block.line))
        except DataError as error:
            error.skippable = True
            raise

    def _tables(self, data: bytes, line: int) -> Iterator[pa.Table]:
        """Read a piece as a whole if it is plain, otherwise by halves, down to single sentences."""
        if self.block.format == "conllu" and self.block.options.get("tags", "upos") in TAG_COLUMNS:
            table = read_conllu_columns(data, **self.block.options)
            if table is not None:
                table = add_null_columns(table)
                if not (self.needs_heads and table["heads"].null_count):
                    yield table
                    return
            middle = _nearest_sentence_end(data, len(data) // 2, SENTENCE_ENDS[self.block.format])
            if 0 < middle < len(data):
                yield from self._tables(data[:middle], line)
                yield from self._tables(data[middle:], line + data.count(b"\n", 0, middle))
                return
        yield to_table(self._sentences(data, line))

    def _sentences(self, data: bytes, line: int) -> list[Sentence]:
        if not self.skip and not self.needs_heads:
            return list(self._read(data, line))
        usable: list[Sentence] = []
        for first, piece in _pieces(data, line, by_line=self.block.format == "sentences"):
            try:
                sentences = list(self._read(piece, first))
                for sentence in sentences:
                    if self.needs_heads and sentence.heads is None and sentence.num_words:
                        raise missing_heads_error(sentence.words, number=0, path=self.block.corpus, line=first)
            except DataError as error:
                if not self.skip:
                    raise
                self.skipped.append(Skipped(self.block.corpus, f"line {error.line or first}", error.problem))
            else:
                usable += sentences
        return usable

    def _read(self, data: bytes, line: int) -> Iterator[Sentence]:
        read = {"conllu": read_conllu, "sentences": read_sentences}[self.block.format]
        return read(lines_within(data, self.block.corpus, line), **self.block.options)


def _nearest_sentence_end(data: bytes, position: int, ends: tuple[bytes, ...]) -> int:
    """End of the last sentence before a position, or else of the first one after it; 0 if there is none."""
    before = [start + len(end) for end in ends if (start := data.rfind(end, 0, position)) >= 0]
    if before:
        return max(before)
    return min((start + len(end) for end in ends if (start := data.find(end, position)) >= 0), default=0)


def _pieces(data: bytes, line: int, *, by_line: bool) -> Iterator[tuple[int, bytes]]:
    """Cut a text into lines, or else at blank lines; yields each piece after the number of its first line."""
    first, piece = line, b""
    for number, content in enumerate(BytesIO(data), start=line):
        piece += content
        if by_line or not content.strip():
            yield first, piece
            first, piece = number + 1, b""
    if piece:
        yield first, piece


def _drop_unparsed(table: pa.Table, block: ItemBlock, skipped: list[Skipped], *, skip: bool) -> pa.Table:
    """Drop the texts without heads, both texts of a pair; raise an error instead unless ``skip``."""
    unparsed = table["heads"].is_null().to_numpy() & (table["length"].to_numpy() > 0)
    if not unparsed.any():
        return table
    item = np.cumsum(~table["second"].fill_null(False).to_numpy())  # 1-based item of each row
    unusable = np.isin(item, item[unparsed])
    for row in np.flatnonzero(unusable if skip else unparsed):
        tokens, number = table["tokens"][int(row)].as_py(), int(block.first + item[row] - 1)
        if not skip:
            raise missing_heads_error(tokens, number=number, path=block.corpus, line=None)
        reason = "no heads" if unparsed[row] else "the other text of its pair has no heads"
        skipped.append(Skipped(block.corpus, f"sentence {number}", f"{reason} ({' '.join(tokens[:5])!r} ...)"))
    return table.filter(pa.array(~unusable))


def _parse_missing(table: pa.Table, parser: Parser) -> pa.Table:
    """Parse the sentences without heads."""
    sentences = to_sentences(table)
    rows = [row for row, sentence in enumerate(sentences) if sentence.heads is None and sentence.num_words]
    if not rows:
        return table
    unparsed = [sentences[row] for row in rows]
    parses = parse_texts(
        parser, [sentence.words for sentence in unparsed], [sentence.sentence_ids for sentence in unparsed]
    )
    for row, parse in zip(rows, parses, strict=True):
        sentences[row] = replace(sentences[row], heads=parse.heads, deprels=parse.deprels)
    return to_table(sentences, table["second"].to_pylist())
