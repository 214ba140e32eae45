"""Comparisons of estimators, of all tasks."""

import numpy as np
import pytest
from scipy.stats import binomtest

from graphattn import compare
from graphattn.exceptions import ConfigError, DataError


@pytest.mark.parametrize("kind", ["classifier", "pair", "multilabel", "regressor", "pair regressor", "tagger", "crf"])
def test_a_model_does_not_differ_from_itself(fitted, corpus, kind):
    estimator = fitted(kind)
    X, y = corpus(kind)
    comparison = compare(estimator, estimator, X, y)
    assert (comparison.difference, comparison.p_value) == (0, 1)
    assert comparison.metric == estimator.main_metric
    # a regressor's numbers have the digits of rows of output
    assert comparison.score == pytest.approx(estimator.evaluate(X, y)[estimator.main_metric], abs=1e-4)


def test_classifiers(fitted, corpus):
    classifier = fitted("classifier")
    texts, labels = corpus("classifier")
    predicted = classifier.predict(texts)
    worse = np.where(np.arange(len(texts)) < 5, "odd", predicted)
    right = predicted == np.array(labels)
    compared = compare(classifier, {"worse": worse, "same": classifier}, texts, labels)
    assert list(compared) == ["worse", "same"]
    only = int(right[:5].sum())
    assert compared["worse"].only_model == only
    assert compared["worse"].p_value == pytest.approx(binomtest(only, only).pvalue)
    assert compared["worse"].adjusted_p_value == pytest.approx(2 * compared["worse"].p_value)
    with pytest.raises(DataError):
        compare(classifier, predicted[:3], texts, labels)


@pytest.mark.parametrize("kind", ["classifier", "multilabel"])
def test_predictions_of_another_type_are_an_error(tiny, corpus, kind):
    """No one would be right."""
    texts = corpus("classifier")[0][:10]
    labels = ["0", "1"] * 5 if kind == "classifier" else [("0",), ("0", "1")] * 5
    classifier = tiny(kind, training={"epochs": 1, "dev_fraction": 0.0}).fit(texts, labels)
    numbers = [0, 1] * 5 if kind == "classifier" else [(0,), (0, 1)] * 5
    with pytest.raises(DataError) as caught:
        compare(classifier, numbers, texts, labels)
    assert str(caught.value) == (
        "the other model's predictions are not of type str, as the classes are. Convert yours to str: str(label), or "
        "y.astype(str) of an array."
    )
    assert compare(classifier, labels, texts, labels).other_score == 100


def test_predictions_of_other_labels_are_an_error(tiny, corpus):
    texts, labels = corpus("classifier")
    classifier = tiny("classifier", training={"epochs": 1, "dev_fraction": 0.0}).fit(texts, labels)
    with pytest.raises(DataError) as caught:
        compare(classifier, [label.title() for label in labels], texts, labels)
    shown = ", ".join(dict.fromkeys(label.title() for label in labels))
    assert str(caught.value) == (
        f"no prediction of the other model is a label of this one: {shown}. Give predictions of the same labels, "
        "spelled alike."
    )


def test_a_tagger_with_another_scheme(entity_tagger, corpus):
    words, tags = corpus("crf", 40)
    predicted = entity_tagger.predict(words)
    assert compare(entity_tagger, [["O"] * len(own) for own in predicted], words, tags).other_score == 0
    report = entity_tagger.report(words, tags, others={"gold": tags})
    assert report.comparisons["gold"].other_score == 100
    places = report.disagreements
    assert places
    assert [{name: row[name] for name in ("gold", "predicted")} for row in places] == [
        {name: row[name] for name in ("gold", "predicted")} for row in sorted_by_text(report.mistakes, places)
    ]


def sorted_by_text(rows, order):
    """Rows in the order of others, which are at the same places."""
    places = [(row["text"], row["start"]) for row in order]
    return sorted(rows, key=lambda row: places.index((row["text"], row["start"])))


def test_regressors_list_the_largest_difference_first(fitted, corpus):
    regressor = fitted("regressor")
    texts, numbers = corpus("regressor")
    predicted = regressor.predict(texts)
    other = predicted + np.arange(len(texts)) / 10
    report = regressor.report(texts, numbers, others={"other": [str(value) for value in other]})
    assert report.comparisons["other"].other_score == pytest.approx(100 * np.corrcoef(numbers, other)[0, 1])
    assert [row["text"] for row in report.disagreements] == texts[::-1]
    assert compare(regressor, np.ones(len(texts)), texts, numbers).other_score == 0
    rounded = [row["value"] for row in regressor.predict_rows(texts)]
    assert compare(regressor, rounded, texts, numbers).p_value == 1


@pytest.mark.parametrize("kind", ["classifier", "regressor", "tagger"])
def test_a_report_takes_models_or_their_predictions(fitted, corpus, kind):
    estimator, (X, y) = fitted(kind), corpus(kind)
    inputs = [*X, X[0]]
    labels = [*y, y[0]]
    others = {"model": estimator, "predictions": estimator.predict(inputs)}
    compared = estimator.report(iter(inputs), labels, others=others).comparisons
    assert compared["model"] == compared["predictions"]
    assert compared["model"].p_value == 1


@pytest.mark.slow
def test_a_translators_report_takes_another_one(fitted, corpus):
    translator, (X, y) = fitted("translator"), corpus("translator")
    compared = translator.report(X, y, others={"b": translator, "c": translator.predict(X)})["compared"]
    assert compared["bleu"]["b"]["score"] == compared["bleu"]["model"]["score"] == compared["bleu"]["c"]["score"]
    with pytest.raises(DataError):
        translator.report(X, y, others={"b": translator.predict(X)[:1]})


@pytest.mark.slow
def test_translators_are_compared_by_their_report(fitted):
    with pytest.raises(ConfigError):
        compare(fitted("translator"), ["a"], ["b"], ["c"])
