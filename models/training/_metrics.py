"""Metrics of labels and tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.builders.tag_schemes import extract_valid_spans

ExampleWeights = npt.NDArray[np.floating]


def classification_metrics(
    gold: Sequence[Any], predicted: Sequence[Any], weights: ExampleWeights | None = None
) -> dict[str, float]:
    """Accuracy and macro-averaged precision, recall and F1, all in percent.

    Examples
    --------
    >>> classification_metrics(["a", "b"], ["a", "a"])["accuracy"]
    50.0
    """
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support  # slow to load

    options: dict[str, Any] = {"average": "macro", "zero_division": 0, "sample_weight": weights}
    precision, recall, f1, _ = precision_recall_fscore_support(gold, predicted, **options)
    return {
        "accuracy": 100 * float(accuracy_score(gold, predicted, sample_weight=weights)),
        "macro_precision": 100 * float(precision),
        "macro_recall": 100 * float(recall),
        "macro_f1": 100 * float(f1),
    }


def multilabel_metrics(
    gold: npt.NDArray[Any], predicted: npt.NDArray[Any], weights: ExampleWeights | None = None
) -> dict[str, float]:
    """Micro and macro F1 of (S, C) zeros and ones, and the share of texts with exactly the right ones, in percent."""
    from sklearn.metrics import accuracy_score, f1_score

    # with one column, scikit-learn would average over the class and its complement
    micro, macro = ("binary", "binary") if np.shape(gold)[1] == 1 else ("micro", "macro")
    options: dict[str, Any] = {"zero_division": 0, "sample_weight": weights}
    return {
        "micro_f1": 100 * float(f1_score(gold, predicted, average=micro, **options)),
        "macro_f1": 100 * float(f1_score(gold, predicted, average=macro, **options)),
        "exact_match": 100 * float(accuracy_score(gold, predicted, sample_weight=weights)),
    }


def regression_metrics(
    gold: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64], weights: ExampleWeights | None = None
) -> dict[str, float]:
    """Pearson's and Spearman's correlations and the coefficient of determination in percent; mean squared error.

    Numbers are (S,); a correlation with equal ones is 0.

    Examples
    --------
    >>> {name: round(value, 2) for name, value in regression_metrics(np.arange(3.0), np.array([0.0, 2, 4])).items()}
    {'pearson': 100.0, 'spearman': 100.0, 'r2': -150.0, 'mse': 1.67}
    """
    weights = np.ones(len(gold)) if weights is None else weights
    error = float(np.average((predicted - gold) ** 2, weights=weights))
    variance = float(np.average((gold - np.average(gold, weights=weights)) ** 2, weights=weights))
    ranks = [_rank_with_weights(values, weights) for values in (gold, predicted)]
    return {
        "pearson": 100 * _correlate(gold, predicted, weights),
        "spearman": 100 * _correlate(ranks[0], ranks[1], weights),
        "r2": 100 * (1 - error / variance) if variance else 0.0,
        "mse": error,
    }


def _correlate(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], weights: ExampleWeights) -> float:
    """Pearson's correlation; 0 for constant numbers."""
    first, second = (values - np.average(values, weights=weights) for values in (first, second))
    covariance, *variances = (
        np.average(first_factor * other, weights=weights)
        for first_factor, other in ((first, second), (first, first), (second, second))
    )
    return float(covariance / np.sqrt(np.prod(variances))) if min(variances) > 0 else 0.0


def _rank_with_weights(values: npt.NDArray[np.float64], weights: ExampleWeights) -> npt.NDArray[np.float64]:
    """Ranks up to a constant, as if each value occurred as often as its weight says; ties have their mean rank."""
    _, index = np.unique(values, return_inverse=True)
    totals = np.bincount(index, weights)
    return (np.cumsum(totals) - totals / 2)[index]


def tagging_metrics(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    scheme: str,
    weights: ExampleWeights | None = None,
) -> dict[str, float]:
    """Accuracy of tags; for entity tags also precision, recall and F1 of whole entities; in percent.

    They are those of seqeval's strict mode, which would count types such as ``ion`` and ``ion-`` as one.

    ``scheme`` is ``"IOB1"``, ``"IOB2"``, ``"BIOES"``, or ``"none"`` for other tags; ``weights`` are those of the
    sentences.

    Examples
    --------
    >>> tagging_metrics([["B-PER", "I-PER"]], [["B-PER", "O"]], "IOB2")
    {'accuracy': 50.0, 'precision': 0.0, 'recall': 0.0, 'f1': 0.0}
    """
    flat_gold = np.array([tag for tags in gold for tag in tags], dtype=object)
    flat_predicted = np.array([tag for tags in predicted for tag in tags], dtype=object)
    of_words = None if weights is None else np.repeat(weights, [len(tags) for tags in gold])
    accuracy = 100 * _mean(flat_gold == flat_predicted, of_words)
    if scheme == "none":
        return {"accuracy": accuracy}
    each = np.ones(len(gold)) if weights is None else weights
    return {"accuracy": accuracy, **_score_entities(gold, predicted, scheme, each)}


def _score_entities(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str, weights: ExampleWeights
) -> dict[str, float]:
    """Precision, recall and F1 of whole entities."""
    sides = [[{*extract_valid_spans(tags, scheme)} for tags in side] for side in (gold, predicted)]
    counted = [*sides, map(set.intersection, *sides)]
    num_gold, num_predicted, right = (float(weights @ [*map(len, spans)]) for spans in counted)
    shares = {
        "precision": (right, num_predicted),
        "recall": (right, num_gold),
        "f1": (2 * right, num_gold + num_predicted),
    }
    return {name: 100 * count / total if total else 0.0 for name, (count, total) in shares.items()}


def _mean(right: npt.NDArray[np.bool_], weights: ExampleWeights | None) -> float:
    total = len(right) if weights is None else weights.sum()
    return float(np.average(right, weights=weights)) if total else 0.0
