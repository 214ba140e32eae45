"""The measurements' arithmetic; what they measure is no test's business."""

import numpy as np

from graphattn.builders import Sentence
from graphattn.experiments.benchmark import BuildCost, build_costs, build_table, in_turns, random_tree


def test_jobs_take_turns_after_a_run_that_does_not_count():
    seen = []
    medians = in_turns({"one": lambda: seen.append(1), "two": lambda: seen.append(2)}, rounds=3)
    assert seen == [1, 2] + [1, 2] * 3
    assert set(medians) == {"one", "two"}
    assert all(value >= 0 for value in medians.values())


def test_random_trees_are_trees_with_one_root():
    random = np.random.default_rng(0)
    for length in (1, 2, 30):
        heads = random_tree(length, random)
        assert heads.count(0) == 1
        assert Sentence(("word",) * length, heads=heads).heads == heads  # Sentence refuses cycles


def test_costs_count_the_edges_of_the_five_scales_and_the_arcs():
    (cost,) = build_costs([4], sentences=2, rounds=1)
    # five tokens with [CLS]: widths 1, 3, 1, 1, 1; between words: five self-loops and three arcs, both ways; membership
    assert cost.edges == 2 * ((5 + 13 + 5 + 5 + 5) + (5 + 2 * 3) + 5)
    assert cost.build > 0
    assert cost.forward > 0


def test_the_table_shows_shares():
    table = build_table([BuildCost(128, 22, 1234, 2.0, 40.0)])
    assert table.splitlines()[-1] == "| 128 x 22 | 1,234 | 2.0 | 40.0 | 5.0% |"
