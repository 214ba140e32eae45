"""Reports as Markdown and JSON, and the description of the machine."""

import json
import re
import subprocess
from importlib.util import find_spec

import psutil
import pytest
import torch

import graphattn
from graphattn.exceptions import DataError
from graphattn.experiments.benchmarks import _report as reports
from graphattn.experiments.benchmarks._report import BenchmarkReport

MACHINE = {
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
    fields = {
        "name": "attention",
        "description": "What is compared.",
        "columns": {"who": lambda row: row["who"], "ms": lambda row: f"{row['ms']:.1f}"},
        "rows": [{"who": "ours", "ms": 1.26}, {"who": "dense", "ms": 5.0}],
        "settings": {"repeats": 3},
        "machine": MACHINE,
    }
    return BenchmarkReport(**{**fields, **changes})


def test_markdown_has_description_machine_table_notes_and_skipped_contenders():
    text = report(notes=["constant: met"], left_out=["PyG: not installed"]).to_markdown()
    assert text == (
        "# graphattn bench attention\n\n"
        "What is compared.\n\n"
        "Some CPU (AVX2), 2 cores, 8.0 GiB, Linux x86_64; 2 threads; python 3.11.0, torch 2.13.0, commit abc.\n\n"
        "| who | ms |\n|---|---|\n| ours | 1.3 |\n| dense | 5.0 |\n\n"
        "- constant: met\n\n"
        "Left out:\n\n- PyG: not installed\n"
    )


def test_empty_parts_are_omitted():
    text = report().to_markdown("attention.png")
    assert "Left out" not in text
    assert text.endswith("| dense | 5.0 |\n\n![attention](attention.png)\n")


def test_json_has_everything_unrounded(tmp_path):
    def plot(rows, path):
        path.write_text(f"{len(rows)} rows")

    report(plot=plot, notes=["n"], left_out=["l"]).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.md", "attention.png"]
    content = json.loads((tmp_path / "attention.json").read_text())
    assert content == {
        "command": "attention",
        "settings": {"repeats": 3},
        "circumstances": MACHINE,
        "rows": [{"who": "ours", "ms": 1.26}, {"who": "dense", "ms": 5.0}],
        "notes": ["n"],
        "left_out": ["l"],
    }
    assert "![attention](attention.png)" in (tmp_path / "attention.md").read_text()
    assert (tmp_path / "attention.png").read_text() == "2 rows"


def test_without_rows_there_is_no_picture(tmp_path):
    report(rows=[], plot=lambda rows, path: path.write_text("")).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.md"]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        report().write(tmp_path / "none")


def test_the_machine_on_one_line():
    machine = reports.describe_machine()
    assert machine["vectors"] in {"DEFAULT", "AVX2", "AVX512"} or "x86" not in machine["system"]
    assert machine["threads"] == torch.get_num_threads()
    assert machine["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.06)
    assert machine["versions"]["graphattn"] == graphattn.__version__
    assert {"python", "torch", "numba"} <= machine["versions"].keys()
    assert ("dgl" in machine["versions"]) == (find_spec("dgl") is not None)
    line = reports.summarize_machine({**machine, "cpu": "Some CPU", "vectors": "AVX2", "cores": 2, "commit": "abc"})
    assert line.startswith(f"Some CPU (AVX2), 2 cores, {machine['memory_gib']} GiB, ")
    assert line.endswith(", commit abc")
    assert "commit" not in reports.summarize_machine({**machine, "commit": None})


def test_the_name_of_the_processor(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Fast 9000\n\nmodel name\t: Fast 9000\n")
    assert reports.cpu_model(path) == "Fast 9000"
    path.write_text("no model\n")
    assert reports.cpu_model(path)
    assert reports.cpu_model(tmp_path / "missing")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with the file by which ours is recognized."""
    (tmp_path / "graphattn").mkdir()
    (tmp_path / "graphattn" / "attention.py").write_text("")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


def git(folder, *words):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def test_the_commit_is_known_inside_the_repository_only(repository):
    assert reports.current_commit(repository / "graphattn") is None
    git(repository, "init")
    git(repository, "add", "graphattn/_attention.py")
    git(repository, "commit", "-m", "first")
    assert re.fullmatch(r"[0-9a-f]{12}", reports.current_commit(repository / "graphattn"))
    (repository / "more").write_text("")
    assert re.fullmatch(r"[0-9a-f]{12}", reports.current_commit(repository / "graphattn"))
    (repository / "graphattn" / "attention.py").write_text("changed")
    assert re.fullmatch(r"[0-9a-f]{12}\+", reports.current_commit(repository / "graphattn"))
    git(repository, "rm", "-f", "graphattn/_attention.py")
    (repository / "graphattn").mkdir(exist_ok=True)
    assert reports.current_commit(repository / "graphattn") is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    assert reports.current_commit(repository / "graphattn") is None
