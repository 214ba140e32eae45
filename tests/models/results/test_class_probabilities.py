"""Measures of probabilities against scikit-learn, and the calibration error against its definition."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn import metrics

from graphattn.models._results.class_probabilities import ALL, BINS, ClassProbabilities


def draw(classes, count=200, seed=0):
    random = np.random.default_rng(seed)
    shares = softmax(random.normal(0, 1.5, (count, classes)), axis=1)
    return random.integers(0, classes, count), shares


@pytest.mark.parametrize("classes", [2, 4])
def test_one_label_for_each_text(classes):
    gold, shares = draw(classes)
    gold[:120] = gold[:120] % 2 if classes > 2 else 0
    names = list(range(classes))
    measured = ClassProbabilities.of(gold.tolist(), shares, names, multilabel=False).measure()
    assert measured["brier"] == pytest.approx(metrics.brier_score_loss(gold, shares, labels=names))
    one_hot = np.eye(classes, dtype=int)[gold]
    used = [one_hot.sum(0).argmin()] if classes == 2 else names
    for name, score in (("roc_auc", metrics.roc_auc_score), ("average_precision", metrics.average_precision_score)):
        expected = np.mean([score(one_hot[:, number], shares[:, number]) for number in used])
        assert measured[name] == pytest.approx(100 * expected)
    best, confidence = shares.argmax(1), shares.max(1)
    error = 0.0
    for low in np.arange(BINS) / BINS:
        inside = (confidence >= low) & (confidence < low + 1 / BINS)
        if inside.any():
            error += inside.mean() * abs((best == gold)[inside].mean() - confidence[inside].mean())
    assert measured["calibration_error"] == pytest.approx(100 * error)


def test_several_labels():
    random = np.random.default_rng(1)
    gold, shares = random.random((100, 3)) < 0.3, random.random((100, 3))
    labels = [tuple(name for name, has in zip("abc", row, strict=True) if has) for row in gold]
    labels[0] = (*labels[0], "unknown")
    measured = ClassProbabilities.of(labels, shares, list("abc"), multilabel=True).measure()
    assert measured["brier"] == pytest.approx(np.mean((shares - gold) ** 2))
    for prefix, average in (("", "macro"), ("micro_", "micro")):
        assert measured[f"{prefix}roc_auc"] == pytest.approx(100 * metrics.roc_auc_score(gold, shares, average=average))
        expected = 100 * metrics.average_precision_score(gold, shares, average=average)
        assert measured[f"{prefix}average_precision"] == pytest.approx(expected)


def test_what_is_not_defined_is_left_out():
    shares = [[0.5, 0.5], [0.2, 0.8]]
    of_one_class = ClassProbabilities.of(["a", "a"], shares, ["a", "b"], multilabel=False)
    assert set(of_one_class.measure()) == {"brier", "calibration_error"}
    unknown = ClassProbabilities.of(["c", "c"], shares, ["a", "b"], multilabel=False)
    assert unknown.measure() == {}


def test_curves_of_the_most_frequent_classes():
    gold, shares = draw(4)
    probabilities = ClassProbabilities.of(gold.tolist(), shares, list(range(4)), multilabel=False)
    curves = probabilities.select_curves(2)
    frequent = np.argsort(-np.bincount(gold), kind="stable")[:2]
    assert list(curves) == [ALL, *map(str, frequent)]
    assert len(curves[ALL][0]) == 4 * len(gold)
