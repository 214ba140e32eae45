"""Lists in cells, as other programs write them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.builders.readers import read_corpus
from graphattn.builders.readers._fields import find_keys, is_bracketed, parse_list
from graphattn.exceptions import DataError

NAMES = st.lists(st.text(st.characters(blacklist_categories=("Cs",)), max_size=8), max_size=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "write", [repr, json.dumps, lambda names: json.dumps(names, ensure_ascii=False), lambda names: repr(tuple(names))]
)
@given(names=NAMES)
def test_names_survive(write, names):
    assert parse_list(write(names)) == names


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("[]", []), ("()", []), ("{}", []), ("set()", []), (" [ ] ", []),
        ("{'x'}", ["x"]), ("('x',)", ["x"]), ("['x', 'y',]", ["x", "y"]),
        (str(np.array(["x", "y z"])), ["x", "y z"]), (str(np.array(["it's", "y"])), ["it's", "y"]),
        (str(np.array([1, 0])), [1, 0]), (str(np.array([1.0, 0])), [1.0, 0.0]),
        (str(np.array([True, False])), [True, False]),
        ("[12345678901234567890]", [12345678901234567890]), ("[-1.5e3]", [-1500.0]), ("[true]", [True]),
        ('{"choices": ["x", "y"]}', ["x", "y"]), ("{'choices': ['x']}", ["x"]), ('{"choices": []}', []),
        (str(np.array(["a"] * 40)), ["a"] * 40),
    ],
)  # fmt: skip
def test_lists(field, expected):
    assert parse_list(field) == expected


@pytest.mark.parametrize(
    "field",
    ["", "x", "[", "[UNK]", "(none)", "x, y", "[x, y]", "['x' 'y", "['x', y]", "['x'", "['x'}", "[['x']]", "['x''y']",
     "[None]", "[01]", "['x', ['y']]", "{'x': 1}", "{'choices': 'x'}", "['x'] or ['y']", "[__import__('os')]",
     "['a' 'b' ... 'c']", "['\\x']", "['x'*9]", str(["x"])[1:-1]],
)  # fmt: skip
def test_other_fields(field):
    assert parse_list(field) is None


def test_a_long_field_takes_linear_time():
    assert parse_list("[" + "'a'," * 100_000 + "]") == ["a"] * 100_000
    assert parse_list("[" + "'a" * 100_001) is None
    assert parse_list("[" * 100_000 + "]" * 100_000) is None


def test_keys():
    assert find_keys("{'x': 1, \"y\\u00e9\": [2]}") == ["x", "y\u00e9"]
    assert not is_bracketed("[UNK]")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
@pytest.mark.parametrize("label", ["['x', 'y']", '["x", "y"]', "('x', 'y')", "['x' 'y']", '{"choices": ["x", "y"]}'])
def test_cells_with_lists(tmp_path, name, label):
    frame = pd.DataFrame({"label": [label, "[]"], "text": ["a b", "c d"]})
    if name == "a.jsonl":
        frame.to_json(tmp_path / name, orient="records", lines=True)
    elif name == "a.csv":
        frame.to_csv(tmp_path / name, index=False)
    else:
        rows = ["\t".join(row) for row in [*[frame.columns][: name == "a.tsv"], *frame.to_numpy().tolist()]]
        (tmp_path / name).write_text("\n".join(rows))
    options = {"format": "labelled", "columns": ("label", "text")} if name == "a.txt" else {}
    assert [item.label for item in read_corpus(tmp_path / name, multilabel=True, **options)] == [("x", "y"), ()]
    assert [item.label for item in read_corpus(tmp_path / name, label_separator="|", **options)] == [("x", "y"), ()]
    assert [item.label for item in read_corpus(tmp_path / name, **options)] == [label, "[]"]


def test_objects_with_choices(corpus):
    path = corpus("a.jsonl", '{"text": "a", "label": {"choices": ["x", "y"]}}', '{"text": "a", "label": [1, 0, 1]}')
    assert [item.label for item in read_corpus(path)] == [("x", "y"), ("1", "0", "1")]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("\"{'x': 1, 'y': 0}\"", "a dictionary with the keys x, y"),
        ('"[x, y]"', "'[x, y]' is no list"),
        ('{"x": 1, "y": 0}', "an object with the keys x, y where a label was expected"),
        ('["x", {"y": 0}]', "an object with the keys y where a label was expected"),
    ],
)
def test_no_lists(corpus, label, message):
    path = corpus("a.jsonl", f'{{"text": "a", "label": {label}}}')
    for options in ({"multilabel": True}, {"label_separator": ","}):
        with pytest.raises(DataError) as caught:
            list(read_corpus(path, **options))
        assert (caught.value.message, caught.value.line) == (message, 1)
