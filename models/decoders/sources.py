"""Sources of a translator: subwords grouped in words, with dependency arcs if the encoder's relations use them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphattn.builders import Sentence
from graphattn.builders.parsers import CachedParser, Parser, StanzaParser
from graphattn.builders.parsers.parser import parse_texts
from graphattn.builders.sentence import assign_sentence_ids
from graphattn.builders.subwords import Subwords
from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import GraphAttnWarning
from graphattn.models.options import Options, option


@dataclass
class ParsingOptions(Options):
    """How sources without heads are parsed, for encoders that use dependency arcs."""

    parser: str = option("none", "parser of sources without heads", choices=("none", "stanza"))
    parser_language: str = option("en", "language of the parser's models")
    parser_package: str = option("default", "name of the parser's models")
    parser_model: str | None = option(None, "folder of the parser's models (default: its own folder)")
    parse_cache: str | None = option(None, "file that keeps parses for later runs")

    def make_parser(self) -> Parser | None:
        """The parser; None without one."""
        if self.parser == "none":
            return None
        parser = StanzaParser(self.parser_language, self.parser_model, package=self.parser_package)
        return parser if self.parse_cache is None else CachedParser(parser, self.parse_cache)


def parse_sources(texts: Sequence[Source], subwords: Subwords, parser: Parser | None) -> tuple[list[Sentence], int]:
    """Sources as sentences of marked words with heads, and the number of sources without a parse.

    Given heads are kept; the parser adds missing ones. Without a parser every word is a root: words then have only
    self-loops.

    Parameters
    ----------
    texts : raw texts, lists of words, or sentences
    subwords : splits words
    parser : None for none
    """
    sources = subwords.sources(texts)
    unparsed = [number for number, source in enumerate(sources) if source.heads is None]
    if not unparsed:
        return sources, 0
    if parser is None:
        for number in unparsed:
            count = sources[number].num_words
            sources[number] = replace(sources[number], heads=(0,) * count, deprels=("root",) * count)
        return sources, len(unparsed)
    texts_words = subwords.splitter.split_sources([texts[number] for number in unparsed])
    parses = parse_texts(parser, texts_words, [assign_sentence_ids(words) for words in texts_words])
    for number, parse in zip(unparsed, parses, strict=True):
        sources[number] = replace(sources[number], heads=parse.heads, deprels=parse.deprels)
    return sources, 0


def warn_about_missing_parses(count: int, total: int) -> None:
    """Warn that ``count`` of ``total`` sources have no parse."""
    warnings.warn(
        f"{count} of {total} sources have no parse, and so no dependency arcs; give sources with heads (CoNLL-U, "
        "sentences, a store), or a parser",
        GraphAttnWarning,
        stacklevel=2,
    )
