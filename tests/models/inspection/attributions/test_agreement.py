"""Agreement against scipy's rank correlation and sets."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attributions import agreement, edge_agreement, leave_one_edge_out, token_agreement

TEXT = "fine and never dull"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=3, max_size=20), st.integers(1, 30))
def test_rank_correlation_and_overlap(pairs, k):
    values = pd.DataFrame(pairs, columns=["a", "b"]).astype(float)
    (row,) = agreement(values, k).itertuples()
    if values.a.abs().nunique() > 1 and values.b.abs().nunique() > 1:
        assert row.rank_correlation == pytest.approx(spearmanr(values.a.abs(), values.b.abs()).statistic)
    else:
        assert np.isnan(row.rank_correlation)
    best = [set(values[name].abs().sort_values(ascending=False, kind="stable").index[:k]) for name in ("a", "b")]
    assert row.overlap == pytest.approx(len(best[0] & best[1]) / min(k, len(values)))


@pytest.mark.slow
def test_edges_by_three_methods(classifier):
    actual, agreed = edge_agreement(classifier, TEXT, edges=8, k=3)
    assert len(actual) == 8
    assert list(zip(agreed.one, agreed.other, strict=True)) == [
        ("weight", "gradient_times_weight"),
        ("weight", "left_out"),
        ("gradient_times_weight", "left_out"),
    ]
    left_out = leave_one_edge_out(classifier, TEXT, k=8)
    assert actual.left_out.tolist() == pytest.approx(left_out.effect.tolist())


@pytest.mark.slow
def test_tokens_by_five_methods(classifier, pair_classifier):
    actual, agreed = token_agreement(classifier, TEXT)
    ways = ["rollout", "flow", "weight", "gradient_times_weight", "integrated_gradients"]
    assert list(actual) == ["part", "position", "token", "word", *ways]
    assert len(agreed) == 10
    weights = classifier.attention(TEXT).table().groupby("source").weight.sum()
    np.testing.assert_allclose(actual.weight[weights.index], weights, rtol=1e-6)
    actual, _ = token_agreement(pair_classifier, ("a fine film", "dull"))
    assert actual.part.tolist() == ["first"] * 4 + ["second"] * 2


def test_tokens_without_rollout_if_heads_connect_words(word_classifier):
    actual, agreed = token_agreement(word_classifier, TEXT)
    assert list(actual)[4:] == ["weight", "gradient_times_weight", "integrated_gradients"]
    assert len(agreed) == 3
    assert actual.token.tolist()[:2] == ["[CLS]", "fine"]


@pytest.mark.slow
def test_edges_of_a_translator_by_three_methods(translators, source):
    translator = translators("umst")
    actual, agreed = edge_agreement(translator, source, edges=6, target="Ein hund!")
    left_out = leave_one_edge_out(translator, source, k=6, target="Ein hund!")
    np.testing.assert_allclose(actual.left_out, left_out.effect)
    assert "cross" in set(edge_agreement(translator, source, edges=100, word=0, target="Ein hund!")[0].relation)
    assert len(agreed) == 3


def test_tokens_of_a_source_by_five_methods(translators, source):
    translator = translators("umst")
    actual, agreed = token_agreement(translator, source, target="Ein hund!")
    assert actual.part.unique().tolist() == ["source"]
    assert actual.token.tolist() == list(translator.attention(source).tokens["source"])
    assert len(agreed) == 10
    table = translator.attention(source, "Ein hund!").table()
    weights = table[table.source_part == "source"].groupby("source").weight.sum()
    np.testing.assert_allclose(actual.weight, weights, rtol=1e-6)


def test_k_must_be_at_least_one():
    with pytest.raises(ConfigError) as caught:
        agreement(pd.DataFrame({"a": [1.0], "b": [2.0]}), k=0)
    assert str(caught.value) == "k is 0; it must be at least 1"
