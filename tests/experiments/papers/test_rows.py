"""Results of runs: lines of a file, and tables."""

import json
from pathlib import Path

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.papers._rows import append_row, comparison_table, read_rows, results_table


def test_the_table_has_means_and_deviations_in_the_order_of_the_data_sets():
    rows = [
        {"data_set": "sick", "encoder": "ms-trans", "seed": 0, "dev": 50.0, "test": 60.0},
        {"data_set": "sst2", "encoder": "tfidf", "seed": 0, "dev": 80.0, "test": 81.0},
        {"data_set": "sst2", "encoder": "tfidf", "seed": 1, "dev": 82.0, "test": 81.0},
        {"data_set": "mirrored-summation", "encoder": "bilstm", "seed": 0, "mse": 0.1},
    ]
    assert results_table(rows).splitlines()[2:] == [
        "| sst2 | tfidf | 2 | 81.0 ± 1.4 | 81.0 ± 0.0 |",
        "| sick | ms-trans | 1 | 50.0 | 60.0 |",
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


def test_the_comparison_has_ordered_encoders_and_gaps():
    rows = [
        {"data_set": "sick", "encoder": "duo=a+b", "seed": 0, "test": 60.0},
        {"data_set": "sst2", "encoder": "tfidf", "seed": 0, "test": 81.0},
        {"data_set": "sst2", "encoder": "transformer", "seed": 0, "test": 80.0},
        {"data_set": "sst2", "encoder": "transformer", "seed": 1, "test": 82.0},
        {"data_set": "sst2", "encoder": "ms-trans", "seed": 0, "dev": 83.0},
    ]
    assert comparison_table(rows).splitlines() == [
        "| data set | ms-trans | transformer | tfidf | duo=a+b |",
        "|---|---|---|---|---|",
        "| sst2 | - | 81.0 ± 1.4 | 81.0 |  |",
        "| sick |  |  |  | 60.0 |",
    ]


def test_the_page_of_results_has_the_tables_of_results_jsonl():
    docs = Path(__file__).resolve().parents[3] / "docs"
    page, rows = (docs / "results.md").read_text(encoding="utf-8"), read_rows(docs / "results.jsonl")
    assert results_table(rows) in page
    columns = next(line for line in page.splitlines() if line.startswith("| data set | ms-trans |"))
    assert comparison_table([row for row in rows if row["encoder"] in columns.strip("| ").split(" | ")]) in page
