"""Heads over windows: edges, reaches and estimates, by hand."""

import torch

from graphattn.experiments.benchmarks.window_heads import WindowHeads, is_uniform
from graphattn.experiments.benchmarks.workloads import Workload
from graphattn.models import MSTransOptions

OPTIONS = MSTransOptions(hidden=12, heads=3, layers=2, scales=("1", "3", "N"), alpha=0.0)
WORKLOAD = Workload("some", ((4, 2), (5,)))


def test_reaches_follow_the_heads_and_the_lengths():
    heads = WindowHeads(WORKLOAD, OPTIONS)
    assert heads.layers == [{"window:1": 1, "window:3": 1, "window:N": 1}] * 2
    first, second = heads.reaches((4, 2))
    assert torch.equal(first, torch.tensor([[0, 1, 2], [0, 1, 1]]))  # N is 5 for 4 tokens, 3 for 2
    assert torch.equal(first, second)


def test_edges_and_pairs():
    heads = WindowHeads(WORKLOAD, OPTIONS)
    assert [heads.edges(relation) for relation in heads.relations] == [11, 10 + 4 + 13, 14 + 4 + 19]
    assert heads.pairs == 2 * (27 + 37)


def test_relations_without_heads_have_no_edges_to_count():
    options = MSTransOptions(layers=1, heads=1, hidden=4, scales=("1", "3"), alpha=9.0)
    heads = WindowHeads(WORKLOAD, options)
    assert len(heads.relations) == 1


def test_bytes_of_edge_sized_arrays():
    heads = WindowHeads(WORKLOAD, OPTIONS)
    every = 2 * (11 + 27 + 37)
    assert heads.edge_sized_bytes(per_pair=4, kept=1, passing=2, per_edge=8) == 4 * (every + 2 * 37) + 8 * (
        11 + 27 + 37
    )
    assert heads.dgl_bytes(backward=True) > heads.dgl_bytes(backward=False) > 0


def test_lengths_alike():
    assert is_uniform((3, 3))
    assert not is_uniform((3, 2))
