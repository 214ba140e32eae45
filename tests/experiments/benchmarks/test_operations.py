"""Operations against hand calculations and against counting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.experiments.benchmarks.operations import (
    ms_trans_operations,
    scored_pairs,
    transformer_operations,
    umst_operations,
    window_edges,
)
from graphattn.models import MSTransOptions


@given(st.integers(1, 40), st.integers(0, 45))
def test_window_edges_are_those_one_counts(length, reach):
    counted = sum(abs(a - b) <= reach for a in range(length) for b in range(length))
    assert window_edges(length, 2 * reach + 1) == counted


def test_pairs_by_hand():
    layers = [{"window:1": 5, "window:3": 2, "window:N/4": 1}, {"window:3": 1, "window:N/4": 2}]
    # of 9 tokens: width 3 has 25 edges, N/4 = 2 becomes 3; of 4 tokens: 10 edges, N/4 = 1 has nothing to score
    assert scored_pairs([9, 4], layers) == 3 * 25 + 3 * 25 + 3 * 10


def test_ms_trans_by_hand():
    options = MSTransOptions(hidden=12, heads=4, layers=2, scales=("1", "3"), alpha=0.0)  # two heads on each scale
    # layers, tokens, multiply and add: values and output in full, queries and keys of the heads that score
    projections = 2 * 5 * 2 * (2 * 12 * 12 + 2 * 12 * 6)
    attention = 2 * 2 * (13 * 3 * 2 * 2)  # layers, heads of width 3, 13 edges of 3 features, scores and sums
    assert ms_trans_operations([5], options) == projections + attention


def test_the_transformer_by_hand():
    projections = 5 * (4 * 12 * 12 * 2)
    feed_forward = 5 * (12 * 48 * 2 + 48 * 12 * 2)
    attention = (9 + 4) * (12 * 2 + 12 * 2)  # sentences of 3 and 2 tokens; all heads together are 12 wide
    found = transformer_operations([3, 2], hidden=12, layers=2, ffn=48)
    assert found == 2 * (projections + feed_forward + attention)


def test_the_papers_sizes_at_22_tokens():
    """Three layers 300 wide: the feed-forward part makes the Transformer three times as costly, attention a little."""
    ours = ms_trans_operations([22], MSTransOptions())
    dense = transformer_operations([22], hidden=300, layers=3, ffn=1200)
    assert dense == 3 * 22 * (8 * 300 * 300 + 4 * 300 * 1200 + 4 * 300 * 22)
    # heads over the three layers: 6 on width 3 (64 edges), 4 on N/8 = 3 and 3 on N/4 = 5 (104 edges); 17 score nothing
    projections = 22 * 2 * 300 * 30 * (2 * 30 + 2 * 13)
    assert ours == projections + 4 * 30 * (6 * 64 + 4 * 64 + 3 * 104)
    assert dense / ours == pytest.approx(4.22, abs=0.01)


def test_umst_by_hand():
    """Two layers of width 4 on a sentence of 5 tokens and 3 words, beside the Transformer's operations."""
    own = umst_operations([5], [3], hidden=4, layers=2, ffn=8)
    projections = 2 * 3 * (4 * 2 * 4 * 4)  # layers, words: W_w, W_p, queries, keys
    attention = 2 * (9 * 4 * 2 * 2)  # layers: 9 pairs of 4 features, scores and sums
    assert own - transformer_operations([5], hidden=4, layers=2, ffn=8) == projections + attention
