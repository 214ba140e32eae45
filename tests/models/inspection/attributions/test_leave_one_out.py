"""Leave-one-out against brute force: one edge is removed from a batch, and the model runs on it."""

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.models._corpus import Batch
from graphattn.models._estimators.state import make_corpus
from graphattn.models.inspection.attributions import _leave_one_out as leave_one_out
from graphattn.models.inspection.attributions import leave_one_edge_out

TEXT = "fine and never dull"


def brute_force(without_edge, estimator, inputs, row, number):
    """Scores without an edge; ``number`` is the number of its text in a pair."""
    batch = make_corpus(estimator, inputs)[[0]]
    first = int(batch.graph.batch_num_nodes()[:number].sum())
    smaller = without_edge(batch.graph, row.relation, row.source + first, row.target + first)
    with torch.no_grad():
        return estimator.model_(Batch(smaller, 1))


@pytest.mark.slow
def test_it_equals_brute_force(without_edge, classifier, log_odds, monkeypatch):
    monkeypatch.setattr(leave_one_out, "MAX_TOKENS", 15)  # three copies of five tokens in a batch
    actual = leave_one_edge_out(classifier, TEXT, k=100, label="fair")
    degrees = classifier.attention(TEXT).table().drop_duplicates(["relation", "source", "target"])
    counted = degrees.groupby(["relation", "target"]).source.transform("size") > 1
    assert len(actual) == min(100, counted.sum())
    batch = make_corpus(classifier, [TEXT])[[0]]
    with torch.no_grad():
        whole = float(log_odds(classifier.model_(batch)[0], 1))
    for row in actual.itertuples():
        expected = float(log_odds(brute_force(without_edge, classifier, [TEXT], row, 0)[0], 1))
        assert row.log_odds == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert row.effect == pytest.approx(whole - expected, abs=1e-6)
    assert actual.effect.is_monotonic_decreasing


def test_edges_of_both_texts_of_a_pair(without_edge, pair_classifier, log_odds):
    pair = ("a fine film", "never dull")
    actual = leave_one_edge_out(pair_classifier, pair, k=9, label="same")
    assert set(actual.source_part) == {"first", "second"}
    for row in actual.itertuples():
        scores = brute_force(without_edge, pair_classifier, [pair], row, ("first", "second").index(row.target_part))
        expected = float(log_odds(scores[0], pair_classifier.classes_.tolist().index("same")))
        assert row.log_odds == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_a_word_of_a_tagger(without_edge, tagger, log_odds):
    words = TEXT.split()
    actual = leave_one_edge_out(tagger, words, k=5, word=2, label="X")
    for row in actual.itertuples():
        expected = log_odds(brute_force(without_edge, tagger, [words], row, 0)[2], tagger.classes_.tolist().index("X"))
        assert row.log_odds == pytest.approx(float(expected), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("kind", ["classifier", "crf"])
def test_effects_start_from_the_log_odds_of_predict_proba(kind, corpus, tiny):
    """With the linear branch; of a tagger with a CRF, those of the marginal of the word's tag."""
    model = tiny(kind, head={"linear_branch": True}, training={"dev_fraction": 0.0}).fit(*corpus(kind))
    x, word = (TEXT.split(), 2) if kind == "crf" else (TEXT, None)
    actual = leave_one_edge_out(model, x, k=3, label=model.classes_[1], word=word)
    probabilities = model.predict_proba([x])[0].astype(float)
    probability = (probabilities if word is None else probabilities[word])[1]
    np.testing.assert_allclose(actual.log_odds + actual.effect, np.log(probability / (1 - probability)), atol=1e-4)


def test_weights_are_summed_over_layers_and_heads(classifiers):
    actual = leave_one_edge_out(classifiers["transformer"], TEXT, k=3)
    table = classifiers["transformer"].attention(TEXT).table()
    sums = table.groupby(["source", "target"]).weight.sum().nlargest(3)
    assert sorted(actual.weight) == pytest.approx(sorted(sums))


def test_selected_edges(classifiers):
    edges = pd.DataFrame({"relation": ["all", "all"], "source": [1, 4], "target": [0, 2]})
    actual = leave_one_edge_out(classifiers["transformer"], TEXT, edges=edges)
    assert set(zip(actual.source_token, actual.target_token, strict=True)) == {("fine", "[CLS]"), ("dull", "and")}
    everything = leave_one_edge_out(classifiers["transformer"], TEXT, k=99)
    merged = actual.merge(everything, on=["relation", "source", "target"])
    np.testing.assert_allclose(merged.effect_x, merged.effect_y, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k is 0"),
        ({"edges": pd.DataFrame({"relation": ["window:3"], "source": [4], "target": [0]})}, "no edge from 4 to 0"),
    ],
)
def test_missing_edges(arguments, message, classifiers):
    with pytest.raises(ConfigError, match=message):
        leave_one_edge_out(classifiers["ms-trans"], TEXT, **arguments)
