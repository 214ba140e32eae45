"""Cut lines into fields: rows of a delimited table, and columns between blanks."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from graphattn.builders.compression import TextLines
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


def plain_rows(lines: TextLines, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table in which quotes are ordinary characters; a blank line is an empty row."""
    for line in lines:
        content = line.removesuffix("\n")
        yield lines.line, content.split(separator) if content else []


def quoted_rows(lines: TextLines, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Rows of a table in which a field may stand in double quotes and then hold separators and newlines.

    The number of a row is that of its first line. Python's limit on the size of one CSV field, which holds for the
    whole process, is raised for good: restoring it would break another reader that runs at the same time.
    """
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    record = _RecordLines(lines)
    reader = csv.reader(record, delimiter=separator, strict=True)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _quoting_error(error, lines.path, record.first) from error
        yield record.first, row
        record.first = lines.line + 1


class _RecordLines:
    """The lines the CSV parser asks for, and the number of the one its present record began on."""

    def __init__(self, lines: TextLines):
        self.first = 1
        self._lines = lines

    def __iter__(self) -> _RecordLines:
        return self

    def __next__(self) -> str:
        if self._lines.line - self.first >= LONGEST_RECORD:
            raise csv.Error(f"a field of more than {LONGEST_RECORD} lines")
        return next(self._lines)


def _quoting_error(error: csv.Error, path: str, line: int) -> DataError:
    if "new-line character" in str(error):
        problem, hint = "a carriage return stands alone", "Delete it, or put the field in double quotes."
    else:
        problem = "the double quotes of the row that begins here do not pair up"
        hint = "Close each quoted field, double each quote inside it, or read without quoting (quoted=False)."
    return DataError(problem, path=path, line=line, hint=hint)


def refuse_blank_rows(rows: Iterable[tuple[int, Row]], path: str) -> Iterator[tuple[int, Row]]:
    """Pass on numbered rows; forget empty ones at the end and refuse them anywhere else."""
    blank = None
    for line, row in rows:
        if len(row) == 0:
            blank = blank or line
            continue
        if blank is not None:
            raise DataError("the line is blank", path=path, line=blank, hint="Delete it, or complete it.")
        yield line, row


def equal_rows(
    rows: Iterable[tuple[int, list[str]]], width: int, path: str, *, expected: str, hint: str
) -> Iterator[tuple[int, list[str]]]:
    """Pass on rows of exactly ``width`` fields; in a table of one column a blank line is an empty field."""
    if width == 1:
        rows = ((line, row or [""]) for line, row in rows)
    for line, row in refuse_blank_rows(rows, path):
        if len(row) != width:
            count = "1 field" if len(row) == 1 else f"{len(row)} fields"
            raise DataError(f"{count}, {expected}", path=path, line=line, hint=hint)
        yield line, row
