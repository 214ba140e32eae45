"""``bench memory``: rows, ratios, verdicts; figures of processes are made up."""

import pytest

from graphattn.experiments.benchmarks import memory
from graphattn.experiments.benchmarks.comparison import Settings
from graphattn.experiments.benchmarks.fresh_process import Failed
from graphattn.experiments.benchmarks.workloads import uniform

ADDED = {"ours": 100, "torch": 300, "dgl": 520, "dense": 50, "pyg": 900}


@pytest.fixture
def processes(monkeypatch):
    """Processes that answer at once; returns what they were asked."""
    asked = []

    def answer(task, contender, workload):
        asked.append((task, contender, workload.name))
        if contender == "torch":
            raise Failed("ended by signal 9; the memory may have been too small")
        added = ADDED[contender] * 2**20
        return {"held": 2**20, "added": added, "whole": added + 5 * 2**30, "run_ms": 1.0}

    monkeypatch.setattr(memory, "measured_apart", answer)
    return asked


def test_ours_and_the_peers_run_apart_and_then_a_long_text(processes):
    report = memory.measure(Settings(("2x8192", "1x32"), peers=("dgl", "torch")))
    tasks = [("forward + backward", who, name) for name in ("2x8192", "1x32") for who in ("ours", "dgl", "torch")]
    assert sorted(processes[:-1]) == sorted(tasks)
    assert processes[-1] == ("training step", "ours", "1x32768")
    assert [(row["contender"], row.get("ratio"), row.get("target")) for row in report.rows] == [
        ("ours", None, None),
        ("dgl", 5.2, ">= 5: met"),
        ("ours", None, None),
        ("dgl", 5.2, None),
        ("ours", None, "<= 4 GiB: short"),
    ]
    assert report.left_out == [
        "GraphAttn (backend torch): ended by signal 9; the memory may have been too small "
        "(2x8192, forward + backward; 1x32, forward + backward)"
    ]


def test_the_table_is_in_mebibytes(processes):
    report = memory.measure(Settings(("2x8192",), peers=("dgl",)), text=uniform(1, 8))
    cells = [[cell(row) for cell in report.columns.values()] for row in report.rows]
    pairs = f"{report.rows[0]['pairs']:,}"
    task, dgl = "forward + backward", "DGL's three operators"
    assert cells == [
        ["2x8192", "16,384", pairs, task, "GraphAttn", "1", "100", "5,220", "", ""],
        ["2x8192", "16,384", pairs, task, dgl, "1", "520", "5,640", "5.2", ">= 5: met"],
        [
            "1x8",
            "8",
            f"{report.rows[2]['pairs']:,}",
            "training step",
            "GraphAttn MS-Trans",
            "1",
            "100",
            "5,220",
            "",
            "",
        ],
    ]


def test_too_large_peers_are_left_out_before_they_start(processes, monkeypatch):
    monkeypatch.setattr(memory, "usable_bytes", lambda: 10 * 2**20)
    report = memory.measure(Settings(("1x4096",), peers=("dgl",)), text=uniform(1, 8))
    assert [row["contender"] for row in report.rows] == ["ours", "ours"]
    assert len(report.left_out) == 1
    assert report.left_out[0].startswith("DGL's three operators: needs about ")
    assert all(who == "ours" for _, who, _ in processes)


def test_growth_with_edges_is_told_at_one_number_of_tokens(processes):
    report = memory.measure(Settings(("32x128", "2x2048", "1x4096", "1x64"), peers=()), text=uniform(1, 8))
    pairs = {row["workload"]: row["pairs"] for row in report.rows}
    times = pairs["1x4096"] / pairs["32x128"]
    assert report.notes == [
        f"GraphAttn at 4,096 tokens: {times:.1f} times the edges (32x128 to 1x4096), 1.00 times the memory"
    ]
    assert memory.measure(Settings(("1x64",), peers=()), text=uniform(1, 8)).notes == []


def test_plots_keep_tokens_or_length_the_same(processes, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(memory, "draw", lambda panels, path, *, up: drawn.extend(panels))
    report = memory.measure(Settings(("4x32", "8x16", "2x32"), peers=("dgl",)), text=uniform(1, 8))
    memory.memory_plot(report.rows, tmp_path / "a.png")
    edges, tokens = drawn
    pairs = {row["workload"]: row["pairs"] for row in report.rows}
    assert (edges.heading, tokens.heading) == ("batches of 128 tokens", "sentences of 32 tokens")
    assert edges.points["GraphAttn"] == [(pairs["8x16"], 100), (pairs["4x32"], 100)]
    assert tokens.points["DGL's three operators"] == [(64, 520), (128, 520)]


def test_a_picture_is_written(processes, tmp_path):
    memory.measure(Settings(("1x64", "1x32"), peers=("dgl",)), text=uniform(1, 8)).write(tmp_path)
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
