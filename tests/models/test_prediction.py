"""A prediction depends only on its input: not on batch, order or earlier calls."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from graphattn.exceptions import DivergenceError
from graphattn.models import _prediction as prediction
from graphattn.models._encoders import ENCODERS

KINDS = ("classifier", "multilabel", "pair", "tagger", "crf")
CASES = [(kind, "ms-trans") for kind in KINDS]
CASES += [("classifier", encoder) for encoder in ENCODERS if encoder != "ms-trans"]  # test_cls.py has other tasks
LONG = "the film was not very slow and never dull " * 30


def inputs_of(kind):
    texts = ["", "film", LONG, "the awful plot", "unknown words only here", "Paris was never dull", "x" * 100, "NATO"]
    if kind == "pair":
        return list(zip(texts, texts[::-1], strict=True))
    return [text.split() for text in texts] if kind in ("tagger", "crf") else texts


def chances(estimator, inputs):
    return [np.asarray(row) for row in estimator.predict_proba(inputs)]


def close(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert one.dtype == other.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("kind", "encoder"), CASES)
def test_batch_and_order_do_not_matter(fitted, kind, encoder, monkeypatch):
    estimator, inputs = fitted(kind, encoder), inputs_of(kind)
    together = chances(estimator, inputs)
    close(together, [chances(estimator, [one])[0] for one in inputs])
    close(together[::-1], chances(estimator, inputs[::-1]))
    close(together[1::2], chances(estimator, inputs[1::2]))
    predicted = list(estimator.predict(inputs))
    assert predicted == [estimator.predict([one])[0] for one in inputs]
    monkeypatch.setattr(prediction, "MAX_TOKENS", 20)  # several batches, and a text that exceeds the budget
    close(together, chances(estimator, inputs))
    assert predicted == list(estimator.predict(inputs))


@pytest.mark.parametrize(("kind", "encoder"), CASES)
def test_no_input_and_empty_input(fitted, kind, encoder):
    estimator = fitted(kind, encoder)
    assert list(estimator.predict([])) == []
    assert len(estimator.predict_proba([])) == 0
    empty = ("", "") if kind == "pair" else [] if kind in ("tagger", "crf") else ""
    (predicted,) = estimator.predict([empty])
    if kind in ("tagger", "crf"):
        assert predicted == []
        assert estimator.predict_proba([empty])[0].shape == (0, len(estimator.classes_))
    elif kind == "multilabel":
        assert set(predicted) <= set(estimator.classes_)
    else:
        assert predicted in estimator.classes_


@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_probabilities_in_one_pass(fitted, kind):
    estimator, inputs = fitted(kind, "ms-trans"), inputs_of(kind)
    labels, rows = estimator.predict_with_probabilities(inputs)
    assert list(labels) == list(estimator.predict(inputs))
    close([np.asarray(row) for row in rows], chances(estimator, inputs))


def test_dropout_is_off_and_the_mode_does_not_change(fitted):
    estimator = fitted("classifier", "ms-trans")
    data = estimator.encode(inputs_of("classifier"))
    for training in (True, False):
        estimator.model_.train(training)
        first = prediction.predict_corpus(estimator.model_, data, probabilities=True)
        assert estimator.model_.training is training
        second = prediction.predict_corpus(estimator.model_, data, probabilities=True)
        assert np.array_equal(np.stack(first.probabilities), np.stack(second.probabilities))
    assert prediction.predict_corpus(estimator.model_, data).probabilities is None


@pytest.mark.slow
def test_a_text_of_20000_tokens(fitted):
    text = "the film was not very slow " * 3334
    alone = chances(fitted("classifier", "ms-trans"), [text])
    close(alone, chances(fitted("classifier", "ms-trans"), ["film", text, ""])[1:2])


@pytest.mark.parametrize("kind", ["classifier", "pair"])
def test_vectors_are_float32_and_the_mode_does_not_change(kind, corpus, fitted):
    inputs, _ = corpus(kind)
    estimator = deepcopy(fitted(kind))
    model, data = estimator.model_, estimator.encode(inputs[:3])
    actual = []
    for training in (True, False):
        model.train(training)
        actual.append(prediction.encode_corpus(model, data))
        assert model.training is training
    assert np.array_equal(*actual)
    nothing = prediction.encode_corpus(model, estimator.encode([]))
    assert nothing.shape == (0, actual[0].shape[1])
    assert prediction.encode_corpus(model.bfloat16(), data).dtype == nothing.dtype == np.float32


@pytest.mark.parametrize("method", ["predict", "sentence_vectors", "evaluate"])
def test_numbers_that_are_not_finite(fitted, method):
    estimator = deepcopy(fitted("classifier", "ms-trans"))
    with torch.no_grad():
        for weights in estimator.model_.parameters():
            weights.fill_(1e30)
    arguments = (["a film"], ["good"]) if method == "evaluate" else (["a film"],)
    with pytest.raises(DivergenceError):
        getattr(estimator, method)(*arguments)
