"""Reports as Markdown, JSON and plots, and the description of the machine."""

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
from graphattn.experiments.benchmarks._report import BenchmarkReport, collect_costs, plot_cost

MACHINE = {
    **{"cpu": "Some CPU", "vectors": "AVX2", "cores": 2, "memory_gib": 8.0, "system": "Linux x86_64", "threads": 2},
    **{"versions": {"python": "3.11.0", "torch": "2.13.0"}, "commit": "abc"},
}
ROWS = [{"who": "ours", "ms": 1.26}, {"who": "dense", "ms": 5.0}]
COLUMNS = {"who": lambda row: row["who"], "ms": lambda row: f"{row['ms']:.1f}"}


def report(rows=ROWS, **options):
    return BenchmarkReport(
        "attention", "What is compared.", COLUMNS, {"repeats": 3}, rows=rows, machine=MACHINE, **options
    )


def test_a_report_as_markdown_json_and_picture(tmp_path):
    def plot(rows, path):
        path.write_text(f"{len(rows)} rows")

    report(plot=plot, notes=["constant: met"], left_out=["PyG: not installed"]).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.md", "attention.png"]
    assert (tmp_path / "attention.md").read_text() == (
        "# graphattn bench attention\n\n"
        "What is compared.\n\n"
        "Some CPU (AVX2), 2 cores, 8.0 GiB, Linux x86_64; 2 threads; python 3.11.0, torch 2.13.0, commit abc.\n\n"
        "| who | ms |\n|---|---|\n| ours | 1.3 |\n| dense | 5.0 |\n\n"
        "![attention](attention.png)\n\n"
        "- constant: met\n\n"
        "Left out:\n\n- PyG: not installed\n"
    )
    assert json.loads((tmp_path / "attention.json").read_text()) == {
        **{"command": "attention", "settings": {"repeats": 3}, "circumstances": MACHINE, "rows": ROWS},
        **{"notes": ["constant: met"], "left_out": ["PyG: not installed"]},
    }
    assert (tmp_path / "attention.png").read_text() == "2 rows"


def test_without_rows_there_is_no_picture(tmp_path):
    report(rows=[], plot=lambda rows, path: path.write_text("")).write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attention.json", "attention.md"]
    assert (tmp_path / "attention.md").read_text().endswith("| who | ms |\n|---|---|\n")
    with pytest.raises(DataError, match="cannot be written"):
        report().write(tmp_path / "none")


def test_the_machine_on_one_line():
    machine = reports.describe_machine()
    assert machine["threads"] == torch.get_num_threads()
    assert machine["memory_gib"] == pytest.approx(psutil.virtual_memory().total / 2**30, abs=0.06)
    assert machine["versions"]["graphattn"] == graphattn.__version__
    assert {"python", "torch", "numba"} <= machine["versions"].keys()
    assert ("dgl" in machine["versions"]) == (find_spec("dgl") is not None)
    line = reports.summarize_machine({**machine, "cpu": "Some CPU", "vectors": "AVX2", "cores": 2, "commit": None})
    assert line.startswith(f"Some CPU (AVX2), 2 cores, {machine['memory_gib']} GiB, ")
    assert "commit" not in line


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
    (tmp_path / "graphattn" / "_attention.py").write_text("")
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
    (repository / "graphattn" / "_attention.py").write_text("changed")
    assert re.fullmatch(r"[0-9a-f]{12}\+", reports.current_commit(repository / "graphattn"))
    git(repository, "rm", "-f", "graphattn/_attention.py")
    (repository / "graphattn").mkdir(exist_ok=True)
    assert reports.current_commit(repository / "graphattn") is None


def test_without_git_there_is_no_commit(repository, monkeypatch):
    monkeypatch.setenv("PATH", str(repository))
    assert reports.current_commit(repository / "graphattn") is None


def row(title, length, tokens, median, task="forward"):
    return {"title": title, "length": length, "tokens": tokens, "median_ms": median, "task": task}


def test_points_are_costs_of_a_token_by_length():
    rows = [row("Ours", 200, 1000, 3.0), row("Dense", 200, 1000, 9.0), row("Ours", 20, 100, 1.0)]
    assert collect_costs(rows) == {"Ours": [(20, 10.0), (200, 3.0)], "Dense": [(200, 9.0)]}


def test_the_largest_batch_of_a_length_counts_and_corpora_have_no_length():
    rows = [row("Ours", 20, 100, 1.0), row("Ours", 20, 1000, 4.0), row("Ours", None, 5000, 4.0)]
    assert collect_costs(rows) == {"Ours": [(20, 4.0)]}


def test_a_plot_is_a_picture_even_of_corpora_alone(tmp_path):
    rows = [row(who, length, 100, 1.0, task) for who in "ab" for length in (2, 9) for task in ("forward", "both")]
    plot_cost(rows, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    plot_cost([row("Ours", None, 100, 1.0)], tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
