"""The job of a worker: a block in, a shard out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from graphattn.builders.parsers import Parser
from graphattn.builders.parsers.parser import parse_texts
from graphattn.builders.sentence import Example, Sentence, assign_sentence_ids
from graphattn.builders.store.blocks import Block, ItemBlock, Skipped, TextBlock
from graphattn.builders.store.reading import BlockReader, missing_column_error
from graphattn.builders.store.shard import Shard, shard_name, write_shard
from graphattn.builders.store.table import sentences_of, table_of
from graphattn.builders.vocabulary import Vocabulary
from graphattn.builders.word_boundaries import WordSplitter
from graphattn.exceptions import DataError


@dataclass(frozen=True)
class ShardSettings:
    """What decides, with a block, on the content of its shard.

    Parameters
    ----------
    tokenizer : ``tokenizer.json`` whose rule cuts raw texts into words; None for the rule ``split``
    needs : columns without which sentences cannot be used: heads, links
    skip : leave out sentences that cannot be used
    parser : parses sentences without heads, or None
    raw : let the parser cut raw texts into words; else our rule does, and sentences end at punctuation
    split : rule that cuts raw texts into words where no tokenizer and no parser does
    """

    tokenizer: str | None
    needs: tuple[str, ...]
    skip: bool
    parser: Parser | None
    raw: bool = False
    split: str = "words"

    def cut(self, texts: list[str]) -> Iterable[Sentence]:
        """Raw texts as sentences."""
        if self.parser is not None and self.raw:
            return self.parser.read(texts)
        words = self._splitter().split_batch(texts)
        if self.parser is None:
            return (Sentence(tuple(own)) for own in words)
        return (Sentence(tuple(own), sentence_ids=assign_sentence_ids(own)) for own in words)

    def cuts(self, block: Block) -> int:
        """How many texts of a block a rule of ours, or a tokenizer's, cuts into words."""
        if isinstance(block, TextBlock) or (self.parser is not None and self.raw):
            return 0
        return sum(1 + (item.second is not None) for item in block.items if isinstance(item, Example))

    def _splitter(self) -> WordSplitter:
        if self.tokenizer is None:
            return WordSplitter.by_rule(self.split)
        return Vocabulary.from_json(self.tokenizer).splitter

    def digest_of(self, block: Block) -> str:
        """Of the block and these settings; a shard that has it need not be made again.

        Whether sentences may be left out is not part of it: where none had to be, the shard is the same.
        """
        parts = [
            type(block).__name__,
            block.digest,
            "" if isinstance(block, ItemBlock) else [block.format, dict(block.options)],
            self.tokenizer,
            self.needs,
            None if self.parser is None else [self.parser.name, self.raw],
            self.split,
        ]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class ShardMaker:
    """Makes the shard of a numbered block.

    Parameters
    ----------
    folder : the store
    settings : how
    damaged : shards that are made although there is something of their name, which stays until then
    """

    folder: Path
    settings: ShardSettings
    damaged: frozenset[str] = frozenset()

    def __call__(self, task: tuple[int, Block]) -> int:
        """Make it, unless it is there; its number.

        Raises
        ------
        DataError
            when a sentence cannot be used and none may be skipped
        """
        number, block = task
        path, digest = self.folder / shard_name(number), self.settings.digest_of(block)
        if shard_name(number) not in self.damaged and path.exists() and _fits(path, digest, skip=self.settings.skip):
            return number
        needs = tuple(name for name in self.settings.needs if name != "heads" or self.settings.parser is None)
        reader = BlockReader(self.settings.cut, skip=self.settings.skip, needs=needs)
        table = reader.table(block)
        if self.settings.parser is not None:
            table = _parsed(table, self.settings.parser)
        if needs and isinstance(block, ItemBlock):
            table = self._usable(table, needs, block, reader.skipped)
        notes = {
            "digest": digest,
            "cut": self.settings.cuts(block),
            "skipped": [asdict(replace(row, corpus=Path(row.corpus).name)) for row in reader.skipped],
        }
        write_shard(table, path, notes)
        return number

    def _usable(self, table: pa.Table, needs: tuple[str, ...], block: ItemBlock, skipped: list[Skipped]) -> pa.Table:
        """The sentences that have heads and links; the others are an error, or are listed, a pair as a whole."""
        words = table["length"].to_numpy() > 0
        lacking = np.stack([table[name].is_null().to_numpy() & words for name in needs])
        if not lacking.any():
            return table
        second = table["second"].fill_null(False).to_numpy()
        text = np.cumsum(~second)  # of each row, from 1: the texts of a pair are one
        refused = np.isin(text, text[lacking.any(0)])
        for number in np.flatnonzero(refused if self.settings.skip else lacking.any(0)):
            tokens, place = table["tokens"][int(number)].as_py(), f"sentence {block.first + text[number] - 1}"
            of_text = lacking[:, text == text[number]].any(1)
            own = lacking[:, number]
            name = needs[int((own if own.any() else of_text).argmax())]
            if not self.settings.skip:
                raise missing_column_error(name, tokens, path=block.corpus, place=place)
            reason = f"no {name}" if own.any() else f"the other text of its pair has no {name}"
            skipped.append(Skipped(block.corpus, place, f"{reason} ({' '.join(tokens[:5])!r} ...)"))
        return table.filter(pa.array(~refused))


def _fits(path: Path, digest: str, *, skip: bool) -> bool:
    """Whether there is a shard of this digest that can be read to its end, and left nothing out unless it may."""
    try:
        shard = Shard(path)
        for number in range(len(shard.chunk_sizes)):
            shard.chunk(number)
    except DataError:
        return False
    return shard.notes["digest"] == digest and (skip or not shard.notes["skipped"])


def _parsed(table: pa.Table, parser: Parser) -> pa.Table:
    """The table with heads and relations for the sentences that lacked them."""
    sentences = sentences_of(table)
    lacking = [number for number, sentence in enumerate(sentences) if sentence.heads is None and sentence.num_words]
    if not lacking:
        return table
    chosen = [sentences[number] for number in lacking]
    parses = parse_texts(parser, [own.words for own in chosen], [own.sentence_ids for own in chosen])
    for number, parse in zip(lacking, parses, strict=True):
        sentences[number] = replace(sentences[number], heads=parse.heads, deprels=parse.deprels)
    return table_of(sentences, table["second"].to_pylist())
