"""Ways of training a pretrained model, and the choice among them by cross-validation when there are few labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import GraphAttnWarning
from graphattn.models._encoders import NoEncoderOptions
from graphattn.models._estimators.fitting import UNKNOWN_CLASS, Floats, mark_classes, score_fold
from graphattn.models._estimators.state import EstimatorState
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.texts import Texts
from graphattn.models.defaults import Facts
from graphattn.models.training._callback import AnyCallback
from graphattn.models.training._decisions import Numbers, ScoredTexts, split_folds
from graphattn.models.training.callbacks import make_log

FEW = 100
"""Examples of a class, on average, from which on a pretrained model is fine-tuned."""
FINE_TUNED_FROM = 32
"""Examples of a class, on average, from which on fine-tuning on texts is tried at all."""
FOLDS = 3
_ENOUGH = 300
"""Held-out examples after which no further fold is trained."""
OF_FINE_TUNING: Mapping[str, frozenset[str]] = {
    "training": frozenset({"epochs", "learning_rate"}),
    "pretrained": frozenset({"frozen", "contrastive", "tuned_layers", "tuning_rate", "layer_decay"}),
    "head": frozenset({"head_hidden", "linear_branch"}),
}
"""Group -> options that leave no choice once they are set."""

TUNINGS: Mapping[str, Mapping[str, bool]] = {
    "contrastive": {"frozen": True, "contrastive": True},
    "frozen": {"frozen": True, "contrastive": False},
    "fine-tuned": {"frozen": False, "contrastive": False},
}
"""Name -> its options of the group ``pretrained``; of equals the first is chosen."""
PAIR_TUNINGS = {name: TUNINGS[name] for name in ("frozen", "contrastive", "fine-tuned")}
"""Those of pairs of texts, in another order: a contrastive start trains the features that compare both texts."""


def list_open_options(task: type[Task], pretrained: str | None) -> frozenset[str]:
    """Options whose values the training set decides, unless they are set."""
    if not (task.has_contrastive and pretrained):
        return frozenset()
    return frozenset({"dev_fraction", "join_pairs"}.union(*OF_FINE_TUNING.values()))


def choose_tuning(
    estimator: EstimatorState, examples: Texts, dev: Any, callbacks: Sequence[AnyCallback] = ()
) -> ScoredTexts | None:
    """Choose how to train a pretrained classifier with few labels, unless its options say so.

    The estimator is prepared again, with the options of the choice. Returns its scores by cross-validation.
    """
    if not _leaves_choice(estimator):
        return None
    task, labels, training = estimator.task_, examples.labels, estimator.training
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphAttnWarning)  # they are given in training
        task.fit(examples, estimator.options_)
    if len(labels) >= FEW * len(task.labels.classes):
        return None
    task.labels.weigh_classes(labels, examples.weights)  # rejects weights of other classes
    targets = np.asarray(task.labels.make_targets(labels, "training set"))
    folds = split_folds(len(labels), task.labels.stratify(labels), FOLDS)
    folds = [(rest, held) for rest, held in folds if has_enough_classes(targets[rest])]
    if not folds:
        return None
    needs_dev_set = dev is not None or training.metric is not None or "dev_fraction" in vars(training)
    whole = {} if needs_dev_set else {"dev_fraction": 0.0}

    def score(tuning: str, rest: Numbers, held: Numbers) -> Floats:
        groups = {"pretrained": TUNINGS[tuning], "training": {**whole, "minutes": None}}  # which a fold would take, too
        params = {f"{group}__{name}": value for group, of in groups.items() for name, value in of.items()}
        return score_fold(estimator, examples, rest, held, **params)

    log, tunings = make_log(estimator.training_, callbacks), list(PAIR_TUNINGS)
    if task.texts_per_input == 1:
        mean = len(labels) / len(task.labels.classes)
        tunings = [name for name in TUNINGS if mean >= FINE_TUNED_FROM or name != "fine-tuned"]
    choice, shares, scores, numbers = select_tuning(targets, score, folds, log, tunings, weights=examples.weights)
    estimator.prepare(Facts(tuning={"pretrained": TUNINGS[choice], "training": whole}))
    estimator.mixture_ = shares
    # a text of a class that its model has not seen says nothing about the scores of others
    known = ~(mark_classes(targets[numbers], scores.shape[1]) & (scores == UNKNOWN_CLASS)).any(1)
    weights = None if examples.weights is None else examples.weights[numbers][known]
    return ScoredTexts.of(scores[known], targets[numbers][known], weights) if known.any() else None


def _leaves_choice(estimator: EstimatorState) -> bool:
    """Whether an estimator is a pretrained classifier, and no option says how to train it."""
    is_alone = estimator.encoder_.name == NoEncoderOptions.name
    if not (estimator.task.has_contrastive and estimator.pretrained.pretrained and is_alone):
        return False
    return not any(vars(getattr(estimator, group)).keys() & of for group, of in OF_FINE_TUNING.items())


def select_tuning(
    targets: npt.NDArray[np.integer],
    score: Callable[[str, Numbers, Numbers], Floats],
    folds: list[tuple[Numbers, Numbers]],
    log: Callable[[str], None],
    tunings: Iterable[str] = TUNINGS,
    *,
    weights: npt.NDArray[np.float64] | None = None,
) -> tuple[str, dict[str, float], Floats, Numbers]:
    """Choose the first way of training that no other beats by two standard errors.

    ``targets`` are (S,) class ids or (S, C) zeros and ones; ``score`` trains on the first numbers of a fold and returns
    (len, C) scores of the others. Further folds leave out ways that the best one beats by a standard error. A text of
    weight k counts as k texts.

    Returns
    -------
    The name of the choice; name -> percentage of held-out texts that are right; the choice's scores, and the numbers of
    their texts
    """
    remaining, numbers = list(tunings), np.empty(0, np.int64)
    scores: dict[str, list[Floats]] = {name: [] for name in remaining}
    right: dict[str, npt.NDArray[np.float64]] = {}
    of_texts = np.ones(len(targets)) if weights is None else weights
    log("few labels, so cross-validation chooses how to train")
    for number, (rest, held) in enumerate(folds, 1):
        numbers = np.concatenate([numbers, held])
        for name in remaining:
            scores[name].append(score(name, rest, held))
            right[name] = _are_right(np.concatenate(scores[name]), targets[numbers])
        counts = of_texts[numbers]
        means = {name: _average(right[name], counts) for name in remaining}
        shown = ", ".join(f"{name} {100 * share:.1f}" for name, share in means.items())
        log(f"fold {number}/{len(folds)}: {shown} % right so far")
        preferred, best = remaining[0], max(remaining, key=means.__getitem__)
        remaining = [
            name
            for name in remaining
            if not _is_better(right[best] - right[name], counts, errors=2 if name == preferred else 1)
        ]
        if len(numbers) >= _ENOUGH or len(remaining) == 1:
            break
    chosen = remaining[0]
    log(f"chosen: {chosen}")
    shares = {name: 100 * _average(values, of_texts[numbers[: len(values)]]) for name, values in right.items()}
    return chosen, shares, np.concatenate(scores[chosen]), numbers


def has_enough_classes(targets: npt.NDArray[Any]) -> bool:
    """Whether a classifier can be trained on (S,) class ids, or on (S, C) zeros and ones."""
    return bool(targets.any()) if targets.ndim == 2 else len(np.unique(targets)) > 1


def _are_right(scores: Floats, targets: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
    """(S,) ones and zeros; of several labels, the share of a text's predicted and true ones that are both."""
    if targets.ndim == 1:
        return np.asarray(scores.argmax(1) == targets, np.float64)
    predicted, true = scores > 0, targets > 0
    either = (predicted | true).sum(1)
    shares: npt.NDArray[np.float64] = np.where(either > 0, (predicted & true).sum(1) / np.maximum(either, 1), 1.0)
    return shares


def _is_better(difference: npt.NDArray[np.float64], weights: npt.NDArray[np.float64], *, errors: float) -> bool:
    """Whether the mean of differences is above some of its standard errors; a weight of k counts as k differences."""
    count, mean = weights.sum(), _average(difference, weights)
    if count <= 1:
        return False
    deviation = np.sqrt(weights @ (difference - mean) ** 2 / (count - 1))
    return bool(mean > errors * deviation / np.sqrt(count))


def _average(values: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> float:
    """The weighted mean; 0 without weight."""
    return float(weights @ values / weights.sum()) if weights.any() else 0.0
