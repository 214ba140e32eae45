"""Cut lines into fields: rows of a delimited table, and columns between blanks."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator, Sequence, Sized
from typing import TypeVar

from graphattn.builders.files import TextLines
from graphattn.builders.readers.skipping import Skip, iterate_with_errors, refuse
from graphattn.exceptions import DataError

Row = TypeVar("Row", bound=Sized)

# A quote that is never closed would swallow the rest of the file, however large, as one field.
LONGEST_RECORD = 100_000


def split_at_blanks(line: str) -> list[str]:
    """Fields between spaces and tabs; other white space, such as a no-break space, is part of a field.

    Examples
    --------
    >>> split_at_blanks(" 10\\u00a0000  CD")
    ['10\\xa0000', 'CD']
    """
    return [field for field in line.replace("\t", " ").split(" ") if field]


class PlainRows:
    """Rows of a table in which quotes are ordinary characters; a blank line is an empty row.

    Parameters
    ----------
    lines : of the table
    separator : what stands between two fields
    """

    def __init__(self, lines: TextLines, separator: str):
        self._lines, self._separator = lines, separator

    def __iter__(self) -> PlainRows:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        content = next(self._lines).removesuffix("\n")
        return self._lines.line, content.split(self._separator) if content else []

    def read_again(self) -> None:
        """Nothing: a row is a line."""


class QuotedRows:
    """Rows of a table in which a field may stand in double quotes and then hold separators and newlines.

    The number of a row is that of its first line. After a row that cannot be read, the lines behind its first one are
    read again: a quote that is never closed costs one line, and not those that it swallowed. Python's limit on the size
    of one CSV field, which holds for the whole process, is raised for good: restoring it would break another reader
    that runs at the same time.

    Parameters
    ----------
    lines : of the table
    separator : what stands between two fields
    """

    def __init__(self, lines: TextLines, separator: str):
        csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
        self._record = _RecordLines(lines)
        self._path = lines.path
        self._reader = csv.reader(self._record, delimiter=separator, strict=True)

    def __iter__(self) -> QuotedRows:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        while True:
            self._record.begin()
            try:
                row = next(self._reader)
            except StopIteration:
                if self._record.at_end():
                    raise
                continue
            except csv.Error as error:
                line = self._record.own[0][0]
                self._record.put_back(self._record.own[1:], stop=self._record.stopped)
                raise _quoting_error(error, self._path, line) from error
            except DataError:
                self._record.put_back(self._record.own, stop=True)
                raise
            return self._record.own[0][0], row

    def read_again(self) -> None:
        """Let the lines of the present row but its first be read once more, as rows of their own."""
        self._record.put_back(self._record.own[1:])


class _RecordLines:
    """The lines the CSV parser asks for: first those that were put back, then those of the file.

    Attributes
    ----------
    own : lines of the present record with their numbers
    stopped : whether it ends where a line could not be read
    """

    def __init__(self, lines: TextLines):
        self.own: list[tuple[int, str]] = []
        self.stopped = False
        self._lines = lines
        self._waiting: deque[tuple[int, str] | None] = deque()
        self._ended = False

    def __iter__(self) -> _RecordLines:
        return self

    def __next__(self) -> str:
        if len(self.own) > LONGEST_RECORD:
            raise csv.Error(f"a field of more than {LONGEST_RECORD} lines")
        if self._waiting:
            numbered = self._waiting.popleft()
            if numbered is None:
                self.stopped = True
                raise StopIteration
        else:
            try:
                content = next(self._lines)
            except StopIteration:
                self._ended = True
                raise
            numbered = self._lines.line, content
        self.own.append(numbered)
        return numbered[1]

    def begin(self) -> None:
        """Begin a record."""
        self.own, self.stopped = [], False

    def put_back(self, numbered: Sequence[tuple[int, str]], *, stop: bool = False) -> None:
        """Give lines out once more; with ``stop`` no record goes on behind the last of them."""
        if stop and numbered:
            self._waiting.appendleft(None)
        self._waiting.extendleft(reversed(numbered))

    def at_end(self) -> bool:
        """Whether there are no more lines."""
        return self._ended and not self._waiting


def _quoting_error(error: csv.Error, path: str, line: int) -> DataError:
    if "new-line character" in str(error):
        problem, hint = "a carriage return stands alone", "Delete it, or put the field in double quotes."
    else:
        problem = "the double quotes of the row that begins here do not pair up"
        hint = "Close each quoted field, double each quote inside it, or set quoted to False."
    return DataError(problem, path=path, line=line, hint=hint)


def refuse_blank_rows(
    rows: Iterator[tuple[int, Row]], path: str, skip: Skip | None = None
) -> Iterator[tuple[int, Row]]:
    """Pass on numbered rows; forget empty ones at the end and refuse them anywhere else."""
    blank: list[int] = []
    for numbered in iterate_with_errors(rows):
        if isinstance(numbered, DataError):
            refuse(numbered, skip)
            continue
        line, row = numbered
        if len(row) == 0:
            blank.append(line)
            continue
        for number in blank:
            refuse(DataError("the line is blank", path=path, line=number, hint="Delete it, or complete it."), skip)
        blank.clear()
        yield line, row


def equal_rows(
    rows: PlainRows | QuotedRows, width: int, path: str, *, expected: str, hint: str, skip: Skip | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Pass on rows of exactly ``width`` fields; in a table of one column a blank line is an empty field."""

    def of_one_column(numbered: tuple[int, list[str]]) -> tuple[int, list[str]]:
        return numbered[0], numbered[1] or [""]

    for line, row in refuse_blank_rows(map(of_one_column, rows) if width == 1 else rows, path, skip):
        if len(row) == width:
            yield line, row
            continue
        count = "1 field" if len(row) == 1 else f"{len(row)} fields"
        refuse(DataError(f"{count}, {expected}", path=path, line=line, hint=hint), skip)
        rows.read_again()
