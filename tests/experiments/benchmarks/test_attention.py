"""``bench attention``: who runs on what, and the cost of an edge."""

import pytest

from graphattn.experiments.benchmarks import attention
from graphattn.experiments.benchmarks.comparison import Settings


def test_rows_of_all_passes_and_who_is_left_out():
    report = attention.measure(Settings(("2x6",), repeats=2, peers=("dense", "dgl")))
    assert [(row["task"], row["contender"]) for row in report.rows] == [
        (task, who) for task in ("forward", "forward + backward") for who in ("ours", "dense", "dgl")
    ]
    # of the heads only those of width 3 have anything to score at 6 tokens
    assert {row["pairs"] for row in report.rows} == {6 * 2 * 16}
    assert report.left_out == report.notes == []


def row(name, length, median, pairs, contender="ours", task="forward"):
    return {
        "workload": name,
        "length": length,
        "median_ms": median,
        "pairs": pairs,
        "contender": contender,
        "task": task,
    }


@pytest.mark.parametrize(("last", "verdict"), [(12.0, "2.00 (<= 2 times: met)"), (13.0, "2.17 (<= 2 times: short)")])
def test_cost_of_an_edge_between_long_texts(last, verdict):
    rows = [
        row("9x201", 201, 50.0, 1),
        row("8x2048", 2048, 2.0, 10_000_000),
        row("1x9000", 9000, 3.0, 10_000_000),
        row("1x32768", 32768, last, 30_000_000),
        row("8x2048", 2048, 99.0, 10_000_000, contender="dgl"),
        row("8x2048", 2048, 99.0, 10_000_000, task="forward + backward"),
    ]
    found = attention.cost_per_pair(rows, "forward")
    assert found == (
        "forward, cost of one edge of one head: 8x2048 0.200 ns, 1x9000 0.300 ns, "
        f"1x32768 {last / 30:.3f} ns; largest over smallest {verdict}"
    )


def test_one_length_alone_says_nothing_about_growth():
    rows = [row("8x2048", 2048, 2.0, 9), row("4x2048", 2048, 2.0, 9), row("1x9", 9, 1.0, 9), row("mr", None, 1.0, 9)]
    assert attention.cost_per_pair(rows, "forward") is None
