"""Read tagged sentences: CoNLL columns, with one token per line, and lines of ``word/TAG`` pairs."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphattn.builders._files import BLANKS, FilePath, TextLines, is_stream, open_text
from graphattn.builders._sentence import Sentence
from graphattn.builders.readers._brackets import are_brackets, read_brackets
from graphattn.builders.readers._column_layout import (
    DOCUMENT_MARK,
    DOCUMENT_START,
    NO_PREDICATE,
    NOT_A_WORD,
    ColumnLayout,
    find_layout,
    is_blank,
    split_columns,
)
from graphattn.builders.readers._rows import Skip, map_with_errors, read_groups, split_at_blanks
from graphattn.builders.readers._samples import SAMPLE_LINES
from graphattn.exceptions import ConfigError, DataError, Hint, verbatim


def read_conll(
    path: FilePath,
    *,
    token_column: int | None = None,
    tag_column: int | str | None = -1,
    predicate_column: int | None = None,
    separator: str | None = None,
    comment: str | None = None,
    header: bool | None = None,
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read tagged sentences from CoNLL columns (2000 to 2012, WNUT and their like), one at a time.

    Lines whose token is ``-DOCSTART-`` and the marks ``#begin document`` and ``#end document`` are skipped, and where
    the first column counts the words also multi-word tokens (``2-3``) and empty nodes (``8.1``). Spans in brackets
    (``(A0*``, ``*)``) become IOB2. Other tags are not converted; see :mod:`graphattn.builders.tag_schemes`.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    token_column : the token's column, from 0; -1 is the last. None means the first one that does not count the words
    tag_column : the tag's column; None reads tokens alone. ``"11+"`` reads semantic roles: columns 11, 12, ... have
        those of the 1st, 2nd, ... predicate, a sentence is repeated for each, and left out if it has none
    predicate_column : the column that marks the predicate whose roles are tagged: 0, ``-``, ``_`` or ``O`` for other
        words; None for no marks
    separator : the characters between two columns; None means tabs if the first token's line has one, else any
        number of blanks
    comment : the first characters of a line to skip. None skips lines before a sentence that begin with ``#``, if the
        first lines of the file show that they are no words
    header : whether the first line names the columns; None lets the first lines decide

    Raises
    ------
    ConfigError
        when the separator or the comment mark is empty, or the tag's column is not valid
    DataError
        when a line lacks a column, has an empty one, or more or fewer columns than the first, or roles do not fit the
        predicates; it names the line

    Warns
    -----
    Hint
        when the first lines show a header, comments, or a column that counts the words

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.conll"
    >>> _ = path.write_text("Ada NNP I-PER\\nwrote VBD O\\n\\n")
    >>> [(sentence.tokens, sentence.tags) for sentence in read_conll(path)]
    [(('Ada', 'wrote'), ('I-PER', 'O'))]
    """
    for option, value in (("separator", separator), ("comment", comment)):
        if value == "":
            raise ConfigError(f"{{{option}}} is empty. Set it to one or more characters", options=(option,))
    tags, roles = (None, parse_roles(tag_column)) if isinstance(tag_column, str) else (tag_column, None)
    if roles is not None and predicate_column is None:
        raise ConfigError(
            f"{{tag_column}} is {tag_column}, but {{predicate_column}} is not set. Set it to the column that marks the "
            "predicates",
            options=("tag_column", "predicate_column"),
        )
    places = {"token": token_column, "tag": tags, "predicate": predicate_column}
    columns = {role: column for role, column in places.items() if column is not None}
    return _read_sentences(path, columns, roles, separator, comment, header, skip)


def parse_roles(tag_column: str) -> int:
    """The first column of semantic roles."""
    first = re.fullmatch(r"(\d+)\+", tag_column)
    if first is None:
        raise ConfigError(
            f"{{tag_column}} is {tag_column!r}. Set it to a column, or to 11+ for columns of roles",
            options=("tag_column",),
        )
    return int(first[1])


def _hint(lines: TextLines, decision: str, *options: str) -> None:
    warnings.warn(Hint(f"{verbatim(lines.path)}: {decision}", options=options), stacklevel=2)


def _sample(lines: TextLines) -> list[str]:
    """The first lines; of a stream, which may be slow, those of the first sentence."""
    if not is_stream(lines):
        return lines.sample(SAMPLE_LINES)
    for count in range(1, SAMPLE_LINES + 1):
        sampled = lines.sample(count)
        if len(sampled) < count or (is_blank(sampled[-1]) and not all(map(is_blank, sampled))):
            break
    return sampled


class _ColumnParser:
    """Splits lines into columns; the first lines decide what the options leave open.

    ``inside`` is true if the line before was a word.
    """

    def __init__(
        self, path: str, layout: ColumnLayout, columns: Mapping[str, int], roles: int | None, comment: str | None
    ):
        self.path, self.layout, self.columns, self.comment = path, layout, columns, comment
        self.inside = False
        self._header_follows = layout.header is not None
        self._widths_differ = roles is not None or layout.documents
        self._width = 0

    def parse(self, content: str, line: int) -> list[str] | None:
        """The columns of a token; none between two sentences; None for a line that is no token."""
        content = content.removesuffix("\n")
        if self.comment is not None and content.startswith(self.comment):
            return None
        if content.startswith("#") and (DOCUMENT_MARK.match(content) or self._is_comment(content)):
            return None
        fields = [] if is_blank(content) else split_columns(content, self.layout.separator)
        if not fields or (DOCUMENT_START in content and self._begins_document(content, fields)):
            self.inside = False
            return []
        if self._header_follows:
            self._header_follows = False
            return None
        self._check(line, fields)
        self.inside = True
        return None if self.layout.counts and NOT_A_WORD.fullmatch(fields[0]) else fields

    def _begins_document(self, content: str, fields: list[str]) -> bool:
        """Whether the word is ``-DOCSTART-``, whose line may have blanks in a file with tabs."""
        return DOCUMENT_START in (split_at_blanks(content)[0], fields[0], fields[self.columns["token"] % len(fields)])

    def _is_comment(self, content: str) -> bool:
        return bool(self.layout.comments) and not self.inside and self.layout.is_comment(content)

    def _check(self, line: int, fields: list[str]) -> None:
        """Reject a line with other columns than the first of the file, or of the sentence in which they may differ."""
        if not self._width or (self._widths_differ and not self.inside):
            self._check_columns(line, len(fields))
            self._width = len(fields)
        if len(fields) != self._width:
            raise DataError(
                f"{_columns(len(fields))}, but {self._width} on the lines before",
                path=self.path,
                line=line,
                hint="Complete the line, or set {comment} if it is one.",
                options=("comment",),
            )
        for role, column in self.columns.items():
            if not fields[column]:
                raise DataError(f"the {role} is empty", path=self.path, line=line, hint="Fill it in.")

    def _check_columns(self, line: int, width: int) -> None:
        for role, column in self.columns.items():
            if not -width <= column < width:
                raise DataError(
                    f"there is no column {column} for the {role}: the line has {_columns(width)}, counted from 0",
                    path=self.path,
                    line=line,
                    hint=f"Set {{{role}_column}} to one of them, -1 for the last.",
                    options=(f"{role}_column",),
                )


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _find_token_column(layout: ColumnLayout, path: str, *, tagged: bool) -> int:
    """The column of the token: the first that does not count the words."""
    rows = layout.rows
    if layout.counts and len(rows[0]) > 1 + tagged:
        return 1
    if layout.repeats_first_column():
        raise DataError(
            f"column 0 is {rows[0][0]!r} on each line, so it is not the word",
            path=path,
            hint="Set {token_column} to the column of the words, counted from 0.",
            options=("token_column",),
        )
    return 0


def _read_sentences(
    path: FilePath,
    columns: Mapping[str, int],
    roles: int | None,
    separator: str | None,
    comment: str | None,
    header: bool | None,
    skip: Skip | None,
) -> Iterator[Sentence]:
    with open_text(path) as lines:
        tag_column = columns.get("tag")
        shown = -1 if tag_column is None else tag_column  # tags that are not read may still show a header
        layout = find_layout(_sample(lines), separator=separator, comment=comment, header=header, tag_column=shown)
        if "token" not in columns:
            columns = {"token": _find_token_column(layout, lines.path, tagged=tag_column is not None), **columns}
            if columns["token"]:
                _hint(lines, "column 0 counts the words, so {token_column} is 1", "token_column")
        if layout.header is not None and header is None:
            names = verbatim(repr(", ".join(layout.header)))
            _hint(lines, f"read {names} as a header; {{header=False}} keeps it", "header")
        if layout.comments:
            _hint(lines, f"lines before sentences that begin with # are comments, such as {layout.comments[0]!r}")
        parser = _ColumnParser(lines.path, layout, columns, roles, comment)
        assembly = _Assembly(lines.path, columns, roles, layout.has_brackets(tag_column, roles))

        yield from read_groups(lines, lambda content: parser.parse(content, lines.line), assembly.sentences, skip)


@dataclass(frozen=True)
class _Assembly:
    """Makes sentences of rows."""

    path: str
    columns: Mapping[str, int]  # role -> its column
    roles: int | None  # the first column of semantic roles, if there are any
    brackets: bool  # whether tags or roles are spans in brackets

    def sentences(self, numbered: list[tuple[int, list[str]]]) -> list[Sentence]:
        """The sentence, or with roles one for each predicate."""
        lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
        by_role = {role: tuple(row[column] for row in rows) for role, column in self.columns.items()}
        marks = [int(mark not in NO_PREDICATE) for mark in by_role.get("predicate", ())]
        tags: Sequence[str] | None = by_role.get("tag")
        origin = self.path, lines[0]
        if self.roles is None:
            tags = None if tags is None else self._read(tags, lines)
            return [Sentence(by_role["token"], tags=tags, predicates=marks or None, origin=origin)]
        predicates = [word for word, mark in enumerate(marks) if mark]
        columns = self._role_columns(rows, len(predicates), lines[0])
        return [
            Sentence(
                by_role["token"],
                tags=None if column is None else self._read([row[column] for row in rows], lines),
                predicates=[int(word == predicate) for word in range(len(rows))],
                origin=origin,
            )
            for predicate, column in zip(predicates, columns, strict=True)
        ]

    def _read(self, tags: Sequence[str], lines: list[int]) -> Sequence[str]:
        return read_brackets(tags, path=self.path, lines=lines) if self.brackets else tags

    def _role_columns(self, rows: list[list[str]], count: int, line: int) -> Sequence[int | None]:
        """The column of each predicate's roles; None in a file without roles. CoNLL-2012 has one more at the end."""
        first = self.roles or 0
        columns = len(rows[0]) - first
        if columns <= 0 or not count:
            return [None] * count
        if self.brackets and not are_brackets([row[-1] for row in rows]):
            columns -= 1
        if columns != count:
            raise DataError(
                f"column {self.columns['predicate']} marks {count} predicates in the sentence that begins here, which "
                f"has {_columns(columns)} of roles, from {first} on",
                path=self.path,
                line=line,
                hint="Set {predicate_column} to the column of the predicates with roles, and {tag_column} to the first "
                "column of roles and a plus sign.",
                options=("predicate_column", "tag_column"),
            )
        return range(first, first + count)


def counts_words(lines: TextLines, **options: Any) -> bool:
    """Whether the first column of a file counts the words of its sentences; ``options`` are those of read_conll."""
    known = {name: options[name] for name in ("separator", "comment", "header") if name in options}
    return find_layout(_sample(lines), **known).counts


def read_word_tag(path: FilePath, *, separator: str = "/", skip: Skip | None = None) -> Iterator[Sentence]:
    """Read tagged sentences from lines such as ``a/DT dog/NN barks/VBZ``, one at a time.

    A word ends at its last separator without a backslash before it; in the word, a backslash before a separator
    is dropped, as in the Penn Treebank's ``1\\/2/CD``. Blank lines are skipped.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    separator : the characters between a word and its tag

    Raises
    ------
    ConfigError
        when the separator is empty, or contains a blank or a backslash
    DataError
        when a word lacks its tag or a tag its word; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.pos"
    >>> _ = path.write_text("1\\\\/2/CD hour/NN\\n")
    >>> [(sentence.tokens, sentence.tags) for sentence in read_word_tag(path)]
    [(('1/2', 'hour'), ('CD', 'NN'))]
    """
    if not separator or {*BLANKS, "\\"} & {*separator}:
        raise ConfigError(
            f"{{separator}} is {separator!r}. Set it to the characters between word and tag, '/' for example",
            options=("separator",),
        )
    return _read_word_tag_lines(path, separator, skip)


def _read_word_tag_lines(path: FilePath, separator: str, skip: Skip | None) -> Iterator[Sentence]:
    with open_text(path) as lines:

        def pairs_of(line: str) -> list[tuple[str, str]]:
            pieces = split_at_blanks(line.rstrip("\n"))
            return [_split_pair(piece, separator, lines.path, lines.line) for piece in pieces]

        for pairs in map_with_errors(lines, pairs_of, skip):
            if pairs:
                words, tags = zip(*pairs, strict=True)
                yield Sentence(words, tags=tags, origin=(lines.path, lines.line))


def _split_pair(piece: str, separator: str, path: str, line: int) -> tuple[str, str]:
    end = piece.rfind(separator)
    while end > 0 and piece[end - 1] == "\\":
        end = piece.rfind(separator, 0, end)
    word, tag = piece[: max(end, 0)], piece[end + len(separator) :]
    if end < 0 or not word or not tag:
        missing = "word" if end >= 0 and not word else "tag"
        raise DataError(
            f"{verbatim(repr(piece))} has no {missing}",
            path=path,
            line=line,
            hint=f"Write word{verbatim(separator)}TAG, or set {{separator}}.",
            options=("separator",),
        )
    return word.replace("\\" + separator, separator), tag
