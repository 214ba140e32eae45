"""What estimators share that can be saved."""

import numpy as np
import pytest
from sklearn.base import clone

from graphattn.exceptions import DataError, GraphAttnError, NotFittedError
from graphattn.models import MSTransOptions, PairClassifier, SequenceTagger, TextClassifier, Translator, load


@pytest.mark.parametrize("kind", [TextClassifier, PairClassifier, SequenceTagger, Translator])
def test_an_untrained_one_is_not_saved(kind, tmp_path):
    with pytest.raises(NotFittedError) as caught:
        kind().save(tmp_path / "model")
    assert str(caught.value) == f"this {kind.__name__} is not trained yet; call fit, or graphattn.load a saved one"
    assert not (tmp_path / "model").exists()


def test_what_was_told_is_known_without_the_defaults(tiny, corpus, tmp_path):
    estimator = TextClassifier("bilstm", training=tiny("classifier").training)
    with pytest.raises(NotFittedError):
        estimator.non_default_options()
    estimator.set_params(encoder__hidden=8, inputs__embedding=6, training__epochs=1, class_weight="balanced")
    estimator.fit(*corpus("classifier", 12))
    told = estimator.non_default_options()
    assert (told["hidden"], told["embedding"]) == (8, 6)
    assert told["class_weight"] == "balanced"
    assert "pooling" not in told  # the encoder's own
    assert load(estimator.save(tmp_path / "model")).non_default_options() == told


def test_notes_stand_beside_the_model(tiny, corpus, tmp_path):
    classifier = tiny(training={"epochs": 1}).fit(*corpus("classifier", 12))
    folder = classifier.save(str(tmp_path / "model"), notes={"origin.txt": "a test\n"})
    assert folder == tmp_path / "model"
    assert (folder / "origin.txt").read_text() == "a test\n"


def test_a_fit_that_fails_leaves_what_was_there(tiny, corpus, tmp_path):
    texts, labels = corpus("classifier", 16)
    estimator = tiny("classifier", training={"epochs": 1})
    fresh = dict(vars(estimator))
    wrong = {"y": labels, "dev": (texts[:2], ["new", "newer"])}
    with pytest.raises(DataError, match="which the training set lacks"):
        estimator.fit(texts, **wrong)
    assert vars(estimator) == fresh
    for use in (
        lambda: estimator.predict(texts),
        lambda: estimator.save("model"),
        lambda: estimator.score(texts, labels),
    ):
        with pytest.raises(NotFittedError):
            use()
    chances = estimator.fit(texts, labels).predict_proba(texts)
    for changes, given in (
        ({}, {"X": texts, **wrong}),
        ({}, {"X": texts, "y": labels[1:]}),
        ({}, {"X": ["a", "b", "c"], "y": ["new", "newer", "new"], "dev": (["a"], ["newest"])}),
        ({"inputs__vectors": "missing.txt"}, {"X": texts, "y": labels}),
        ({"encoder": MSTransOptions(hidden=30, heads=4)}, {"X": texts, "y": labels}),
    ):
        with pytest.raises(GraphAttnError):
            clone(estimator).set_params(**changes).fit(**given)
        with pytest.raises(GraphAttnError):
            estimator.set_params(**changes).fit(**given)
        assert np.array_equal(estimator.predict_proba(texts), chances)
        assert "_vectors" not in vars(estimator)
        assert np.array_equal(load(estimator.save(tmp_path / "model")).predict_proba(texts), chances)


def test_class_weights_are_saved(tiny, corpus, tmp_path):
    texts, labels = corpus("classifier", 16)
    for given in ("balanced", dict.fromkeys(set(labels), 2.0), None):
        estimator = tiny("classifier", class_weight=given, training={"epochs": 1}).fit(texts, labels)
        assert load(estimator.save(tmp_path / "model")).class_weight == given


@pytest.mark.parametrize("kind", [np.int64, np.bool_, np.str_, np.float64])
def test_class_weights_of_numpys_labels_are_saved(tiny, corpus, tmp_path, kind):
    texts, labels = corpus("classifier", 16)
    known = np.array([label == labels[0] for label in labels]).astype(kind)
    given = dict.fromkeys(np.unique(known), 2.0)
    estimator = tiny("classifier", class_weight=given, training={"epochs": 1}).fit(texts, known)
    assert load(estimator.save(tmp_path / "model")).class_weight == given
