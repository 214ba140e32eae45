"""What estimators share that can be saved."""

import pytest

from graphattn.exceptions import DataError, NotFittedError
from graphattn.models import PairClassifier, SequenceTagger, TextClassifier, Translator, load


@pytest.mark.parametrize("kind", [TextClassifier, PairClassifier, SequenceTagger, Translator])
def test_an_untrained_one_is_not_saved(kind, tmp_path):
    with pytest.raises(NotFittedError) as caught:
        kind().save(tmp_path / "model")
    assert str(caught.value) == f"this {kind.__name__} is not trained yet; call fit, or graphattn.load a saved one"
    assert not (tmp_path / "model").exists()


def test_notes_stand_beside_the_model(tiny, corpus, tmp_path):
    classifier = tiny(training={"epochs": 1}).fit(*corpus("classifier", 12))
    folder = classifier.save(str(tmp_path / "model"), notes={"origin.txt": "a test\n"})
    assert folder == tmp_path / "model"
    assert (folder / "origin.txt").read_text() == "a test\n"


def test_a_fit_that_fails_leaves_no_model(tiny, corpus):
    texts, labels = corpus("classifier", 16)
    estimator = tiny("classifier", training={"epochs": 1})
    wrong = {"y": labels, "dev": (texts[:2], ["new", "newer"])}
    for _ in range(2):  # the first time, and after a fit that went well
        with pytest.raises(DataError, match="which the training set lacks"):
            estimator.fit(texts, **wrong)
        for use in (
            lambda: estimator.predict(texts),
            lambda: estimator.save("model"),
            lambda: estimator.score(texts, labels),
        ):
            with pytest.raises(NotFittedError):
                use()
        assert not {"_vectors", "_num_trained", "history_"} & vars(estimator).keys()
        estimator.fit(texts, labels)
    with pytest.raises(DataError):
        estimator.set_params(inputs__vectors="missing.txt").fit(texts, labels)
    assert not hasattr(estimator, "model_")
    assert "_vectors" not in vars(estimator)


def test_class_weights_are_saved(tiny, corpus, tmp_path):
    texts, labels = corpus("classifier", 16)
    for given in ("balanced", dict.fromkeys(set(labels), 2.0), None):
        estimator = tiny("classifier", class_weight=given, training={"epochs": 1}).fit(texts, labels)
        assert load(estimator.save(tmp_path / "model")).class_weight == given
