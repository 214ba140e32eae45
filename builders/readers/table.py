"""Read tables of texts and labels: CSV, TSV and JSON Lines with named columns, and lines without a header."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from graphattn.builders.files import BLANKS, FilePath, TextLines, open_text, split_suffix
from graphattn.builders.readers.fields import check_label_separator, json_label, json_text, parse_label, parse_object
from graphattn.builders.readers.prodigy import LeftOut
from graphattn.builders.readers.rows import (
    PlainRows,
    QuotedRows,
    Skip,
    map_with_errors,
    reject_blank_rows,
    rows_of_width,
)
from graphattn.builders.readers.samples import SAMPLE_LINES, is_header, sample_rows
from graphattn.builders.sentence import Example, Label, TableRow
from graphattn.builders.spelling import compose
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_LIKELY_DELIMITERS = (";", "\t", "|", ",")
"""Delimiters to suggest when the header reads as one column."""
_EXTENSIONS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_ROLES = ("label", "text", "second")


class _Columns(NamedTuple):
    text: str
    second: str | None
    label: str | None
    label_separator: str | None
    multilabel: bool
    require_label: bool

    def by_role(self) -> dict[str, str]:
        """Role -> column, for the columns to read."""
        columns = {"text": self.text, "second": self.second, "label": self.label}
        return {role: name for role, name in columns.items() if name is not None}

    def without_label(self, names: Collection[str]) -> _Columns:
        """These columns, without the label if it is ``none`` and no column."""
        is_none = self.label is not None and self.label.lower() == "none" and self.label not in names
        return self._replace(label=None) if is_none else self


def read_table(
    path: FilePath,
    *,
    text: str = "text",
    second: str | None = None,
    label: str | None = "label",
    format: str | None = None,
    label_separator: str | None = None,
    multilabel: bool = False,
    delimiter: str | None = None,
    quoted: bool | None = None,
    require_label: bool = True,
    keep_rows: bool = False,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read examples from a table with named columns, one at a time.

    Parameters
    ----------
    path : the table, plain or compressed, or ``"-"`` for standard input
    text : column of the text, its name in any Unicode form
    second : column of the other text of a pair
    label : column of the label; None reads texts alone, and so does ``"none"`` unless a column has this name
    format : ``"csv"``, ``"tsv"`` or ``"jsonl"``; None goes by the extension. Of JSON Lines with labels, those with the
        ``answer`` ``reject`` or ``ignore``, as Prodigy writes it, are left out and counted
    label_separator : the characters between several labels of one example; a JSON list needs none
    multilabel : read labels such as ``['joy', 'love']`` or ``{"choices": [...]}`` as several, as a separator does, too
    delimiter : the character between two fields, by default a comma (csv) or a tab (tsv)
    quoted : whether double quotes may enclose a field; None means yes for csv. TSV corpora use the quote as an
        ordinary character, so for tsv None means yes only if the whole header is quoted
    require_label : reject rows with an empty label; otherwise their label is None
    keep_rows : give each example all fields of its row, as :class:`~graphattn.builders.sentence.TableRow` (csv, tsv)
    skip : receives the error of each row that is left out; None raises the first

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
    names = (compose(text), second and compose(second), label and compose(label))
    columns = _Columns(*names, label_separator, multilabel, require_label)
    if kind == "jsonl":
        return _read_json_lines(path, columns, skip)
    if kind not in _DELIMITERS:
        raise ConfigError(
            f"{{format}} is {format!r} and the extension of {path!s} names none. Set it to 'csv', 'tsv' or 'jsonl'",
            options=("format",),
        )
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ConfigError(
            f"{{delimiter}} is {delimiter!r}. Set it to one character, neither a quote nor a line end",
            options=("delimiter",),
        )
    quoted = True if quoted is None and kind == "csv" else quoted
    return _read_delimited(path, columns, delimiter or _DELIMITERS[kind], skip, quoted=quoted, keep_rows=keep_rows)


def _read_delimited(
    path: FilePath, columns: _Columns, delimiter: str, skip: Skip | None, *, quoted: bool | None, keep_rows: bool
) -> Iterator[Example]:
    with open_text(path) as lines:
        names, rows = _read_header(lines, delimiter, quoted=quoted)
        tab_or_delimiter = "a tab" if delimiter == "\t" else repr(delimiter)
        filled = rows_of_width(
            rows,
            len(names),
            lines.path,
            expected=f"the header names {len(names)}",
            hint=f"A text that contains {tab_or_delimiter} must "
            + ("be in double quotes." if quoted else "not be in this table."),
            skip=skip,
        )
        index = _column_indices(names, columns.without_label(names), lines.path)
        if quoted is None and isinstance(rows, PlainRows):
            filled = _warn_of_quotes(filled, index["text"], lines.path)
        parse = _row_parser(
            index,
            columns.label_separator,
            lines.path,
            multilabel=columns.multilabel,
            require_label=columns.require_label,
        )
        if keep_rows:
            parse = _keep_row(parse, names, quoted=isinstance(rows, QuotedRows))
        yield from map_with_errors(filled, parse, skip)


def _read_header(lines: TextLines, delimiter: str, *, quoted: bool | None) -> tuple[list[str], PlainRows | QuotedRows]:
    """Names of the columns and the rows after them; ``quoted=None`` asks whether all names are quoted."""
    rows: PlainRows | QuotedRows = QuotedRows(lines, delimiter) if quoted else PlainRows(lines, delimiter)
    _, header = next(rows, (1, []))
    names = [compose(name.strip()) for name in header]
    if quoted is None and names and all(map(_is_quoted, names)):
        return [name[1:-1].replace('""', '"') for name in names], QuotedRows(lines, delimiter)
    return names, rows


_Parse = Callable[[tuple[int, list[str]]], Example]


def _keep_row(parse: _Parse, names: Sequence[str], *, quoted: bool) -> _Parse:
    """A function from a numbered row to its example with all fields."""
    kept = tuple(names)

    def parse_and_keep(numbered: tuple[int, list[str]]) -> Example:
        example = parse(numbered)
        return TableRow(example.text, example.second, example.label, kept, tuple(numbered[1]), quoted)

    return parse_and_keep


def _row_parser(
    index: Mapping[str, int], label_separator: str | None, path: str, *, multilabel: bool, require_label: bool
) -> _Parse:
    """A function from a numbered row to its example; ``index`` is role -> field."""
    text, second, label = index["text"], index.get("second"), index.get("label")

    def parse(numbered: tuple[int, list[str]]) -> Example:
        line, row = numbered
        return Example(
            row[text],
            None if second is None else row[second],
            None
            if label is None or not (require_label or row[label].strip())
            else parse_label(row[label], label_separator, path, line, multilabel=multilabel),
        )

    return parse


def _is_quoted(name: str) -> bool:
    return len(name) > 1 and name[0] == name[-1] == '"'


def _is_csv_quoted(text: str) -> bool:
    """Whether a text is quoted as CSV writers do it: because it contains quotes, which are doubled."""
    return text[:1] == '"' and _is_quoted(text) and '""' in text[1:-1] and '"' not in text[1:-1].replace('""', "")


def _warn_of_quotes(rows: Iterator[tuple[int, list[str]]], text: int, path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows; warn of the first whose text looks quoted."""
    for line, row in rows:
        looks_quoted = _is_csv_quoted(row[text])
        if looks_quoted:
            warnings.warn(
                f"{path}, line {line}: the text is in double quotes, which are read as part of it; quoted=True "
                "(--quoted) removes them, quoted=False (--no-quoted) silences this warning",
                GraphAttnWarning,
                stacklevel=3,
            )
        yield line, row
        if looks_quoted:
            break
    yield from rows


def _column_indices(names: list[str], columns: _Columns, path: str) -> dict[str, int]:
    for role, name in columns.by_role().items():
        if name not in names:
            raise _missing_column_error(role, name, names, path, 1, has_header=True)
        if names.count(name) > 1:
            raise DataError(f"{names.count(name)} columns are named {name!r}", path=path, line=1, hint="Rename one.")
    return {role: names.index(name) for role, name in columns.by_role().items()}


def _missing_column_error(
    role: str, name: str, present: Sequence[str], path: str, line: int, *, has_header: bool
) -> DataError:
    known = ", ".join(repr(column if len(column) <= 40 else column[:37] + "...") for column in present) or "none"
    only = present[0] if has_header and len(present) == 1 else ""
    delimiter = next((sign for sign in _LIKELY_DELIMITERS if sign in only), None)
    if delimiter is not None:
        return DataError(
            f"there is no column {name!r}, only {known}",
            path=path,
            line=line,
            hint=f"Set {{delimiter}} to {delimiter!r} if that separates the fields.",
            options=("delimiter",),
        )
    no_header = "; if the first line is no header, set {columns}" if has_header else ""
    return DataError(
        f"there is no column {name!r}; the columns are {known}",
        path=path,
        line=line,
        hint=f"Set {{{role}}} to one of them{no_header}.",
        alternative=_NO_LABELS if role == "label" else None,
        options=(role, "label", "columns"),
    )


_NO_LABELS = "For texts without labels, set {label} to None."


def _read_json_lines(path: FilePath, columns: _Columns, skip: Skip | None) -> Iterator[Example]:
    with open_text(path) as lines:
        name = lines.path
        left_out = LeftOut(name)
        has_answers = columns.label is not None and "answer" not in columns.by_role().values()

        def example(numbered: tuple[int, str]) -> Example | None:
            line, content = numbered
            record = parse_object(content, name, line)
            if has_answers and left_out.rejects(record):
                return None
            wanted = columns.without_label(record)
            if not record.keys() >= {*wanted.by_role().values()}:
                record = {compose(key): value for key, value in record.items()}
                wanted = columns.without_label(record)
            for role, column in wanted.by_role().items():
                if column not in record:
                    raise _missing_column_error(role, column, list(record), name, line, has_header=False)
            return Example(
                json_text(record[columns.text], columns.text, name, line),
                None if columns.second is None else json_text(record[columns.second], columns.second, name, line),
                None if wanted.label is None else label_of(record[wanted.label], wanted.label, line),
            )

        def label_of(value: object, column: str, line: int) -> Label | None:
            if not columns.require_label and (value is None or (isinstance(value, str) and not value.strip())):
                return None
            separator, several = columns.label_separator, columns.multilabel
            return json_label(value, separator, column, name, line, multilabel=several, alternative=_NO_LABELS)

        def strip(text: str) -> tuple[int, str]:
            return lines.line, text.strip(BLANKS)

        yield from filter(None, map_with_errors(reject_blank_rows(map(strip, lines), name, skip), example, skip))
        left_out.report()


def read_labelled_lines(
    path: FilePath,
    *,
    columns: str | Sequence[str | None] = ("label", "text"),
    separator: str | None = None,
    label_separator: str | None = None,
    multilabel: bool = False,
    header: bool | None = None,
    require_label: bool = True,
    keep_rows: bool = False,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read examples from lines of a fixed number of fields, one at a time.

    Parameters
    ----------
    path : the corpus, plain or compressed, or ``"-"`` for standard input
    columns : what each field holds: ``"text"``, ``"second"`` (of a pair), ``"label"``, or None for a field to skip;
        ``"text"`` reads one text per line
    separator : the characters between two fields, without quotes; None means a tab, and in a file named ``.csv`` a
        comma with CSV's double quotes
    label_separator : the characters between several labels of one example
    multilabel : read labels such as ``['joy', 'love']`` as several, as a separator does, too
    header : whether the first line names the columns and is no example; None decides by the lines, see
        :func:`~graphattn.builders.readers.samples.is_header`, and a hint says so
    require_label : reject lines with an empty label; otherwise their label is None
    keep_rows : give each example all fields of its line, as :class:`~graphattn.builders.sentence.TableRow`
    skip : receives the error of each line that is left out; None raises the first

    Returns
    -------
    An iterator over the lines as :class:`~graphattn.builders.sentence.Example`; an empty text is kept.

    Raises
    ------
    ConfigError
        when ``columns`` names no text, a role twice, or an unknown one, or a separator is empty
    DataError
        when a line has another number of fields or an empty label; it names the line

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tsv"
    >>> _ = path.write_text("pos\\t9\\ta fine film\\n")
    >>> list(read_labelled_lines(path, columns=("label", None, "text")))
    [Example(text='a fine film', second=None, label='pos')]
    """
    roles = (columns,) if isinstance(columns, str) else tuple(columns)
    _check_roles(roles)
    if separator == "":
        raise ConfigError(
            "{separator} is empty. Set it to the characters between two fields, a tab for example",
            options=("separator",),
        )
    check_label_separator(label_separator)
    quoted = separator is None and split_suffix(path)[0] == ".csv"

    def read() -> Iterator[Example]:
        index = {role: position for position, role in enumerate(roles) if role is not None}
        with open_text(path) as lines:
            ahead = [f"{line}\n" for line in lines.sample(lines.sampled or SAMPLE_LINES)]
            delimiter = separator or ("," if quoted else "\t")
            rows = QuotedRows(lines, delimiter) if quoted else PlainRows(lines, delimiter)
            if _has_header(sample_rows(ahead, delimiter, quoted=quoted), len(roles), header, lines.path):
                next(rows)
            filled = rows_of_width(
                rows,
                len(roles),
                lines.path,
                expected=f"{len(roles)} expected ({', '.join(role or 'skipped' for role in roles)})",
                hint="Complete the line, or set {columns} to what each field holds, None to skip one.",
                skip=skip,
            )
            parse = _row_parser(index, label_separator, lines.path, multilabel=multilabel, require_label=require_label)
            if keep_rows:
                names = [role or f"column {number}" for number, role in enumerate(roles, start=1)]
                parse = _keep_row(parse, names, quoted=quoted)
            yield from map_with_errors(filled, parse, skip)

    return read()


def _has_header(ahead: list[list[str]], width: int, header: bool | None, path: str) -> bool:
    """Whether the first line names columns: as ``header`` says, or as the first lines show."""
    rows = [row for row in ahead if len(row) == width]
    if header is not None or not rows or rows[0] is not ahead[0] or not is_header(rows):
        return bool(header)
    names = ", ".join(name.strip().strip('"') for name in rows[0])
    warnings.warn(
        Hint(f"{path}: read {names!r} as a header; {{header=False}} keeps it", options=("header",)), stacklevel=4
    )
    return True


def _check_roles(roles: tuple[str | None, ...]) -> None:
    for role in roles:
        if role is not None and (role not in _ROLES or roles.count(role) > 1):
            problem = "twice" if role in _ROLES else "which is not a role"
            raise ConfigError(
                f"{{columns}} {roles} names {role!r} {problem}. Use 'text', 'second' and 'label' once each, None to "
                "skip a field",
                options=("columns",),
            )
    if "text" not in roles:
        raise ConfigError(f"{{columns}} {roles} has no 'text'. Say which field holds the text", options=("columns",))
