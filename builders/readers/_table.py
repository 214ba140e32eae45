"""Read tables of texts and labels: CSV, TSV and JSON Lines with named columns, and lines without a header."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from graphattn.builders._paths import FilePath, display_name
from graphattn.builders._sentence import Example, Label, Sentence, TableRow
from graphattn.builders._spelling import compose
from graphattn.builders._text_lines import TextLines, open_text, split_suffix
from graphattn.builders.readers._cells import (
    CellColumn,
    find_cell,
    make_missing_column_error,
    parse_cell_columns,
    read_cells,
    reject_roles,
)
from graphattn.builders.readers._dialects import STANDARD, Dialect, choose_dialect, is_quoted
from graphattn.builders.readers._fields import (
    MISSING,
    LeftOutRecords,
    check_label_separator,
    find_field,
    join_texts,
    json_label,
    json_text,
    list_field_names,
    make_record_row,
    match_name,
    parse_label,
    parse_object,
    read_record_row,
    select_flagged_labels,
    split_pair,
)
from graphattn.builders.readers._rows import (
    KeepRow,
    PlainRows,
    QuotedRows,
    Skip,
    inner_header_error,
    parse_lines,
    parse_rows,
    reject_other_widths,
)
from graphattn.builders.readers._samples import (
    EXCEL_DELIMITER,
    LABEL_HEADERS,
    MORE,
    SAMPLE_LINES,
    clean_name,
    count_splits,
    find_csv_delimiter,
    find_name_delimiter,
    is_header,
    is_inner_header,
    split_rows,
)
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint, verbatim, warn_caller

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_EXTENSIONS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_ROLES = ("label", "text", "second")


class _TableColumns(NamedTuple):
    """Names of the columns of each role, none if it has none; and how to split their values."""

    text: tuple[str, ...]
    second: tuple[str, ...]
    label: tuple[str, ...]
    label_separator: str | None = None
    multilabel: bool = False
    require_label: bool = True
    text_separator: str | None = None
    cells: tuple[CellColumn, ...] = ()

    def by_role(self) -> dict[str, tuple[str, ...]]:
        """Role -> columns."""
        return {role: getattr(self, role) for role in ("text", "second", "label")}

    def drop_absent_label(self, names: Collection[str]) -> _TableColumns:
        """These columns, without the label if it is ``none`` and no column."""
        is_none = len(self.label) == 1 and self.label[0].lower() == "none" and self.label[0] not in names
        return self._replace(label=()) if is_none else self


def _list_names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    return tuple(map(compose, (columns,) if isinstance(columns, str) else columns or ()))


def read_table(
    path: FilePath,
    *,
    text: str | Sequence[str] = "text",
    second: str | Sequence[str] | None = None,
    label: str | Sequence[str] | None = "label",
    format: str | None = None,
    label_separator: str | None = None,
    multilabel: bool = False,
    text_separator: str | None = None,
    feature_columns: Sequence[str] = (),
    delimiter: str | None = None,
    quoted: bool | None = None,
    require_label: bool = True,
    keep_row: KeepRow | None = None,
    skip: Skip | None = None,
) -> Iterator[Example | Sentence]:
    """Read examples from a table with named columns, one at a time; numeric labels become their text.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    text : column of the text, its name in any Unicode form; upper and lower case matter only if several columns differ
        in nothing else; several columns are joined by a blank. In JSON Lines,
        ``"translation.en"`` is the field ``en`` of the object ``translation``, and a list of words is a
        :class:`~graphattn.builders._sentence.Sentence`
    second : column of the other text of a pair
    label : column of the label; several columns of 0 and 1 give the names of those with 1; None reads texts alone, and
        so does ``"none"`` unless a column has this name
    format : ``"csv"``, ``"tsv"`` or ``"jsonl"``; None goes by the extension. Of JSON Lines with labels, those with the
        ``answer`` ``reject`` or ``ignore``, as Prodigy writes it, are left out and counted
    label_separator : the characters between several labels of one example; a JSON list needs none
    multilabel : read labels such as ``['joy', 'love']`` or ``{"choices": [...]}`` as several, as a separator does, too
    text_separator : the characters between the two texts of a pair in the column of the text
    feature_columns : further columns, which become the ``cells`` of examples: ``"priority:category"`` has names,
        ``"amount:number"`` finite numbers, an empty cell is None; ``"amount=sum:number"`` renames a column
    delimiter : the character between two fields, by default a comma (csv) or a tab (tsv); a first line ``sep=;``, as
        Excel writes it, changes it
    quoted : whether double quotes may enclose a field; None means yes for csv. TSV corpora use the quote as an
        ordinary character, so for tsv None means yes only if the whole header or nearly all values of a column are
        quoted. If the first lines can be read in no other way, fields may also be in single quotes, have a backslash
        before quotes, or blanks before them
    require_label : reject rows with an empty label; otherwise their label is None
    keep_row : receives all fields of the row of each example before the example is yielded

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text('sentence,class\\n"Good, very good",1\\n')
    >>> list(read_table(path, text="sentence", label="class"))
    [Example(text='Good, very good', second=None, label='1')]
    """
    name = format or _EXTENSIONS.get(split_suffix(path)[0], "")
    check_label_separator(label_separator)
    by_role = _list_names(text), () if text_separator else _list_names(second), _list_names(label)
    cells = parse_cell_columns(feature_columns)
    reject_roles(cells, dict(zip(("text", "second text", "label"), by_role, strict=True)))
    columns = _TableColumns(*by_role, label_separator, multilabel, require_label, text_separator, cells)
    if name == "jsonl":
        return _read_json_lines(path, columns, skip, keep_row)
    if name not in _DELIMITERS:
        raise ConfigError(
            f"{{format}} is {format!r} and the extension of {verbatim(path)} names none. Set it to 'csv', 'tsv' or "
            "'jsonl'",
            options=("format",),
        )
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise ConfigError(
            f"{{delimiter}} is {delimiter!r}. Set it to one character, neither a quote nor a line end",
            options=("delimiter",),
        )
    quoted = True if quoted is None and name == "csv" else quoted
    usual = _DELIMITERS[name]
    return _read_delimited(path, columns, delimiter, usual, skip, quoted=quoted, keep_row=keep_row)


def _read_delimited(
    path: FilePath,
    columns: _TableColumns,
    delimiter: str | None,
    usual: str,
    skip: Skip | None,
    *,
    quoted: bool | None,
    keep_row: KeepRow | None,
) -> Iterator[Example]:
    with open_text(path) as lines:
        excel = EXCEL_DELIMITER.fullmatch("".join(lines.sample(lines.sampled or SAMPLE_LINES)[:1]))
        if excel:
            next(lines)
        delimiter = delimiter or (excel[1] if excel else usual)
        names, rows = read_header(lines, delimiter, quoted=quoted)
        tab_or_delimiter = "a tab" if delimiter == "\t" else repr(delimiter)
        filled = reject_other_widths(
            rows,
            len(names),
            expected=f"the header names {len(names)}",
            hint=f"A text that contains {tab_or_delimiter} must "
            + (f"be in {rows.dialect.name}." if isinstance(rows, QuotedRows) else "not be in this table."),
            header=names,
        )
        columns = columns.drop_absent_label(names)
        index = _column_indices(names, columns, lines.path)
        parse = _row_parser(index, columns, may_have_header=False, cells=_find_cells(names, columns.cells, lines.path))
        if quoted is None or isinstance(rows, QuotedRows):
            parse = _warn_of_quotes(parse, rows, lines.path)
        make_row = _row_maker(names, index["text"], delimiter, quoted=isinstance(rows, QuotedRows))
        yield from parse_rows(filled, _keep_fields(parse, make_row, keep_row), lines.path, skip, make_row)


def read_header(lines: TextLines, delimiter: str, *, quoted: bool | None) -> tuple[list[str], PlainRows | QuotedRows]:
    """Names of the columns and the rows after them; ``quoted=None`` asks whether all names, or a column, are quoted."""
    ahead = [f"{line}\n" for line in lines.sample(lines.sampled or 1)]
    first_line = "".join(ahead[:1]).removesuffix("\n")
    rows: PlainRows | QuotedRows = PlainRows(lines, delimiter)
    if quoted:
        rows = QuotedRows(lines, delimiter, _find_dialect(lines, ahead, delimiter))
    try:
        _, header = next(rows, (1, []))
    except DataError as error:
        if (separator := find_name_delimiter(first_line)) not in (None, delimiter):
            problem, hint = f"the header has only the field {verbatim(repr(first_line))}", _advise_delimiter(separator)
            raise DataError(problem, path=lines.path, line=1, hint=hint, options=("delimiter",)) from error
        fields = ", ".join(map(repr, first_line.split(delimiter)))
        error.hint = f"It is the header, of the fields {fields}. {error.hint}"
        raise
    names = [compose(name.strip()) for name in header]
    are_names_quoted = bool(names) and all(map(_is_quoted, names))
    if quoted is None and (are_names_quoted or is_quoted(ahead, delimiter, choose_dialect(ahead, delimiter))):
        names = [name[1:-1].replace('""', '"') for name in names] if are_names_quoted else names
        rows = QuotedRows(lines, delimiter, _find_dialect(lines, ahead, delimiter))
    return names, rows


def _find_dialect(
    lines: TextLines, ahead: Sequence[str], delimiter: str, fits: Callable[[int], bool] | None = None
) -> Dialect:
    """The dialect of CSV of the lines read ahead; a hint names it if it is not the standard."""
    dialect = choose_dialect(ahead, delimiter, fits)
    if dialect != STANDARD:
        warn_caller(Hint(f"{verbatim(lines.path)}: read {dialect}"))
    return dialect


_RowParser = Callable[[int, list[str]], Example]


_RowMaker = Callable[[list[str]], TableRow]


def _row_maker(
    names: Sequence[str], text: Sequence[int], separator: str, *, quoted: bool, more: bool = False
) -> _RowMaker:
    """A function from the fields of a row, also of one of another width, to a field for each name.

    The columns with the numbers ``text`` are those of the text, which is the most likely to contain separators.
    """
    kept, missing, at = tuple(names), [""] * len(names), text[-1]

    def make_row(row: list[str]) -> TableRow:
        excess = 0 if more else max(0, len(row) - len(kept))
        if excess:
            row = [*row[:at], separator.join(row[at : at + excess + 1]), *row[at + excess + 1 :]]
        return TableRow(kept, (*row, *missing)[: len(kept)], quoted)  # rows with more fields may differ in their number

    return make_row


def _keep_fields(parse: _RowParser, make_row: _RowMaker, keep_row: KeepRow | None) -> _RowParser:
    """A function from a numbered row to its example that keeps its fields."""
    if keep_row is None:
        return parse

    def parse_and_keep(line: int, row: list[str]) -> Example:
        example = parse(line, row)
        keep_row(make_row(row))
        return example

    return parse_and_keep


def _row_parser(
    index: Mapping[str, Sequence[int]],
    columns: _TableColumns,
    *,
    may_have_header: bool,
    cells: Mapping[CellColumn, int] | None = None,
) -> _RowParser:
    """A function from a row to its example, or the error of a header inside the table.

    ``index`` is role -> fields, ``cells`` are column of cells -> field.
    """
    cells = cells or {}
    pair, separator, multilabel = columns.text_separator, columns.label_separator, columns.multilabel
    flags = list(zip(columns.label, index["label"], strict=False))
    label = flags[0][1] if len(flags) == 1 else None
    text = _text_getter(index["text"])
    second = _text_getter(index["second"]) if index["second"] else None
    header_label = label if may_have_header else None

    def parse(_: int, row: list[str]) -> Example:
        is_name = header_label is not None and row[header_label].strip(' "').lower() in LABEL_HEADERS  # of few rows
        if is_name and is_inner_header(row[index["text"][0]]):
            raise inner_header_error(optional=True)
        parsed: Label | None = None
        if label is not None:
            if columns.require_label or row[label].strip():
                parsed = parse_label(row[label], separator, multilabel=multilabel)
        elif flags:
            parsed = select_flagged_labels({name: row[field] for name, field in flags})
        beside = read_cells(columns.cells, lambda column: row[cells[column]])
        if pair is not None:
            return Example(*split_pair(text(row), pair), parsed, beside)
        return Example(text(row), None if second is None else second(row), parsed, beside)

    return parse


def _text_getter(fields: Sequence[int]) -> Callable[[list[str]], str]:
    """A function from a row to a text, which joins several fields."""
    return itemgetter(fields[0]) if len(fields) == 1 else lambda row: join_texts(row[field] for field in fields)


def _is_quoted(name: str) -> bool:
    return len(name) > 1 and name[0] == name[-1] == '"'


def _is_csv_quoted(field: str) -> bool:
    """Whether a field is quoted as CSV writers do it: because it contains quotes, which are doubled."""
    return field[:1] == '"' and _is_quoted(field) and '""' in field[1:-1] and '"' not in field[1:-1].replace('""', "")


def _is_quoted_after_blank(field: str) -> bool:
    """Whether a field of CSV has a blank before quotes, which the parser then keeps."""
    return field[:2] == ' "' and _is_quoted(field.strip())


def _warn_of_quotes(parse: _RowParser, rows: PlainRows | QuotedRows, path: str) -> _RowParser:
    """A function from a row to its example that warns of the first row with a field that looks quoted."""
    has_warned, is_plain = False, isinstance(rows, PlainRows)
    looks_quoted = _is_csv_quoted if is_plain else _is_quoted_after_blank
    hint = "{quoted=True} removes them, {quoted=False} silences this warning"
    hint = hint if is_plain else "delete the blank before them"

    def parse_and_warn(line: int, row: list[str]) -> Example:
        nonlocal has_warned
        if not has_warned and any(looks_quoted(field) and rows.has_verbatim(field) for field in row):
            has_warned = True
            field = f"{verbatim(path)}, line {line}: a field"
            problem = f"{field} is in double quotes, which are read as part of it; {hint}"
            warn_caller(GraphAttnWarning(problem, options=("quoted",)))
        return parse(line, row)

    return parse_and_warn


def _column_indices(names: list[str], columns: _TableColumns, path: str) -> dict[str, list[int]]:
    indices: dict[str, list[int]] = {role: [] for role in columns.by_role()}
    for role, name in ((role, name) for role, chosen in columns.by_role().items() for name in chosen):
        column = match_name(name, names)
        if column is None:
            parallel = not columns.label and bool(columns.second)  # whose commands have no {columns}
            error = _missing_column_error(role, name, names, has_header=not parallel)
            error.path, error.line = path, 1
            if not columns.label and len(names) == 1 and not parallel:  # a file to predict
                error.alternative = "If each line is a text, set {format} to 'text'."
                error.options += ("format",)
            raise error
        indices[role].append(_find_only(column, names, path))
    return indices


def _find_cells(names: Sequence[str], columns: Sequence[CellColumn], path: str) -> dict[CellColumn, int]:
    """Column of cells -> its field."""
    fields = {}
    for column in columns:
        found = match_name(column.column, names)
        if found is None:
            error = make_missing_column_error(column, names)
            error.path, error.line = path, 1
            raise error
        fields[column] = _find_only(found, names, path)
    return fields


def _find_only(name: str, names: Sequence[str], path: str) -> int:
    """The field of a column, an error if several have its name."""
    if names.count(name) > 1:
        raise DataError(f"{names.count(name)} columns are named {name!r}", path=path, line=1, hint="Rename one.")
    return names.index(name)


def _missing_column_error(role: str, name: str, present: Sequence[str], *, has_header: bool) -> DataError:
    known = ", ".join(repr(column if len(column) <= 40 else column[:37] + "...") for column in present) or "none"
    known, shown = verbatim(known), verbatim(repr(name))
    delimiter = None
    if has_header and any("\t" in column for column in present):
        delimiter = "\t"
    elif has_header and len(present) == 1:
        delimiter = find_name_delimiter(present[0])
    if delimiter is not None:
        return DataError(
            f"there is no column {shown}, only {known}",
            hint=_advise_delimiter(delimiter),
            options=("delimiter",),
        )
    no_header = "; if the first line is no header, set {columns}" if has_header else ""
    return DataError(
        f"there is no column {shown}; the columns are {known}",
        hint=f"Set {{{role}}} to one of them{no_header}.",
        alternative=_NO_LABELS if role == "label" else None,
        options=(role, "label", "columns"),
    )


def _advise_delimiter(delimiter: str | None) -> str:
    return f"Set {{delimiter}} to {delimiter!r} if that separates the fields."


_NO_LABELS = "For texts without labels, set {label} to None."


def _read_json_lines(
    path: FilePath, columns: _TableColumns, skip: Skip | None, keep_row: KeepRow | None
) -> Iterator[Example | Sentence]:
    name = display_name(path)
    left_out = LeftOutRecords(name)
    used = {name for names in columns.by_role().values() for name in names}
    has_answers = bool(columns.label) and not any("answer" in chosen for chosen in columns.by_role().values())

    def parse(line: int, content: str) -> Example | Sentence | None:
        record = parse_object(content)
        if has_answers and left_out.rejects(record):
            return None
        example = make_example(line, record)
        if len(left_out.labels) < 2:
            left_out.labels.add(str(example.label))
        if keep_row is not None:
            keep_row(make_record_row(record, lines, used))
        return example

    def make_example(line: int, record: dict[str, Any]) -> Example | Sentence:
        by_role = columns.drop_absent_label(record).by_role()
        values = {role: [_find_value(record, role, column) for column in chosen] for role, chosen in by_role.items()}
        label = _parse_labels(values["label"], columns)
        cells = read_cells(columns.cells, partial(find_cell, record))
        if isinstance(values["text"][0], list) and len(columns.text) == 1 and not columns.second:
            return _from_list(values["text"][0], label, columns.text[0], (name, line), cells)
        text, second = (_join_values(values[role], by_role[role]) for role in ("text", "second"))
        if columns.text_separator is not None:
            return Example(*split_pair(text, columns.text_separator), label, cells)
        return Example(text, second if columns.second else None, label, cells)

    with open_text(path) as lines:
        rows = parse_lines(lines, parse, skip, make_row=lambda content: read_record_row(content, lines, used))
        yield from (row for row in rows if row is not None)
    left_out.report()


def _find_value(record: dict[str, Any], role: str, column: str) -> Any:
    value = find_field(record, column)
    if value is MISSING:
        raise _missing_column_error(role, column, list_field_names(record), has_header=False)
    return value


def _join_values(values: Sequence[Any], columns: Sequence[str]) -> str:
    texts = [json_text(value, column) for value, column in zip(values, columns, strict=True)]
    return texts[0] if len(texts) == 1 else join_texts(texts)


def _parse_labels(values: Sequence[Any], columns: _TableColumns) -> Label | None:
    if len(values) > 1:
        return select_flagged_labels(
            {name: json.dumps(value) for name, value in zip(columns.label, values, strict=True)}
        )
    is_empty = not values or values[0] is None or (isinstance(values[0], str) and not values[0].strip())
    if not values or (is_empty and not columns.require_label):
        return None
    separator, name = columns.label_separator, columns.label[0]
    return json_label(values[0], separator, name, multilabel=columns.multilabel, alternative=_NO_LABELS)


def _from_list(
    pieces: list[Any], label: Label | None, field: str, origin: tuple[str, int], cells: dict[str, Any] | None
) -> Example | Sentence:
    """The text of a list of sentences, most of which have blanks; the sentence of a list of words."""
    texts = [json_text(piece, field) for piece in pieces]
    if 2 * sum(len(text.split()) > 1 for text in texts) > len(texts):
        return Example(join_texts(texts), label=label, cells=cells)
    return Sentence(tuple(texts), label=label, cells=cells, origin=origin)


def read_labelled_lines(
    path: FilePath,
    *,
    columns: str | Sequence[str | None] = ("label", "text"),
    separator: str | None = None,
    label_separator: str | None = None,
    multilabel: bool = False,
    text_separator: str | None = None,
    header: bool | None = None,
    quoted: bool | None = None,
    require_label: bool = True,
    keep_row: KeepRow | None = None,
    skip: Skip | None = None,
) -> Iterator[Example]:
    """Read examples from lines of a fixed number of fields, one at a time.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    columns : what each field holds: ``"text"``, ``"second"`` (of a pair), ``"label"``, or None for a field to skip; a
        last ``"..."`` skips all fields that follow. Several fields of a text are joined by a blank. ``"text"`` reads
        one text per line
    separator : the characters between two fields, without quotes; the last text may contain a blank as separator. None
        means a tab, and in a file named ``.csv`` a comma with CSV's double quotes, or what else separates the columns
    label_separator, multilabel, text_separator, require_label : as for :func:`read_table`
    header : whether the first line names the columns and is no example; None decides by the lines, see
        :func:`~graphattn.builders.readers._samples.is_header`, and a hint says so
    quoted : whether double quotes may enclose a field that ends at a tab; None means yes if they enclose nearly all
        values of a column
    keep_row : receives all fields of the line of each example, as many as the first line has

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.tsv"
    >>> _ = path.write_text("pos\\t9\\ta fine film\\n")
    >>> list(read_labelled_lines(path, columns=("label", None, "text")))
    [Example(text='a fine film', second=None, label='pos')]
    """
    roles = (columns,) if isinstance(columns, str) else tuple(columns)
    more = roles[-1:] == (MORE,)
    roles = roles[:-1] if more else roles
    _check_roles(roles)
    if separator == "":
        raise ConfigError(
            "{separator} is empty. Set it to the characters between two fields, a tab for example",
            options=("separator",),
        )
    check_label_separator(label_separator)
    by_role = ("text",), ("second",), ("label",)
    in_columns = _TableColumns(*by_role, label_separator, multilabel, require_label, text_separator)
    index = {role: [field for field, of_field in enumerate(roles) if of_field == role] for role in _ROLES}

    def read() -> Iterator[Example]:
        with open_text(path) as lines:
            ahead = [f"{line}\n" for line in lines.sample(lines.sampled or SAMPLE_LINES)]
            rows, sample = _open_rows(lines, ahead, separator, roles, more=more, quoted=quoted)
            has_header = _has_header(sample, len(roles), header, lines.path, more=more)
            names = next(rows)[1] if has_header else []
            wide = "Set {columns} to what each field holds: None skips one, '...' at the end all that follow."
            if isinstance(rows, QuotedRows) and 2 * sum(len(row) == len(roles) for row in sample) >= len(sample):
                wide = f"A text that contains the separator must be in {rows.dialect.name}."
            filled = reject_other_widths(
                rows,
                len(roles),
                expected=f"{len(roles)} expected ({', '.join(role or 'skipped' for role in roles)})",
                hint="Complete the line, or set {columns} to what each field holds, None to skip one.",
                too_many=wide,
                more=more,
                header=names,
                optional_header=True,
            )
            parse = _row_parser(index, in_columns, may_have_header=header is None and not has_header)
            if isinstance(rows, QuotedRows) or (quoted is None and separator in (None, "\t")):
                parse = _warn_of_quotes(parse, rows, lines.path)
            names = _complete_names(names, roles, len(sample[0]) if more and sample else len(roles))
            is_quoted = isinstance(rows, QuotedRows)
            make_row = _row_maker(names, index["text"], rows.separator, quoted=is_quoted, more=more)
            yield from parse_rows(filled, _keep_fields(parse, make_row, keep_row), lines.path, skip, make_row)

    return read()


def _complete_names(names: Sequence[str], roles: Sequence[str | None], width: int) -> list[str]:
    """Names of all columns: those of the header, or else the roles."""
    if len(names) < len(roles):
        names = [*(role or "" for role in roles), *[""] * (width - len(roles))]
    return [name.strip() or f"column {number}" for number, name in enumerate(names, start=1)]


def _open_rows(
    lines: TextLines,
    ahead: Sequence[str],
    separator: str | None,
    roles: Sequence[str | None],
    *,
    more: bool,
    quoted: bool | None,
) -> tuple[PlainRows | QuotedRows, list[list[str]]]:
    """The rows, and those of the lines read ahead."""

    def fits(width: int) -> bool:
        return width == len(roles) or (more and width > len(roles))

    if separator is not None or split_suffix(lines)[0] != ".csv":
        delimiter = separator or "\t"
        if quoted is None and delimiter == "\t":
            quoted = is_quoted(ahead, delimiter, choose_dialect(ahead, delimiter, fits))
        quoted = quoted and len(delimiter) == 1
    elif ahead and EXCEL_DELIMITER.fullmatch(ahead[0]):
        next(lines)
        delimiter, ahead = ahead[0][4], ahead[1:]
        quoted = delimiter != "\t" if quoted is None else quoted
    else:
        delimiter = find_csv_delimiter(ahead, fits)
        if delimiter != ",":
            what = "tabs" if delimiter == "\t" else repr(delimiter)
            warn_caller(Hint(f"{verbatim(lines.path)}: read {what} between the fields, not commas"))
        quoted = delimiter != "\t" if quoted is None else quoted
    if not quoted:
        most = count_splits(roles, delimiter) if separator is not None else 0
        return PlainRows(lines, delimiter, most), split_rows(ahead, delimiter, quoted=False, most=most)
    dialect = _find_dialect(lines, ahead, delimiter, fits)
    return QuotedRows(lines, delimiter, dialect), split_rows(ahead, delimiter, dialect=dialect)


def _has_header(sample: list[list[str]], width: int, header: bool | None, path: str, *, more: bool) -> bool:
    """Whether the first line names columns: as ``header`` says, or as the first lines show."""
    rows = [row[:width] for row in sample if len(row) == width or (more and len(row) > width)]
    if header is not None or not rows or rows[0] != sample[0][:width] or not is_header(rows):
        return bool(header)
    names = ", ".join(map(clean_name, rows[0]))
    message = f"{verbatim(path)}: read {verbatim(repr(names))} as a header; {{header=False}} keeps it"
    warn_caller(Hint(message, options=("header",)))
    return True


def _check_roles(roles: tuple[str | None, ...]) -> None:
    for role in roles:
        if role is not None and (role not in _ROLES or (role == "label" and roles.count(role) > 1)):
            problem = "twice" if role in _ROLES else "which is not a role"
            raise ConfigError(
                f"{{columns}} {roles} names {role!r} {problem}. Use 'text', 'second' and one 'label', None to skip a "
                "field, '...' at the end to skip more",
                options=("columns",),
            )
    if "text" not in roles:
        raise ConfigError(f"{{columns}} {roles} has no 'text'. Say which field holds the text", options=("columns",))
