"""Lists of labels in one field of a table, as Python, NumPy, JSON and Label Studio write them."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from contextlib import suppress

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?"
_ITEM = re.compile(rf"\s*(?:({_QUOTED})|({_NUMBER})|([Tt]rue|[Ff]alse))(?:\s*,|\s+|\s*$)", re.DOTALL)
_KEY = re.compile(rf"({_QUOTED})\s*:", re.DOTALL)
_CHOICES = re.compile(r"""\{\s*["']choices["']\s*:(.*)\}""", re.DOTALL)
_CLOSING = {"[": "]", "(": ")", "{": "}"}


def is_bracketed(field: str) -> bool:
    """Whether a field begins and ends with brackets, and has something else in them than one plain name."""
    field = field.strip()
    return field[-1:] == _CLOSING.get(field[:1], " ") and (len(field) == 2 or any(mark in field for mark in ",'\""))


def parse_list(field: str) -> list[str | int | float | bool] | None:
    """The items of a list, tuple or set of strings and numbers, with commas or, as NumPy writes it, blanks.

    Nothing is evaluated but the escapes in a string. ``{"choices": [...]}`` of Label Studio is its list; None for
    everything else.

    Examples
    --------
    >>> parse_list("['x', 'y']"), parse_list("[1 0 1]"), parse_list('{"choices": ["x"]}'), parse_list("[UNK]")
    (['x', 'y'], [1, 0, 1], ['x'], None)
    """
    field = field.strip()
    field = "[]" if field == "set()" else field
    choices = _CHOICES.fullmatch(field)
    field = choices[1].strip() if choices else field
    if len(field) < 2 or field[-1] != _CLOSING.get(field[0]):
        return None
    content, at = field[1:-1].rstrip(), 0
    items: list[str | int | float | bool] = []
    while match := _ITEM.match(content, at):
        quoted, number, truth = match.groups()
        if quoted:
            value = _unquote(quoted)
            if value is None:
                return None
            items.append(value)
        else:
            is_whole = truth is None and number.lstrip("+-").isdecimal()
            items.append(truth in ("True", "true") if truth else int(number) if is_whole else float(number))
        at = match.end()
    return items if at == len(content) else None


def keys_of(field: str) -> list[str]:
    """The keys of a dictionary."""
    return [key for quoted in _KEY.findall(field) if (key := _unquote(quoted)) is not None]


def _unquote(quoted: str) -> str | None:
    if "\\" not in quoted:
        return quoted[1:-1]
    with suppress(ValueError):
        return str(json.loads(quoted, strict=False))  # joins surrogate pairs
    with suppress(ValueError, SyntaxError):
        return str(literal_eval(quoted))
    return None
