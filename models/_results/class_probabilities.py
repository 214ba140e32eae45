"""Probabilities of classes next to the gold labels: how well they are calibrated, and how well they rank texts."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 15
"""Bins of equal width of the expected calibration error, as in Guo et al. 2017."""
ALL = "all classes"


def name_class(label: Any) -> str:
    """A class as text: numbers and truth values as in JSON."""
    return label if isinstance(label, str) else json.dumps(label)


@dataclass(frozen=True, eq=False)
class ClassProbabilities:
    """The probability of each class for each text, and whether the text has it.

    Parameters
    ----------
    gold : (S, C) whether
    shares : (S, C) probabilities
    classes : names
    multilabel : whether a text may have several classes, or none
    """

    gold: npt.NDArray[np.bool_]
    shares: npt.NDArray[np.float64]
    classes: list[str]
    multilabel: bool

    @classmethod
    def of(
        cls, labels: Sequence[Any], shares: Sequence[npt.NDArray[Any]], classes: Sequence[Any], *, multilabel: bool
    ) -> ClassProbabilities:
        """Compare with labels, or collections of labels; those that are no classes, or texts with one, are left out."""
        numbers = {name: number for number, name in enumerate(classes)}
        gold = np.zeros((len(labels), len(classes)))
        for row, label in enumerate(labels):
            several: Collection[Any] = label if multilabel else (label,)
            gold[row, [numbers[name] for name in several if name in numbers]] = 1
        known = gold.any(1) | multilabel
        names = [name_class(name) for name in classes]
        return cls(gold[known] > 0, np.array(shares, np.float64).reshape(gold.shape)[known], names, multilabel)

    def measure(self) -> dict[str, float]:
        """Brier score from 0, and calibration error, ROC-AUC and average precision in percent.

        The Brier score of two classes is that of one, the mean of (p - y) squared; of more it is the sum over the
        classes, and of several labels the mean. The calibration error is that of the most probable class, and of
        several labels that of all. ROC-AUC and average precision are means over the classes that some texts have and
        some have not; of two classes they are those of the rarer one; of several labels also those of all together.
        """
        from sklearn.metrics import average_precision_score, roc_auc_score

        if not len(self.gold):
            return {}
        squares = (self.shares - self.gold) ** 2
        brier = squares.sum(1).mean() if len(self.classes) > 2 and not self.multilabel else squares.mean()
        measures = {"brier": float(brier), "calibration_error": 100 * self.calibration_error()}
        used = np.asarray(self.gold.any(0) & ~self.gold.all(0))
        if len(self.classes) == 2 and not self.multilabel:
            used[self.gold.sum(0).argmax()] = False
        if not used.any():
            return measures
        scorers = {"roc_auc": roc_auc_score, "average_precision": average_precision_score}
        for average in ["macro", "micro"] if self.multilabel else ["macro"]:
            for name, score in scorers.items():
                value = 100 * float(score(self.gold[:, used], self.shares[:, used], average=average))
                measures[name if average == "macro" else f"micro_{name}"] = value
        return measures

    def calibration_error(self) -> float:
        """The expected difference between probability and share of right ones, over bins of the probability."""
        shares, right = self.shares, self.gold
        if not self.multilabel:
            best = shares.argmax(1)[:, None]
            shares, right = np.take_along_axis(shares, best, 1), np.take_along_axis(right, best, 1)
        bins = np.minimum(shares.ravel() * BINS, BINS - 1).astype(int)
        return float(np.abs(np.bincount(bins, (right - shares).ravel())).sum() / right.size)

    def select_curves(self, most: int) -> dict[str, tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]]:
        """Name -> whether and probability of texts: the most frequent classes that texts have, and all together."""
        counts = self.gold.sum(0)
        chosen = [number for number in np.argsort(-counts, kind="stable")[:most].tolist() if counts[number]]
        curves = {self.classes[number]: (self.gold[:, number], self.shares[:, number]) for number in chosen}
        return curves if len(self.classes) <= 2 else {ALL: (self.gold.ravel(), self.shares.ravel()), **curves}
