"""Sources as an encoder wants them: sub-words in words, with dependency arcs where its relations ask for them."""

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
    """Who parses sources that come without heads, for encoders that look along dependency arcs."""

    parser: str = option("none", "who parses sources without heads", choices=("none", "stanza"))
    parser_language: str = option("en", "language of the parser's models")
    parser_package: str = option("default", "name of the parser's models")
    parser_model: str | None = option(None, "folder of the parser's models (default: its own folder)")
    parse_cache: str | None = option(None, "file of parses made before, which grows")

    def parser_or_none(self) -> Parser | None:
        """The parser; None to do without."""
        if self.parser == "none":
            return None
        parser = StanzaParser(self.parser_language, self.parser_model, package=self.parser_package)
        return parser if self.parse_cache is None else CachedParser(parser, self.parse_cache)


def parsed_sources(texts: Sequence[Source], subwords: Subwords, parser: Parser | None) -> tuple[list[Sentence], int]:
    """Sources as sentences of marked words, with heads for each; and how many go without arcs.

    Given heads stay. Where there are none the parser makes them; without a parser every word is a root, so that the
    only arcs are those of words to themselves.

    Parameters
    ----------
    texts : raw texts, lists of words, or sentences
    subwords : marks and cuts words
    parser : None to do without
    """
    sources = subwords.sources(texts)
    lacking = [number for number, source in enumerate(sources) if source.heads is None]
    if not lacking:
        return sources, 0
    if parser is None:
        for number in lacking:
            count = sources[number].num_words
            sources[number] = replace(sources[number], heads=(0,) * count, deprels=("root",) * count)
        return sources, len(lacking)
    words = subwords.splitter.split_sources([texts[number] for number in lacking])
    parses = parse_texts(parser, words, [assign_sentence_ids(own) for own in words])
    for number, parse in zip(lacking, parses, strict=True):
        sources[number] = replace(sources[number], heads=parse.heads, deprels=parse.deprels)
    return sources, 0


def warn_of_sources_without_arcs(count: int, total: int) -> None:
    """Say how many of so many sources have no parse."""
    warnings.warn(
        f"{count} of {total} sources have no parse: they go without dependency arcs. Give sources with heads (CoNLL-U, "
        "sentences, a store), or a parser",
        GraphAttnWarning,
        stacklevel=2,
    )
