"""Dependency heads for encoders that use dependency arcs, and sentences with the heads of a parser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from graphattn.builders import Sentence
from graphattn.builders._stored import is_stored
from graphattn.builders._word_boundaries import Source, WordSplitter
from graphattn.builders.parsers import Parser
from graphattn.builders.parsers._parser import parse_texts
from graphattn.builders.relations._dependency import UNIVERSAL_RELATIONS
from graphattn.exceptions import DataError, GraphAttnWarning, warn_caller
from graphattn.models._estimators.texts import Texts

_NEW_RELATIONS = 0.15
"""Share of words whose relations may be new."""
_FEW_WORDS = 20
"""So many words may have new relations of a scheme whose relations are not listed here: a rare one, in a short text."""


def parse_column(texts: Sequence[Source], splitter: WordSplitter, parser: Parser) -> list[Sentence]:
    """Texts as sentences with heads: given ones, or the parser's."""
    sentences = splitter.sentences(texts)
    return add_heads(sentences, sentences, splitter, parser)


def add_heads(
    sentences: Sequence[Sentence], texts: Sequence[Source], splitter: WordSplitter, parser: Parser
) -> list[Sentence]:
    """Add the parser's heads to sentences without heads.

    The parser reads ``texts``: raw texts, lists of words or sentences, of the same words, perhaps spelled otherwise.
    """
    completed = list(sentences)
    unparsed = [number for number, sentence in enumerate(sentences) if sentence.heads is None]
    sources = splitter.sentences([texts[number] for number in unparsed])
    words, ids = [text.words for text in sources], [text.sentence_ids for text in sources]
    parses = parse_texts(parser, words, ids) if unparsed else []
    for number, parse in zip(unparsed, parses, strict=True):
        completed[number] = replace(completed[number], heads=parse.heads, deprels=parse.deprels)
    return completed


def make_roots(sentences: Sequence[Sentence]) -> tuple[list[Sentence], int]:
    """Make each word of sentences without heads a root, and so give it a self-loop only; return their number, too."""
    roots = [
        replace(sentence, heads=(0,) * sentence.num_words, deprels=("root",) * sentence.num_words)
        if sentence.heads is None
        else sentence
        for sentence in sentences
    ]
    return roots, sum(sentence.heads is None for sentence in sentences)


def count_relations(texts: Texts) -> Counter[str]:
    """How often each dependency relation occurs in sentences."""
    counts: Counter[str] = Counter()
    for column in texts.columns:
        if is_stored(column):
            counts += column.deprels()
        else:
            counts.update(chain.from_iterable(s.deprels or () for s in column if isinstance(s, Sentence)))
    return counts


def check_scheme(counts: Counter[str], known: Sequence[str]) -> None:
    """Reject sentences whose dependency relations are of another scheme than those of the training set."""
    relations = {name.partition(":")[0] for name in known}
    new = {name: n for name, n in counts.items() if name and name.partition(":")[0] not in relations}
    universal = relations <= {*UNIVERSAL_RELATIONS}
    if universal:
        new = {name: n for name, n in new.items() if name.partition(":")[0] not in UNIVERSAL_RELATIONS}
    few = max(0 if universal else _FEW_WORDS, _NEW_RELATIONS * counts.total())
    if len(relations) < 2 or sum(new.values()) <= few:
        return
    names = ", ".join(sorted(new, key=new.__getitem__, reverse=True)[:5])
    raise DataError(
        f"{sum(new.values()) / counts.total():.0%} of the words have dependency relations that the training set lacks "
        f"({names}), so it was parsed in another scheme",
        field="deprels",
        hint="Parse these texts with the parser of the training set, or train again on parses of this one.",
    )


def warn_about_missing_parses(count: int, total: int) -> None:
    """Warn that ``count`` of ``total`` sources have no parse."""
    warn_caller(
        GraphAttnWarning(
            f"{count} of {total} sources have no parse, and so no dependency arcs; give sources with heads (CoNLL-U, "
            "sentences, a store), or a parser"
        )
    )
