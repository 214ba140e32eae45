"""Integrated gradients against a sum over points of the path, and the completeness of their sum."""

import sys

import numpy as np
import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.models.decoders.transformer import Memory
from graphattn.models.inspection.attributions import integrated_gradients

TEXT, TRANSLATION = "fine and never dull", "Ein hund, klein!"


@pytest.fixture(autouse=True)
def needs_captum():
    pytest.importorskip("captum", reason="captum is not installed")


def interpolate(estimator, text, share):
    """Scores of token vectors interpolated between unknown words (0) and the text (1), and the gradient's argument."""
    model = estimator.model_
    batch = estimator._corpus([[text]])[[0]]
    ids = batch.graph.node_features["token"]["id"]
    unknown = torch.ones_like(ids)
    unknown[0] = ids[0]
    with torch.no_grad():
        start, end = model.embedding(unknown), model.embedding(ids)
    point = (start + share * (end - start)).requires_grad_()
    return model.head(model.encoder(batch.graph, point), batch.graph)[0], point, end - start


def test_it_equals_a_sum_along_the_path(classifier, log_odds):
    actual = integrated_gradients(classifier, TEXT, label="good", steps=200)
    total, steps = 0.0, 200
    for step in range(steps):
        scores, point, way = interpolate(classifier, TEXT, (step + 0.5) / steps)
        (gradient,) = torch.autograd.grad(log_odds(scores, 2), point)
        total = total + (gradient * way).sum(1) / steps
    np.testing.assert_allclose(actual.attribution, total, atol=0.03 * float(total.abs().max()) + 1e-4)
    ends = [float(log_odds(interpolate(classifier, TEXT, share)[0], 2).detach()) for share in (0.0, 1.0)]
    assert actual.attribution.sum() == pytest.approx(ends[1] - ends[0], rel=0.02, abs=1e-3)
    assert actual.token.tolist() == ["[CLS]", *TEXT.split()]
    assert actual.attribution[0] == 0


def test_both_texts_of_a_pair(pair_classifier):
    actual = integrated_gradients(pair_classifier, ("a fine film", "never dull"))
    assert actual.part.tolist() == ["first"] * 4 + ["second"] * 3
    assert (actual.attribution.abs() > 0).sum() == 5


def test_a_word_of_a_tagger(tagger):
    words = TEXT.split()
    each = [integrated_gradients(tagger, words, word=word).attribution for word in range(4)]
    np.testing.assert_allclose(integrated_gradients(tagger, words).attribution, sum(each), atol=1e-6)


def test_without_captum_the_error_has_one_line(classifiers, monkeypatch):
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    with pytest.raises(ConfigError) as caught:
        integrated_gradients(classifiers["ms-trans"], TEXT)
    assert str(caught.value) == (
        "integrated gradients need captum, which is not installed: pip install 'graphattn[inspect]'"
    )


def interpolate_source(translator, source, share):
    """Log-probability of a text for interpolated token vectors of the source, and its gradient."""
    model, (ids,) = translator.model_, translator.subwords_.ids([TRANSLATION])
    batch = translator._corpus([[source]])[[0]]
    own = batch.graph.node_features["token"]["id"]
    unknown = torch.ones_like(own)
    unknown[0] = own[0]
    with torch.no_grad():
        start, end = model.embedding(unknown), model.embedding(own)
    point = (start + share * (end - start)).requires_grad_()
    states = model.encoder(batch.graph, point).unsqueeze(0)
    state = model.decoder.start(Memory(states, torch.ones(1, 1, 1, len(own), dtype=torch.bool)))
    scores = model.advance(torch.tensor([[2, *ids]]), state)[0]
    actual = scores.log_softmax(1)[torch.arange(len(ids) + 1), [*ids, 2]].sum()
    (gradient,) = torch.autograd.grad(actual, point)
    return float(actual.detach()), (gradient * (end - start)).sum(1)


def test_tokens_of_a_source_equal_a_sum_along_the_path(translator, source, precise):
    actual = integrated_gradients(translator, source, target=TRANSLATION, steps=100)
    (begin, _), (end, _) = (interpolate_source(translator, source, share) for share in (0.0, 1.0))
    assert actual.attribution.sum() == pytest.approx(end - begin, rel=0.02, abs=1e-3)
    total = sum(interpolate_source(translator, source, (step + 0.5) / 100)[1] for step in range(100)) / 100
    np.testing.assert_allclose(actual.attribution, total, atol=0.03 * float(total.abs().max()) + 1e-4)
    assert actual.part.unique().tolist() == ["source"]
    assert actual.token.tolist() == list(translator.attention(source, TRANSLATION).tokens["source"])
    assert actual.attribution[0] == 0
    assert actual.attribution.abs().max() > 1e-4


def test_words_of_a_translation(translators, source):
    translator = translators("transformer")
    whole = integrated_gradients(translator, source, target="Ein").attribution
    word = integrated_gradients(translator, source, target="Ein", word=0).attribution
    assert abs(whole - word).max() > 1e-5, "the end is part of the text"
    with pytest.raises(ConfigError) as caught:
        integrated_gradients(translator, source, target="Ein", word=1)
    assert caught.value.options == ("word",)


def test_copies_in_several_batches(translators, source, monkeypatch):
    whole = integrated_gradients(translators("umst"), source)
    monkeypatch.setattr(sys.modules[integrated_gradients.__module__], "MAX_TOKENS", 60)
    np.testing.assert_allclose(integrated_gradients(translators("umst"), source).attribution, whole.attribution)
