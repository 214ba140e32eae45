"""``bench memory``: rows, ratios and plots of fixed measurements."""

import pytest

from graphattn.experiments.benchmarks import _memory as memory
from graphattn.experiments.benchmarks._contenders import Settings

ADDED = {"ours": 100, "torch": None, "dgl": 1040}  # besides 1,000 that the allocator keeps
BOTH, TEXT = "forward + backward", "1x8"


@pytest.fixture
def requests(fix_memory, monkeypatch):
    monkeypatch.setattr(
        "graphattn.experiments.benchmarks._contenders.find_spec", lambda package: package
    )  # none runs, so all count as installed
    return fix_memory(ADDED)


@pytest.mark.slow
def test_contenders_run_on_all_workloads_and_then_on_a_long_text(requests):
    report = memory.measure(Settings(("2x8192", "1x32"), peers=("dgl", "torch")))
    kinds = ("AttendHeads", "TorchSegments", "DGLOperators")
    assert sorted(requests[:-1]) == sorted((kind, name) for name in ("2x8192", "1x32") for kind in kinds)
    assert requests[-1] == ("GraphEncoder", "1x32768")
    pairs = [f"{row['pairs']:,}" for row in report.rows]
    assert [[cell(row) for cell in report.columns.values()] for row in report.rows] == [
        ["2x8192", "16,384", pairs[0], BOTH, "GraphAttn", "1", "1,100", "6,220", ""],
        ["2x8192", "16,384", pairs[1], BOTH, "DGL's three operators", "1", "2,040", "7,160", "1.9"],
        ["1x32", "32", pairs[2], BOTH, "GraphAttn", "1", "1,100", "6,220", ""],
        ["1x32", "32", pairs[3], BOTH, "DGL's three operators", "1", "2,040", "7,160", "1.9"],
        ["1x32768", "32,768", pairs[4], "training step", "GraphAttn MS-Trans", "1", "1,100", "6,220", ""],
    ]
    assert report.left_out == [f"GraphAttn (backend torch): ended by signal 9 (2x8192, {BOTH}; 1x32, {BOTH})"]


def test_peers_that_need_too_much_memory_do_not_start(requests, monkeypatch):
    monkeypatch.setattr("graphattn.experiments.benchmarks._contenders.available_bytes", lambda: 10 * 2**20)
    report = memory.measure(Settings(("1x4096",), peers=("dgl",)), text=TEXT)
    assert [row["contender"] for row in report.rows] == ["ours", "ours"]
    (line,) = report.left_out
    assert line.startswith("DGL's three operators: needs about ")
    assert [name for name, _ in requests] == ["AttendHeads", "GraphEncoder"]


def test_growth_with_edges_is_reported_at_one_number_of_tokens(requests):
    report = memory.measure(Settings(("32x128", "2x2048", "1x4096", "1x64"), peers=()), text=TEXT)
    pairs = {row["workload"]: row["pairs"] for row in report.rows}
    times = pairs["1x4096"] / pairs["32x128"]
    assert report.notes == [
        f"GraphAttn at 4,096 tokens: {times:.1f} times the edges (32x128 to 1x4096), 1.00 times the memory"
    ]
    assert memory.measure(Settings(("1x64",), peers=()), text=TEXT).notes == []


def test_plots_hold_tokens_or_length_constant(requests, monkeypatch, tmp_path):
    report = memory.measure(Settings(("4x32", "8x16", "2x32"), peers=("dgl",)), text=TEXT)
    report.write(tmp_path)
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    drawn = []
    monkeypatch.setattr(memory, "draw_panels", lambda panels, path, **options: drawn.extend(panels))
    memory.plot_memory(report.rows, tmp_path / "a.png")
    edges, tokens = drawn
    pairs = {row["workload"]: row["pairs"] for row in report.rows}
    assert (edges.heading, tokens.heading) == ("batches of 128 tokens", "sentences of 32 tokens")
    assert edges.curves["GraphAttn"] == [(pairs["8x16"], 1100), (pairs["4x32"], 1100)]
    assert tokens.curves["DGL's three operators"] == [(64, 2040), (128, 2040)]
