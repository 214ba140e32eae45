"""The fields of a line of JSON Lines: objects, texts and labels, and what is wrong with them."""

from __future__ import annotations

import json
import math
from typing import Any

from graphattn.builders.readers.labels import distinct_labels, parse_label
from graphattn.builders.sentence import Label
from graphattn.exceptions import DataError


def json_object(content: str, path: str, line: int) -> dict[str, Any]:
    """The object on a line of JSON Lines.

    Raises
    ------
    DataError
        when the line holds something else
    """
    hint = "JSON Lines hold one object in braces on each line."
    try:
        record = json.loads(content)
    except json.JSONDecodeError as error:
        raise DataError(f"broken JSON: {error.msg} at column {error.colno}", path=path, line=line, hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"unreadable JSON: {error}", path=path, line=line, hint=hint) from error
    if not isinstance(record, dict):
        raise DataError(f"{_kind(record)} where an object was expected", path=path, line=line, hint=hint)
    return record


def json_text(value: object, field: str, path: str, line: int) -> str:
    """The text that a field holds.

    Raises
    ------
    DataError
        when it is none, or holds half a surrogate pair
    """
    if not isinstance(value, str):
        raise DataError(
            f"{_kind(value)} where a string was expected",
            path=path,
            line=line,
            field=field,
            hint="Quote the text.",
        )
    return _whole_text(value, field, path, line)


def _whole_text(value: str, field: str, path: str, line: int) -> str:
    """Refuse half surrogate pairs, which JSON can spell but which no later step could encode."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"half a surrogate pair at character {error.start + 1}",
            path=path,
            line=line,
            field=field,
            hint="Write both halves, or the character itself.",
        ) from error
    return value


def json_label(value: object, separator: str | None, field: str, path: str, line: int, *, lacking: str) -> Label:
    """The label, or labels, that a field holds; numbers and truth values as JSON spells them.

    Parameters
    ----------
    value : a string, a number, a truth value, or a list of them
    separator : what stands between several labels in a string; None when it holds one
    field, path, line : where it stands, for errors
    lacking : what to do where there is no label, for errors

    Raises
    ------
    DataError
        when it is something else, or empty
    """
    if isinstance(value, list):
        return distinct_labels(_name(item, field, path, line, lacking) for item in value)
    return parse_label(_name(value, field, path, line, lacking), separator, path=path, line=line)


def _name(value: object, field: str, path: str, line: int, lacking: str) -> str:
    if isinstance(value, str):
        return _whole_text(value, field, path, line)
    if isinstance(value, (bool, int, float)) and math.isfinite(value):
        return json.dumps(value)
    raise DataError(
        f"{_kind(value)} where a label was expected",
        path=path,
        line=line,
        field=field,
        hint=f"A label is a string, a number, or a list of them; {lacking}.",
    )


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    odd = isinstance(value, float) and not math.isfinite(value)
    return json.dumps(value) if odd else kinds.get(type(value), "a number")
