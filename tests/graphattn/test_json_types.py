"""JSON values and their types, and checksums."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from graphattn._json_types import check_json, json_checksum, read_record


@dataclass
class Part:
    name: str
    sizes: list[int] = field(default_factory=list)


@dataclass
class Whole:
    parts: list[Part]
    rate: float = 1.0
    heads: int | str | Mapping[str, int] | None = None
    free: Any = None


@pytest.mark.parametrize(
    ("kind", "valid", "invalid"),
    [
        (bool, [True], [1, "true", None]),
        (int, [0, -3], [True, 1.0, "1", None]),
        (float, [0, 1.5, float("nan")], [True, "1", []]),
        (str | None, ["", None], [0, []]),
        (list[int], [[], [1]], [["1"], {}, 1, [None]]),
        (tuple[str, ...] | str | None, [["a"], "a", None], [[1], 1]),
        (dict[str, list[float]], [{}, {"a": [1]}], [[], {"a": 1}, {"a": ["b"]}]),
        (int | str | Mapping[str, int], [1, "a", {"a": 1}], [None, 1.5, {"a": "b"}]),
        (Part, [{"name": "a"}, {"name": "a", "sizes": [], "more": 1}], [{}, {"name": 1}, {"name": "a", "sizes": 1}, 1]),
        (Any, [1, "a", None, []], []),
    ],
)
def test_values_and_types(kind, valid, invalid):
    for value in valid:
        check_json(value, kind, "x")
    for value in invalid:
        with pytest.raises(ValueError, match=r"x.* is |is missing in x"):
            check_json(value, kind, "x")


def test_a_record_with_records():
    record = {"parts": [{"name": "a", "sizes": [1]}], "rate": 2, "heads": {"star": 1}, "other": 1}
    assert read_record(record, Whole) == Whole([Part("a", [1])], 2, {"star": 1})
    for change, message in [
        ({"parts": ...}, "'parts' is missing"),
        ({"parts": [{"sizes": []}]}, "'name' is missing in parts[0]"),
        ({"parts": [{"name": "a", "sizes": [1, "2"]}]}, 'parts[0].sizes[1] is "2", not a whole number'),
        ({"rate": "2"}, 'rate is "2", not a number'),
        ({"heads": [1]}, "heads is [1], not a whole number or a string or an object or null"),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            read_record({name: value for name, value in {**record, **change}.items() if value is not ...}, Whole)
    with pytest.raises(ValueError, match=r"the file is \[\], not an object"):
        read_record([], Whole)


def test_the_checksum_depends_on_values_and_the_order_of_keys():
    record = {"b": [1, 2.5, None], "a": {"é": True, "c": float("inf")}}
    checksum = json_checksum(record)
    assert json_checksum(json.loads(json.dumps(record, indent=3))) == checksum
    assert json_checksum(dict(reversed(record.items()))) != checksum
    assert json_checksum({**record, "b": [1, 2.5]}) != checksum != json_checksum({**record, "b": [1, 2, None]})
