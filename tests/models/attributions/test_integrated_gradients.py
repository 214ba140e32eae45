"""Integrated gradients against a sum over points on the way, and against what they must add up to."""

import sys

import numpy as np
import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.models.attributions import integrated_gradients

TEXT = "fine and never dull"


@pytest.fixture(autouse=True)
def needs_captum():
    pytest.importorskip("captum", reason="captum is not installed")


def on_the_way(estimator, text, share):
    """Scores where token vectors are some share of the way from unknown words, and the gradient's argument."""
    model = estimator.model_
    batch = estimator._corpus([[text]])[[0]]
    ids = batch.graph.nodes["token"].data["id"]
    unknown = torch.ones_like(ids)
    unknown[0] = ids[0]
    with torch.no_grad():
        start, end = model.embedding(unknown), model.embedding(ids)
    point = (start + share * (end - start)).requires_grad_()
    return model.head(model.encoder(batch.graph, point), batch.graph)[0], point, end - start


def test_it_equals_a_sum_along_the_way(classifier, log_odds):
    found = integrated_gradients(classifier, TEXT, label="good", steps=200)
    total, steps = 0.0, 200
    for step in range(steps):
        scores, point, way = on_the_way(classifier, TEXT, (step + 0.5) / steps)
        (gradient,) = torch.autograd.grad(log_odds(scores, 2), point)
        total = total + (gradient * way).sum(1) / steps
    np.testing.assert_allclose(found.attribution, total, atol=0.03 * float(total.abs().max()) + 1e-4)
    ends = [float(log_odds(on_the_way(classifier, TEXT, share)[0], 2).detach()) for share in (0.0, 1.0)]
    assert found.attribution.sum() == pytest.approx(ends[1] - ends[0], rel=0.02, abs=1e-3)
    assert found.token.tolist() == ["[CLS]", *TEXT.split()]
    assert found.attribution[0] == 0


def test_both_texts_of_a_pair(pair_classifier):
    found = integrated_gradients(pair_classifier, ("a fine film", "never dull"))
    assert found.part.tolist() == ["first"] * 4 + ["second"] * 3
    assert (found.attribution.abs() > 0).sum() == 5


def test_a_word_of_a_tagger(tagger):
    words = TEXT.split()
    each = [integrated_gradients(tagger, words, word=word).attribution for word in range(4)]
    np.testing.assert_allclose(integrated_gradients(tagger, words).attribution, sum(each), atol=1e-6)


def test_without_captum_there_is_one_line(classifiers, monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(ConfigError) as caught:
        integrated_gradients(classifiers["ms-trans"], TEXT)
    assert str(caught.value) == (
        "integrated gradients need captum, which is not installed: pip install 'graphattn[inspect]'"
    )
