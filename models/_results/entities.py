"""Entities in texts: character offsets of words, and texts with their entities in CoNLL format and in HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, NamedTuple

from graphattn.builders._sentence import Sentence
from graphattn.builders._word_boundaries import Source, WordSplitter
from graphattn.builders.readers._column_layout import DOCUMENT_START
from graphattn.exceptions import DataError

HTML_HEAD = '<!DOCTYPE html>\n<meta charset="utf-8">\n<title>Entities</title>\n'
"""Begins a file of :meth:`TaggedText._repr_html_` paragraphs."""
_NO_FIELD = re.compile("^$|^\ufeff|[\t\r\n\0]")
_TINTS = ("#c6e2f7", "#fbd3b0", "#bfead9", "#f3d0e4", "#fbe6a8", "#d8d3f5", "#e0e0e0", "#d3efb4")
"""Backgrounds on which black text is readable."""
_MARK = "color:#222;padding:2px 4px;border-radius:3px;white-space:pre-wrap"


class EntitySpan(NamedTuple):
    """An entity in a text.

    Parameters
    ----------
    type : such as ``PER``
    start, end : offsets of its first character, and one past its last
    text : its characters
    confidence : probability of exactly this entity: that its words have these tags. A CRF sums over the tags of all
        other words; without one it is the product of the words' probabilities
    """

    type: str
    start: int
    end: int
    text: str
    confidence: float


@dataclass(frozen=True)
class TaggedText:
    """A text and its entities, in order; a notebook shows them in colour.

    Parameters
    ----------
    text : raw, or words joined by blanks
    spans : its entities
    types : all types of the tagger, which determine the colours
    """

    text: str
    spans: list[EntitySpan]
    types: Sequence[str] = field(default=(), repr=False, compare=False)

    def to_row(self) -> dict[str, Any]:
        """A row of JSON."""
        return {
            "text": self.text,
            "spans": [{**span._asdict(), "confidence": round(span.confidence, 6)} for span in self.spans],
        }

    def _repr_html_(self) -> str:
        parts, at = [], 0
        for span in self.spans:
            parts.append(escape(self.text[at : span.start]))
            at = span.end
            index = self.types.index(span.type) if span.type in self.types else 0
            style = f"{_MARK};background:{_TINTS[index % len(_TINTS)]}"
            label = f'<b style="font-size:70%">{escape(span.type)}</b>'
            title = escape(f"{span.type} {span.confidence:.3f}")
            parts.append(f'<mark style="{style}" title="{title}">{escape(span.text)} {label}</mark>')
        return f'<p dir="auto" style="line-height:2;white-space:pre-wrap">{"".join(parts)}{escape(self.text[at:])}</p>'


def locate_words(sources: Sequence[Source], splitter: WordSplitter) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each source's text, and the offsets of its words; lists and sentences are joined by blanks.

    Examples
    --------
    >>> list(locate_words(["It's", ["a", "dog"]], WordSplitter.by_rule("words")))
    [("It's", [(0, 2), (2, 4)]), ('a dog', [(0, 1), (2, 5)])]
    """
    split = splitter.split_with_offsets([source for source in sources if isinstance(source, str)])
    for source in sources:
        if isinstance(source, str):
            yield source, [(start, start + len(word)) for word, start in next(split)]
            continue
        words: Sequence[str] = source.words if isinstance(source, Sentence) else source
        offsets, start = [], 0
        for word in words:
            offsets.append((start, start + len(word)))
            start += len(word) + 1
        yield " ".join(words), offsets


def format_conll(words: Sequence[str], tags: Sequence[str]) -> str:
    """A sentence in CoNLL format: a word, a tab and its tag on each line, then an empty line.

    A DataError when readers would not get a word or tag back.
    """
    for word, tag in zip(words, tags, strict=True):
        if word == DOCUMENT_START or _NO_FIELD.search(word) or _NO_FIELD.search(tag):
            raise DataError(
                f"{word[:40]!r} with the tag {tag[:40]!r} cannot be a line of columns", hint="Write JSON instead."
            )
    return "".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)) + "\n"


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges of words that overlap.

    Examples
    --------
    >>> merge_ranges([(5, 6), (0, 2), (1, 4), (4, 5)])
    [(0, 4), (4, 5), (5, 6)]
    """
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
