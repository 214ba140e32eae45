"""Rows and their fields: cut lines, and raise or skip the lines that cannot be read."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import suppress
from itertools import chain
from typing import Any, Protocol, Self, TypeVar, cast

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import TableRow
from graphattn.builders._text_lines import BLANKS, TextLines, open_text
from graphattn.builders.readers._dialects import STANDARD, Dialect, is_cut
from graphattn.exceptions import DataError, UnreadableError, verbatim

Skip = Callable[[DataError], None]
"""Receives the error of each line or sentence that a reader leaves out."""
KeepRow = Callable[[TableRow], None]
"""Receives all fields of each item's row, before the item is yielded; an error has those of a row without an item."""
Item = TypeVar("Item")
Result = TypeVar("Result")
Content = TypeVar("Content", bound=Sized)
Raw = TypeVar("Raw", covariant=True)

MAX_RECORD_LINES = 100_000
"""Longest CSV record. Without a limit, an unclosed quote would read the rest of the file as one field."""


def raise_or_skip(error: DataError, skip: Skip | None) -> None:
    """Pass an error to ``skip``; raise it when there is none."""
    if skip is None:
        error.skippable = True
        raise error
    skip(error)


def iterate_with_errors(items: Iterator[Item]) -> Iterator[Item | DataError]:
    """Yield items, and the error in place of each item that cannot be read."""
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except UnreadableError:
            raise
        except DataError as error:
            yield error
        else:
            yield item


def map_with_errors(items: Iterator[Item], convert: Callable[[Item], Result], skip: Skip | None) -> Iterator[Result]:
    """Apply ``convert`` to each item; pass errors to ``skip``, or raise the first."""
    for result in iterate_with_errors(map(convert, items)):
        if isinstance(result, DataError):
            raise_or_skip(result, skip)
        else:
            yield result


def parse_rows(
    rows: Iterator[tuple[int, Content] | DataError],
    parse: Callable[[int, Content], Result],
    path: str,
    skip: Skip | None,
    make_row: Callable[[Content], TableRow | None] | None = None,
) -> Iterator[Result]:
    """Parse numbered rows; errors, also those among them, get path and line, and are passed to ``skip`` or raised.

    ``make_row`` makes the ``row`` of an error out of the content of a row that cannot be parsed.
    """
    for row in iterate_with_errors(rows):
        line = content = None
        try:
            if isinstance(row, DataError):
                raise row
            line, content = row
            result = parse(line, content)
        except DataError as error:
            error.path, error.line = path, error.line or line
            content = error.content if content is None else content
            if make_row is not None and content is not None:
                error.row = make_row(content)
            raise_or_skip(error, skip)
        else:
            yield result


def parse_lines(
    path: FilePath,
    parse: Callable[[int, str], Result],
    skip: Skip | None,
    *,
    reject_blank: bool = True,
    blanks: str = BLANKS,
    make_row: Callable[[str], TableRow | None] | None = None,
) -> Iterator[Result]:
    """Parse each line of a file, without the blanks around it; blank lines are errors, except at the end.

    ``make_row`` is as for :func:`parse_rows`.
    """
    with open_text(path) as lines:

        def number(content: str) -> tuple[int, str]:
            return lines.line, content.strip(blanks)

        rows = map(number, lines)  # unlike a generator, it continues after an error
        yield from parse_rows(reject_blank_rows(rows) if reject_blank else rows, parse, lines.path, skip, make_row)


class NumberedSource(Protocol[Raw]):
    """Lines or rows, with the number of the one read last."""

    path: str
    line: int

    def __iter__(self) -> Iterator[Raw]: ...


def read_groups(
    lines: NumberedSource[Raw],
    parse: Callable[[Raw], Content | None],
    make: Callable[[list[tuple[int, Content]]], Iterable[Result]],
    skip: Skip | None,
    *,
    begins: Callable[[Content], bool] | None = None,
) -> Iterator[Result]:
    """Make items of groups of lines, such as sentences; the first error in a group takes the place of its items.

    ``parse`` returns the content of a line: empty between two groups, None for a line to leave out. ``make`` gets the
    numbered contents of a group. ``skip`` receives the errors of groups; if it is None, the first is raised. Errors get
    the file's path, and those of ``parse`` the line. ``begins`` says whether a new group begins with a content.
    """
    group: list[tuple[int, Content]] = []
    error: DataError | None = None
    for content in chain(iterate_with_errors(map(parse, iter(lines))), [()]):
        if isinstance(content, DataError):
            content.path, content.line = lines.path, lines.line if content.line is None else content.line
            error = error or content
            if skip is None:
                raise_or_skip(error, skip)
            continue
        is_first = bool(content) and begins is not None and begins(cast(Content, content))
        if content is not None and (is_first or not content) and (group or error is not None):
            items: Iterable[Result] = ()
            try:
                if error is not None:
                    raise error
                items = make(group)
            except DataError as problem:
                problem.path = lines.path
                raise_or_skip(problem, skip)
            yield from items
            group, error = [], None
        if content:
            group.append((lines.line, content))


class SentenceNumbers:
    """The numbers of sentences that follow each other, row by row."""

    def __init__(self) -> None:
        self._current: Any = None
        self._seen = set[Any]()

    def begins(self, number: Any) -> bool:
        """Whether a row with this number is the first of a sentence."""
        has_changed = number != self._current
        self._current = number
        return has_changed

    def check(self, number: Any, line: int, alternative: str = "") -> None:
        """Reject a sentence whose number an earlier one has."""
        if number in self._seen:
            shown = ", ".join(map(str, number)) if isinstance(number, tuple) else number
            raise DataError(
                f"sentence {verbatim(shown)} goes on here, after rows of other sentences",
                line=line,
                hint=f"Put the rows of each sentence together{alternative}.",
                options=("sentence_column",),
            )
        self._seen.add(number)


def split_at_blanks(line: str) -> list[str]:
    """Fields between spaces and tabs; other white space, such as a no-break space, is part of a field.

    Examples
    --------
    >>> split_at_blanks(" 10\\u00a0000  CD")
    ['10\\xa0000', 'CD']
    """
    return [field for field in line.replace("\t", " ").split(" ") if field]


def split_plain(line: str, separator: str, most: int = 0) -> list[str]:
    """Cut a line at its first ``most`` separators or, if that is negative, at its last ones; 0 cuts at all."""
    return line.rsplit(separator, -most) if most < 0 else line.split(separator, most or -1)


class PlainRows:
    """Numbered rows of a table whose fields have no quotes, see :func:`split_plain`; a blank line is an empty row."""

    def __init__(self, lines: TextLines, separator: str, most: int = 0):
        self._lines, self.separator, self._most = lines, separator, most

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        try:
            content = next(self._lines).removesuffix("\n")
        except DataError as error:
            error.content = error.content and split_plain(error.content, self.separator, self._most)
            raise
        return self._lines.line, split_plain(content, self.separator, self._most) if content else []

    def has_verbatim(self, field: str) -> bool:
        """Whether a field of the current row is in the file as it is: always."""
        return True

    def is_cut(self, row: Sequence[str]) -> bool:
        """Whether the current row has a field in quotes that was cut at a separator."""
        return is_cut(row, self.separator.join(row), self.separator)

    def reread(self) -> None:
        """Do nothing: a row is one line."""


class QuotedRows:
    """Numbered rows of a table whose fields may be in quotes and then contain separators and newlines.

    The number of a row is that of its first line. After a row that cannot be read, the lines after its first one are
    read again, so that an unclosed quote costs one line.
    """

    def __init__(self, lines: TextLines, separator: str, dialect: Dialect = STANDARD):
        self._record = _RecordLines(lines)
        self._path, self.separator, self.dialect = lines.path, separator, dialect
        self._reader = dialect.reader(self._record, separator, strict=True)
        self._width = 0  # of the first row
        self._has_separators = False  # whether a field of the rows before contains one

    def __iter__(self) -> Self:
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
                line, text = self._record.lines[0]
                self._record.put_back(self._record.lines[1:], stop=self._record.stopped)
                is_plain = not self._has_separators and text.count(self.separator) + 1 == (self._width or 1)
                problem = _quoting_error(error, self._path, line, self.dialect, is_plain=is_plain)
                problem.content = self._split_damaged(text)
                raise problem from error
            except DataError as error:
                self._record.put_back(self._record.lines, stop=True)
                error.content = error.content and self._split_damaged(error.content)
                raise
            line, text = self._record.lines[0]
            self._width = self._width or len(row)
            self._has_separators |= len(self._record.lines) > 1 or text.count(self.separator) >= max(len(row), 1)
            return line, row

    def _split_damaged(self, line: str) -> list[str]:
        """The fields of a line with quotes that are not paired, or characters that CSV does not have."""
        line = line.removesuffix("\n")
        with suppress(csv.Error):
            return cast(list[str], next(self.dialect.reader([line], self.separator), []))
        return line.split(self.separator)

    def has_verbatim(self, field: str) -> bool:
        """Whether the lines of the current row contain a field as it is: quotes inside quotes are doubled."""
        return field in "".join(content for _, content in self._record.lines)

    def is_cut(self, row: Sequence[str]) -> bool:
        """Whether the current row has a field in other quotes that was cut at a separator."""
        return is_cut(row, "".join(content for _, content in self._record.lines), self.separator)

    def reread(self) -> None:
        """Read the lines of the current row, except its first, again as rows of their own."""
        self._record.put_back(self._record.lines[1:])


class _RecordLines:
    """The lines that the CSV parser reads: first those that were put back, then those of the file.

    ``lines`` are the numbered lines of the current record; ``stopped`` is true if it ends at a line that cannot be
    read.
    """

    def __init__(self, source: TextLines):
        self.lines: list[tuple[int, str]] = []
        self.stopped = False
        self._source = source
        self._waiting: deque[tuple[int, str] | None] = deque()
        self._ended = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if len(self.lines) > MAX_RECORD_LINES:
            raise csv.Error(f"a field of more than {MAX_RECORD_LINES} lines")
        if self._waiting:
            numbered = self._waiting.popleft()
            if numbered is None:
                self.stopped = True
                raise StopIteration
        else:
            try:
                content = next(self._source)
            except StopIteration:
                self._ended = True
                raise
            numbered = self._source.line, content
        self.lines.append(numbered)
        return numbered[1]

    def begin(self) -> None:
        """Begin a record."""
        self.lines, self.stopped = [], False

    def put_back(self, numbered: Sequence[tuple[int, str]], *, stop: bool = False) -> None:
        """Let lines be read again; with ``stop`` no record continues after the last of them."""
        if stop and numbered:
            self._waiting.appendleft(None)
        self._waiting.extendleft(reversed(numbered))

    def at_end(self) -> bool:
        return self._ended and not self._waiting


def _quoting_error(error: csv.Error, path: str, line: int, dialect: Dialect, *, is_plain: bool) -> DataError:
    """The error of a row; ``is_plain`` says whether it and those before can be read without quotes."""
    if "new-line character" in str(error):
        hint = "Delete it, or put the field in double quotes."
        return DataError("there is a carriage return inside the line", path=path, line=line, hint=hint)
    hint = "Close each quoted field, double each quote inside it, and delete blanks between quotes and separators"
    return DataError(
        f"the row that begins here has an unpaired {dialect.name.removesuffix('s')}",
        path=path,
        line=line,
        hint=hint + (", or use {quoted=False}." if is_plain else "."),
        options=("quoted",) if is_plain else (),
    )


def reject_blank_rows(rows: Iterator[tuple[int, Content]]) -> Iterator[tuple[int, Content] | DataError]:
    """Yield numbered rows, and errors in place of those that are unreadable or empty; ignore empty ones at the end."""
    blank: list[int] = []
    for row in iterate_with_errors(rows):
        if isinstance(row, DataError):
            yield row
        elif len(row[1]) == 0:
            blank.append(row[0])
        else:
            for line in blank:
                yield DataError("the line is blank", line=line, hint="Delete it, or complete it.")
            blank.clear()
            yield row


def inner_header_error(line: int | None = None, *, optional: bool) -> DataError:
    """The error of a line with the names of columns that is not the first of the table.

    ``optional`` says whether the reader has the option ``header``.
    """
    problem = "this is a header inside the table, as in files that were joined"
    hint = "Delete the line; files whose columns differ cannot be joined."
    if not optional:
        return DataError(problem, line=line, hint=hint)
    return DataError(problem, line=line, hint=f"{hint} If it is an example, set {{header=False}}.", options=("header",))


_UNQUOTED = "If double quotes enclose fields that contain line breaks, set {quoted=True}."


def reject_other_widths(
    rows: PlainRows | QuotedRows,
    width: int,
    *,
    expected: str,
    hint: str,
    too_many: str | None = None,
    more: bool = False,
    header: Sequence[str] = (),
    optional_header: bool = False,
) -> Iterator[tuple[int, list[str]] | DataError]:
    """Yield rows of ``width`` fields, or ``more``, and errors in place of others, blank lines and a second header.

    In a table of one column a blank line is an empty field.
    """

    def fill(numbered: tuple[int, list[str]]) -> tuple[int, list[str]]:
        return numbered[0], numbered[1] or [""]

    names = [name.strip() for name in header]
    is_open = False  # whether a field of the row before begins with a double quote that it does not close
    for row in reject_blank_rows(map(fill, rows) if width == 1 else rows):
        if isinstance(row, DataError):
            if is_open and row.content is None and not row.options:  # a blank line
                row.hint, row.options = _UNQUOTED, ("quoted",)
            yield row
            continue
        if width > 1 and names and row[1][-1].strip() in names and sorted(map(str.strip, row[1])) == sorted(names):
            error = inner_header_error(row[0], optional=optional_header)
            error.content = row[1]
            yield error
            continue
        opens = isinstance(rows, PlainRows) and any(field[:1] == '"' and field.count('"') % 2 for field in row[1])
        if len(row[1]) == width or (more and len(row[1]) > width):
            is_open = opens
            yield row
            continue
        is_open = is_open or opens
        count = "1 field" if len(row[1]) == 1 else f"{len(row[1])} fields"
        fix = hint if too_many is None or len(row[1]) < width else too_many
        options = ["columns"]
        if len(row[1]) > width and rows.is_cut(row[1]):
            if isinstance(rows, QuotedRows):
                fix = f"A text that contains the separator must be in {rows.dialect.name}, with no blank before them."
            elif len(rows.separator) == 1:
                fix = "A field that contains the separator must be in double quotes, and {quoted=True} be set."
                options.append("quoted")
        elif is_open:
            fix = _UNQUOTED
            options.append("quoted")
        error = DataError(f"{count}, {expected}", line=row[0], hint=fix, options=options)
        error.content = row[1]
        yield error
        rows.reread()
