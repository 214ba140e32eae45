"""The dialects of CSV: which sign encloses fields, and how it is written inside them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

MAX_MISTAKES = 2
"""Lines of a sample that may not fit its format; the reader reports the first of them."""


@dataclass(frozen=True)
class Dialect:
    """How fields of CSV are enclosed in quotes; quotes inside them are doubled.

    Parameters
    ----------
    quote : the sign before and after a field
    escapes : whether a backslash before a quote or a backslash says that it belongs to the field; other backslashes,
        as in ``C:\\temp``, are ordinary signs
    skips_blanks : whether blanks before a field do not belong to it
    """

    quote: str = '"'
    escapes: bool = False
    skips_blanks: bool = False

    def reader(self, lines: Iterable[str], separator: str, *, strict: bool = False) -> Any:
        """Return Python's reader of the lines; it continues after an error.

        Python's limit on the size of a field, which is global, is raised for good: restoring it would break another
        reader that runs at the same time.
        """
        csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
        return csv.reader(
            map(self._double_other_backslashes, lines) if self.escapes else lines,
            delimiter=separator,
            quotechar=self.quote,
            escapechar="\\" if self.escapes else None,
            skipinitialspace=self.skips_blanks,
            strict=strict,
        )

    def _double_other_backslashes(self, line: str) -> str:
        pattern = r'(\\[\\"])|\\' if self.quote == '"' else r"(\\[\\'])|\\"
        return re.sub(pattern, lambda found: found[1] or r"\\", line) if "\\" in line else line

    @property
    def name(self) -> str:
        """The quotes in words."""
        return "double quotes" if self.quote == '"' else "single quotes"

    def __str__(self) -> str:
        read = [f"fields in {self.name}"] if self.quote != '"' else []
        read += [f"\\{self.quote} inside a field as {self.quote}"] if self.escapes else []
        read += ["quotes after blanks, which are left out"] if self.skips_blanks else []
        return " and ".join(read)


STANDARD = Dialect()
_OTHERS = [
    Dialect(quote, escapes, skips_blanks)
    for quote in ('"', "'")
    for escapes in (False, True)
    for skips_blanks in (False, True)
][1:]
_NUMBER_OR_EMPTY = re.compile(r"[+-]?[\d.,]*")
_QUOTED_AFTER_BLANKS = re.compile(r' +".*" *', re.DOTALL)


def is_cut(row: Sequence[str], text: str, separator: str) -> bool:
    """Whether a row has a field in quotes that was cut at the separator inside; ``text`` are the lines of the row.

    Examples
    --------
    >>> is_cut(["pos", "'so good", " really'"], "pos,'so good, really'", ",")
    True
    """
    for quote in "\"'":
        first = next((at for at, field in enumerate(row) if _is_opened(field.strip(" "), quote)), len(row))
        last = next((at for at in range(first + 1, len(row)) if _is_closed(row[at].strip(" "), quote)), None)
        if last is not None and separator.join(row[first : last + 1]) in text:
            return True
    return False


def _is_opened(field: str, quote: str) -> bool:
    return field[:1] == quote and (len(field) == 1 or field[-1] != quote)


def _is_closed(field: str, quote: str) -> bool:
    return field[-1:] == quote and (len(field) == 1 or field[0] != quote)


def choose_dialect(lines: Sequence[str], separator: str, fits: Callable[[int], bool] | None = None) -> Dialect:
    """The dialect of the first lines of a table: the standard, unless another reads rows that the standard does not.

    Parameters
    ----------
    lines : with their line ends
    separator : the sign between two fields
    fits : whether a row may have a number of fields; None asks for as many as the first row has

    Examples
    --------
    >>> choose_dialect(["text,label\\n", "'So good, really',pos\\n"], ",").quote
    "'"
    >>> choose_dialect(["text,label\\n", "'Tis good,pos\\n"], ",") == STANDARD
    True
    """
    misfits = _count_misfits(STANDARD, lines, separator, fits, 2 * MAX_MISTAKES + 1)
    if separator in " \\'":
        return STANDARD
    if not misfits:
        single = Dialect("'")
        is_single = _are_all_in_single_quotes(lines, separator) and not _count_misfits(
            single, lines, separator, fits, 1
        )
        return single if is_single else STANDARD
    chosen, text = STANDARD, "".join(lines)
    for dialect in _OTHERS:
        if _is_shown(dialect, text, separator):
            count = _count_misfits(dialect, lines, separator, fits, MAX_MISTAKES + 1)
            if count <= MAX_MISTAKES and 2 * count < misfits and _has_evidence(dialect, lines, separator):
                chosen, misfits = dialect, count
    return chosen


def is_quoted(lines: Sequence[str], separator: str, dialect: Dialect) -> bool:
    """Whether quotes enclose nearly all values of a column, without those of the first row, which may be names.

    Examples
    --------
    >>> is_quoted(["text\\tlabel\\n", '"a film"\\t1\\n', '"so good"\\t0\\n'], "\\t", STANDARD)
    True
    """
    counts: Counter[int] = Counter()
    rows = [(row, text.removesuffix("\n")) for row, text in _read_rows(dialect, lines, separator) if row != []]
    for row, text in rows:
        cells, width = text.split(separator), len(row or ())
        for column in range(width):
            first, last = cells[column], cells[column - width]  # one cell, unless quotes enclose a separator
            if first != dialect.quote and first.startswith(dialect.quote) and last.endswith(dialect.quote):
                counts[column] += 1
    most = max(counts.values(), default=0)
    return 10 * most >= 9 * (len(rows) - 1) and 2 * most > len(rows)


def _are_all_in_single_quotes(lines: Sequence[str], separator: str) -> bool:
    """Whether all fields of all rows are, except for numbers."""
    rows = [row for row, _ in _read_rows(STANDARD, lines, separator) if row]
    return bool(rows) and all(
        any(map(_is_in_single_quotes, row))
        and all(_is_in_single_quotes(field) or _NUMBER_OR_EMPTY.fullmatch(field) for field in row)
        for row in rows
    )


def _is_in_single_quotes(field: str) -> bool:
    return len(field) > 1 and field[0] == field[-1] == "'"


def _is_shown(dialect: Dialect, text: str, separator: str) -> bool:
    """Whether a text has the signs of a dialect that others do not have."""
    first = rf"(?:^|{re.escape(separator)}){' *' if dialect.skips_blanks else ''}{dialect.quote}"
    return (
        re.search(first, text, re.MULTILINE) is not None
        and (not dialect.escapes or "\\" + dialect.quote in text)
        and (not dialect.skips_blanks or re.search(first.replace(" *", " +"), text, re.MULTILINE) is not None)
    )


def _has_evidence(dialect: Dialect, lines: Sequence[str], separator: str) -> bool:
    """Whether fields in single quotes have separators, or quotes that are doubled or escaped, or all fields have them.

    An apostrophe may begin a text, and another one may end a later text.
    """
    if dialect.quote == '"':
        return True
    rows = [(row, text) for row, text in _read_rows(dialect, lines, separator) if row]
    inner = "\\'" if dialect.escapes else "''"
    return any(
        "\n" not in field and (separator in field or ("'" in field and "'" + field.replace("'", inner) + "'" in text))
        for row, text in rows
        for field in row
    ) or all(text.count("'") >= 2 * len(row) and text.strip()[0] == text.strip()[-1] == "'" for row, text in rows)


def _count_misfits(
    dialect: Dialect, lines: Sequence[str], separator: str, fits: Callable[[int], bool] | None, most: int
) -> int:
    """The number of rows that a dialect cannot read, that have another width, or quotes that are left over."""
    width = 0

    def is_misfit(row: list[str] | None, text: str) -> bool:
        nonlocal width
        if row is None:
            return True
        width = width or len(row)
        if not (len(row) == width if fits is None else fits(len(row))) or is_cut(row, text, separator):
            return True
        if dialect != STANDARD and not dialect.escapes and any("\\" + dialect.quote in field for field in row):
            return True
        return any(
            field[:1] == " " and _QUOTED_AFTER_BLANKS.fullmatch(field) is not None and field in text for field in row
        )

    rows = _read_rows(dialect, lines, separator)
    return sum(1 for _ in islice((1 for row, text in rows if row != [] and is_misfit(row, text)), most))


def _read_rows(dialect: Dialect, lines: Sequence[str], separator: str) -> Iterator[tuple[list[str] | None, str]]:
    """Rows, None for one that cannot be read, and their lines; an unclosed quote costs one line."""
    start = 0
    while start < len(lines):
        reader = dialect.reader(islice(lines, start, None), separator, strict=True)
        try:
            row, count = next(reader), reader.line_num
        except csv.Error:
            row, count = None, 1
        yield row, "".join(lines[start : start + count])
        start += count
