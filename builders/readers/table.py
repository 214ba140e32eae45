"""Read tables whose columns have names: CSV, TSV and JSON Lines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graphattn.builders.files import FilePath, open_text, split_suffix
from graphattn.builders.readers.json_fields import json_label, json_object, json_text
from graphattn.builders.readers.labels import check_label_separator, parse_label
from graphattn.builders.readers.rows import PlainRows, QuotedRows, equal_rows, refuse_blank_rows
from graphattn.builders.readers.skipping import Skip, map_with_errors
from graphattn.builders.sentence import Example, Label
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_OTHER_DELIMITERS = (";", "\t", "|", ",")
"""What a header that reads as one column may be meant to be split by."""
_EXTENSIONS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class _Columns(NamedTuple):
    text: str
    second: str | None
    label: str | None
    label_separator: str | None

    def roles(self) -> dict[str, str]:
        """The columns that are wanted, by what they are wanted for."""
        named = {"text": self.text, "second": self.second, "label": self.label}
        return {role: name for role, name in named.items() if name is not None}


def read_table(
    path: FilePath,
    *,
    text: str = "text",
    second: str | None = None,
    label: str | None = "label",
    format: str | None = None,
    label_separator: str | None = None,
    delimiter: str | None = None,
    quoted: bool | None = None,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read examples from a table with named columns, one at a time.

    Parameters
    ----------
    path : the table, plain or compressed, or ``"-"`` for standard input
    text : name of the column that holds the text
    second : name of the column that holds the other text of a pair
    label : name of the column that holds the label; None reads texts alone
    format : ``"csv"``, ``"tsv"`` or ``"jsonl"``; None goes by the extension
    label_separator : what stands between several labels of one example; a JSON list needs none
    delimiter : what stands between two fields, a comma (csv) or a tab (tsv) when None
    quoted : whether double quotes may enclose a field; None means yes for csv, and for tsv, where NLP corpora
        use the quote as an ordinary character, only if the whole header stands in quotes
    skip : is handed the error of each row that is left out; None stops at the first

    Returns
    -------
    An iterator over the rows as :class:`~graphattn.builders.sentence.Example`; numeric labels become their text.

    Raises
    ------
    ConfigError
        when the format is unknown, the delimiter cannot be one, or ``label_separator`` is empty
    DataError
        when a column is missing (the message lists those present), or a row is broken; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text('sentence,class\\n"Good, very good",1\\n')
    >>> list(read_table(path, text="sentence", label="class"))
    [Example(text='Good, very good', second=None, label='1')]
    """
    kind = format or _EXTENSIONS.get(split_suffix(path)[0], "")
    check_label_separator(label_separator)
    columns = _Columns(text, second, label, label_separator)
    if kind == "jsonl":
        if delimiter is not None or quoted is not None:
            raise ConfigError("JSON Lines have no delimiter and no quoting. Leave delimiter and quoted out.")
        return _read_json_lines(path, columns, skip)
    if kind not in _DELIMITERS:
        raise ConfigError(
            f"format is {format!r} and the extension of {path!s} names none. Set format to 'csv', 'tsv' or 'jsonl'."
        )
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ConfigError(f"delimiter is {delimiter!r}. Set it to one character, neither a quote nor a line end.")
    quoted = True if quoted is None and kind == "csv" else quoted
    return _read_delimited(path, columns, delimiter or _DELIMITERS[kind], skip, quoted=quoted)


def _read_delimited(
    path: FilePath, columns: _Columns, delimiter: str, skip: Skip | None, *, quoted: bool | None
) -> Iterator[Example]:
    with open_text(path) as lines:
        rows = QuotedRows(lines, delimiter) if quoted else PlainRows(lines, delimiter)
        _, header = next(rows, (1, []))
        names = [name.strip() for name in header]
        if quoted is None and names and all(map(_in_quotes, names)):
            names, rows = [name[1:-1] for name in names], QuotedRows(lines, delimiter)
        place = _positions(names, columns, lines.path)
        full = equal_rows(
            rows,
            len(names),
            lines.path,
            expected=f"the header names {len(names)}",
            hint=f"A text that holds {'a tab' if delimiter == chr(9) else repr(delimiter)} must "
            + ("stand in double quotes." if quoted else "not stand in this table."),
            skip=skip,
        )

        looked_for = quoted is None and isinstance(rows, PlainRows)

        def example(numbered: tuple[int, list[str]]) -> Example:
            nonlocal looked_for
            line, row = numbered
            if looked_for and _as_csv_quotes(row[place["text"]]):
                looked_for = False
                warnings.warn(
                    f"{lines.path}, line {line}: the text stands in double quotes, which are read as a part of it; "
                    "quoted=True (--quoted) takes them off, quoted=False (--no-quoted) keeps them without a word",
                    GraphAttnWarning,
                    stacklevel=2,
                )
            return Example(
                row[place["text"]],
                row[place["second"]] if "second" in place else None,
                parse_label(row[place["label"]], columns.label_separator, path=lines.path, line=line)
                if "label" in place
                else None,
            )

        yield from map_with_errors(full, example, skip)


def _in_quotes(name: str) -> bool:
    return len(name) > 1 and name[0] == name[-1] == '"'


def _as_csv_quotes(text: str) -> bool:
    """Whether a text looks as if a writer of tables had put it into quotes because it holds some."""
    return text[:1] == '"' and _in_quotes(text) and '""' in text[1:-1] and '"' not in text[1:-1].replace('""', "")


def _positions(names: list[str], columns: _Columns, path: str) -> dict[str, int]:
    for role, name in columns.roles().items():
        if name not in names:
            raise _missing_column(role, name, names, path, 1, header=True)
        if names.count(name) > 1:
            raise DataError(f"{names.count(name)} columns are named {name!r}", path=path, line=1, hint="Rename one.")
    return {role: names.index(name) for role, name in columns.roles().items()}


def _missing_column(role: str, name: str, present: Sequence[str], path: str, line: int, *, header: bool) -> DataError:
    listed = ", ".join(repr(column if len(column) <= 40 else column[:37] + "...") for column in present) or "none"
    unlabelled = ", or to None to read texts alone" if role == "label" else ""
    headless = "; if the first line is no header, set columns to what each field holds" if header else ""
    alone = present[0] if header and len(present) == 1 else ""
    between = next((sign for sign in _OTHER_DELIMITERS if sign in alone), None)
    if between is not None:
        return DataError(
            f"there is no column {name!r}, only one that is called {listed}",
            path=path,
            line=line,
            hint=f"Set delimiter to {between!r} if that stands between two fields.",
        )
    return DataError(
        f"there is no column {name!r}; the columns are {listed}",
        path=path,
        line=line,
        hint=f"Set {role} to one of them{unlabelled}{headless}.",
    )


def _read_json_lines(path: FilePath, columns: _Columns, skip: Skip | None) -> Iterator[Example]:
    with open_text(path) as lines:
        name = lines.path

        def example(numbered: tuple[int, str]) -> Example:
            line, content = numbered
            record = json_object(content, name, line)
            for role, column in columns.roles().items():
                if column not in record:
                    raise _missing_column(role, column, list(record), name, line, header=False)
            return Example(
                json_text(record[columns.text], columns.text, name, line),
                None if columns.second is None else json_text(record[columns.second], columns.second, name, line),
                None if columns.label is None else label_of(record[columns.label], line),
            )

        def label_of(value: object, line: int) -> Label:
            field, separator = columns.label or "", columns.label_separator
            return json_label(value, separator, field, name, line, lacking="set label to None to read texts alone")

        def stripped(text: str) -> tuple[int, str]:
            return lines.line, text.strip()

        yield from map_with_errors(refuse_blank_rows(map(stripped, lines), name, skip), example, skip)
