"""Read CoNLL columns: one token per line, its tag in another column, a blank line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from graphattn.builders.files import FilePath, display_name, open_text
from graphattn.builders.readers.rows import split_at_blanks
from graphattn.builders.readers.skipping import Skip, iterate_with_errors, refuse
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import ConfigError, DataError

_DOCUMENT_START = "-DOCSTART-"


def read_conll(
    path: FilePath,
    *,
    token_column: int = 0,
    tag_column: int | None = -1,
    separator: str | None = None,
    comment: str | None = None,
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read tagged sentences from CoNLL columns (2000, 2003, WNUT and their like), one at a time.

    Lines whose token is ``-DOCSTART-`` are skipped. Tags are passed on as they stand; see
    :mod:`graphattn.builders.tag_schemes` for IOB1, IOB2 and BIOES.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input
    token_column : the token's column, from 0; -1 is the last
    tag_column : the tag's column; None reads tokens alone
    separator : what stands between two columns; None means tabs if the first token's line holds one, else any
        number of blanks
    comment : what a line to skip begins with; None when there are none, for ``#`` is a frequent token
    skip : is handed the first error of each sentence that is left out; None stops at the first

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
            raise ConfigError(f"{option} is empty. Set it to the characters in question, or to None.")
    return _read_sentences(_Layout(path, token_column, tag_column, separator), path, comment, skip)


class _Layout:
    """Where a line has its token and its tag; the first line settles the separator and the number of columns."""

    def __init__(self, path: FilePath, token_column: int, tag_column: int | None, separator: str | None):
        self.path = display_name(path)
        self.columns = {"token": token_column}
        if tag_column is not None:
            self.columns["tag"] = tag_column
        self.separator = separator
        self.width = 0

    def cut(self, line: int, content: str) -> list[str]:
        """The columns of a line that holds a token."""
        if not self.width and self.separator is None and "\t" in content:
            self.separator = "\t"
        return split_at_blanks(content) if self.separator is None else content.split(self.separator)

    def check(self, line: int, fields: list[str]) -> None:
        """Refuse a line that is not laid out as the first one."""
        if not self.width:
            self._check_columns(line, len(fields))
            self.width = len(fields)
        if len(fields) != self.width:
            raise DataError(
                f"{_columns(len(fields))}, but {self.width} on the lines before",
                path=self.path,
                line=line,
                hint="Complete the line, or set comment if it is one.",
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
                    hint=f"Set {role}_column to one of them, -1 for the last.",
                )


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _read_sentences(layout: _Layout, path: FilePath, comment: str | None, skip: Skip | None) -> Iterator[Sentence]:
    with open_text(path) as lines:

        def fields_of(content: str) -> list[str] | None:
            """The columns of a token, none between two sentences, None for a comment."""
            content = content.removesuffix("\n")
            if comment is not None and content.startswith(comment):
                return None
            fields = layout.cut(lines.line, content) if content.strip(" \t\r") else []
            if fields and _DOCUMENT_START not in (fields[0], fields[layout.columns["token"] % len(fields)]):
                layout.check(lines.line, fields)
                return fields
            return []

        rows: list[list[str]] = []
        begin = 0
        wrong: DataError | None = None
        for fields in chain(iterate_with_errors(map(fields_of, lines)), [[]]):
            if isinstance(fields, DataError):
                if skip is None:
                    raise fields
                wrong = wrong or fields
            elif fields:
                begin = begin if rows else lines.line
                rows.append(fields)
            elif fields is not None:
                if wrong is not None:
                    refuse(wrong, skip)
                elif rows:
                    yield _sentence(rows, layout, (lines.path, begin))
                rows, wrong = [], None


def _sentence(rows: list[list[str]], layout: _Layout, origin: tuple[str, int]) -> Sentence:
    tag = layout.columns.get("tag")
    return Sentence(
        tuple(row[layout.columns["token"]] for row in rows),
        tags=None if tag is None else tuple(row[tag] for row in rows),
        origin=origin,
    )
