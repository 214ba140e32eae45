"""Operations, edges, reaches and memory against hand calculations and against counting."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn.experiments.benchmarks._operations import (
    WindowHeads,
    count_transformer,
    count_umst,
    count_window_edges,
)
from graphattn.experiments.benchmarks._workloads import Workload
from graphattn.models import MSTransOptions

OPTIONS = MSTransOptions(hidden=12, heads=3, layers=2, scales=("1", "3", "N"), alpha=0.0)
WORKLOAD = Workload("some", ((4, 2), (5,)))


@given(st.integers(1, 40), st.integers(0, 45))
def test_window_edges_equal_a_count_of_pairs(length, reach):
    counted = sum(abs(a - b) <= reach for a in range(length) for b in range(length))
    assert count_window_edges(length, 2 * reach + 1) == counted


def count(options, *lengths):
    return WindowHeads(Workload("some", (lengths,)), options)


def test_pairs_of_attention():
    options = MSTransOptions(hidden=16, heads=8, layers=1, scales=("1", "3", "N/4"), alpha=0.0)
    assert WindowHeads(WORKLOAD, options).layers == [{"window:1": 3, "window:3": 3, "window:N/4": 2}]
    # of 9 tokens: width 3 has 25 edges, N/4 = 2 becomes 3; of 4 tokens: 10 edges, N/4 = 1 has nothing to score
    assert count(options, 9, 4).pairs == 3 * 25 + 2 * 25 + 3 * 10


def test_operations_of_ms_trans():
    options = MSTransOptions(hidden=12, heads=4, layers=2, scales=("1", "3"), alpha=0.0)  # two heads on each scale
    # layers, tokens, multiply and add: values and output in full, queries and keys of the heads that score
    projections = 2 * 5 * 2 * (2 * 12 * 12 + 2 * 12 * 6)
    attention = 2 * 2 * (13 * 3 * 2 * 2)  # layers, heads of width 3, 13 edges of 3 features, scores and sums
    assert count(options, 5).count_operations() == projections + attention


def test_operations_of_the_transformer():
    projections = 5 * (4 * 12 * 12 * 2)
    feed_forward = 5 * (12 * 48 * 2 + 48 * 12 * 2)
    attention = (9 + 4) * (12 * 2 + 12 * 2)  # sentences of 3 and 2 tokens; all heads together are 12 wide
    expected = 2 * (projections + feed_forward + attention)
    assert count_transformer([3, 2], hidden=12, layers=2, ffn=48) == expected


def test_operations_at_the_papers_sizes_and_22_tokens():
    """Three layers 300 wide: the feed-forward layer makes the Transformer three times as costly, attention a little."""
    ours = count(MSTransOptions(), 22).count_operations()
    dense = count_transformer([22], hidden=300, layers=3, ffn=1200)
    assert dense == 3 * 22 * (8 * 300 * 300 + 4 * 300 * 1200 + 4 * 300 * 22)
    # heads over the three layers: 6 on width 3 (64 edges), 4 on N/8 = 3 and 3 on N/4 = 5 (104 edges); 17 score nothing
    projections = 22 * 2 * 300 * 30 * (2 * 30 + 2 * 13)
    assert ours == projections + 4 * 30 * (6 * 64 + 4 * 64 + 3 * 104)
    assert dense / ours == pytest.approx(4.22, abs=0.01)


def test_operations_of_umst():
    """Two layers of width 4 on a sentence of 5 tokens and 3 words, beside the Transformer's operations."""
    projections = 2 * 3 * (4 * 2 * 4 * 4)  # layers, words: W_w, W_p, queries, keys
    attention = 2 * (9 * 4 * 2 * 2)  # layers: 9 pairs of 4 features, scores and sums
    plain = count_transformer([5], hidden=4, layers=2, ffn=8)
    assert count_umst([5], [3], hidden=4, layers=2, ffn=8) == plain + projections + attention


def test_reaches_follow_the_heads_and_the_lengths():
    heads = WindowHeads(WORKLOAD, OPTIONS)
    assert heads.layers == [{"window:1": 1, "window:3": 1, "window:N": 1}] * 2
    first, second = heads.reaches((4, 2))
    assert torch.equal(first, torch.tensor([[0, 1, 2], [0, 1, 1]]))  # N is 5 for 4 tokens, 3 for 2
    assert torch.equal(first, second)


def test_counts_of_edges_and_pairs():
    heads = WindowHeads(WORKLOAD, OPTIONS)
    assert [heads.count_edges(relation) for relation in heads.relations] == [11, 10 + 4 + 13, 14 + 4 + 19]
    assert heads.pairs == 2 * (27 + 37)
    alone = WindowHeads(WORKLOAD, MSTransOptions(layers=1, heads=1, hidden=4, scales=("1", "3"), alpha=9.0))
    assert len(alone.relations) == 1, "those without heads do not count"


def test_memory_of_arrays_per_edge():
    heads = WindowHeads(WORKLOAD, OPTIONS)
    edges = 11 + 27 + 37
    expected = 4 * (2 * edges + 2 * 37) + 8 * edges
    assert heads.estimate_edge_bytes(per_pair=4, kept=1, transient=2, per_edge=8) == expected
    assert heads.estimate_dgl_bytes(backward=True) > heads.estimate_dgl_bytes(backward=False) > 0
