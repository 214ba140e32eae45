"""Reports as Markdown and JSON."""

import json

import pytest

from graphattn.exceptions import DataError
from graphattn.experiments.benchmarks.report import Report, markdown_table

WHERE = {
    "cpu": "Some CPU",
    "vectors": "AVX2",
    "cores": 2,
    "memory_gib": 8.0,
    "system": "Linux x86_64",
    "threads": 2,
    "versions": {"python": "3.11.0", "torch": "2.13.0"},
    "commit": "abc",
}


def report(**changes):
    given = {
        "name": "attention",
        "compared": "What is compared.",
        "columns": {"who": lambda row: row["who"], "ms": lambda row: f"{row['ms']:.1f}"},
        "rows": [{"who": "ours", "ms": 1.26}, {"who": "dense", "ms": 5.0}],
        "settings": {"repeats": 3},
        "circumstances": WHERE,
    }
    return Report(**{**given, **changes})


def test_markdown_says_what_was_compared_where_and_who_is_missing():
    found = report(notes=["constant: met"], left_out=["PyG: not installed"]).markdown()
    assert found == (
        "# graphattn bench attention\n\n"
        "What is compared.\n\n"
        "Some CPU (AVX2), 2 cores, 8.0 GiB, Linux x86_64; 2 threads; python 3.11.0, torch 2.13.0, commit abc.\n\n"
        "| who | ms |\n|---|---|\n| ours | 1.3 |\n| dense | 5.0 |\n\n"
        "- constant: met\n\n"
        "Left out:\n\n- PyG: not installed\n"
    )


def test_nothing_is_said_of_nobody():
    found = report().markdown("attention.png")
    assert "Left out" not in found
    assert found.endswith("| dense | 5.0 |\n\n![attention](attention.png)\n")


def test_files_hold_everything_unrounded(tmp_path):
    def picture(rows, path):
        path.write_text(f"{len(rows)} rows")

    report(picture=picture, notes=["n"], left_out=["l"]).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.md", "attention.png"]
    found = json.loads((tmp_path / "attention.json").read_text())
    assert found == {
        "command": "attention",
        "settings": {"repeats": 3},
        "circumstances": WHERE,
        "rows": [{"who": "ours", "ms": 1.26}, {"who": "dense", "ms": 5.0}],
        "notes": ["n"],
        "left_out": ["l"],
    }
    assert "![attention](attention.png)" in (tmp_path / "attention.md").read_text()
    assert (tmp_path / "attention.png").read_text() == "2 rows"


def test_without_rows_there_is_no_picture(tmp_path):
    report(rows=[], picture=lambda rows, path: path.write_text("")).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.md"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        report().write(tmp_path / "none")


def test_a_table_without_rows_has_its_headings():
    assert markdown_table(["a", "b"], []) == "| a | b |\n|---|---|"
