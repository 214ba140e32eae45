"""``bench build``: rows, edges and shares."""

from importlib.util import find_spec

import numpy as np

from graphattn.builders import Sentence
from graphattn.experiments.benchmarks._build import make_tree, measure
from graphattn.experiments.benchmarks._contenders import Settings


def test_make_trees_are_trees_with_one_root():
    random = np.random.default_rng(0)
    for length in (1, 2, 30):
        heads = make_tree(length, random)
        assert heads.count(0) == 1
        assert Sentence(("word",) * length, heads=heads).heads == heads  # Sentence rejects cycles


def test_edges_of_the_five_scales_and_the_arcs_are_counted():
    report = measure(Settings(("2x4",), repeats=1))
    build, *_, forward = report.rows
    has_dgl = find_spec("dgl") is not None
    assert [row["contender"] for row in report.rows] == ["build", *["build-dgl"] * has_dgl, "ours"]
    assert report.left_out == ([] if has_dgl else ["build, as DGL graph: dgl is not installed"])
    # five tokens with [CLS]: widths 1, 3, 1, 1, 1; between words: five self-loops and three arcs, both ways; membership
    assert {row["edges"] for row in report.rows} == {2 * ((5 + 13 + 5 + 5 + 5) + (5 + 2 * 3) + 5)}
    assert build["ratio"] == build["median_ms"] / forward["median_ms"]
    build.update(median_ms=2.0, ratio=0.05, quartiles_ms=[1.0, 3.0], edges=1234)
    cells = [cell(build) for cell in report.columns.values()]
    assert cells == ["2x4", "build, for models", "2", "1 - 3", "1", "1,234", "5.0%"]
