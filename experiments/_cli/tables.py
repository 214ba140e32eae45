"""Write Markdown tables, and .csv and .tsv files in the dialect of our readers, which pandas reads, too.

Lines end in a newline. In a .csv file the fields that need it are in double quotes. In a .tsv file all fields are, with
the header, by which a reader sees it, or none is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from graphattn.exceptions import DataError

SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SPECIAL = {
    ".csv": re.compile('[",\r\n]|^[\\s\ufeff]|\\s$'),
    ".tsv": re.compile("[\t\r\n]|^\ufeff"),
}
_NEEDS_QUOTES = re.compile('[\t\r\n]|^["\ufeff]')
"""What a .tsv file has quotes for; other readers than ours take a quote at the start of a field for one of CSV."""


def format_table(rows: Sequence[Sequence[object]], suffix: str) -> str:
    """All rows of a table, the header first; a .tsv file has quotes if some field needs them."""
    quoted = suffix == ".tsv" and any(_NEEDS_QUOTES.search(_spell(cell)) for row in rows for cell in row)
    return "".join(format_row(row, suffix, quoted=quoted) for row in rows)


def format_markdown(rows: Sequence[Sequence[str]]) -> str:
    """All rows of a Markdown table, the header first.

    Examples
    --------
    >>> print(format_markdown([["who", "ms"], ["ours", "1.5"]]))
    | who | ms |
    |---|---|
    | ours | 1.5 |
    """
    header, *lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([header, "|" + "---|" * len(rows[0]), *lines])


def format_row(cells: Iterable[object], suffix: str, *, quoted: bool = False) -> str:
    """A row of a table; with ``quoted`` all fields are in quotes.

    Examples
    --------
    >>> format_row(["a, b", 0.5, None, ["x", "y"]], ".csv")
    '"a, b",0.5,,"[""x"", ""y""]"\\n'
    """
    written = []
    for field in map(_spell, cells):
        special = quoted or _SPECIAL[suffix].search(field) is not None
        if "\0" in field or (special and suffix == ".tsv" and not quoted):
            raise DataError(f"{field[:40]!r} cannot be a field of a {suffix} file", hint="Write .jsonl instead.")
        written.append('"' + field.replace('"', '""') + '"' if special else field)
    return SEPARATORS[suffix].join(written) + "\n"


def can_be_field(cell: object, suffix: str, *, quoted: bool = False) -> bool:
    """Whether :func:`format_row` can write a field."""
    try:
        format_row([cell], suffix, quoted=quoted)
    except DataError:
        return False
    return True


def _spell(cell: object) -> str:
    if cell is None:
        return ""
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, (list, tuple, dict)) else str(cell)
