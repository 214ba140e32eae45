"""The fields of a line: labels, lists of labels as other programs write them, and the values of JSON Lines."""

from __future__ import annotations

import json
import math
import re
from ast import literal_eval
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from reprlib import repr as shorten
from typing import Any

from graphattn.builders._sentence import Label, TableRow
from graphattn.builders._spelling import compose
from graphattn.builders._text_lines import TextLines
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint, verbatim, warn_caller

MISSING = object()
"""Result of :func:`find_field` for a missing field."""
_FLAGS = {"0": False, "1": True, "0.0": False, "1.0": True, "false": False, "true": True}
_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_NUMBER = r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?"
_ITEM = re.compile(rf"\s*(?:({_QUOTED})|({_NUMBER})|([Tt]rue|[Ff]alse))(?:\s*,|\s+|\s*$)", re.DOTALL)
_KEY = re.compile(rf"({_QUOTED})\s*:", re.DOTALL)
_CHOICES = re.compile(r"""\{\s*["']choices["']\s*:(.*)\}""", re.DOTALL)
_CLOSING = {"[": "]", "(": ")", "{": "}"}


def parse_label(field: str, separator: str | None, *, multilabel: bool = False) -> Label:
    """The label in a field, without surrounding blanks; with a ``separator`` a tuple of labels, which may be empty.

    With a separator or ``multilabel``, a list in brackets is such a tuple, too.

    Examples
    --------
    >>> parse_label(" 1 ", None)
    '1'
    >>> parse_label("joy|love", "|")
    ('joy', 'love')
    >>> parse_label("['joy', 'love']", None, multilabel=True)
    ('joy', 'love')
    """
    if multilabel or separator is not None:
        items = parse_list(field)
        if items is not None:
            return _several_labels(items, "label")
        if is_bracketed(field):
            raise _unreadable_list_error(field)
        if separator is not None:
            return drop_repeated_labels(field.split(separator))
    label = field.strip()
    if not label:
        raise DataError(
            "the label is empty",
            hint="Fill it in, or read the file without its label column; if texts may have no label or several, set "
            "{label_separator}.",
            options=("label_separator",),
        )
    return label


def _unreadable_list_error(field: str) -> DataError:
    keys = find_keys(field)
    problem = f"a dictionary with the keys {', '.join(keys)}" if keys else f"{shorten(field)} is no list"
    hint = "Quote the names in the brackets, as in ['joy', 'love'], or leave the brackets out."
    return DataError(problem, hint="Give a list of its labels." if keys else hint)


def parse_feature_columns(feature_columns: Sequence[str]) -> dict[str, str]:
    """Name of a feature of words -> the column that has it; each is given as COLUMN or NAME=COLUMN.

    Examples
    --------
    >>> parse_feature_columns(["upos", "shape=3"])
    {'upos': 'upos', 'shape': '3'}
    """
    texts = [text for text in feature_columns if isinstance(text, str)]  # a number is a likely mistake
    columns = {name: column or name for name, _, column in (text.partition("=") for text in texts)}
    if isinstance(feature_columns, str) or len(columns) < len(feature_columns) or "" in columns:
        raise ConfigError(
            f"{{feature_columns}} is {verbatim(repr(feature_columns))}. Give a list of strings, each column once; "
            "pos=1 names column 1",
            options=("feature_columns",),
        )
    return columns


def check_label_separator(separator: str | None) -> None:
    """Reject an empty separator, which Python cannot split at."""
    if separator == "":
        raise ConfigError(
            "{label_separator} is empty. Set it to the characters between two labels, '|' for example",
            options=("label_separator",),
        )


def drop_repeated_labels(names: Iterable[str]) -> tuple[str, ...]:
    """The names that are not blank, in their order, without repetitions."""
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def select_flagged_labels(flags: Mapping[str, str]) -> tuple[str, ...]:
    """The labels whose own column holds 1."""
    wrong = next((name for name, field in flags.items() if field.strip().lower() not in _FLAGS), None)
    if wrong is not None:
        problem = f"{verbatim(repr(flags[wrong]))} where 0 or 1 was expected"
        hint = "Several columns of {label} hold 1 for each label that the text has."
        raise DataError(problem, field=wrong, hint=hint, options=("label",))
    return tuple(name for name, field in flags.items() if _FLAGS[field.strip().lower()])


def split_pair(text: str, separator: str) -> tuple[str, str]:
    """The two texts of a pair in one field."""
    parts = text.split(separator)
    if len(parts) != 2:
        problem = f"{verbatim(repr(separator))} occurs {len(parts) - 1} times in the text, not once"
        hint = "Complete the text, or set {text_separator} to what is between the texts of a pair."
        raise DataError(problem, hint=hint, options=("text_separator",))
    return parts[0].strip(), parts[1].strip()


def parse_object(content: str) -> dict[str, Any]:
    """The object on a line of JSON Lines."""
    hint = "JSON Lines have one object in braces on each line."
    try:
        record = json.loads(content)
    except json.JSONDecodeError as error:
        raise DataError(f"broken JSON: {error.msg} at column {error.colno}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"unreadable JSON: {error}", hint=hint) from error
    if not isinstance(record, dict):
        raise DataError(f"{_describe_type(record)} where an object was expected", hint=hint)
    return record


def make_record_row(record: Mapping[str, Any], lines: TextLines, used: Collection[str] = ()) -> TableRow:
    """All fields of an object of JSON Lines, which was read last.

    Fields that are no text are None, but bytes in the ``used`` columns become U+FFFD.
    """
    arrow = lines.arrow_row
    if arrow is None or not arrow.left_out:
        return TableRow(tuple(record), tuple(record.values()), arrow=arrow)
    used = {name.casefold() for name in used}
    left_out = frozenset(name for name in arrow.left_out if name.casefold() not in used)
    cells = [None if name in left_out else _replace_bytes(value) for name, value in record.items()]
    return TableRow(tuple(record), tuple(cells), arrow=arrow._replace(left_out=left_out))


def _replace_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value


def read_record_row(content: str, lines: TextLines, used: Collection[str] = ()) -> TableRow | None:
    """All fields of the object on a line, even if no example can be made of it; None for something else."""
    with suppress(DataError):
        return make_record_row(parse_object(content), lines, used)
    return None


def find_field(record: Mapping[str, Any], name: str) -> Any:
    """The value of a field, or, with dots in its name, of a field of an inner object; ``MISSING`` if there is none.

    The name is composed; those of the record may have any Unicode form, see :func:`match_name`.

    Examples
    --------
    >>> find_field({"translation": {"EN": "A dog."}}, "translation.en")
    'A dog.'
    """
    if name in record:
        return record[name]
    composed = {compose(key): value for key, value in record.items()}
    key = match_name(name, composed)
    if key is not None:
        return composed[key]
    outer, _, inner = name.partition(".")
    value = composed.get(match_name(outer, composed) or outer)
    return find_field(value, inner) if inner and isinstance(value, dict) else MISSING


def match_name(name: str, names: Collection[str]) -> str | None:
    """The column of this name; if there is none, the only one that differs just in upper and lower case.

    Examples
    --------
    >>> match_name("text", ["LABEL", "Text"])
    'Text'
    """
    if name in names:
        return name
    alike = [other for other in names if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def list_field_names(record: Mapping[str, Any]) -> list[str]:
    """The names of an object's fields for :func:`find_field`."""
    return [
        name if inner is None else f"{name}.{inner}"
        for name, value in record.items()
        for inner in (list_field_names(value) if isinstance(value, dict) else [None])
    ]


def join_texts(texts: Iterable[str]) -> str:
    """One text of several, which may be empty."""
    return " ".join(filter(None, map(str.strip, texts)))


def json_text(value: object, field: str) -> str:
    """The text in a field of a JSON object."""
    if not isinstance(value, str):
        problem = f"{_describe_type(value)} where a string was expected"
        raise DataError(problem, field=field, hint="Quote the text.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        problem, hint = f"half a surrogate pair at character {error.start + 1}", "Write both halves, or the character."
        if "\udc80" <= value[error.start] <= "\udcff":  # of a table, or of another program that keeps bytes so
            byte = ord(value[error.start]) - 0xDC00
            problem, hint = f"byte 0x{byte:02x} at character {error.start + 1} is not UTF-8", "Write the text in UTF-8."
        raise DataError(problem, field=field, hint=hint) from error
    return value


def json_label(
    value: object,
    separator: str | None,
    field: str,
    *,
    multilabel: bool = False,
    alternative: str | None = None,
) -> Label:
    """The label, or labels, in a field of a JSON object; numbers and booleans are spelled as in JSON."""
    if isinstance(value, dict) and isinstance(value.get("choices"), list):
        value = value["choices"]
    if isinstance(value, list):
        return _several_labels(value, field, alternative)
    return parse_label(_spell(value, field, alternative), separator, multilabel=multilabel)


def _several_labels(items: Sequence[object], field: str, alternative: str | None = None) -> tuple[str, ...]:
    """The labels in a list, without repetitions; of zeros and ones, which may be a row of a matrix, with them."""
    if len(items) > 1 and all(isinstance(item, (bool, int, float)) and item in (0, 1) for item in items):
        return tuple("1" if item else "0" for item in items)
    return drop_repeated_labels(_spell(item, field, alternative) for item in items)


def _spell(item: object, field: str, alternative: str | None) -> str:
    if isinstance(item, str):
        return json_text(item, field)
    if isinstance(item, (bool, int)) or (isinstance(item, float) and math.isfinite(item)):
        return json.dumps(item)
    keys = f" with the keys {verbatim(', '.join(item))}" if isinstance(item, dict) and item else ""
    raise DataError(
        f"{_describe_type(item)}{keys} where a label was expected",
        field=field,
        hint="A label is a string, a number, or a list of them; spans in texts are for {format=spans} and taggers.",
        alternative=alternative,
        options=("label", "format"),
    )


def _describe_type(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    return kinds.get(type(value), "a number")


class LeftOutRecords:
    """Counts the JSON records of a file that are no examples: Prodigy keeps what annotators rejected or ignored."""

    def __init__(self, path: str):
        self.path = path
        self.records = self.rejected = self.unlabelled = 0
        self.labels = set[str]()  # at most two of the other records

    def rejects(self, record: Mapping[str, Any]) -> bool:
        """Count a record; return whether its answer is ``reject`` or ``ignore``."""
        rejected = record.get("answer") in ("reject", "ignore")
        self.records += 1
        self.rejected += rejected
        return rejected

    def report(self) -> None:
        """Say how many records are left out; it is more than a hint if those that are left share a label."""
        reasons = {"their answer is reject or ignore": self.rejected, "they have no annotation": self.unlabelled}
        for reason, count in reasons.items():
            if count:
                problem = f"{self.path}: {count:,} of {self.records:,} texts are left out, since {reason}"
                if len(self.labels) == 1:
                    advice = f"all others are {next(iter(self.labels))!r}, so give these another label and accept them"
                    warn_caller(GraphAttnWarning(f"{problem}; {advice}"))
                else:
                    warn_caller(Hint(problem))


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


def find_keys(field: str) -> list[str]:
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
