"""Read tables with a word on each row, and a column that numbers the sentences."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Sentence
from graphattn.builders._text_lines import TextLines, lines_within, open_text
from graphattn.builders.readers._column_layout import (
    are_types_same,
    find_word_columns,
    list_tag_columns,
    list_types,
)
from graphattn.builders.readers._dialects import STANDARD
from graphattn.builders.readers._fields import json_text, match_name, parse_feature_columns, parse_object
from graphattn.builders.readers._rows import (
    QuotedRows,
    SentenceNumbers,
    Skip,
    inner_header_error,
    read_groups,
)
from graphattn.builders.readers._samples import EXCEL_DELIMITER, SAMPLE_LINES, find_name_delimiter, split_rows
from graphattn.builders.readers._table import read_header
from graphattn.exceptions import DataError, Hint, verbatim, warn_caller

_Column = str | int
_LAST = -1
_SEVERAL = "; if the numbers begin anew in each document, set {sentence_column} to several columns"


class WordRow(NamedTuple):
    """A word, and the number of its sentence."""

    number: Any
    word: str
    tag: str | None
    features: tuple[str, ...]


def read_word_table(
    path: FilePath,
    *,
    token_column: _Column | None = None,
    tag_column: _Column | None = _LAST,
    sentence_column: _Column | Sequence[_Column] | None = None,
    feature_columns: Sequence[str] = (),
    delimiter: str | None = None,
    quoted: bool | None = None,
    skip: Skip | None = None,
) -> Iterator[Sentence]:
    """Read tagged sentences from a table with a word on each row, one at a time: CSV, TSV or JSON Lines.

    A column numbers the sentences: rows with the same number, or with none as in Kaggle's table of entities, are one
    sentence. Without such a column, blank lines end sentences. Words may be empty.

    Parameters
    ----------
    path, skip : as for :func:`read_corpus`
    token_column : name or number of the column of the words; None means the one called ``word``, ``token`` or ``form``
        (or a plural)
    tag_column : that of the tags; -1 means the last that is called ``tag``, ``label``, ``ner`` or ``pos``, or else the
        last besides those of words and sentences; None reads words alone
    sentence_column : that of the numbers, or several that number the sentences together; None means the one called
        ``sentence_id``, ``Sentence #`` or the like
    feature_columns : names of further columns, which become the ``features`` of sentences: ``"pos"``, or with another
        name ``"pos=POS"``
    delimiter, quoted : as for :func:`read_table`; None means what separates the names in the header

    Warns
    -----
    Hint
        which columns are read, unless all of them are given

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text('sentence_id,words,labels\\n0,Ada,B-PER\\n0,left,O\\n1,",",O\\n')
    >>> columns = {"sentence_column": "sentence_id", "token_column": "words", "tag_column": "labels"}
    >>> [(sentence.tokens, sentence.tags) for sentence in read_word_table(path, **columns)]
    [(('Ada', 'left'), ('B-PER', 'O')), ((',',), ('O',))]
    """
    chosen = _Choice(token_column, tag_column, sentence_column, parse_feature_columns(feature_columns))

    def read() -> Iterator[Sentence]:
        with open_text(path) as lines:
            names, rows, columns = _open_rows(lines, chosen, delimiter, quoted)
            chosen.report(names, columns, lines.path)
            reader = _RowReader(lines.path, names, columns)
            yield from read_groups(rows, reader.parse, reader.make_sentences, skip, begins=reader.begins)

    return read()


def name_columns(lines: TextLines, **options: Any) -> dict[str, str | tuple[str, ...]]:
    """The columns of the sentences and words by name, for files that lack others; none if no column numbers sentences.

    ``options`` are those of :func:`read_word_table`; the lines are not consumed.
    """
    sample = lines.sample(lines.sampled or SAMPLE_LINES)
    ahead = lines_within("".join(f"{line}\n" for line in sample).encode(), lines.path, 1)
    tag, features = options.get("tag_column", _LAST), parse_feature_columns(options.get("feature_columns", ()))
    chosen = _Choice(options.get("token_column"), tag, options.get("sentence_column"), features)
    with suppress(DataError), warnings.catch_warnings():  # the reader reports errors and hints
        warnings.simplefilter("ignore")
        names, _, columns = _open_rows(ahead, chosen, options.get("delimiter"), options.get("quoted"))
        if columns.sentence:
            sentence = tuple(names[at] for at in columns.sentence)
            single = sentence[0] if len(sentence) == 1 else sentence
            return {"sentence_column": single, "token_column": names[columns.token]}
    return {}


def read_word_rows(
    rows: Iterable[Sequence[Any]], features: Sequence[str] = (), *, tagged: bool = True
) -> Iterator[Sentence]:
    """The sentences of rows of Python values: number, word, the tag if they are ``tagged``, and features.

    Errors name the row, from 0.
    """
    first = 2 + tagged
    columns = _Indices(1, 2 if tagged else None, [0], {name: first + at for at, name in enumerate(features)})
    numbered = _NumberedRows("", ((number, list(map(_none_if_missing, row))) for number, row in enumerate(rows)))
    reader = _RowReader("", [], columns)
    try:
        yield from read_groups(numbered, reader.parse, reader.make_sentences, None, begins=reader.begins)
    except DataError as error:
        error.message, error.path, error.line = f"row {error.line}: {error.message}", None, None
        raise


def _none_if_missing(value: Any) -> Any:
    return (
        None
        if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
        else value
    )


class _NumberedRows:
    """Rows of a table in place of the lines of a file; ``line`` is that of the row read last."""

    def __init__(self, path: str, rows: Iterator[tuple[int, list[Any]]]):
        self.path, self.line = path, 0
        self._rows = rows

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[Any]:
        self.line, row = next(self._rows)
        return row


def _open_rows(
    lines: TextLines, chosen: _Choice, delimiter: str | None, quoted: bool | None
) -> tuple[list[str], _NumberedRows, _Indices]:
    """Names of the columns, the rows, and the numbers of the columns to read."""
    sample = lines.sample(lines.sampled or SAMPLE_LINES)
    if "".join(sample[:1]).startswith("{"):
        names, rows = _read_records(lines, sample)
        examples = [list(parse_object(line).values()) for line in sample if line.strip()]
    else:
        names, rows, examples = _read_fields(lines, sample, delimiter, quoted)
    return names, rows, chosen.resolve(names, lines.path, examples, has_blank_lines=not all(map(str.strip, sample)))


def _read_fields(
    lines: TextLines, sample: list[str], delimiter: str | None, quoted: bool | None
) -> tuple[list[str], _NumberedRows, list[list[str]]]:
    """Names, rows, and those of the sample without the header."""
    excel = EXCEL_DELIMITER.fullmatch("".join(sample[:1]))
    if excel:
        next(lines)
        delimiter, sample = delimiter or excel[1], sample[1:]
    separator = delimiter or find_name_delimiter("".join(sample[:1])) or ","
    names, rows = read_header(lines, separator, quoted=True if quoted is None and separator != "\t" else quoted)
    dialect = rows.dialect if isinstance(rows, QuotedRows) else STANDARD
    ahead = [f"{line}\n" for line in sample[1:]]
    examples = split_rows(ahead, separator, quoted=isinstance(rows, QuotedRows), dialect=dialect)
    return names, _NumberedRows(lines.path, rows), examples


def _read_records(lines: TextLines, sample: list[str]) -> tuple[list[str], _NumberedRows]:
    """The names of the first record, and the values of all."""
    names = list(parse_object(sample[0]))

    def read(content: str) -> tuple[int, list[Any]]:
        record = parse_object(content) if content.strip() else {}
        return lines.line, [record.get(name) for name in names] if record else []

    return names, _NumberedRows(lines.path, map(read, lines))


class _Choice(NamedTuple):
    """The columns that the user chose."""

    token: _Column | None
    tag: _Column | None
    sentence: _Column | Sequence[_Column] | None
    features: Mapping[str, str]

    def resolve(
        self, names: Sequence[str], path: str, rows: Sequence[Sequence[Any]], *, has_blank_lines: bool
    ) -> _Indices:
        """The numbers of the columns; ``rows`` are the first ones."""
        known = find_word_columns(names)
        given = self.sentence if isinstance(self.sentence, (str, int, type(None))) else tuple(self.sentence)
        several = given if isinstance(given, tuple) else () if given is None else (given,)
        sentence = [_index(column, names, "sentence", path) for column in several]
        if not sentence and known.sentence is not None:
            sentence = [names.index(known.sentence)]
        if not sentence and not has_blank_lines:
            raise _column_error("no column is known to number the sentences", "sentence", names, path)
        token = self.token if self.token is not None else known.token
        if token is None:
            raise _column_error("no column is known to have the words", "token", names, path)
        at = _index(token, names, "token", path)
        tag = self._find_tag(names, path, rows, {at, *sentence})
        features = {name: _index(column, names, "feature", path) for name, column in self.features.items()}
        return _Indices(at, tag, sentence, features)

    def report(self, names: Sequence[str], columns: _Indices, path: str) -> None:
        """Say which columns are read, unless all of them are given."""
        if self.sentence is None or self.token is None or self.tag == _LAST:
            by_option = {
                "sentence": columns.sentence[:1],
                "token": [columns.token],
                "tag": [] if columns.tag is None else [columns.tag],
            }
            read = [f"{{{role}_column}} {names[found[0]]!r}" for role, found in by_option.items() if found]
            options = [f"{role}_column" for role in by_option]
            warn_caller(Hint(f"{verbatim(path)}: a word on each row, with {', '.join(read)}", options=options))

    def _find_tag(
        self, names: Sequence[str], path: str, rows: Sequence[Sequence[Any]], others: Collection[int]
    ) -> int | None:
        if self.tag is None:
            return None
        if self.tag != _LAST:
            return _index(self.tag, names, "tag", path)
        left = [names.index(name) for name in list_tag_columns(names) if names.index(name) not in others]
        left = left or [index for index in range(len(names)) if index not in others]
        if not left:
            raise _column_error("there is no column of the tags", "tag", names, path)
        rows = [row for row in rows if len(row) == len(names)]
        types = {index: list_types([str(row[index]) for row in rows]) for index in range(len(names))}
        same = [
            index
            for index in types
            if index not in {*others, left[-1]} and are_types_same(types[index], types[left[-1]])
        ]
        if same:
            shown = ", ".join(repr(names[index]) for index in same)
            problem = f"the columns {shown} and {names[left[-1]]!r} have tags of the same set, like gold and predicted"
            raise _column_error(problem, "tag", names, path)
        return left[-1]


class _Indices(NamedTuple):
    """Numbers of columns."""

    token: int
    tag: int | None
    sentence: Sequence[int]
    features: Mapping[str, int]


def _index(column: _Column, names: Sequence[str], role: str, path: str) -> int:
    """The number of a column that is given by its name or number."""
    if isinstance(column, int):
        if -len(names) <= column < len(names):
            return column % len(names)
        raise _column_error(f"there is no column {column}, counted from 0", role, names, path)
    found = match_name(column, names)
    if found is None:
        raise _column_error(f"there is no column {column!r}", role, names, path)
    if names.count(found) > 1:
        raise DataError(f"{names.count(found)} columns are named {found!r}", path=path, line=1, hint="Rename one.")
    return names.index(found)


def _column_error(problem: str, role: str, names: Sequence[str], path: str) -> DataError:
    known = ", ".join(repr(name) for name in names)
    option = "feature_columns" if role == "feature" else f"{role}_column"
    hint = f"Set {{{option}}} to one of them."
    return DataError(
        f"{verbatim(problem)}; the columns are {verbatim(known)}", path=path, line=1, hint=hint, options=(option,)
    )


class _RowReader:
    """Makes sentences of rows."""

    def __init__(self, path: str, header: Sequence[str], columns: _Indices):
        self._path, self._header, self._columns = path, list(header), columns
        self._numbers = SentenceNumbers()
        self._last: tuple[Any, ...] = (None,) * len(columns.sentence)  # the number of the row before

    def parse(self, row: list[Any]) -> tuple[Any, ...] | None:
        """The word on a row; blank rows end sentences that have no number."""
        if not any(value not in (None, "") for value in row):
            return None if self._columns.sentence else ()
        if self._header and len(row) != len(self._header):
            problem = f"{len(row)} field{'s' * (len(row) != 1)}, the header names {len(self._header)}"
            raise DataError(problem, hint="A field that contains the separator must be in double quotes.")
        if self._header and row == self._header:
            raise inner_header_error(optional=False)
        filled = (
            value.strip() if isinstance(value, str) else value for value in (row[at] for at in self._columns.sentence)
        )
        number = tuple(
            before if value in (None, "") else value for value, before in zip(filled, self._last, strict=True)
        )
        if None in number:
            raise DataError("the sentence has no number", hint="Fill it in on the first row of each sentence.")
        self._last = number
        word, tag = row[self._columns.token], None
        if word is None:
            hint = "Write it; pandas reads words such as 'null' and 'NA' so, unless read_csv has keep_default_na=False."
            raise DataError("the word is a missing value", hint=hint)
        if self._columns.tag is not None:
            tag = row[self._columns.tag]
            if tag is None or (isinstance(tag, str) and not tag.strip()):
                raise DataError("the tag is empty", hint="Fill it in.")
            tag = json_text(tag, "tag").strip()
        values = [row[at] for at in self._columns.features.values()]
        return WordRow(
            number, json_text(word, "word"), tag, tuple("" if value is None else str(value) for value in values)
        )

    def begins(self, row: tuple[Any, ...]) -> bool:
        """Whether a row is the first of its sentence."""
        number = row[0]
        return bool(number) and self._numbers.begins(number)

    def make_sentences(self, numbered: list[tuple[int, tuple[Any, ...]]]) -> list[Sentence]:
        """The sentence of numbered rows."""
        rows = [(line, WordRow(*row)) for line, row in numbered]
        line, first = rows[0]
        if first.number:
            self._numbers.check(first.number, line, _SEVERAL)
        words = [row for _, row in rows]
        tags = None if first.tag is None else [row.tag or "" for row in words]
        features = {
            name: tuple(row.features[at] for row in words) for at, name in enumerate(self._columns.features)
        } or None
        origin = (self._path, line) if self._path else None
        return [Sentence([row.word for row in words], tags=tags, features=features, origin=origin)]
