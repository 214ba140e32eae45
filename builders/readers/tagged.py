"""Read tagged sentences: CoNLL columns, with one token per line, and lines of ``word/TAG`` pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from graphattn.builders.files import BLANKS, FilePath, display_name, open_text
from graphattn.builders.readers.rows import Skip, iterate_with_errors, map_with_errors, raise_or_skip, split_at_blanks
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError

DOCUMENT_START = "-DOCSTART-"
_NO_PREDICATE = {"0", "-", "_", "O"}


def read_conll(
    path: FilePath,
    *,
    token_column: int = 0,
    tag_column: int | None = -1,
    predicate_column: int | None = None,
    separator: str | None = None,
    comment: str | None = None,
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read tagged sentences from CoNLL columns (2000, 2003, WNUT and their like), one at a time.

    Lines whose token is ``-DOCSTART-`` are skipped. Tags are not converted; see :mod:`graphattn.builders.tag_schemes`
    for IOB1, IOB2 and BIOES.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input
    token_column : the token's column, from 0; -1 is the last
    tag_column : the tag's column; None reads tokens alone
    predicate_column : the column that marks the predicate whose roles are tagged: 0, ``-``, ``_`` or ``O`` for other
        words; None for no marks. A sentence of several predicates is repeated with a mark each
    separator : the characters between two columns; None means tabs if the first token's line has one, else any
        number of blanks
    comment : the first characters of a line to skip; None by default, because ``#`` is a frequent token
    skip : receives the first error of each sentence that is left out; None raises the first

    Returns
    -------
    An iterator over the sentences as :class:`~graphattn.builders.sentence.Sentence`.

    Raises
    ------
    ConfigError
        when the separator or the comment mark is empty
    DataError
        when a line lacks a column, has an empty one, or more or fewer columns than the first; it names the line

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
    roles = {"token": token_column, "tag": tag_column, "predicate": predicate_column}
    columns = {role: column for role, column in roles.items() if column is not None}
    return _read_sentences(_ColumnParser(path, columns, separator, comment), path, skip)


class _ColumnParser:
    """Splits lines into columns; the first line decides the separator and the number of columns."""

    def __init__(self, path: FilePath, columns: Mapping[str, int], separator: str | None, comment: str | None):
        self.path, self.columns = display_name(path), columns
        self.separator, self.comment = separator, comment
        self.width = 0

    def parse(self, content: str, line: int) -> list[str] | None:
        """The columns of a token; none between two sentences; None for a comment."""
        content = content.removesuffix("\n")
        if self.comment is not None and content.startswith(self.comment):
            return None
        fields = self._split(content) if content.strip(" \t\r") else []
        if not fields or DOCUMENT_START in (fields[0], fields[self.columns["token"] % len(fields)]):
            return []
        self._check(line, fields)
        return fields

    def _split(self, content: str) -> list[str]:
        if not self.width and self.separator is None and "\t" in content:
            self.separator = "\t"
        return split_at_blanks(content) if self.separator is None else content.split(self.separator)

    def _check(self, line: int, fields: list[str]) -> None:
        """Reject a line with other columns than the first."""
        if not self.width:
            self._check_columns(line, len(fields))
            self.width = len(fields)
        if len(fields) != self.width:
            raise DataError(
                f"{_columns(len(fields))}, but {self.width} on the lines before",
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


def _read_sentences(parser: _ColumnParser, path: FilePath, skip: Skip | None) -> Iterator[Sentence]:
    with open_text(path) as lines:

        def parse(content: str) -> list[str] | None:
            return parser.parse(content, lines.line)

        rows: list[list[str]] = []
        begin = 0
        first_error: DataError | None = None
        for fields in chain(iterate_with_errors(map(parse, lines)), [[]]):
            if isinstance(fields, DataError):
                if skip is None:
                    raise fields
                first_error = first_error or fields
            elif fields:
                begin = begin if rows else lines.line
                rows.append(fields)
            elif fields is not None:
                if first_error is not None:
                    raise_or_skip(first_error, skip)
                elif rows:
                    yield _make_sentence(rows, parser.columns, (lines.path, begin))
                rows, first_error = [], None


def _make_sentence(rows: list[list[str]], columns: Mapping[str, int], origin: tuple[str, int]) -> Sentence:
    by_role = {role: tuple(row[column] for row in rows) for role, column in columns.items()}
    marks = by_role.get("predicate")
    return Sentence(
        by_role["token"],
        tags=by_role.get("tag"),
        predicates=None if marks is None else tuple(int(mark not in _NO_PREDICATE) for mark in marks),
        origin=origin,
    )


def read_word_tag(path: FilePath, *, separator: str = "/", skip: Skip | None = None) -> Iterator[Sentence]:
    """Read tagged sentences from lines such as ``a/DT dog/NN barks/VBZ``, one at a time.

    A word ends at its last separator without a backslash before it; in the word, a backslash before a separator
    is dropped, as in the Penn Treebank's ``1\\/2/CD``. Blank lines are skipped.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input
    separator : the characters between a word and its tag
    skip : receives the error of each line that is left out; None raises the first

    Returns
    -------
    An iterator over the lines as :class:`~graphattn.builders.sentence.Sentence`.

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
            f"{piece!r} has no {missing}",
            path=path,
            line=line,
            hint=f"Write word{separator}TAG, or set {{separator}}.",
            options=("separator",),
        )
    return word.replace("\\" + separator, separator), tag
