"""``bench memory``: rows, ratios and plots; fixed measurements replace the processes."""

import pytest

from graphattn.experiments.benchmarks import _harness as harness
from graphattn.experiments.benchmarks import _memory as memory
from graphattn.experiments.benchmarks._harness import Settings
from graphattn.experiments.benchmarks._processes import PeakMemory, UnableError

ADDED = {"ours": 100, "torch": 300, "dgl": 520, "dense": 50, "pyg": 900}
BOTH, TEXT = "forward + backward", "1x8"


@pytest.fixture
def processes(monkeypatch):
    """Replace processes by fixed measurements; returns the requests."""
    requests = []

    def measure(contender, workload):
        requests.append((type(contender).__name__, workload.name))
        if contender.name == "torch":
            raise UnableError("ended by signal 9; the memory may have been too small")
        added = ADDED[contender.name] * 2**20
        return PeakMemory(held=2**20, added=added, whole=added + 5 * 2**30, run_ms=1.0)

    monkeypatch.setattr(harness, "measure_peak_memory", measure)
    monkeypatch.setattr(harness, "find_spec", lambda package: package)  # none runs, so all count as installed
    return requests


def test_contenders_run_on_all_workloads_and_then_on_a_long_text(processes):
    report = memory.measure(Settings(("2x8192", "1x32"), peers=("dgl", "torch")))
    kinds = ("AttendHeads", "TorchSegments", "DGLOperators")
    assert sorted(processes[:-1]) == sorted((kind, name) for name in ("2x8192", "1x32") for kind in kinds)
    assert processes[-1] == ("GraphEncoder", "1x32768")
    assert [(row["contender"], row["task"], row.get("ratio")) for row in report.rows] == [
        *[("ours", BOTH, None), ("dgl", BOTH, 5.2)] * 2,
        ("ours", "training step", None),
    ]
    assert report.left_out == [
        "GraphAttn (backend torch): ended by signal 9; the memory may have been too small "
        f"(2x8192, {BOTH}; 1x32, {BOTH})"
    ]


def test_the_table_is_in_mebibytes(processes):
    report = memory.measure(Settings(("2x8192",), peers=("dgl",)), text=TEXT)
    cells = [[cell(row) for cell in report.columns.values()] for row in report.rows]
    pairs, text_pairs = f"{report.rows[0]['pairs']:,}", f"{report.rows[2]['pairs']:,}"
    assert cells == [
        ["2x8192", "16,384", pairs, BOTH, "GraphAttn", "1", "100", "5,220", ""],
        ["2x8192", "16,384", pairs, BOTH, "DGL's three operators", "1", "520", "5,640", "5.2"],
        ["1x8", "8", text_pairs, "training step", "GraphAttn MS-Trans", "1", "100", "5,220", ""],
    ]


def test_peers_that_need_too_much_memory_do_not_start(processes, monkeypatch):
    monkeypatch.setattr(harness, "available_bytes", lambda: 10 * 2**20)
    report = memory.measure(Settings(("1x4096",), peers=("dgl",)), text=TEXT)
    assert [row["contender"] for row in report.rows] == ["ours", "ours"]
    assert len(report.left_out) == 1
    assert report.left_out[0].startswith("DGL's three operators: needs about ")
    assert [name for name, _ in processes] == ["AttendHeads", "GraphEncoder"]


def test_growth_with_edges_is_reported_at_one_number_of_tokens(processes):
    report = memory.measure(Settings(("32x128", "2x2048", "1x4096", "1x64"), peers=()), text=TEXT)
    pairs = {row["workload"]: row["pairs"] for row in report.rows}
    times = pairs["1x4096"] / pairs["32x128"]
    assert report.notes == [
        f"GraphAttn at 4,096 tokens: {times:.1f} times the edges (32x128 to 1x4096), 1.00 times the memory"
    ]
    assert memory.measure(Settings(("1x64",), peers=()), text=TEXT).notes == []


def test_plots_hold_tokens_or_length_constant(processes, monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(memory, "draw_panels", lambda panels, path, **options: drawn.extend(panels))
    report = memory.measure(Settings(("4x32", "8x16", "2x32"), peers=("dgl",)), text=TEXT)
    memory.plot_memory(report.rows, tmp_path / "a.png")
    edges, tokens = drawn
    pairs = {row["workload"]: row["pairs"] for row in report.rows}
    assert (edges.heading, tokens.heading) == ("batches of 128 tokens", "sentences of 32 tokens")
    assert edges.curves["GraphAttn"] == [(pairs["8x16"], 100), (pairs["4x32"], 100)]
    assert tokens.curves["DGL's three operators"] == [(64, 520), (128, 520)]


def test_a_picture_is_written(processes, tmp_path):
    memory.measure(Settings(("1x64", "1x32"), peers=("dgl",)), text=TEXT).write(tmp_path)
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
