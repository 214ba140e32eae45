"""Metrics of labels and tags, by scikit-learn and seqeval."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from seqeval import metrics as seqeval_metrics
from seqeval.scheme import IOB1, IOB2, IOBES
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

SCHEMES = {"IOB1": IOB1, "IOB2": IOB2, "BIOES": IOBES}


def classification_metrics(gold: Sequence[Any], predicted: Sequence[Any]) -> dict[str, float]:
    """Accuracy and macro-averaged precision, recall and F1, all in percent.

    Parameters
    ----------
    gold, predicted : class names or numbers

    Examples
    --------
    >>> classification_metrics(["a", "b"], ["a", "a"])["accuracy"]
    50.0
    """
    precision, recall, f1, _ = precision_recall_fscore_support(gold, predicted, average="macro", zero_division=0)
    return {
        "accuracy": 100 * float(accuracy_score(gold, predicted)),
        "macro_precision": 100 * float(precision),
        "macro_recall": 100 * float(recall),
        "macro_f1": 100 * float(f1),
    }


def multilabel_metrics(gold: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, float]:
    """Micro and macro F1 and the share of texts with exactly the right labels, in percent.

    Parameters
    ----------
    gold, predicted : (S, C) zeros and ones
    """
    # with one column, scikit-learn would average over the class and its complement
    micro, macro = ("binary", "binary") if np.shape(gold)[1] == 1 else ("micro", "macro")
    return {
        "micro_f1": 100 * float(f1_score(gold, predicted, average=micro, zero_division=0)),
        "macro_f1": 100 * float(f1_score(gold, predicted, average=macro, zero_division=0)),
        "exact_match": 100 * float(accuracy_score(gold, predicted)),
    }


def tagging_metrics(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: str) -> dict[str, float]:
    """Accuracy of tags; for entity tags also strict precision, recall and F1 of whole entities; in percent.

    Parameters
    ----------
    gold, predicted : one sequence of tags for each sentence
    scheme : ``"IOB1"``, ``"IOB2"``, ``"BIOES"``, or ``"none"`` for other tags

    Examples
    --------
    >>> tagging_metrics([["B-PER", "I-PER"]], [["B-PER", "O"]], "IOB2")
    {'accuracy': 50.0, 'precision': 0.0, 'recall': 0.0, 'f1': 0.0}
    """
    flat_gold = np.array([tag for tags in gold for tag in tags], dtype=object)
    flat_predicted = np.array([tag for tags in predicted for tag in tags], dtype=object)
    accuracy = 100 * float((flat_gold == flat_predicted).mean()) if len(flat_gold) else 0.0
    result = {"accuracy": accuracy}
    if scheme == "none":
        return result
    arguments = {"mode": "strict", "scheme": SCHEMES[scheme], "zero_division": 0}
    lists = [list(tags) for tags in gold], [list(tags) for tags in predicted]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("precision", "recall", "f1"):
            score = getattr(seqeval_metrics, f"{name}_score")
            result[name] = 100 * float(score(*lists, **arguments))
    return result
