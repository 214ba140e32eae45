"""Results of runs: lines of a file, and tables."""

import json

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.papers._result_rows import append_row, read_rows, results_table


def test_the_table_has_means_and_deviations_in_the_order_of_the_data_sets():
    rows = [
        {"data_set": "sick", "encoder": "ms-trans", "seed": 0, "dev": 50.0, "test": 60.0},
        {"data_set": "sst2", "encoder": "tfidf", "seed": 0, "dev": 80.0, "test": 81.0},
        {"data_set": "sst2", "encoder": "tfidf", "seed": 1, "dev": 82.0, "test": 81.0},
        {"data_set": "sick", "encoder": "bilstm", "seed": 0, "dev": 52.0},
        {"data_set": "sick", "encoder": "ms-trans+sides", "seed": 0, "dev": 51.0},
        {"data_set": "sick", "encoder": "bilstm+no-vectors", "seed": 0, "dev": 51.0, "held_out": 49.0},
        {"data_set": "mirrored-summation", "encoder": "bilstm", "seed": 0, "mse": 0.1},
    ]
    assert results_table(rows).splitlines()[2:] == [
        "| sst2 | tfidf | 2 | 81.0 ± 1.4 | 81.0 ± 0.0 |",
        "| sick | ms-trans | 1 | 50.0 | 60.0 |",
        "| sick | ms-trans+sides | 1 | 51.0 | - |",
        "| sick | bilstm | 1 | 52.0 | - |",
        "| sick | bilstm+no-vectors | 1 | 51.0 | 49.0 (fold) |",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data_set": "a", "encoder": "b", "seed": 0}\n{"data_set": "a", "enc', "line 2: is not a row of a run"),
        ("{}\n", "line 1: is not a row of a run"),
        ("[1]\n", "line 1: is not a row of a run"),
    ],
)
def test_lines_that_are_not_rows(tmp_path, content, message):
    (tmp_path / "r.jsonl").write_text(content)
    with pytest.raises(DataError) as caught:
        read_rows(tmp_path / "r.jsonl")
    assert message in str(caught.value)


def test_only_newlines_end_a_row(tmp_path):
    row = {"data_set": "a\u2028b\x85c\x1cd", "encoder": "b", "seed": 0}
    append_row(tmp_path / "r.jsonl", row)
    (tmp_path / "s.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    assert read_rows(tmp_path / "r.jsonl") == read_rows(tmp_path / "s.jsonl") == [row]


def test_blank_lines_are_skipped_and_incomplete_lines_completed(tmp_path):
    row = {"data_set": "a", "encoder": "b", "seed": 0}
    (tmp_path / "r.jsonl").write_text(json.dumps(row) + "\n \n\n" + json.dumps(row))
    append_row(tmp_path / "r.jsonl", row)
    assert read_rows(tmp_path / "r.jsonl") == [row] * 3
