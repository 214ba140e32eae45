"""Attention of inputs of all kinds: predictions equal those of ``predict``; errors."""

import numpy as np
import pandas as pd
import pytest

import graphattn
from graphattn.builders import Example
from graphattn.exceptions import ConfigError, DataError, NotFittedError
from graphattn.models import BiLSTMOptions, InputOptions, TextClassifier, TrainingOptions, Translator
from graphattn.models.inspection import summarise
from graphattn.models.inspection.attributions import gradient_times_weight


def test_the_prediction_equals_predict(fitted_estimator):
    estimator, x = fitted_estimator
    before = estimator.predict_proba([x])[0]
    attention = estimator.attention(x)
    predicted = estimator.predict([x])
    assert attention.prediction == (predicted.tolist() if isinstance(predicted, np.ndarray) else predicted)[0]
    assert not isinstance(attention.prediction, np.generic)
    assert np.array_equal(before, estimator.predict_proba([x])[0])


def test_probabilities_equal_predict_proba(estimators):
    for kind in ("classifier", "multilabel", "pair"):
        estimator, x = estimators[kind]
        chances = estimator.predict_proba([x])[0]
        actual = estimator.attention(x).probabilities
        assert list(actual) == estimator.classes_.tolist()
        assert list(actual.values()) == pytest.approx(chances.tolist(), abs=1e-6)
    for kind in ("tagger", "crf"):
        estimator, x = estimators[kind]
        actual = [list(own.values()) for own in estimator.attention(x).probabilities]
        np.testing.assert_allclose(actual, estimator.predict_proba([x])[0], atol=1e-5)


def test_texts_without_tokens(estimators):
    attention = estimators["transformer"][0].attention("")
    assert attention.tokens == {"text": ("[CLS]",)}
    assert attention.table().weight.tolist() == [1.0] * 4
    assert attention.top().empty
    assert estimators["tagger"][0].attention([]).prediction == []


def test_an_example_is_an_input(estimators):
    estimator, text = estimators["transformer"]
    assert estimator.attention(Example(text, label="3")).tokens == estimator.attention(text).tokens


def test_a_saved_model_has_the_same_attention(estimators, tmp_path):
    estimator, x = estimators["pair"]
    loaded = graphattn.load(estimator.save(tmp_path / "model"))
    pd.testing.assert_frame_equal(loaded.attention(x).table(), estimator.attention(x).table())


ASK = {
    "attention": lambda model: model.attention("dogs"),
    "gradients": lambda model: gradient_times_weight(model, "dogs"),
    "summary": lambda model: summarise(model, ["dogs"]),
}


@pytest.fixture(scope="module")
def lstm():
    training = TrainingOptions(epochs=1, dev_fraction=0.0)
    model = TextClassifier(BiLSTMOptions(hidden=4), inputs=InputOptions(embedding=6), training=training)
    return model.fit(["dogs", "cats"] * 4, [0, 1] * 4)


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_an_lstm_has_no_attention(ask, lstm):
    with pytest.raises(ConfigError) as caught:
        ask(lstm)
    assert str(caught.value) == "encoder 'bilstm' has no attention weights"


@pytest.mark.parametrize("kind", [TextClassifier, Translator])
@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_attention_before_fit(ask, kind):
    with pytest.raises(NotFittedError) as caught:
        ask(kind())
    message = f"this {kind.__name__} is not trained yet; call fit, or graphattn.load a saved one"
    assert str(caught.value) == message


def test_a_text_is_not_a_pair(estimators):
    with pytest.raises(DataError) as caught:
        estimators["pair"][0].attention("dogs")
    assert str(caught.value) == "input 0 is no pair of texts. Give (first, second)."
