"""Gradient times weight against factors on the weights of dense matrices, and against finite differences."""

import numpy as np
import pandas as pd
import pytest
import torch

from graphattn.exceptions import ConfigError, NotFittedError
from graphattn.models import BiLSTMOptions, InputOptions, TextClassifier, TrainingOptions
from graphattn.models.attributions import by_source, gradient_times_weight
from graphattn.models.estimators import Translator

TEXT = "fine and never dull"


@pytest.mark.parametrize("label", [None, "bad"])
def test_it_equals_the_gradient_of_factors_on_dense_weights(label, classifier, dense, log_odds):
    table = gradient_times_weight(classifier, TEXT, label=label)
    reference = dense(classifier, TEXT)
    scores = reference.scores()
    chosen = int(scores.argmax()) if label is None else classifier.classes_.tolist().index(label)
    log_odds(scores, chosen).backward()
    assert set(zip(table.layer, table["head"], strict=True)) == set(reference.factors)
    for (layer, head), rows in table.groupby(["layer", "head"]):
        expected = reference.factors[layer, head].grad[rows.target.to_numpy(), rows.source.to_numpy()]
        np.testing.assert_allclose(rows.attribution, expected, rtol=1e-5, atol=1e-7)
        hidden = reference.factors[layer, head].grad.clone()
        hidden[rows.target.to_numpy(), rows.source.to_numpy()] = 0
        assert not hidden.any()
    np.testing.assert_allclose(table.attribution, table.gradient * table.weight)


def test_it_equals_finite_differences(classifiers, dense, log_odds):
    classifier, step = classifiers["ms-trans"], 1e-5
    table = gradient_times_weight(classifier, TEXT, label="good")
    for row in table.sample(12, random_state=0).itertuples():
        sides = []
        for sign in (1, -1):
            reference = dense(classifier, TEXT)
            factor = torch.ones(reference.count, reference.count, dtype=torch.float64)
            factor[row.target, row.source] += sign * step
            reference.factors[row.layer, row.head] = factor
            sides.append(float(log_odds(reference.scores(), classifier.classes_.tolist().index("good")).detach()))
        assert row.attribution == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-3, abs=1e-6)


def test_the_table_is_that_of_attention(classifier):
    table = gradient_times_weight(classifier, TEXT)
    plain = classifier.attention(TEXT).table()
    assert list(table) == [*plain, "gradient", "attribution"]
    np.testing.assert_allclose(table.weight, plain.weight, atol=1e-12)
    pd.testing.assert_frame_equal(table.drop(columns=["gradient", "attribution"]), plain)


def test_a_word_of_a_tagger(tagger, log_odds):
    words = TEXT.split()
    each = [gradient_times_weight(tagger, words, word=word).attribution for word in range(4)]
    np.testing.assert_allclose(gradient_times_weight(tagger, words).attribution, sum(each), atol=1e-9)
    last = gradient_times_weight(tagger, words, word=3)
    narrow = last[(last.layer == 1) & (last.scale == "3")]
    far = narrow[narrow.target != 4]
    assert np.allclose(far.attribution, 0), "in the last layer only edges into the word itself count"


def test_both_texts_of_a_pair(pair_classifier):
    table = gradient_times_weight(pair_classifier, ("a fine film", "dull"))
    assert set(table.source_part) == {"first", "second"}
    sums = by_source(table)
    assert sums.index.names == ["source_part", "source", "source_token"]
    assert sums["second", 1, "dull"] == pytest.approx(
        table[(table.source_part == "second") & (table.source == 1)].attribution.sum()
    )


def test_gradients_are_left_as_they_were(classifiers):
    model = classifiers["ms-trans"].model_
    before = [parameter.grad for parameter in model.parameters()]
    gradient_times_weight(classifiers["ms-trans"], TEXT)
    assert all(parameter.grad is one for parameter, one in zip(model.parameters(), before, strict=True))
    with torch.inference_mode():
        gradient_times_weight(classifiers["ms-trans"], TEXT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"label": "great"}, "the model knows no class 'great'; it knows: bad, fair, good"),
        ({"word": 1}, "word is for taggers; a classifier decides about the whole text"),
    ],
)
def test_what_cannot_be_explained(arguments, message, classifiers):
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(classifiers["ms-trans"], TEXT, **arguments)
    assert str(caught.value) == message


def test_words_that_are_not_there(tagger):
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(tagger, ["fine"], word=1)
    assert str(caught.value) == "there is no word 1; words count from 0 to 0"
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(tagger, [])
    assert str(caught.value) == "there is nothing to explain: the text has no words"


def test_no_attention_no_gradient():
    model = TextClassifier(
        BiLSTMOptions(hidden=4), inputs=InputOptions(embedding=4), training=TrainingOptions(epochs=1, dev_fraction=0)
    ).fit(["a", "b"] * 4, [0, 1] * 4)
    with pytest.raises(ConfigError, match=r"^encoder 'bilstm' has no attention weights$"):
        gradient_times_weight(model, "a")


def test_what_decides_about_no_classes():
    with pytest.raises(NotFittedError, match="this TextClassifier is not trained yet"):
        gradient_times_weight(TextClassifier(), "a")
    with pytest.raises(ConfigError) as caught:
        gradient_times_weight(Translator(), "a")
    assert str(caught.value) == "this is for classifiers and taggers; a Translator has no classes"
