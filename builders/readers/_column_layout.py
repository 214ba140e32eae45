"""Tagged columns: their separator, comments, header and a column that counts words; and spans in brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, pairwise
from typing import NamedTuple

from graphattn.builders.readers._rows import split_at_blanks
from graphattn.builders.tag_schemes import Span, write_tags
from graphattn.exceptions import DataError, Hint, warn_caller

DOCUMENT_START = "-DOCSTART-"
DOCUMENT_MARK = re.compile(r"#(begin|end) document\b")
"""A line of CoNLL-2012."""
ENTITY_TAG = re.compile(r"O|[BIESLUMW]-.+")
NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")
"""The number of a multi-word token or an empty node."""
_CHUNKS = frozenset("-ADJP -ADVP -CONJP -INTJ -LST -NP -PP -PRT -SBAR -UCP -VP".split())
"""Types of chunks, with a dash before them."""
_FRACTION = re.compile(r"\d*\.\d+([eE][+-]?\d+)?|\d+[eE]-\d+")
NO_PREDICATE = frozenset({"0", "-", "_", "O"})
_TOKEN_NAMES = frozenset("form text token tokens word wordform words".split())
_TAG_NAMES = frozenset("label labels ner ner_tag ner_tags pos pos_tag pos_tags tag tags upos xpos".split())
_DIGIT = re.compile(r"\d")
_SENTENCE_NAME = re.compile(
    r"(id|idx|index|number|num|no|nr)?(of)?(sentence|sent)(id|ids|idx|index|number|num|no|nr|n)?"
)
_SAME_COLUMN_LINES = 10
_OPEN = r"\([^()*\s\d][^()*\s]*"
_BRACKETS = re.compile(rf"((?:{_OPEN})*)\*((?:[^()*\s]*\))*)|((?:{_OPEN})+)(\)+)")
"""Spans in brackets, as in CoNLL-2005 and CoNLL-2012: ``(A0*``, ``*``, ``*)``, ``(V*)``, ``(GPE)``; not ``(12)``."""


class WordColumns(NamedTuple):
    """Names of the columns of a table with a word on each row."""

    token: str | None
    sentence: str | None  # that of the numbers of sentences


def find_word_columns(names: Sequence[str], *, bare: bool = True) -> WordColumns:
    """The columns of words and of numbers of sentences, by their names.

    ``bare`` accepts names that columns of texts have, too: ``text`` and ``sentence``.

    Examples
    --------
    >>> find_word_columns(["Sentence #", "Word", "POS", "Tag"])
    WordColumns(token='Word', sentence='Sentence #')
    """
    tokens = [name for name in names if _names_tokens(name) and (bare or name.strip().lower() != "text")]
    tokens = [name for name in tokens if name.strip().lower() != "text"] or tokens
    numbers = list(filter(lambda name: _numbers_sentences(name, bare=bare), names))
    return WordColumns(next(iter(tokens), None), next(iter(numbers), None))


def _numbers_sentences(name: str, *, bare: bool) -> bool:
    letters = "".join(filter(str.isalnum, name.lower()))
    return _SENTENCE_NAME.fullmatch(letters) is not None and (
        bare or "#" in name or letters not in ("sentence", "sent")
    )


def list_tag_columns(names: Sequence[str]) -> list[str]:
    """The names that columns of tags usually have."""
    return [name for name in names if name.strip().lower() in _TAG_NAMES]


@dataclass
class ColumnLayout:
    """Layout of a file, from its first lines."""

    separator: str | None  # the characters between columns; None for blanks
    documents: bool  # whether there are marks of documents as in CoNLL-2012, whose sentences differ in width
    widths: frozenset[int]  # the numbers of columns of the words
    tags: frozenset[str]  # the last columns of the words
    comments: list[str] = field(default_factory=list)  # lines before sentences that begin with ``#`` and are no words
    # the rows of each sentence, without comments, marks of documents and the header
    sentences: list[list[list[str]]] = field(default_factory=list)
    header: list[str] | None = None  # the first row, if it names the columns
    counts: bool = False  # whether the first column counts the words of each sentence
    may_count: bool = False  # whether it may: in sentences of one word

    @property
    def rows(self) -> list[list[str]]:
        """The rows of all sentences."""
        return list(chain.from_iterable(self.sentences))

    def is_comment(self, line: str) -> bool:
        """Whether a line before a sentence is a comment, in a file that has comments: it has no tag of the words."""
        row = split_columns(line, self.separator)
        return self._differs(line, row) or (line.startswith("# ") and row[-1] not in self.tags)

    def are_comments(self, candidates: Sequence[str]) -> bool:
        """Whether lines that begin with ``#`` are comments rather than words: half of them have other columns."""
        if not candidates or not self.tags:
            return False
        rows = [split_columns(line, self.separator) for line in candidates]
        different = sum(map(self._differs, candidates, rows))
        last = {row[-1] for row in rows if row[0] == "#" and row[-1].isdecimal()}
        are_numbered = len(last) == len(rows) > 1 and self.tags.isdisjoint(last)
        return 2 * different >= len(rows) or are_numbered

    def _differs(self, line: str, row: list[str]) -> bool:
        """Whether a line cannot be one of a word."""
        of_entities = all(map(ENTITY_TAG.fullmatch, self.tags))
        return (
            len(row) not in self.widths
            or ("\t" in line and self.separator is None)
            or (of_entities and not ENTITY_TAG.fullmatch(row[-1]))
        )

    def has_brackets(self, column: int | None, first_role: int | None) -> bool:
        """Whether the column of tags, or the columns from the first of semantic roles on, have spans in brackets."""
        if first_role is not None:
            return any("*" in cell for row in self.rows for cell in row[first_role:])
        if column is None:
            return False
        cells = [row[column] for row in self.rows if -len(row) <= column < len(row)]
        return are_brackets(cells) and (any("(" in cell for cell in cells) or {*cells} == {"*"})

    def repeats_first_column(self) -> bool:
        """Whether the rows of each sentence begin with the same, such as the name of a document, which is no word."""
        rows = self.rows
        return (
            len(rows) >= (2 if self.documents else _SAME_COLUMN_LINES)
            and min(map(len, rows)) > 2
            and all(len({row[0] for row in sentence}) == 1 for sentence in self.sentences)
            and max(map(len, self.sentences)) > 2
            and any(len({row[column] for row in rows}) > len(rows) / 3 for column in range(1, min(map(len, rows))))
        )

    def numbers_sentences(self, *, tagged: bool = True) -> bool:
        """Whether the first column, before that of a word and a tag, has a number that several rows share."""
        numbers = [[row[0] for row in rows if len(row) > 1 + tagged] for rows in self.sentences]
        return all(map(_DIGIT.search, chain.from_iterable(numbers))) and any(
            first == second for column in numbers for first, second in pairwise(column)
        )

    def separates_sentences(self, *, tagged: bool) -> bool:
        """Whether the first column numbers the sentences; then none that blank lines end has a number of another.

        In CoNLL-2012 it names the documents.
        """
        distinct = [{row[0] for row in rows} for rows in self.sentences]
        are_unique = sum(map(len, distinct)) == len(set().union(*distinct))
        return not self.documents and len(distinct) > 0 and are_unique and self.numbers_sentences(tagged=tagged)

    def find_same_tags(self, token_column: int) -> list[int]:
        """The last column and those with tags of the same set, as tools write gold and predicted ones; [] if none has.

        Two sets are the same if they share half of the smaller one. A column of ``O`` alone may be one of entities, but
        none of chunks.
        """
        width = max(self.widths, key=[len(row) for row in self.rows].count, default=0)  # others may be mistakes
        rows = [row for row in self.rows if len(row) == width]
        if not rows:
            return []
        *others, last = (list_types(cells) for cells in zip(*rows, strict=True))
        same = [column for column, types in enumerate(others) if column != token_column and are_types_same(types, last)]
        return [*same, len(others)] if same else []

    def has_fractions_last(self) -> bool:
        """Whether the last of several columns has numbers such as confidences, which are no tags."""
        rows = self.rows
        return bool(rows) and all(len(row) > 2 and _FRACTION.fullmatch(row[-1]) for row in rows)

    def has_tags_first(self) -> bool:
        """Whether the first column has tags of entities, ``O`` among them, and the last one has not."""
        first = {row[0] for row in self.rows}
        are_tags = len(first) > 1 and "O" in first and all(map(ENTITY_TAG.fullmatch, first))
        return are_tags and not all(map(ENTITY_TAG.fullmatch, self.tags))


def list_types(tags: Sequence[str]) -> set[str]:
    """``O``, the types of entity tags with a dash before them, and other tags with a letter or digit."""
    types = {tag[1:] if ENTITY_TAG.fullmatch(tag) and tag != "O" else tag for tag in tags}
    return {name for name in types if any(map(str.isalnum, name))}


def are_types_same(first: set[str], second: set[str]) -> bool:
    """Whether two columns have labels of one set; see :meth:`ColumnLayout.find_same_tags`."""
    smaller, larger = sorted((first - {"O"}, second - {"O"}), key=len)
    if not smaller:
        are_entities = all(name.startswith("-") for name in larger)
        return "O" in first & second and are_entities and not larger <= _CHUNKS
    return 2 * len(smaller & larger) >= len(smaller)


def find_layout(
    lines: Sequence[str],
    *,
    separator: str | None = None,
    comment: str | None = None,
    header: bool | None = None,
    tag_column: int = -1,
) -> ColumnLayout:
    """Find the layout of a file."""
    documents = any(map(DOCUMENT_MARK.match, lines))
    kept = [line for line in lines if not _is_skipped(line, comment)]
    groups = [_split_after_hashes(list(group)) for blank, group in groupby(_move_first(kept), is_blank) if not blank]
    hashes = [line for before, _ in groups for line in before]
    words = [line for _, after in groups for line in after]
    if separator is None and any("\t" in line for line in words[:1] or lines[:1]):
        separator = "\t"
    rows = [split_columns(line, separator) for line in words]
    layout = ColumnLayout(
        separator,
        documents=documents,
        widths=frozenset(map(len, rows)),
        tags=frozenset(row[-1] for row in rows),
    )
    if comment is None and layout.are_comments(hashes):
        layout.comments = list(filter(layout.is_comment, hashes))
    sentences = [
        [split_columns(line, separator) for line in [*(line for line in before if line not in layout.comments), *after]]
        for before, after in groups
    ]
    layout.sentences = list(filter(None, sentences))
    if layout.sentences and header is not False and (header or _is_header(layout.sentences, tag_column)):
        layout.header = layout.sentences[0][0]
        layout.sentences = _without(layout.sentences, layout.header)
    layout.may_count = _count_words(layout.sentences)
    layout.counts = layout.may_count and any(len(rows) > 1 for rows in _select_words(layout.sentences))
    return layout


def split_columns(line: str, separator: str | None) -> list[str]:
    """The columns of a line."""
    return split_at_blanks(line) if separator is None else line.split(separator)


def is_blank(line: str) -> bool:
    """Whether a line ends a sentence; a no-break space may be a word."""
    return not line.strip(" \t\r\n")


def _is_skipped(line: str, comment: str | None) -> bool:
    return bool(
        (comment is not None and line.startswith(comment))
        or DOCUMENT_MARK.match(line)
        or DOCUMENT_START in line.split(maxsplit=2)[:2]
    )


def _move_first(lines: list[str]) -> list[str]:
    """The lines, the first one behind the comments that follow it, as in CLEF-HIPE's files with a header."""
    count = next((at for at, line in enumerate(lines[1:], 1) if not line.startswith("# ")), len(lines))
    are_comments = count > 1 and lines[0].count("\t") not in {line.count("\t") for line in lines[1:count]}
    return [*lines[1:count], lines[0], *lines[count:]] if are_comments else lines


def _split_after_hashes(group: list[str]) -> tuple[list[str], list[str]]:
    """The first lines of a sentence that begin with ``#`` and may be comments, and all others."""
    count = next((index for index, line in enumerate(group) if not line.startswith("#")), len(group))
    return group[:count], group[count:]


def _is_header(sentences: list[list[list[str]]], tag_column: int) -> bool:
    """Whether the first row is unlike all others: it names the tokens, or has no number or no tag where they have."""
    first = sentences[0][0]
    if any(map(_names_tokens, first)) and any(name.lower() in _TAG_NAMES for name in first):
        others = _without(sentences, first)  # files that were joined repeat it
    else:
        others = list(filter(None, [sentences[0][1:], *sentences[1:]]))
    rows = list(chain.from_iterable(others))
    if not rows or len(first) < 2 or len(first) != len(rows[0]):
        return False
    if len(rows) > 1 and _count_words(others) and not first[0].isdecimal():
        return not NOT_A_WORD.fullmatch(first[0])
    tags = [row[tag_column] for row in [first, *rows] if -len(row) <= tag_column < len(row)]
    if not tags or tags[0] in tags[1:]:
        return False
    typed = any("-" in tag for tag in tags[1:]) and all(map(ENTITY_TAG.fullmatch, tags[1:]))
    return (typed and not ENTITY_TAG.fullmatch(tags[0])) or any(map(_names_tokens, first))


def _without(sentences: Sequence[Sequence[list[str]]], header: list[str]) -> list[list[list[str]]]:
    rows = ([row for row in sentence if row != header] for sentence in sentences)
    return list(filter(None, rows))


def _names_tokens(name: str) -> bool:
    return name.strip("_# ").lower() in _TOKEN_NAMES


def names_columns(token: str, tag: str) -> bool:
    """Whether a word and its tag are usual names of columns, as in files that were joined."""
    return tag.lower() in _TAG_NAMES and _names_tokens(token)


def _count_words(sentences: Sequence[Sequence[list[str]]]) -> bool:
    """Whether the first columns count each sentence's words, from 0 or from 1."""
    numbers = [[row[0] for row in rows] for rows in _select_words(sentences)]
    return any(numbers) and any(
        all(column == [str(number) for number in range(start, start + len(column))] for column in numbers)
        for start in (0, 1)
    )


def _select_words(sentences: Sequence[Sequence[list[str]]]) -> list[list[list[str]]]:
    """The rows without multi-word tokens and empty nodes, if the first column counts the words."""
    return [[row for row in rows if not NOT_A_WORD.fullmatch(row[0])] for rows in sentences]


def read_brackets(cells: Sequence[str], *, path: str, lines: Sequence[int]) -> list[str]:
    """The spans of a column in brackets, as IOB2 tags; those inside other spans are left out.

    Examples
    --------
    >>> read_brackets(["(A0*", "*)", "(V*)", "*"], path="a.conll", lines=[1, 2, 3, 4])
    ['B-A0', 'I-A0', 'B-V', 'O']
    """

    def error(problem: str, line: int) -> DataError:
        return DataError(problem, line=line, hint="Write (A0*, *, *) or (A0*).")

    spans: list[Span] = []
    opened: list[tuple[str, int]] = []
    for position, (cell, line) in enumerate(zip(cells, lines, strict=True)):
        parts = _BRACKETS.fullmatch(cell)
        if parts is None:
            raise error(f"{cell!r} is no span in brackets", line)
        opened += [(name, position) for name in (parts[1] or parts[3] or "").split("(")[1:]]
        for _ in range((parts[2] or parts[4] or "").count(")")):
            if not opened:
                raise error(f"{cell!r} ends a span that does not begin", line)
            name, start = opened.pop()
            if not opened:
                spans.append((name, start, position + 1))
            else:
                warn_caller(Hint(f"{path}: spans inside other spans are left out"))
    if opened:
        name, start = opened[0]
        raise error(f"the span {name!r} that begins here does not end in its sentence", lines[start])
    return write_tags(spans, len(cells), "IOB2")


def are_brackets(cells: Sequence[str]) -> bool:
    """Whether all cells have the form of spans in brackets."""
    return bool(cells) and all(map(_BRACKETS.fullmatch, cells))
