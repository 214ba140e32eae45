"""Tables with named columns, of pandas, polars, Arrow or datasets, and rows as dictionaries, as examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphattn.builders import Example, Sentence
from graphattn.builders._records import name_classes
from graphattn.builders.readers._column_layout import are_types_same, find_word_columns, list_tag_columns, list_types
from graphattn.builders.readers._fields import match_name, parse_feature_columns
from graphattn.builders.readers._sentences import parse_fields
from graphattn.builders.readers._word_table import read_word_rows
from graphattn.exceptions import DataError

_TEXT, _SECOND, _LABEL = "text", "second", "label"
_WORDS = ("tokens", "words")


def find_columns(table: Any) -> list[str] | None:
    """The names of a table's columns; None for something else.

    A table has ``column_names`` or ``columns``, and the column of a name in brackets.
    """
    names = getattr(table, "column_names", None)
    names = getattr(table, "columns", None) if names is None else names
    return None if names is None or not hasattr(table, "__getitem__") else list(names)


def has_text(names: Sequence[Any]) -> bool:
    """Whether a column is that of texts."""
    return any(isinstance(name, str) and name.casefold() == _TEXT for name in names)


def iter_table(table: Any, names: Sequence[str], features: Sequence[str] = ()) -> Iterator[Example | Sentence]:
    """The rows of a table as examples or sentences; other columns than theirs and ``features`` are not read."""
    by_role = find_word_columns([name for name in names if isinstance(name, str)], bare=False)
    if by_role.token is not None and by_role.sentence is not None and not _has_lists(table, by_role.token):
        yield from _iter_word_rows(table, names, by_role.sentence, by_role.token, features)
        return
    used = [name for name in names if _is_used(name) or name in features]
    if not used:
        raise _missing_error(names)
    if len({*used}) < len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise DataError(f"there are {used.count(twice)} columns {twice!r}", hint="Rename all but one of them.")
    columns = [_values(table, name) for name in used]
    for number, cells in enumerate(zip(*columns, strict=True)):
        yield make_input(dict(zip(used, cells, strict=True)), number, names, features)


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


def _is_used(name: Any) -> bool:
    return isinstance(name, str) and (
        name.casefold() in (_TEXT, _SECOND, _LABEL, *_WORDS, "heads", "deprels", "predicates")
        or name.casefold().endswith("tags")
    )


def _values(table: Any, name: str) -> Iterable[Any]:
    """A column; class numbers of Hugging Face data sets as their names."""
    column = to_python(table[name])
    feature = (getattr(table, "features", None) or {}).get(name)
    classes = getattr(getattr(feature, "feature", feature), "names", None)
    return column if classes is None else (name_classes(value, classes) for value in column)


def to_python(column: Any) -> Any:
    """An array of Arrow, whose items are scalars of its own, as a list; other columns unchanged."""
    return column.to_pylist() if hasattr(column, "to_pylist") else column


def make_input(
    row: Mapping[str, Any], number: int, names: Iterable[str] | None = None, features: Sequence[str] = ()
) -> Example | Sentence:
    """The example of a row, or the sentence of one with a list of words.

    ``number`` is that of the row, from 0; ``names`` are all columns of its table, by default those of the row;
    ``features`` are columns of lists that a sentence keeps.
    """
    text, label = match_name(_TEXT, row), match_name(_LABEL, row)
    given = None if label is None else row[label]
    if text is None:
        if not any(name in row for name in _WORDS):
            raise _missing_error(names or row)
        return _make_sentence({**row, _LABEL: None}, given, number, features)
    content = row[text]
    if isinstance(content, Iterable) and not isinstance(content, str):
        of_words = {name: row[name] for name in features if name in row}
        return _make_sentence({_WORDS[0]: content, **of_words}, given, number, features)
    second = match_name(_SECOND, row)
    for name in filter(None, (text, second)):
        if not isinstance(row[name], str):
            problem = f"row {number} has a {type(row[name]).__name__} in the column {name!r}"
            raise DataError(problem, hint="Give a text, or leave the row out.")
    return Example(content, None if second is None else row[second], given)


def _make_sentence(row: Mapping[str, Any], label: Any, number: int, features: Sequence[str]) -> Sentence:
    """A sentence; its tags are in ``tags``, or in the only column whose name ends so."""
    tags = [name for name in row if name.endswith("_tags") and name not in features]
    chosen = "tags" if "tags" in row else tags[0] if len(tags) == 1 else None
    lists = {name: _as_list(value) for name, value in row.items()}
    try:
        return Sentence(**parse_fields(lists, chosen, {name: name for name in features}), label=label)
    except DataError as error:
        error.message = f"row {number}: {error.message}"
        raise


def _as_list(value: Any) -> Any:
    """An array of NumPy or polars, or a tuple, as a list."""
    to_list = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    return to_list() if to_list else list(value) if isinstance(value, tuple) else value


def _missing_error(names: Iterable[str]) -> DataError:
    known = ", ".join(map(repr, names)) or "none"
    hint = "Rename one of them, or give a column itself, such as X[name]."
    return DataError(f"there is no column {_TEXT!r}; the columns are {known}", hint=hint)
