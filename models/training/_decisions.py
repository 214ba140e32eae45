"""Fit what turns scores into probabilities and labels: a temperature, and thresholds of classes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import GraphAttnWarning, verbatim, warn_caller

FOLDS = 5
"""Folds of cross-validation, within a dev set or over the training set."""
SMALL = 30
"""A dev set with fewer examples of the positive class is too small to choose a threshold on."""
GRID = np.concatenate([[-np.inf], np.arange(-70, 71) * 0.1, [np.inf]])
"""Thresholds to choose from, as log-odds: from 0.001 to 0.999, and those that all texts are above or below."""
_PRIOR = 10.0
"""Precision of the normal prior on the logarithm of the temperature: it weighs about as much as ten texts."""
_SHARED = 10.0
"""Weight of all labels together in the choice of a label's threshold, as a number of its texts."""

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Metric = Callable[[Floats, Floats, Floats, Floats], Floats]


def _f1(right: Floats, extra: Floats, missed: Floats, rest: Floats) -> Floats:
    return _divide(2 * right, 2 * right + extra + missed)


def _balanced_accuracy(right: Floats, extra: Floats, missed: Floats, rest: Floats) -> Floats:
    return (_divide(right, right + missed) + _divide(rest, rest + extra)) / 2


def _matthews(right: Floats, extra: Floats, missed: Floats, rest: Floats) -> Floats:
    sides = (right + extra) * (right + missed) * (rest + extra) * (rest + missed)
    return _divide(right * rest - extra * missed, np.sqrt(sides))


def _accuracy(right: Floats, extra: Floats, missed: Floats, rest: Floats) -> Floats:
    return _divide(right + rest, right + extra + missed + rest)


def _divide(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


METRICS: Mapping[str, Metric] = MappingProxyType(
    {"f1": _f1, "balanced_accuracy": _balanced_accuracy, "matthews_corrcoef": _matthews, "accuracy": _accuracy}
)
"""Name of scikit-learn's scorer -> its value for counts of true and false positives, false and true negatives."""
SHARES = ("precision", "recall")
"""What may have a wanted value: ``precision=0.95`` is the best recall with at least this precision, ``recall=0.9`` the
best precision with at least this recall."""
COST = "cost"
"""``cost=10:1`` is the least cost, if a text of the class that is missed costs 10, and a wrong one 1."""


def find_metric(name: str) -> Metric:
    """A metric of :data:`METRICS`, of a wanted share, or of costs; larger is better.

    Examples
    --------
    >>> counts = [np.array([9.0, 6.0]), np.array([3.0, 0.0]), np.array([1.0, 4.0]), np.array([7.0, 10.0])]
    >>> find_metric("precision=0.9")(*counts).tolist(), find_metric("cost=5:1")(*counts).tolist()
    ([-0.25, 0.6], [-0.4, -1.0])
    """
    if name in METRICS:
        return METRICS[name]
    kind, _, value = name.partition("=")
    if kind == COST:
        of_missed, of_extra = map(float, value.split(":"))
        return lambda right, extra, missed, rest: (
            -_divide(of_missed * missed + of_extra * extra, right + extra + missed + rest)
        )
    wanted = float(value)

    def rate(right: Floats, extra: Floats, missed: Floats, rest: Floats) -> Floats:
        precision, recall = _divide(right, right + extra), _divide(right, right + missed)
        share, other = (precision, recall) if kind == "precision" else (recall, precision)
        return np.where(share >= wanted - 1e-12, other, share - 1)  # below all that reach it, the nearest is best

    return rate


@dataclass(frozen=True)
class ScoredTexts:
    """Scores of texts that the model was not trained on, with their targets.

    ``scores`` are (S, C), before the softmax or sigmoid; ``targets`` (S,) class ids, or (S, C) zeros and ones;
    ``weights`` (S,).
    """

    scores: Floats
    targets: npt.NDArray[Any]
    weights: Floats

    @classmethod
    def of(cls, scores: npt.NDArray[Any], targets: Any, weights: npt.NDArray[Any] | None) -> ScoredTexts:
        """In double precision; without weights, all texts have the same."""
        weights = np.ones(len(scores)) if weights is None else weights
        return cls(np.asarray(scores, np.float64), np.asarray(targets), np.asarray(weights, np.float64))

    def select(self, numbers: Numbers) -> ScoredTexts:
        """The texts with these numbers."""
        return ScoredTexts(self.scores[numbers], self.targets[numbers], self.weights[numbers])

    def select_classes(self, numbers: Sequence[int]) -> ScoredTexts:
        """The scores and targets of some of several labels."""
        return ScoredTexts(self.scores[:, numbers], self.targets[:, numbers], self.weights)

    def drop_zero_weights(self) -> ScoredTexts:
        """The texts without those of weight 0, which would change folds."""
        return self if self.weights.all() else self.select(np.flatnonzero(self.weights))

    def binarize(self, positive: int | None) -> tuple[Floats, npt.NDArray[Any]]:
        """(S, C) log-odds of classes, and zeros and ones; of two classes only for the ``positive`` one."""
        if positive is None:
            return self.scores, self.targets
        return self.scores[:, [positive]] - self.scores[:, [1 - positive]], (self.targets == positive)[:, None]

    def loss(self, temperature: float = 1.0) -> float:
        """The sum of cross-entropies, without weights of classes and label smoothing."""
        scores = self.scores / temperature
        if self.targets.ndim == 2:
            losses = (np.logaddexp(0, scores) - self.targets * scores).sum(1)
        else:
            losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(scores)), self.targets]
        return float(self.weights @ losses)


def fit_temperature(dev: ScoredTexts) -> float:
    """The temperature that divides scores (Guo et al. 2017); 1 unless one fitted without a fold lowers its loss.

    A normal prior on its logarithm keeps it near 1 where the dev set is small, or has no mistakes.
    """
    from scipy.optimize import minimize_scalar

    def fit(texts: ScoredTexts) -> float:
        def loss(log: float) -> float:
            return texts.loss(np.exp(log)) + 0.5 * _PRIOR * log**2

        return float(np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x))

    dev = dev.drop_zero_weights()
    folds = split_folds(len(dev.scores))
    losses = [dev.select(held).loss(fit(dev.select(rest))) for rest, held in folds]
    return fit(dev) if losses and sum(losses) < dev.loss() else 1.0


def split_folds(
    count: int, strata: npt.NDArray[Any] | None = None, number: int = FOLDS
) -> list[tuple[Numbers, Numbers]]:
    """The numbers of texts outside and inside each fold; no folds for fewer texts than folds.

    With ``strata``, class ids, each fold has about the same share of each class.
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    if count < number:
        return []
    if strata is None or np.bincount(strata).max() < number:
        return list(KFold(number, shuffle=True, random_state=0).split(np.arange(count)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of rare classes
        return list(StratifiedKFold(number, shuffle=True, random_state=0).split(strata, strata))


def choose_thresholds(log_odds: Floats, gold: npt.NDArray[Any], weights: Floats, metric: str) -> Floats:
    """(C,) log-odds above which each class has the best metric.

    ``log_odds`` and ``gold`` are (S, C). Of several classes each is judged by its own texts and, as 10 more, by the
    average of all: rare classes have about the threshold that is best for all together; by its own alone for a wanted
    share or for costs.
    """
    counts = _count(log_odds, gold, weights)
    if log_odds.shape[1] > 1 and metric in METRICS:
        pooled = counts.sum(1, keepdims=True)
        counts = counts + pooled * _SHARED / max(float(pooled[0, 0, 0] + pooled[2, 0, 0]), 1.0)
    # beyond all scores, thresholds decide alike, so that one below them and one above them are enough
    low, high = np.searchsorted(GRID, (log_odds.min(), log_odds.max()))
    used = slice(low - 1, high + 1)
    return np.array([_find_middle(GRID[used], row[used]) for row in find_metric(metric)(*counts)])


def _find_middle(thresholds: Floats, values: Floats) -> float:
    """The threshold in the middle of those that are best; an infinite one only if no other is as good."""
    best = thresholds[np.isclose(values, values.max(), rtol=0, atol=1e-12)]
    best = best[np.isfinite(best)] if np.isfinite(best).any() else best
    return float(best[len(best) // 2])


def _count(log_odds: Floats, gold: npt.NDArray[Any], weights: Floats) -> Floats:
    """(4, C, thresholds) weights of true and false positives, false and true negatives."""
    size, classes = len(GRID) + 1, log_odds.shape[1]
    # a text of bin b is above the thresholds 0 to b - 1
    bins = np.searchsorted(GRID, log_odds) + size * np.arange(classes)

    def sum_above(values: Floats) -> Floats:
        sums = np.bincount(bins.ravel(), values.ravel(), size * classes).reshape(classes, size)
        return sums[:, ::-1].cumsum(1)[:, ::-1]

    of_all = sum_above(np.broadcast_to(weights[:, None], log_odds.shape))
    of_gold = sum_above(weights[:, None] * gold)
    right, predicted = of_gold[:, 1:], of_all[:, 1:]
    missed = of_gold[:, :1] - right
    return np.stack([right, predicted - right, missed, of_all[:, :1] - predicted - missed])


def calibrate(dev: ScoredTexts, log: Callable[[str], None]) -> tuple[float, ScoredTexts]:
    """The temperature, and the scores divided by it."""
    temperature, size = fit_temperature(dev), dev.weights.sum()
    if temperature == 1:
        return 1.0, dev
    losses = f"dev loss {dev.loss(temperature) / size:.4f} with it, {dev.loss() / size:.4f} without"
    log(f"temperature {temperature:.3f}: {losses}")
    return temperature, replace(dev, scores=dev.scores / temperature)


def is_small(dev: ScoredTexts, positive: int | None) -> bool:
    """Whether a dev set has few examples of the ``positive`` class, or of several labels few of all together."""
    return bool((dev.weights @ dev.binarize(positive)[1]).sum() < SMALL)


def tune_thresholds(
    texts: ScoredTexts, metric: str, positive: int | None, log: Callable[[str], None], *, name: str = ""
) -> tuple[float, ...] | None:
    """(classes,) the probability above which each class is decided, best for a metric.

    ``positive`` is the class that is judged of two classes; lines and warnings begin with a ``name``. The result is
    None unless thresholds that are chosen without a fold are better for that fold than 0.5.
    """
    texts, about = texts.drop_zero_weights(), f"{name}: " if name else ""
    log_odds, gold = texts.binarize(positive)
    plain, decided = log_odds > 0, log_odds > 0
    for rest, held in split_folds(len(log_odds)):
        decided[held] = log_odds[held] > choose_thresholds(log_odds[rest], gold[rest], texts.weights[rest], metric)
    sides = [describe_decisions(each, gold, texts.weights, metric) for each in (decided, plain)]
    measured = f"{sides[0]} on folds that they are not chosen on, {sides[1]} at 0.5"
    is_better = _measure(decided, gold, texts.weights, metric) > _measure(plain, gold, texts.weights, metric)
    if not is_better and metric.partition("=")[0] not in SHARES:  # a wanted share may cost much
        log(f"{about}thresholds stay at 0.5: {measured}")
        return None
    chosen = choose_thresholds(log_odds, gold, texts.weights, metric)
    kind, _, wanted = metric.partition("=")
    if kind in SHARES:
        shares_and_totals = [_measure_share(each, gold, texts.weights, kind) for each in (log_odds > chosen, decided)]
        if (problem := _find_missed_share(kind, float(wanted), *shares_and_totals)) is not None:
            message = f"{{tune_threshold}}: {verbatim(about)}{problem}"
            warn_caller(GraphAttnWarning(message, options=("tune_threshold",)))
    shares = 1 / (1 + np.exp(-chosen))
    bounds = " to ".join(f"{share:.3f}" for share in sorted({shares.min(), shares.max()}))
    log(f"{about}thresholds {bounds}: {measured}")
    if positive is not None:
        shares = np.array([shares[0], 1 - shares[0]] if positive == 0 else [1 - shares[0], shares[0]])
    return tuple(shares.tolist())


def _measure(decided: npt.NDArray[np.bool_], gold: npt.NDArray[Any], weights: Floats, metric: str) -> float:
    """The metric of all classes together."""
    return float(find_metric(metric)(*_count_cells(decided, gold, weights))[0])


def _count_cells(decided: npt.NDArray[np.bool_], gold: npt.NDArray[Any], weights: Floats) -> list[Floats]:
    """(1,) weights of true and false positives, false and true negatives of all classes together."""
    of_items = np.broadcast_to(weights[:, None], decided.shape)
    cells = (decided & (gold > 0), decided & (gold == 0), ~decided & (gold > 0), ~decided & (gold == 0))
    return [np.array([np.sum(of_items, where=cell)]) for cell in cells]


def describe_decisions(decided: npt.NDArray[np.bool_], gold: npt.NDArray[Any], weights: Floats, metric: str) -> str:
    """The metric of decisions for a log: of a wanted share also what it costs, the other one."""
    right, extra, missed, rest = _count_cells(decided, gold, weights)
    kind = metric.partition("=")[0]
    if kind in SHARES:
        shares = 100 * _divide(right, right + extra)[0], 100 * _divide(right, right + missed)[0]
        return "precision {:.2f} and recall {:.2f}".format(*shares)
    value = float(find_metric(metric)(right, extra, missed, rest)[0])
    return f"cost {-value:.4f} per decision" if kind == COST else f"{metric} {100 * value:.2f}"


def _measure_share(
    decided: npt.NDArray[np.bool_], gold: npt.NDArray[Any], weights: Floats, kind: str
) -> tuple[float, float]:
    """The precision or recall, and the weight of the texts that it is a share of."""
    right, extra, missed, _ = _count_cells(decided, gold, weights)
    total = right + (extra if kind == "precision" else missed)
    return float(_divide(right, total)[0]), float(total[0])


def _find_missed_share(
    kind: str, wanted: float, chosen: tuple[float, float], on_folds: tuple[float, float]
) -> str | None:
    """What a warning says of a wanted share; None if it is reached.

    ``chosen`` and ``on_folds`` are the share and the number of its texts: of those that the threshold is chosen on, and
    of others, whose share may be lower by its standard error.

    Examples
    --------
    >>> _find_missed_share("precision", 0.9, (0.95, 40), (0.86, 40)) is None
    True
    >>> print(_find_missed_share("precision", 0.9, (0.95, 40), (0.6, 40)))
    a precision of 0.9 is not reached on texts that the threshold is not chosen on: 0.600; give more ...
    """
    if chosen[0] < wanted - 1e-12:
        return f"no threshold reaches a {kind} of {wanted:g}; the nearest has {chosen[0]:.3f}"
    share, total = on_folds
    if share >= wanted - math.sqrt(wanted * (1 - wanted) / max(total, 1)) - 1e-12:
        return None
    where = "on texts that the threshold is not chosen on"
    return f"a {kind} of {wanted:g} is not reached {where}: {share:.3f}; give more texts, or a higher value"
