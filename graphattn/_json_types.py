"""Check values of JSON files, and options, against types, so that a wrong one is one clear error where it is read."""

from __future__ import annotations

import hashlib
import json
import math
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

DataT = TypeVar("DataT")
_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    dict: "an object",
    Mapping: "an object",
    list: "a list",
    tuple: "a list",
    Sequence: "a list",
    type(None): "null",
}


@dataclass(frozen=True)
class Bounds:
    """Smallest and largest value of a number in JSON, in ``Annotated[int, Bounds(1, 100)]``; null has none."""

    min: float
    max: float = math.inf

    def check(self, value: float | None, name: str) -> None:
        """Raise ValueError unless the number is within the bounds; NaN never is."""
        if value is not None and not (self.min <= value <= self.max and value != math.inf):
            rule = f"from {self.min:,} to {self.max:,}" if self.max < math.inf else f"of at least {self.min:,}"
            raise ValueError(f"{name} is {value}, not a number {rule}")


def check_json(value: Any, annotation: Any, name: str) -> None:
    """Check a JSON value against a type.

    Examples
    --------
    >>> check_json({"good": 1, "bad": 2.5}, dict[str, float], "weights")
    >>> check_json(0, Annotated[int, Bounds(1, 1000)], "layers")
    Traceback (most recent call last):
        ...
    ValueError: layers is 0, not a number from 1 to 1,000
    >>> check_json([1, "2"], list[int], "widths")
    Traceback (most recent call last):
        ...
    ValueError: widths[1] is "2", not a whole number
    """
    if get_origin(annotation) is Annotated:
        annotation, bounds = get_args(annotation)
        check_json(value, annotation, name)
        bounds.check(value, name)
        return
    options = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    shapes = [dict if is_dataclass(option) else get_origin(option) or option for option in options]
    if not any(_check_option(value, option, shape, name) for option, shape in zip(options, shapes, strict=True)):
        expected = " or ".join(dict.fromkeys(_NAMES[shape] for shape in shapes))
        shown = json.dumps(value, ensure_ascii=False, default=repr)[:60]
        raise ValueError(f"{name or 'the file'} is {shown}, not {expected}")


def _check_option(value: Any, annotation: Any, shape: Any, name: str) -> bool:
    """Whether a value is of a type, which is no union; if so, check its items, too."""
    if shape not in _NAMES or _is_scalar(value, shape):
        return True
    if isinstance(value, (list, tuple)) and shape in (list, tuple, Sequence):
        inner = (get_args(annotation) or (Any,))[0]
        for number, item in enumerate(value):
            check_json(item, inner, f"{name}[{number}]")
        return True
    if not isinstance(value, dict) or shape not in (dict, Mapping):
        return False
    if is_dataclass(annotation):
        required = (item for item in fields(annotation) if item.default is MISSING and item.default_factory is MISSING)
        require_keys(value, [item.name for item in required], name)
        check_fields(value, annotation, name)
        return True
    inner = (get_args(annotation) or (Any, Any))[1]
    for key, item in value.items():
        check_json(item, inner, f"{name}.{key}" if name else key)
    return True


def check_fields(record: Mapping[str, Any], annotation: Any, name: str = "") -> None:
    """Check the values of an object that has some fields of a dataclass; other keys are ignored."""
    hints = get_type_hints(annotation, include_extras=True)
    for item in fields(annotation):
        if item.name in record:
            check_json(record[item.name], hints[item.name], f"{name}.{item.name}" if name else item.name)


def read_record(record: Any, annotation: type[DataT]) -> DataT:
    """A dataclass from a JSON object, whose other keys are ignored; lists of objects become lists of dataclasses."""
    check_json(record, annotation, "")
    hints, values = get_type_hints(annotation), dict[str, Any]()
    for item in fields(annotation):  # type: ignore[arg-type]
        if item.name in record:
            inner: Any = (get_args(hints[item.name]) or (None,))[0]
            value = record[item.name]
            values[item.name] = (
                [read_record(row, inner) for row in value] if isinstance(inner, type) and is_dataclass(inner) else value
            )
    return annotation(**values)


def require_keys(record: Mapping[str, Any], names: Iterable[str], where: str = "") -> None:
    """Raise ValueError if a key is missing."""
    missing = next((name for name in names if name not in record), None)
    if missing is not None:
        raise ValueError(f"{missing!r} is missing" + (f" in {where}" if where else ""))


def json_checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of an object's JSON without blanks; the order of keys counts, since some of ours are numbered by it."""
    text = json.dumps(record, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _is_scalar(value: Any, annotation: Any) -> bool:
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return annotation in (bool, str, type(None)) and isinstance(value, annotation)
