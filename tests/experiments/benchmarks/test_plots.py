"""Plots: which points are drawn, and that a picture is written."""

from graphattn.experiments.benchmarks._report import collect_costs, plot_cost


def row(title, length, tokens, median, task="forward"):
    return {"title": title, "length": length, "tokens": tokens, "median_ms": median, "task": task}


def test_points_are_costs_of_a_token_by_length():
    rows = [row("Ours", 200, 1000, 3.0), row("Dense", 200, 1000, 9.0), row("Ours", 20, 100, 1.0)]
    assert collect_costs(rows) == {"Ours": [(20, 10.0), (200, 3.0)], "Dense": [(200, 9.0)]}


def test_the_largest_batch_of_a_length_counts_and_corpora_have_no_length():
    rows = [row("Ours", 20, 100, 1.0), row("Ours", 20, 1000, 4.0), row("Ours", None, 5000, 4.0)]
    assert collect_costs(rows) == {"Ours": [(20, 4.0)]}


def test_a_picture_is_written(tmp_path):
    rows = [row(who, length, 100, 1.0, task) for who in "ab" for length in (2, 9) for task in ("forward", "both")]
    plot_cost(rows, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    plot_cost(rows, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text.startswith("<?xml")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.png", "a.svg"]


def test_corpora_alone_make_an_empty_picture(tmp_path):
    plot_cost([row("Ours", None, 100, 1.0)], tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()
