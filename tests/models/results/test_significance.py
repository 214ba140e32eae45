"""Significance of differences against SciPy, and against the formulas of the papers."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest, false_discovery_control, fisher_exact
from scipy.stats import bootstrap as scipy_bootstrap

from graphattn.models._results.significance import (
    MCNEMAR,
    RANDOMIZATION,
    SummedMetric,
    adjust_p_values,
    bootstrap_correlation,
    compare_models,
    compute_mcnemar,
    list_moments,
    permute_groups,
    randomize,
    score_f1,
)


def make_accuracy(right):
    """The accuracy of texts that are right or wrong."""
    return SummedMetric(np.stack([right, np.ones(len(right)), np.ones(len(right))], 1), score_f1)


def make_counts(random, size, share):
    """Right, gold and predicted entities of texts."""
    gold, extra = random.integers(0, 4, (2, size))
    right = random.binomial(gold, share)
    return np.stack([right, gold, right + extra], 1).astype(float)


def test_the_interval_of_f1_equals_scipy():
    random = np.random.default_rng(3)
    gold, extra = random.integers(0, 4, (2, 300))
    right = random.binomial(gold, 0.7)
    counts = np.stack([right, gold, right + extra], 1)

    def f1(right, gold, predicted, axis):
        return 200 * right.sum(axis) / (gold + predicted).sum(axis)

    expected = scipy_bootstrap(
        tuple(counts.T), f1, paired=True, vectorized=True, method="percentile", n_resamples=4000, rng=random
    ).confidence_interval
    assert SummedMetric(counts, score_f1).interval() == pytest.approx(tuple(expected), abs=0.6)
    assert SummedMetric(counts, score_f1).interval() == SummedMetric(counts[::-1], score_f1).interval(), (
        "neither the order nor the call matters"
    )


def test_the_interval_of_a_correlation_equals_scipy():
    random = np.random.default_rng(3)
    gold = random.normal(size=300)
    predicted = 5 + gold + random.normal(size=300)
    expected = scipy_bootstrap(
        (gold, predicted),
        lambda x, y: 100 * np.corrcoef(x, y)[0, 1],
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=2000,
        rng=random,
    ).confidence_interval
    assert bootstrap_correlation(gold, predicted) == pytest.approx(tuple(expected), abs=0.8)
    assert bootstrap_correlation(np.ones(4), np.arange(4.0)) == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_mcnemar_equals_the_binomial_distribution(seed):
    random = np.random.default_rng(seed)
    first, second = random.random((2, 90)) < [[0.8], [0.7]]
    comparison = compare_models("accuracy", make_accuracy(first), {"b": make_accuracy(second)})["b"]
    only_first, only_second = int((first & ~second).sum()), int((second & ~first).sum())
    assert (comparison.only_model, comparison.only_other) == (only_first, only_second)
    assert comparison.test == MCNEMAR
    total = only_first + only_second
    assert comparison.p_value == pytest.approx(binomtest(only_first, total).pvalue)
    assert comparison.p_value == pytest.approx(min(1, 2 * binom.cdf(min(only_first, only_second), total, 0.5)))
    assert comparison.difference == pytest.approx(100 * (first.mean() - second.mean()))


def test_models_that_agree_do_not_differ():
    right = np.arange(30) % 3 > 0
    comparison = compare_models("accuracy", make_accuracy(right), {"same": make_accuracy(right)})["same"]
    assert (comparison.difference, comparison.low, comparison.high, comparison.p_value) == (0, 0, 0, 1)
    assert compute_mcnemar(0, 0) == 1
    counts = SummedMetric(make_counts(np.random.default_rng(0), 20, 0.5), score_f1)
    assert randomize(counts, counts) == 1


@pytest.mark.parametrize("kind", ["accuracy", "f1", "correlation"])
def test_the_interval_of_a_difference_equals_scipy(kind):
    random = np.random.default_rng(7)
    size = 250
    if kind == "correlation":
        gold = random.normal(size=size)
        sides = [gold + random.normal(size=size), gold + 2 * random.normal(size=size)]
        metrics = [list_moments(3 + 10 * gold, 3 + 10 * side) for side in sides]
        columns = (gold, *sides)

        def difference(gold, first, second):
            return 100 * (np.corrcoef(gold, first)[0, 1] - np.corrcoef(gold, second)[0, 1])
    else:
        if kind == "accuracy":
            metrics = [make_accuracy(random.random(size) < share) for share in (0.9, 0.8)]
        else:
            metrics = [SummedMetric(make_counts(random, size, share), score_f1) for share in (0.8, 0.6)]
        columns = tuple(np.concatenate([metric.rows for metric in metrics], axis=1).T)

        def difference(*columns):
            sums = [column.sum() for column in columns]
            return 200 * (sums[0] / (sums[1] + sums[2]) - sums[3] / (sums[4] + sums[5]))

    interval = scipy_bootstrap(
        columns, difference, paired=True, vectorized=False, method="percentile", n_resamples=3000, rng=random
    ).confidence_interval
    comparison = compare_models("metric", metrics[0], {"b": metrics[1]})["b"]
    assert (comparison.low, comparison.high) == pytest.approx(
        tuple(interval), abs=0.12 * (interval.high - interval.low)
    )
    assert comparison.difference == pytest.approx(difference(*columns))


@pytest.mark.parametrize("kind", ["f1", "correlation"])
def test_approximate_randomization_equals_the_papers_algorithm(kind):
    """Yeh (2000, section 3): exchange the responses of each text with probability 1/2, count as large differences."""
    random = np.random.default_rng(11)
    size, shuffles = 60, 4000
    if kind == "f1":
        first, second = make_counts(random, size, 0.72), make_counts(random, size, 0.7)
        metrics = [SummedMetric(rows, score_f1) for rows in (first, second)]

        def measure(rows):
            right, gold, predicted = rows.sum(0)
            return 200 * right / (gold + predicted)
    else:
        gold = random.normal(size=size)
        first, second = (gold + noise * random.normal(size=size) for noise in (1, 1.3))
        metrics = [list_moments(gold, side) for side in (first, second)]

        def measure(side):
            return 100 * np.corrcoef(gold, side)[0, 1]

    actual, larger = abs(measure(first) - measure(second)), 0
    for _ in range(shuffles):
        swap = random.random(size) < 0.5
        if kind == "f1":
            swap = swap[:, None]
        shuffled = np.where(swap, second, first), np.where(swap, first, second)
        larger += abs(measure(shuffled[0]) - measure(shuffled[1])) >= actual - 1e-9
    expected = (larger + 1) / (shuffles + 1)
    assert 0.01 < expected < 0.99, "the case says something"
    comparison = compare_models("metric", metrics[0], {"b": metrics[1]})["b"]
    assert comparison.test == RANDOMIZATION
    assert comparison.p_value == pytest.approx(expected, abs=4 * (expected * (1 - expected) / shuffles) ** 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_holms_correction(seed):
    """Holm (1979): the ordered p-values times m, m - 1, ..., each at least as large as those before it."""
    p_values = np.random.default_rng(seed).random(6) ** 3
    ordered = sorted(p_values)
    expected = {p: min(1, max((6 - j) * ordered[j] for j in range(rank + 1))) for rank, p in enumerate(ordered)}
    adjusted = adjust_p_values(p_values)
    assert adjusted == pytest.approx([expected[p] for p in p_values])
    assert all(np.array(adjusted) >= false_discovery_control(p_values) - 1e-12), "Holm is stricter than a rate"
    assert adjust_p_values([]) == []


def test_several_models_are_corrected():
    random = np.random.default_rng(5)
    right = random.random(200) < 0.9
    others = {name: make_accuracy(random.random(200) < share) for name, share in (("b", 0.85), ("c", 0.7), ("d", 0.9))}
    compared = compare_models("accuracy", make_accuracy(right), others)
    p_values = [each.p_value for each in compared.values()]
    assert [each.adjusted_p_value for each in compared.values()] == adjust_p_values(p_values)


def test_groups_are_compared_with_fishers_exact_test():
    counts = ((45, 5), (31, 19), (41, 9))  # right and wrong ones of each group
    groups = np.repeat(np.arange(3), 50)
    right = np.concatenate([np.arange(50) < count for count, _ in counts])
    numbers = [np.flatnonzero(groups == each) for each in range(3)]
    sides = [(right[inside], np.delete(right, inside)) for inside in numbers]
    tables = [[[side.sum(), (~side).sum()] for side in both] for both in sides]
    expected = adjust_p_values([fisher_exact(table).pvalue for table in tables])
    actual = permute_groups(make_accuracy(right), numbers)
    assert min(expected) < 0.05 < max(expected)
    assert actual == pytest.approx(expected, abs=0.08)
    assert permute_groups(make_accuracy(right), [np.arange(150)]) == [1.0]
