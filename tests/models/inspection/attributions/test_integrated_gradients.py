"""Integrated gradients against captum and a sum over points of the path, and the completeness of their sum."""

import math
import re
import sys
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.exceptions import ConfigError, TruncationWarning
from graphattn.models._decoders.transformer import Memory
from graphattn.models._estimators.state import make_corpus
from graphattn.models.inspection.attributions import (
    integrated_gradients,
    token_agreement,
    top_words,
    word_attributions,
)

TEXT, TRANSLATION = "fine and never dull", "Ein hund, klein!"


def find_ends(estimator, batch):
    """The token vectors of a text with unknown words, and its own."""
    ids = batch.graph.node_features["token"]["id"]
    unknown = torch.ones_like(ids)
    unknown[0] = ids[0]
    with torch.no_grad():
        return estimator.model_.embedding(unknown), estimator.model_.embedding(ids)


def test_both_texts_of_a_pair(pair_classifier):
    actual = integrated_gradients(pair_classifier, ("a fine film", "never dull"))
    assert actual.part.tolist() == ["first"] * 4 + ["second"] * 3
    assert (actual.attribution.abs() > 0).sum() == 5


def test_a_word_of_a_tagger(tagger):
    words = TEXT.split()
    each = [integrated_gradients(tagger, words, word=word).attribution for word in range(4)]
    np.testing.assert_allclose(integrated_gradients(tagger, words).attribution, sum(each), atol=1e-6)


@pytest.mark.slow
def test_it_equals_captum(classifier, log_odds):
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")

    def value(points):
        return log_odds(torch.stack([head(encoder(batch.graph, point), batch.graph)[0] for point in points]), 1)

    head, encoder, batch = classifier.model_.head, classifier.model_.encoder, make_corpus(classifier, [TEXT])[[0]]
    start, end = find_ends(classifier, batch)
    expected = captum.IntegratedGradients(value).attribute(end[None], start[None], n_steps=20)[0].sum(1).detach()
    actual = integrated_gradients(classifier, TEXT, label="fair", steps=20)
    np.testing.assert_allclose(actual.attribution, expected, rtol=1e-6, atol=1e-9)
    assert actual.token.tolist() == ["[CLS]", *TEXT.split()]
    assert abs(actual.attribution[0]) < 1e-15  # its vectors may be rounded differently in two texts


def interpolate_source(translator, source, share):
    """Log-probability of a text for interpolated token vectors of the source, and its gradient."""
    model, (ids,) = translator.model_, translator.subwords_.ids([TRANSLATION])
    batch = make_corpus(translator, [source])[[0]]
    start, end = find_ends(translator, batch)
    point = (start + share * (end - start)).requires_grad_()
    states = model.encoder(batch.graph, point).unsqueeze(0)
    state = model.decoder.start(Memory(states, torch.ones(1, 1, 1, len(end), dtype=torch.bool)))
    scores = model.advance(torch.tensor([[2, *ids]]), state)[0]
    actual = scores.log_softmax(1)[torch.arange(len(ids) + 1), [*ids, 2]].sum()
    (gradient,) = torch.autograd.grad(actual, point)
    return float(actual.detach()), (gradient * (end - start)).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["transformer", "duo-transformer", "bilstm"])
def test_tokens_of_a_source_equal_a_sum_along_the_path(encoder, translators, source, precise):
    translator = translators(encoder)
    actual = integrated_gradients(translator, source, target=TRANSLATION, steps=100)
    (begin, _), (end, _) = (interpolate_source(translator, source, share) for share in (0.0, 1.0))
    assert actual.attribution.sum() == pytest.approx(end - begin, rel=0.02, abs=1e-3)
    total = sum(interpolate_source(translator, source, (step + 0.5) / 100)[1] for step in range(100)) / 100
    np.testing.assert_allclose(actual.attribution, total, atol=0.03 * float(total.abs().max()) + 1e-4)
    assert actual.part.unique().tolist() == ["source"]
    assert actual.token.tolist() == list(translator.attention(source, TRANSLATION).tokens["source"])
    assert abs(actual.attribution[0]) < 1e-15  # its vectors may be rounded differently in two texts
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


KINDS = ("classifier", "multilabel", "pair", "regressor", "pair regressor", "tagger", "crf")
WORD_TEXT = "the film was not dull but Paris was great"
UNKNOWN = " ".join(["zzz"] * len(WORD_TEXT.split()))


@pytest.fixture(scope="module")
def trained(corpus, tiny):
    """``trained(kind, linear_branch, cls)``: a model, an input, its words, and the explained number of inputs."""

    @cache
    def fit(kind, linear_branch=True, cls=True):
        head = {"linear_branch": linear_branch, "crf": kind == "crf"}
        estimator = tiny(kind, inputs={"cls": cls}, head=head, training={"dev_fraction": 0.0})
        estimator.fit(*corpus(kind))
        assert (estimator.model_.linear_branch is not None) == (linear_branch and kind != "tagger")
        return estimator

    return fit


def made_of(kind, text):
    """An input of a task with this text."""
    return {"tagger": text.split(), "crf": text.split()}.get(kind, (text, "a slow film") if "pair" in kind else text)


def predicted(estimator, x):
    """What ``predict`` or ``predict_proba`` say: a number, or log-odds of the second class, for a tagger of word 4."""
    if not hasattr(estimator, "predict_proba"):
        return float(estimator.predict([x])[0])
    probabilities = estimator.predict_proba([x])[0].astype(float)
    probability = (probabilities[4] if probabilities.ndim == 2 else probabilities)[1]
    return math.log(probability / (1 - probability))


def explaining(estimator):
    """Arguments that select the number of :func:`predicted`."""
    if not hasattr(estimator, "predict_proba"):
        return {}
    return {"label": estimator.classes_[1], **({"word": 4} if estimator.model_.head.per_word else {})}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "linear_branch", "cls"),
    [
        *((kind, both, both) for kind in KINDS for both in (True, False)),
        ("classifier", True, False),
        ("tagger", False, True),
    ],
)
def test_attributions_add_up_to_the_change_of_the_prediction(kind, linear_branch, cls, trained):
    estimator, x = trained(kind, linear_branch, cls), made_of(kind, WORD_TEXT)
    arguments = explaining(estimator)
    words = word_attributions(estimator, x, **arguments)
    assert words.value == pytest.approx(predicted(estimator, x), abs=1e-4)
    if kind == "crf":  # it sees spelling, which even unknown words have in a text
        assert words.baseline == pytest.approx(without_spelling(estimator, x), abs=1e-4)
    else:
        start = (UNKNOWN, "zzz zzz zzz") if "pair" in kind else made_of(kind, UNKNOWN)
        assert words.baseline == pytest.approx(predicted(estimator, start), abs=1e-4)
    change = pytest.approx(words.value - words.baseline, abs=0.02)
    assert words.table.attribution.sum() == change
    assert integrated_gradients(estimator, x, **arguments).attribution.sum() == change
    assert token_agreement(estimator, x, **arguments)[0].integrated_gradients.sum() == change
    assert top_words(words, 50).total.sum() == change
    boxes = re.findall(r'title="(.*?)">(.*?)<', words._repr_html_())
    assert [word for _, word in boxes] == [*WORD_TEXT.split(), *(["a", "slow", "film"] if "pair" in kind else [])]
    assert sum(float(value) for value, _ in boxes) == change


def without_spelling(tagger, words):
    """The log-odds of :func:`predicted` for unknown words with an empty spelling."""
    corpus, model = make_corpus(tagger, [words]), tagger.model_
    batch, ids = corpus[[0]], torch.tensor([0] * tagger.builder_.cls + [1] * len(words))
    empty = corpus.token_types.take(np.zeros(len(ids), np.int64))
    with torch.inference_mode():
        scores = model.head(model.encoder(batch.graph, model.embedding(ids, empty)), batch.graph)
        if model.linear_branch is not None:
            scores += model.linear_branch.bias
            by_offset = model.linear_branch.score_types(empty.features)[:, 0]
            for offset, added in zip((0, -1, 1, -2, 2), by_offset, strict=True):
                for word in range(len(words)):
                    scores[word] += added * (offset == 0 or not 0 <= word + offset < len(words))
        probability = float(model.head.probabilities(scores, batch.graph)[4, 1])
    return math.log(probability / (1 - probability))


def test_words_beyond_the_limit_are_not_explained(corpus, tiny):
    inputs = {"max_tokens_per_text": 3}
    classifier = tiny("classifier", inputs=inputs, head={"linear_branch": True}).fit(*corpus("classifier"))
    with pytest.warns(TruncationWarning):
        words = word_attributions(classifier, WORD_TEXT)
    assert words.table.word.tolist() == ["[CLS]", *WORD_TEXT.split()[:3]]
    assert (words.table.attribution.abs() > 1e-6).tolist() == [False, True, True, True]
    assert words.table.attribution.sum() == pytest.approx(words.value - words.baseline, abs=0.02)


def test_the_linear_branch_is_divided_among_its_ngrams(trained):
    classifier, text = trained("classifier"), "not not dull film not"
    branch, names = classifier.model_.linear_branch, classifier.vocabulary_.words
    idf = dict(zip(branch.keys.tolist(), branch.idf.tolist(), strict=True))
    slopes = (branch.weights[:, 1] - branch.weights[:, 0]).tolist()
    slope = dict(zip(idf, slopes, strict=False))
    ids = [names.index(word) for word in text.split()]
    places = [(word, word) for word in range(len(ids))] + [(word, word + 1) for word in range(len(ids) - 1)]
    keys = [ids[one] if one == two else ids[one] << 32 | ids[two] for one, two in places]
    values = {key: (1 + math.log(keys.count(key))) * idf[key] for key in keys if key in idf}
    length = math.sqrt(sum(value**2 for value in values.values()))
    expected = np.zeros(len(ids))
    for key, (one, two) in zip(keys, places, strict=True):
        if key in values:  # the last feature is the sum of all others
            share = values[key] / length * (slope[key] + slopes[-1]) / keys.count(key)
            expected[one] += share / 2
            expected[two] += share / 2
    expected_of_encoder = integrated_gradients_of_encoder(classifier, text)
    actual = integrated_gradients(classifier, text, label=classifier.classes_[1]).attribution[1:]
    np.testing.assert_allclose(actual - expected_of_encoder, expected, atol=1e-5)
    assert abs(expected).max() > 0.01


def integrated_gradients_of_encoder(classifier, text):
    """Those of the model without its linear branch: with two classes, log-odds are a difference of scores."""
    branch, classifier.model_.linear_branch = classifier.model_.linear_branch, None
    try:
        return integrated_gradients(classifier, text, label=classifier.classes_[1]).attribution[1:]
    finally:
        classifier.model_.linear_branch = branch


@pytest.mark.slow
def test_the_strongest_word_is_that_of_occlusion_and_of_shapley_values(corpus, tiny):
    texts, labels = corpus("classifier", 200)
    classifier = tiny("classifier", head={"linear_branch": True}, training={"epochs": 4}).fit(texts, labels)
    deciding = ("not", "never")  # no word of other texts stands out
    texts = [text for text in texts if 4 <= len(text.split()) <= 7]
    texts = [text for text in texts if sum(map(text.split().count, deciding)) == 1]
    agreed = []
    for text in texts:
        words = text.split()
        subsets = [kept for size in range(len(words) + 1) for kept in combinations(range(len(words)), size)]
        probabilities = classifier.predict_proba([[words[number] for number in kept] for kept in subsets])
        values = dict(zip(subsets, np.log(probabilities[:, 1] / probabilities[:, 0]).tolist(), strict=True))
        whole = tuple(range(len(words)))
        occluded = [values[whole] - values[tuple(each for each in whole if each != word)] for word in whole]
        shapley = [shapley_value(values, word, len(words)) for word in whole]
        assert sum(shapley) == pytest.approx(values[whole] - values[()], abs=1e-4)
        table = integrated_gradients(classifier, text, label=classifier.classes_[1])
        own = pd.Series(table.attribution.to_numpy()[1:])
        agreed.append([int(own.abs().argmax() == np.abs(other).argmax()) for other in (occluded, shapley)])
    assert len(agreed) >= 15
    assert min(np.mean(agreed, axis=0)) >= 0.9


def shapley_value(values, word, count):
    """The mean effect of adding a word, over all orders."""
    without = [kept for kept in values if word not in kept]
    return sum(
        (values[tuple(sorted((*kept, word)))] - values[kept]) / (count * math.comb(count - 1, len(kept)))
        for kept in without
    )
