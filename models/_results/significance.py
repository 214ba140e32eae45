"""Whether a difference of metrics is chance: paired bootstrap, McNemar's test, randomization, and Holm's correction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LEVEL, RESAMPLES, SEED = 0.95, 1000, 0
RANDOMIZATIONS = 10_000
"""Random exchanges of a test; the smallest p-value is one in so many."""
MCNEMAR, RANDOMIZATION = "exact McNemar's test", "approximate randomization"
_CHUNK = 10_000_000
"""Most numbers that are drawn at once."""


@dataclass(frozen=True, eq=False)
class SummedMetric:
    """A metric that follows from sums over inputs, so that it is known for any selection of them.

    Parameters
    ----------
    rows : (S, K) what each input adds to the sums
    score : (..., K) sums -> (...) percent
    """

    rows: Floats
    score: Callable[[Floats], Floats]

    @property
    def value(self) -> float:
        """The metric of all inputs."""
        return float(self.score(self.rows.sum(0)))

    @property
    def is_accuracy(self) -> bool:
        """Whether each input has one decision, which is right or wrong."""
        return self.score is score_f1 and bool((self.rows[:, 1:] == 1).all())

    def select(self, numbers: Sequence[int] | npt.NDArray[np.int64]) -> SummedMetric:
        """The metric of some inputs."""
        return replace(self, rows=self.rows[numbers])

    def interval(self) -> tuple[float, float]:
        """Percentile bootstrap over inputs: the 95 % interval, from 1,000 resamples with a fixed seed."""
        return find_interval(self.score(resample_sums(self.rows)))


def score_f1(sums: Floats) -> Floats:
    """Micro-averaged F1 of (..., 3) right decisions, gold classes and predicted classes.

    It is the accuracy if each input has one of each.
    """
    right, gold, predicted = np.moveaxis(sums, -1, 0)
    scores: Floats = 200 * right / np.maximum(gold + predicted, 1)
    return scores


def list_moments(gold: Floats, predicted: Floats) -> SummedMetric:
    """Pearson's correlation as a metric of sums; 0 for constant numbers. Numbers are in units of the gold ones."""
    mean, unit = gold.mean(), gold.std() or 1.0
    x, y = (gold - mean) / unit, (predicted - mean) / unit
    return SummedMetric(np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1), score_correlation)


def score_correlation(sums: Floats) -> Floats:
    """Pearson's correlation of (..., 6) sums of 1, x, y, xx, yy and xy."""
    count, *moments = np.moveaxis(sums, -1, 0)
    x, y, xx, yy, xy = (moment / count for moment in moments)
    variances = (xx - x * x) * (yy - y * y)
    usable = variances > 1e-12  # of numbers in units of the gold ones
    scores: Floats = 100 * np.where(usable, (xy - x * y) / np.sqrt(np.where(usable, variances, 1.0)), 0.0)
    return scores


def bootstrap_correlation(gold: Floats, predicted: Floats) -> tuple[float, float]:
    """:meth:`SummedMetric.interval` of Pearson's correlation, in the units of each; equal numbers count as 0."""
    first, second = ((values - values.mean()) / (values.std() or 1.0) for values in (gold, predicted))
    rows = np.stack([np.ones_like(first), first, second, first * first, second * second, first * second], axis=1)
    random, size = np.random.default_rng(SEED), len(gold)
    sums = [np.bincount(random.integers(size, size=size), minlength=size) @ rows for _ in range(RESAMPLES)]
    return find_interval(score_correlation(np.array(sums)))


def find_interval(values: Floats) -> tuple[float, float]:
    """The bounds between which 95 % of resampled values are."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def resample_sums(rows: npt.NDArray[Any]) -> Floats:
    """(1000, K) sums of rows that are drawn with replacement, as many as there are."""
    # drawing rows with replacement is drawing how often each distinct one occurs
    distinct, times = np.unique(rows, axis=0, return_counts=True)
    return np.concatenate([draws @ distinct for draws in draw_times(np.random.default_rng(SEED), times)])


def draw_times(random: np.random.Generator, times: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Parts of a (1000, U) array: how often each of U different inputs is drawn, of which there are so many."""
    for size in _split(RESAMPLES, len(times)):
        yield random.multinomial(times.sum(), times / times.sum(), size)


def _split(total: int, width: int) -> Iterator[int]:
    """Sizes of parts whose rows have ``width`` numbers and fit into memory together."""
    size = max(1, _CHUNK // max(width, 1))
    yield from (min(size, total - start) for start in range(0, total, size))


# -- models --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A model and another one on the same inputs; percentages, and differences of them.

    Parameters
    ----------
    metric : its name
    score, other_score : the metric of the model, and of the other one
    low, high : 95 % interval of the difference ``score - other_score``: paired bootstrap over inputs
    p_value : how probable such a difference is if the models do not differ
    test : how the p-value was computed
    only_model, only_other : number of inputs that only one of both has right; None unless each is right or wrong
    adjusted_p_value : the p-value with Holm's correction for all models that are compared; the same if there is one
    """

    metric: str
    score: float
    other_score: float
    low: float
    high: float
    p_value: float
    test: str
    only_model: int | None = None
    only_other: int | None = None
    adjusted_p_value: float = 1.0

    @property
    def difference(self) -> float:
        """How much better the model is than the other one."""
        return self.score - self.other_score

    def to_row(self) -> dict[str, Any]:
        """The other model as an object of JSON."""
        row: dict[str, Any] = {"score": self.other_score, "difference": self.difference}
        row |= {name: getattr(self, name) for name in ("low", "high", "p_value", "adjusted_p_value", "test")}
        counts = {"only_model": self.only_model, "only_other": self.only_other}
        return row | {name: count for name, count in counts.items() if count is not None}

    def describe(self, name: str = "the other model", *, adjusted: bool = False) -> str:
        """A sentence about the model and another one of this name."""
        scores = f"{self.metric.replace('_', ' ')} {self.score:.2f} against {self.other_score:.2f} of {name}"
        interval = f"{100 * LEVEL:.0f} % confidence interval {self.low:.2f} to {self.high:.2f}"
        only = "" if self.only_model is None else f"; only one is right: {self.only_model} and {self.only_other}"
        p_value = f"p = {format_p(self.p_value)}"
        if adjusted:
            p_value += f", {format_p(self.adjusted_p_value)} with Holm's correction"
        return f"{scores}: {self.difference:+.2f} ({interval}), {p_value} ({self.test}{only})"

    def __str__(self) -> str:
        return self.describe()


def format_p(value: float) -> str:
    """A p-value for a reader.

    Examples
    --------
    >>> format_p(0.0123), format_p(0.00001)
    ('0.012', '1.0e-05')
    """
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def compare_models(metric: str, model: SummedMetric, others: Mapping[str, SummedMetric]) -> dict[str, Comparison]:
    """Compare a model with each of the others on the same inputs.

    The p-value is McNemar's where each input is right or wrong, and of approximate randomization otherwise.
    """
    compared = {name: _compare_two(metric, model, other) for name, other in others.items()}
    adjusted = adjust_p_values([comparison.p_value for comparison in compared.values()])
    return {
        name: replace(comparison, adjusted_p_value=p_value)
        for (name, comparison), p_value in zip(compared.items(), adjusted, strict=True)
    }


def _compare_two(metric: str, model: SummedMetric, other: SummedMetric) -> Comparison:
    width = model.rows.shape[1]
    sums = resample_sums(np.concatenate([model.rows, other.rows], axis=1))
    low, high = find_interval(model.score(sums[:, :width]) - other.score(sums[:, width:]))
    scores = metric, model.value, other.value, low, high
    if model.is_accuracy and other.is_accuracy:
        rights = model.rows[:, 0] > other.rows[:, 0], model.rows[:, 0] < other.rows[:, 0]
        only_model, only_other = (int(right.sum()) for right in rights)
        return Comparison(*scores, compute_mcnemar(only_model, only_other), MCNEMAR, only_model, only_other)
    return Comparison(*scores, randomize(model, other), RANDOMIZATION)


def compute_mcnemar(first: int, second: int) -> float:
    """The exact two-sided p-value of McNemar's test, for the numbers of inputs that only one of both has right.

    Examples
    --------
    >>> compute_mcnemar(8, 1)
    0.0390625
    """
    from scipy.stats import binomtest

    return float(binomtest(first, first + second).pvalue) if first + second else 1.0


def randomize(first: SummedMetric, second: SummedMetric) -> float:
    """The two-sided p-value of approximate randomization (Noreen 1989; Yeh 2000).

    The results of both models for an input are exchanged with probability 1/2. The p-value is the share of 10,000 such
    exchanges, with the actual results as one more, that make a difference at least as large.
    """
    random, width = np.random.default_rng(SEED), first.rows.shape[1]
    pairs, times = np.unique(np.concatenate([first.rows, second.rows], axis=1), axis=0, return_counts=True)
    changes = pairs[:, width:] - pairs[:, :width]
    pairs, times, changes = (array[changes.any(1)] for array in (pairs, times, changes))
    sums = first.rows.sum(0), second.rows.sum(0)
    actual = abs(float(first.score(sums[0]) - second.score(sums[1])))
    larger = 0
    for size in _split(RANDOMIZATIONS, len(times)):
        exchanged = random.binomial(times, 0.5, (size, len(times))) @ changes
        differences = np.abs(first.score(sums[0] + exchanged) - second.score(sums[1] - exchanged))
        larger += int((differences >= actual - 1e-9).sum())
    return (larger + 1) / (RANDOMIZATIONS + 1)


def adjust_p_values(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction for several tests: the chance of any false difference stays below the level.

    Examples
    --------
    >>> adjust_p_values([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, number in enumerate(np.argsort(p_values, kind="stable").tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = largest
    return adjusted


# -- groups --------------------------------------------------------------------------------------------------------


def permute_groups(metric: SummedMetric, groups: Sequence[npt.NDArray[np.int64]]) -> list[float]:
    """For each group of inputs the p-value of its difference from all others, with Holm's correction.

    It is the share of 1,000 random groups of the same size, with the actual one as one more, whose difference from
    their rest is at least as large (a permutation test).
    """
    distinct, times = np.unique(metric.rows, axis=0, return_counts=True)
    random, total = np.random.default_rng(SEED), metric.rows.sum(0)

    def measure(sums: Floats) -> Floats:
        return np.abs(metric.score(sums) - metric.score(total - sums))

    p_values = []
    for numbers in groups:
        if len(numbers) == len(metric.rows):
            p_values.append(1.0)
            continue
        actual, larger = float(measure(metric.rows[numbers].sum(0))), 0
        for size in _split(RESAMPLES, len(distinct)):
            drawn = random.multivariate_hypergeometric(times, len(numbers), size)
            larger += int((measure(drawn @ distinct) >= actual - 1e-9).sum())
        p_values.append((larger + 1) / (RESAMPLES + 1))
    return adjust_p_values(p_values)
