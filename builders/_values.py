"""Values of users' lists and tables: whether one is missing, and lists in which each item has one type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from graphattn.exceptions import DataError


def is_missing(value: object) -> bool:
    """Whether a value stands for none: None, NaN, and what pandas has for it.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing(""), is_missing([])
    (True, True, False, False)
    """
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, Real) and value != value


def describe_value(value: object) -> str:
    """A value in an error about its type.

    Examples
    --------
    >>> describe_value(float("nan")), describe_value(3), describe_value(["a"])
    ('nan, a missing value', '3', "['a']")
    """
    if is_missing(value):
        return f"{value}, a missing value"
    shown = repr(value)
    return shown if len(shown) <= 40 else f"a {type(value).__name__}"


def is_list(values: object) -> bool:
    """Whether something has items in an order, and is no text."""
    if isinstance(values, (str, bytes, Mapping, set, frozenset)) or getattr(values, "shape", None) == ():
        return False
    return isinstance(values, Iterable)


def read_strings(values: Any, item: str, field: str | None = None) -> Sequence[str]:
    """A list of strings, as a tuple unless it is one already; an error names the number of an item of another type."""
    return _read_items(values, str, item, field)


def read_integers(values: Any, item: str, field: str | None = None) -> Sequence[int]:
    """A list of whole numbers, those of NumPy and of floats included, like :func:`read_strings`."""
    return _read_items(values, int, item, field)


def _read_items(values: Any, kind: type, item: str, field: str | None) -> Sequence[Any]:
    hint = f"Give a list of {'strings' if kind is str else 'whole numbers'}."
    if not is_list(values):
        raise DataError(f"{describe_value(values)} where a list was expected", field=field, hint=hint)
    values = values if isinstance(values, tuple) else tuple(values)
    if {*map(type, values)} <= {kind}:
        return values
    items = []
    for number, value in enumerate(values):
        is_whole = isinstance(value, Integral) or (isinstance(value, Real) and value == value // 1)
        if not (isinstance(value, str) if kind is str else is_whole):
            expected = "" if is_missing(value) else f", not {'a string' if kind is str else 'a whole number'}"
            raise DataError(f"{item} {number} is {describe_value(value)}{expected}", field=field, hint=hint)
        items.append(value if kind is str else int(value))
    return tuple(items)
