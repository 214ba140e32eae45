"""Cells of further columns of a table, which classifiers and regressors read beside the texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

from graphattn.builders._spelling import compose
from graphattn.builders._values import describe_value, is_missing
from graphattn.builders.readers._fields import MISSING, find_field, json_text, list_field_names, parse_feature_columns
from graphattn.exceptions import ConfigError, DataError, verbatim

CATEGORY, NUMBER = "category", "number"
_LARGEST = 1e30
"""Largest number in a cell, whose square is finite."""


class CellColumn(NamedTuple):
    """A column whose cells a model reads beside the texts."""

    name: str
    column: str  # its name in a file
    kind: str  # ``category`` or ``number``; empty if only the model knows it

    def spell(self) -> str:
        """It as :func:`parse_cell_columns` reads it."""
        return f"{self.name}={self.column}{self.kind and ':'}{self.kind}"


def parse_cell_columns(feature_columns: Sequence[str], *, typed: bool = False) -> tuple[CellColumn, ...]:
    """The columns in ``feature_columns``, each NAME or NAME=COLUMN, with ``:category`` or ``:number``.

    Unless they must be ``typed``, that may be missing.

    Examples
    --------
    >>> parse_cell_columns(["priority:category", "amount=Betrag:number"])[1]
    CellColumn(name='amount', column='Betrag', kind='number')
    """
    if isinstance(feature_columns, str) or not all(isinstance(text, str) for text in feature_columns):
        parse_feature_columns(feature_columns)  # an error
    names, kinds = [], []
    for text in feature_columns:
        name, _, kind = text.rpartition(":")
        is_typed = bool(name) and kind in (CATEGORY, NUMBER)
        if typed and not is_typed:
            problem = f"{{feature_columns}} has {verbatim(repr(text))}"
            fix = f"write {verbatim(name or text)}:category or {verbatim(name or text)}:number"
            raise ConfigError(f"{problem}; {fix}", options=("feature_columns",))
        names.append(name if is_typed else text)
        kinds.append(kind if is_typed else "")
    columns = parse_feature_columns(names).items()
    return tuple(
        CellColumn(compose(name), compose(column), kind) for (name, column), kind in zip(columns, kinds, strict=True)
    )


def rename_cell_columns(given: Sequence[str], trained: Sequence[str]) -> tuple[str, ...]:
    """The columns of a model's training set, some of which have other names in a file, as ``given`` says.

    Of a model without kinds of columns, which reads features of words, those that are given.
    """
    columns = {column.name: column for column in parse_cell_columns(trained)}
    if not all(column.kind for column in columns.values()) or not columns:
        return tuple(given)
    for column in parse_cell_columns(given):
        if column.name not in columns:
            problem = f"{{feature_columns}} has {verbatim(repr(column.name))}, and the model reads "
            known = verbatim(", ".join(columns))
            raise ConfigError(f"{problem}{known}; write NAME=COLUMN", options=("feature_columns",))
        columns[column.name] = column._replace(kind=columns[column.name].kind)
    return tuple(column.spell() for column in columns.values())


def reject_roles(columns: Sequence[CellColumn], roles: Mapping[str, Iterable[str]]) -> None:
    """Reject columns of cells that are also those of a text or of the label; ``roles`` are role -> its columns."""
    for role, names in roles.items():
        for name in names:
            if any(column.column == name for column in columns):
                raise ConfigError(
                    f"{{feature_columns}} has {verbatim(repr(name))}, the column of the {role}; leave it out",
                    options=("feature_columns",),
                )


def read_cells(columns: Sequence[CellColumn], find: Callable[[CellColumn], Any]) -> dict[str, Any] | None:
    """Name -> value of the cells of a row; None without columns. ``find`` returns the cell of a column."""
    return {column.name: read_cell(find(column), column) for column in columns} if columns else None


def read_cell(value: Any, column: CellColumn) -> Any:
    """The value of a cell: a float of a ``number``, the text of a ``category``, None of an empty cell.

    Without a kind it is returned unchanged.

    Examples
    --------
    >>> read_cell(" 12.50 ", CellColumn("amount", "amount", "number"))
    12.5
    >>> level = CellColumn("level", "level", "category")
    >>> read_cell(3.0, level), read_cell("3", level), read_cell(" ", level)
    ('3', '3', None)
    """
    if not column.kind:
        return value
    if is_missing(value) or (isinstance(value, str) and not value.strip()):
        return None
    value = value.item() if hasattr(value, "item") else value  # of NumPy
    if column.kind == NUMBER:
        return _read_number(value, column.name)
    if isinstance(value, str):
        return compose(json_text(value, column.name).strip())
    if not isinstance(value, Real):
        problem = f"{describe_value(value)} where a category was expected"
        raise DataError(problem, field=column.name, hint="Give a text or a number, or leave the cell empty.")
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _read_number(value: Any, name: str) -> float:
    try:
        number = float("" if isinstance(value, str) and "_" in value else value)
    except (TypeError, ValueError, OverflowError):
        problem = f"{verbatim(describe_value(value))} is not a number"
        raise DataError(problem, field=name, hint="Write a number such as 12.5, or leave the cell empty.") from None
    if abs(number) <= _LARGEST:
        return number
    problem = "is too large" if math.isfinite(number) else "is not finite"
    hint = f"Write a number up to {_LARGEST:g}, or leave the cell empty."
    raise DataError(f"{verbatim(describe_value(value))} {problem}", field=name, hint=hint)


def find_cell(record: Mapping[str, Any], column: CellColumn, *, in_file: bool = True) -> Any:
    """The cell of an object; an error if it has no such field."""
    value = find_field(record, column.column)
    if value is MISSING:
        raise make_missing_column_error(column, list_field_names(record), in_file=in_file)
    return value


def make_missing_column_error(column: CellColumn, names: Iterable[str], *, in_file: bool = True) -> DataError:
    """The error that a table or an object lacks a column of cells; ``names`` are those that it has."""
    known = verbatim(", ".join(map(repr, names)) or "none")
    problem = f"there is no column {verbatim(repr(column.column))}, a feature beside the text; the columns are {known}"
    hint = "Add it, empty where it is unknown"
    if in_file:
        hint += f", or name the column that has it: {{feature_columns={verbatim(column.name)}=COLUMN}}"
    return DataError(problem, hint=f"{hint}.", options=("feature_columns",))
