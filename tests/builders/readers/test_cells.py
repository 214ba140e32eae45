"""Cells of further columns: how columns are named, what a cell is, and where readers find it."""

import json

import numpy as np
import pandas as pd
import pytest

from graphattn import Sentence
from graphattn.builders.readers import read_corpus, read_table
from graphattn.builders.readers._cells import CellColumn, parse_cell_columns, read_cell, rename_cell_columns
from graphattn.exceptions import ConfigError, DataError

COLUMNS = ("priority:category", "amount:number")
TABLE = "text,label,priority,amount\na,x,high,1.5\nb,y,,\n"
CELLS = [{"priority": "high", "amount": 1.5}, {"priority": None, "amount": None}]
CATEGORY, NUMBER = CellColumn("a", "a", "category"), CellColumn("a", "a", "number")


def test_columns_have_kinds_and_other_names():
    parsed = parse_cell_columns(["a:b:category", "amount=Sum, total:number", "plain"])
    assert parsed == (("a:b", "a:b", "category"), ("amount", "Sum, total", "number"), ("plain", "plain", ""))
    assert parse_cell_columns([column.spell() for column in parsed]) == parsed


@pytest.mark.parametrize(
    "given", [["a:cat"], ["a"], [":number"], ["a:number", "a:category"], ["=x:number"], "a:number", [1]]
)
def test_columns_that_are_not_given_so(given):
    with pytest.raises(ConfigError) as caught:
        parse_cell_columns(given, typed=True)
    assert caught.value.options == ("feature_columns",)


def test_a_file_may_have_other_names_than_the_training_set():
    trained = parse_cell_columns(rename_cell_columns(["priority=Prio"], COLUMNS))
    assert trained == (("priority", "Prio", "category"), ("amount", "amount", "number"))
    assert rename_cell_columns(["pos=1"], ["pos=2"]) == ("pos=1",)  # of words
    with pytest.raises(ConfigError, match="priority, amount"):
        rename_cell_columns(["prio=Prio"], COLUMNS)


@pytest.mark.parametrize(
    ("value", "category", "number"),
    [
        ("12.50", "12.50", 12.5),
        (" 3 ", "3", 3.0),
        (3, "3", 3.0),
        (3.0, "3", 3.0),
        (np.float32(2.5), "2.5", 2.5),
        (np.int64(7), "7", 7.0),
        (True, "True", 1.0),
        ("e\u0301", "\u00e9", None),
        *((empty, None, None) for empty in (None, "", "  ", float("nan"), pd.NA, pd.NaT)),
    ],
)
def test_values_of_cells(value, category, number):
    assert read_cell(value, CATEGORY) == category
    if number is not None or category is None:
        assert read_cell(value, NUMBER) == number


@pytest.mark.parametrize(
    "value", ["many", "1_000", "1,5", "inf", float("inf"), "nan", 1e31, [1], 10**400, pd.Timestamp(0)]
)
def test_what_is_no_number(value):
    with pytest.raises(DataError) as caught:
        read_cell(value, NUMBER)
    assert caught.value.field == "a"


def test_what_is_no_category():
    with pytest.raises(DataError, match="category"):
        read_cell(["x"], CATEGORY)


def write_json(folder, rows):
    path = folder / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_every_table_gives_the_same_cells(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "a.tsv").write_text(TABLE.replace(",", "\t").replace("priority", "Priority"))
    rows = [{"text": "a", "label": "x", "priority": "high", "amount": 1.5}]
    rows += [{"text": ["b", "c"], "label": "y", "priority": None, "amount": None}]
    write_json(tmp_path, rows)
    pd.DataFrame([{**row, "text": "a"} for row in rows]).to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.parquet"):
        items = list(read_corpus(tmp_path / name, task="classify", feature_columns=COLUMNS))
        assert [item.cells for item in items] == CELLS
    assert isinstance(next(reversed(list(read_table(tmp_path / "a.jsonl", feature_columns=COLUMNS)))), Sentence)


def test_parsed_sentences_and_inner_fields(tmp_path):
    row = {"tokens": ["a", "b"], "heads": [0, 1], "label": "x", "meta": {"amount": 2}}
    path = write_json(tmp_path, [row])
    (sentence,) = read_corpus(path, format="sentences", task="classify", feature_columns=["meta.amount:number"])
    assert (sentence.cells, sentence.features) == ({"meta.amount": 2.0}, None)


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("text,label,amount\na,x,1\n", 1, "no column 'priority'"),
        ("text,label,priority,priority,amount\na,x,1,1,1\n", 1, "2 columns are named 'priority'"),
        ("text,label,priority,amount\na,x,low,1\nb,y,low,many\n", 3, "'many' is not a number"),
        ("text,label,priority,amount\na,x,low,inf\n", 2, "not finite"),
    ],
)
def test_errors_name_file_line_and_column(content, line, words, tmp_path):
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(DataError, match=words) as caught:
        list(read_table(tmp_path / "a.csv", feature_columns=COLUMNS))
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "a.csv"), line)


def test_a_record_without_the_field(tmp_path):
    path = write_json(tmp_path, [{"text": "a", "label": "x", "priority": "low"}])
    with pytest.raises(DataError, match="no column 'amount'") as caught:
        list(read_table(path, feature_columns=COLUMNS))
    assert (caught.value.line, caught.value.options) == (1, ("feature_columns",))


@pytest.mark.parametrize("column", ["text", "label"])
def test_the_text_and_the_label_are_no_features(column, tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    with pytest.raises(ConfigError, match=f"the column of the {column}"):
        read_table(tmp_path / "a.csv", feature_columns=[f"{column}:category"])


def test_formats_without_columns(tmp_path):
    (tmp_path / "a.txt").write_text("__label__x a b\n__label__y c d\n")
    with pytest.raises(DataError, match="priority, amount"):
        list(read_corpus(tmp_path / "a.txt", task="classify", feature_columns=COLUMNS))
