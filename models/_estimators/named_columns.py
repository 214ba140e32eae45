"""Tables with named columns, of pandas, polars, Arrow or datasets, and rows as dictionaries, as examples.

Columns have the names of a model's training corpus, or ``text``, ``label``, ``second``, ``tokens`` and ``tags``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

from graphattn.builders import Example, Sentence
from graphattn.builders._records import name_classes
from graphattn.builders._spelling import compose
from graphattn.builders._values import describe_value, is_missing
from graphattn.builders.readers._cells import (
    CellColumn,
    find_cell,
    make_missing_column_error,
    read_cells,
    reject_roles,
)
from graphattn.builders.readers._column_layout import are_types_same, find_word_columns, list_tag_columns, list_types
from graphattn.builders.readers._fields import (
    MISSING,
    find_field,
    join_texts,
    json_label,
    match_name,
    parse_feature_columns,
    select_flagged_labels,
    split_pair,
)
from graphattn.builders.readers._sentences import parse_fields
from graphattn.builders.readers._word_table import read_word_rows
from graphattn.exceptions import DataError

_TEXT, _SECOND, _LABEL, _TAGS = "text", "second", "label", "tags"
_WORDS = ("tokens", "words")


@dataclass(frozen=True)
class KnownColumns:
    """What a model knows of the columns of its inputs; all names are empty if they are those of any model.

    Parameters
    ----------
    text, second : columns of the texts; several are joined by a blank
    label : column of the label, or several of 0 and 1, whose names are labels
    tags : column of a tagger's tags
    features : columns of lists that are features of words
    feature_columns : the option of a tagger: columns with a feature on each row of a word, also with another name
    cells : columns that a classifier or regressor reads beside the texts
    is_pair : whether an input has two texts
    label_separator, text_separator, multilabel : as for :func:`~graphattn.builders.readers.read_table`
    spells_labels : whether labels are strings, as in files, so that numbers are their digits
    """

    text: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    tags: str | None = None
    features: tuple[str, ...] = ()
    feature_columns: tuple[str, ...] = ()
    cells: tuple[CellColumn, ...] = ()
    is_pair: bool = False
    label_separator: str | None = None
    text_separator: str | None = None
    multilabel: bool = False
    spells_labels: bool = False

    @classmethod
    def of(cls, task: Any) -> KnownColumns:
        """Those of a task, and of the corpus that its model was trained on."""
        corpus: Mapping[str, Any] = task.corpus_
        classes = getattr(task.labels, "classes", ())
        return cls(
            _list_names(corpus.get(_TEXT)),
            _list_names(corpus.get(_SECOND)),
            _list_names(corpus.get(_LABEL)),
            tags=corpus.get(_TAGS),
            features=tuple(task.feature_names),
            feature_columns=() if task.cell_columns else tuple(getattr(task, "feature_columns", ())),
            cells=tuple(task.cell_columns),
            is_pair=task.texts_per_input == 2,
            label_separator=corpus.get("label_separator"),
            text_separator=corpus.get("text_separator"),
            multilabel=getattr(task.labels, "multilabel", False),
            spells_labels=bool(corpus) and all(isinstance(name, str) for name in classes),
        )

    def require_labels(self, X: Any, y: Any) -> None:
        """Reject a table, or dictionaries, without the columns of the labels, unless these are given as ``y``."""
        first = as_record(X[0]) if isinstance(X, Sequence) and len(X) else None
        names = find_columns(X) if first is None else list(first)
        role = _LABEL if self.label or self.is_pair else _SECOND
        trained = getattr(self, role)
        if y is None and names is not None and trained and not getattr(_select(self, tuple(names)), role):
            raise self.missing_error(trained[0], names)

    def missing_error(self, missing: str, names: Iterable[Any]) -> DataError:
        """The error that a column is missing, which says what the model was trained on."""
        known = ", ".join(map(repr, names)) or "none"
        roles = {"the text": self.text, "the second text": self.second, "the label": self.label}
        trained = [f"{' and '.join(map(repr, of_role))} as {role}" for role, of_role in roles.items() if of_role]
        about = f"; the model was trained on {', '.join(trained)}" if trained else ""
        hint = "Rename one of them, or give a column itself, such as X[name]."
        return DataError(f"there is no column {missing!r}; the columns are {known}{about}", hint=hint)


def _list_names(names: str | Sequence[str] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())


def _find(name: str, names: Collection[Any]) -> Any:
    """The column of a name, in any Unicode form; of ``a.b`` also the column ``a`` of objects; None if there is none."""
    composed = {compose(other): other for other in names if isinstance(other, str)}
    key = match_name(name, composed) or match_name(name.partition(".")[0], composed)
    return None if key is None else composed[key]


@lru_cache(maxsize=64)
def _select(known: KnownColumns, names: tuple[Any, ...]) -> KnownColumns:
    """Known columns as far as a table has them, and else the usual names; an error if one is missing."""
    usual = {_TEXT: (_TEXT,), _SECOND: (_SECOND,), _LABEL: (_LABEL,)}
    chosen, present = {}, {}
    for role, other in usual.items():
        of_role = getattr(known, role)
        chosen[role] = of_role if any(_find(name, names) is not None for name in of_role) else other
        present[role] = tuple(name for name in chosen[role] if _find(name, names) is not None)
        if present[role] and len(present[role]) < len(chosen[role]):
            raise known.missing_error(next(name for name in chosen[role] if name not in present[role]), names)
    if not present[_TEXT] and not any(name in names for name in _WORDS):
        raise known.missing_error((known.text or (_TEXT,))[0], names)
    if known.is_pair and present[_TEXT] and not present[_SECOND] and known.text_separator is None:
        raise known.missing_error((known.second or (_SECOND,))[0], names)
    reject_roles(known.cells, {"text": present[_TEXT], "second text": present[_SECOND], "label": present[_LABEL]})
    for column in known.cells:
        if _find(column.column, names) is None:
            raise make_missing_column_error(column, map(str, names), in_file=False)
    return replace(known, text=present[_TEXT], second=present[_SECOND], label=present[_LABEL])


def find_columns(table: Any) -> list[str] | None:
    """The names of a table's columns; None for something else.

    A table has ``column_names`` or ``columns``, and the column of a name in brackets.
    """
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    return None if names is None or not hasattr(table, "__getitem__") else list(names)


def has_text(names: Sequence[Any], known: KnownColumns) -> bool:
    """Whether a column is that of texts, or has another name that the model knows."""
    trained = (*known.text, *known.second, *known.label)
    return any(_find(name, names) is not None for name in (_TEXT, *trained))


def iter_table(table: Any, names: Sequence[Any], known: KnownColumns) -> Iterator[Example | Sentence]:
    """The rows of a table as examples or sentences; columns that none of them needs are not read."""
    by_role = find_word_columns([name for name in names if isinstance(name, str)], bare=False)
    if by_role.token is not None and by_role.sentence is not None and not _has_lists(table, by_role.token):
        yield from _iter_word_rows(table, names, by_role.sentence, by_role.token, known.feature_columns)
        return
    chosen = _select(known, tuple(names))
    of_roles = {_find(name, names) for name in (*chosen.text, *chosen.second, *chosen.label)}
    of_roles |= {_find(column.column, names) for column in chosen.cells}
    used = [name for name in names if name in of_roles or _is_of_words(name, known)]
    if len({*used}) < len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise DataError(f"there are {used.count(twice)} columns {twice!r}", hint="Rename all but one of them.")
    columns = [_values(table, name) for name in used]
    for number, cells in enumerate(zip(*columns, strict=True)):
        yield _make_input(dict(zip(used, cells, strict=True)), number, chosen)


def _has_lists(table: Any, name: str) -> bool:
    """Whether the first value of a column is a list, array or the like."""
    first = next(iter(_values(table, name)), "")
    return isinstance(first, Iterable) and not isinstance(first, str)


def _iter_word_rows(
    table: Any, names: Sequence[Any], sentence: str, token: str, features: Sequence[str]
) -> Iterator[Sentence]:
    """The sentences of a table with a word on each row."""
    of_features = parse_feature_columns(features)
    tags = [name for name in list_tag_columns([*filter(_is_text, names)]) if name not in of_features.values()]
    types = [list_types([str(tag) for tag in _values(table, name)]) for name in tags]
    if any(are_types_same(other, types[-1]) for other in types[:-1]):
        problem = f"the columns {', '.join(map(repr, tags))} have tags of the same set, like gold and predicted"
        raise DataError(problem, hint="Leave one of them out: X.drop(columns=NAME).")
    used = [sentence, token, *tags[-1:], *of_features.values()]
    missing = next((name for name in used if name not in names), None)
    if missing is not None:
        raise DataError(f"there is no column {missing!r}", hint="Set {feature_columns}.", options=("feature_columns",))
    rows = zip(*(_values(table, name) for name in used), strict=True)
    yield from read_word_rows(rows, list(of_features), tagged=bool(tags))


def _is_text(name: Any) -> bool:
    return isinstance(name, str)


def _is_of_words(name: Any, known: KnownColumns) -> bool:
    return isinstance(name, str) and (
        name in (*_WORDS, known.tags, *known.features)
        or name.casefold() in (*_WORDS, "heads", "deprels", "predicates")
        or name.casefold().endswith(_TAGS)
    )


def _values(table: Any, name: str) -> Iterable[Any]:
    """A column; class numbers of Hugging Face data sets as their names."""
    column = to_python(table[name])
    feature = (getattr(table, "features", None) or {}).get(name)
    classes = getattr(getattr(feature, "feature", feature), "names", None)
    return column if classes is None else (name_classes(_as_list(value), classes) for value in column)


def to_python(column: Any) -> Any:
    """An array of Arrow, whose items are scalars of its own, as a list; other columns unchanged."""
    return column.to_pylist() if hasattr(column, "to_pylist") else column


def as_record(item: Any) -> Mapping[str, Any] | None:
    """A dictionary, or a row of a pandas frame, as a dictionary; None for something else."""
    if isinstance(item, Mapping):
        return item
    is_row = type(item).__name__ == "Series" and hasattr(item, "to_dict")
    return {str(name): value for name, value in item.to_dict().items()} if is_row else None


def make_input(row: Mapping[str, Any], number: int, known: KnownColumns) -> Example | Sentence:
    """The example of a dictionary, or the sentence of one with a list of words; ``number`` counts from 0."""
    return _make_input(row, number, _select(known, tuple(row)))


def _make_input(row: Mapping[str, Any], number: int, chosen: KnownColumns) -> Example | Sentence:
    label = _read_label(row, number, chosen)
    cells = _read_cells(row, number, chosen)
    if not chosen.text:
        return _make_sentence({**row, _LABEL: None}, label, cells, number, chosen)
    content = _find_value(row, chosen.text[0])
    if len(chosen.text) == 1 and isinstance(content, Iterable) and not isinstance(content, str):
        of_words = {name: row[name] for name in chosen.features if name in row}
        return _make_sentence({_WORDS[0]: content, **of_words}, label, cells, number, chosen)
    text = _read_text(row, number, chosen.text)
    if chosen.text_separator is not None and not chosen.second:
        return Example(*split_pair(text, chosen.text_separator), label, cells)
    return Example(text, _read_text(row, number, chosen.second) if chosen.second else None, label, cells)


def _read_cells(row: Mapping[str, Any], number: int, chosen: KnownColumns) -> dict[str, Any] | None:
    try:
        return read_cells(chosen.cells, partial(find_cell, row, in_file=False))
    except DataError as error:
        error.message = f"row {number}: {error.message}"
        raise


def _read_text(row: Mapping[str, Any], number: int, names: Sequence[str]) -> str:
    """The text of a row; of several columns some may be empty or missing, as in a file."""
    values = {name: _find_value(row, name) for name in names}
    given = {name: value for name, value in values.items() if not is_missing(value)}
    for name, value in (given or values).items():
        if not isinstance(value, str):
            problem = f"row {number}: the column {name!r} is {describe_value(value)}"
            raise DataError(problem, hint="Give a text, or leave the row out.")
    return join_texts(given.values()) if len(names) > 1 else next(iter(given.values()))


def _find_value(row: Mapping[str, Any], name: str) -> Any:
    value = row[name] if name in row else find_field(row, name)
    return None if value is MISSING else value


def _read_label(row: Mapping[str, Any], number: int, chosen: KnownColumns) -> Any:
    """The label of a row, spelled as in a file if the model was trained on one; None if it is missing."""
    values = {name: _as_list(_find_value(row, name)) for name in chosen.label}
    if not values or any(map(is_missing, values.values())):
        return None
    try:
        if len(values) > 1:
            return select_flagged_labels({name: str(value) for name, value in values.items()})
        value = next(iter(values.values()))
        if not chosen.spells_labels or value == "":
            return value
        return json_label(value, chosen.label_separator, chosen.label[0], multilabel=chosen.multilabel)
    except DataError as error:
        error.message = f"row {number}: {error.message}"
        raise


def _make_sentence(
    row: Mapping[str, Any], label: Any, cells: dict[str, Any] | None, number: int, known: KnownColumns
) -> Sentence:
    """A sentence; its tags are in the model's column, in ``tags``, or in the only column whose name ends so."""
    features = known.features
    tags = [name for name in row if isinstance(name, str) and name.endswith("_tags") and name not in features]
    usual = _TAGS if _TAGS in row else tags[0] if len(tags) == 1 else None
    chosen = known.tags if known.tags in row else usual
    lists = {name: _as_list(value) for name, value in row.items()}
    try:
        return Sentence(**parse_fields(lists, chosen, {name: name for name in features}), label=label, cells=cells)
    except DataError as error:
        error.message = f"row {number}: {error.message}"
        raise


def _as_list(value: Any) -> Any:
    """An array of NumPy or polars, or a tuple, as a list; a number of NumPy as one of Python."""
    to_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    return to_list() if to_list else list(value) if isinstance(value, tuple) else value
