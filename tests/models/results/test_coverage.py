"""Coverage and accuracy from a confidence on, against counts of each text and against SciPy."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy.stats import binomtest

from graphattn.models._results.coverage import Coverage


@pytest.fixture
def coverage():
    random = np.random.default_rng(4)
    shares = np.round(random.uniform(0.5, 1, 200), 2)  # some are equal
    return Coverage.of(shares, random.random(200) < shares)


@pytest.mark.parametrize("confidence", [0, 0.5, 0.73, 0.9, 1])
def test_what_is_decided_equals_counts(coverage, confidence):
    decided = coverage.at(confidence)
    right = [bool(r) for c, r in zip(coverage.confidences, coverage.right, strict=True) if c >= confidence]
    assert decided.texts == len(right)
    assert decided.coverage == pytest.approx(100 * len(right) / 200)
    assert decided.accuracy == pytest.approx(100 * sum(right) / len(right))
    interval = binomtest(sum(right), len(right)).proportion_ci(method="exact")
    assert (decided.low, decided.high) == pytest.approx((100 * interval.low, 100 * interval.high))


def test_nothing_is_decided_above_all_confidences(coverage):
    decided = Coverage.of([0.5, 0.6], [True, False]).at(0.9)
    assert (decided.texts, decided.coverage, decided.low, decided.high) == (0, 0, 0, 100)


@pytest.mark.parametrize("wanted", [80, 90, 95])
def test_the_confidence_of_an_accuracy_is_the_least_that_reaches_it(coverage, wanted):
    reached = coverage.reach(wanted)
    accurate = [value for value in set(coverage.confidences.tolist()) if coverage.at(value).accuracy >= wanted]
    assert reached == coverage.at(min(accurate))
    low, high = coverage.bootstrap(wanted)
    assert low <= reached.min_confidence <= high


def test_the_interval_of_the_confidence_equals_resampling(coverage):
    random, found = np.random.default_rng(1), []
    for _ in range(1000):
        numbers = random.integers(200, size=200)
        reached = Coverage.of(coverage.confidences[numbers], coverage.right[numbers]).reach(90)
        found.append(1.0 if reached is None else reached.min_confidence)
    assert coverage.bootstrap(90) == pytest.approx(np.quantile(found, [0.025, 0.975]), abs=0.02)


def test_an_accuracy_that_no_confidence_reaches():
    coverage = Coverage.of([0.9, 0.8], [False, True])
    assert coverage.reach(60) is None
    assert coverage.reach(50).texts == 2
    assert Coverage.of([0.9], [False]).bootstrap(60) == (1, 1)


def test_the_area_is_the_mean_over_all_orders():
    shares, right = [0.9, 0.9, 0.9, 0.7, 0.6, 0.6], [True, False, True, True, False, True]
    areas = []
    for order in permutations(range(6)):
        if all(shares[a] >= shares[b] for a, b in pairwise(order)):
            rights = np.array([right[number] for number in order])
            areas.append(np.mean(np.cumsum(rights) / np.arange(1, 7)))
    assert Coverage.of(shares, right).area == pytest.approx(100 * np.mean(areas))


def test_rows_are_the_curve(coverage):
    rows = coverage.to_rows()
    assert [row["min_confidence"] for row in rows] == sorted(set(coverage.confidences.tolist()), reverse=True)
    assert rows[40] == coverage.at(rows[40]["min_confidence"]).to_row()
    assert rows[-1]["coverage"] == 100


def test_a_report_has_the_confidence_of_the_label(fitted, corpus):
    """Also where a threshold chooses the less probable of two classes."""
    texts, labels = corpus("classifier")
    classifier = fitted("classifier")
    try:
        classifier.set_thresholds({"bad": 0.2})
        rows = classifier.predict_rows(texts, min_confidence=0)
        coverage = classifier.report(texts, labels).coverage
    finally:
        classifier.set_thresholds(None)
    assert coverage.confidences.tolist() == [row["confidence"] for row in rows]
    assert coverage.right.tolist() == [row["label"] == label for row, label in zip(rows, labels, strict=True)]
