"""Write Markdown tables, and .csv and .tsv files in the dialect of our readers, which pandas reads, too.

Lines end in a newline. In a .csv file the fields that need it are in double quotes. In a .tsv file all fields are, with
the header, by which a reader sees it, or none is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphattn.exceptions import DataError

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SPECIAL = {
    ".csv": re.compile('[",\r\n]|^[\\s\ufeff]|\\s$'),
    ".tsv": re.compile("[\t\r\n]|^\ufeff"),
}
_NEEDS_QUOTES = re.compile('[\t\r\n]|^["\ufeff]')
"""What a .tsv file has quotes for; other readers than ours take a quote at the start of a field for one of CSV."""
_TEXTS = ("text", "second", "words")


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
    return _SEPARATORS[suffix].join(written) + "\n"


def _spell(cell: object) -> str:
    if cell is None:
        return ""
    return json.dumps(cell, ensure_ascii=False) if isinstance(cell, (list, tuple, dict)) else str(cell)


@dataclass(frozen=True)
class PredictionTable:
    """A table of inputs and predictions: columns of the input, those added, and whether all fields are in quotes."""

    columns: tuple[str, ...]
    added: tuple[str, ...]
    suffix: str
    quoted: bool

    @classmethod
    def of(cls, content: Any, row: Mapping[str, Any], suffix: str) -> PredictionTable:
        """The table for inputs like this one, and rows of JSON like this one."""
        from graphattn.builders._sentence import TableRow

        is_plain = isinstance(content, str) or (isinstance(content, TableRow) and not content.quoted)
        columns, _ = _split_input(content)
        return cls(tuple(columns), tuple(_split_prediction(row)), suffix, suffix == ".tsv" and not is_plain)

    def header(self) -> str:
        """The first line; a prediction has another name than all columns of the input."""
        added = (name if name not in self.columns else f"{name} (new)" for name in self.added)
        return self._format([*self.columns, *added])

    def line(self, content: Any, row: Mapping[str, Any] | None) -> str:
        """The line of an input, which is None if it cannot be read, and its prediction, None if there is none."""
        _, cells = ((), [None] * len(self.columns)) if content is None else _split_input(content)
        prediction = {} if row is None else _split_prediction(row)
        return self._format([*cells, *map(prediction.get, self.added)])

    def line_without_prediction(self, content: Any) -> str:
        """The line of an input that cannot be predicted; without its fields if they cannot be written."""
        try:
            return self.line(content, None)
        except DataError:
            return self.line(None, None)

    def _format(self, cells: Iterable[object]) -> str:
        return format_row(cells, self.suffix, quoted=self.quoted)


def _split_input(content: Any) -> tuple[Sequence[str], Sequence[object]]:
    """The columns and fields of an input."""
    from graphattn.builders._sentence import TableRow
    from graphattn.models._estimators.inputs import input_fields

    if isinstance(content, TableRow):
        return content.names, content.cells
    fields = input_fields(content)
    names = ["text" if name == "words" else name for name in fields]
    return names, [value if isinstance(value, str) else " ".join(value) for value in fields.values()]


def _split_prediction(row: Mapping[str, Any]) -> dict[str, Any]:
    """Column -> field of a prediction."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if name in ("label", "labels", "value"):
            cells["predicted"] = value
        elif name == "outputs":
            cells |= {"predicted": value[0]["text"], "score": value[0]["score"]}
        elif name == "probabilities":
            cells |= {f"p({label})": share for label, share in value.items()}
        elif name not in _TEXTS:
            cells[name] = value
    return cells
