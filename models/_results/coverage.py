"""Selective prediction: coverage and accuracy of the predictions above a confidence threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.models._results.significance import LEVEL, SEED, Floats, draw_times, find_interval

_DIGITS = 6
"""Digits of confidences in rows of output, and so of these."""


@dataclass(frozen=True)
class Decided:
    """The texts whose label is at least so probable.

    Parameters
    ----------
    min_confidence : the least probability of a label that is given
    texts : number of texts with a label
    coverage : their share of all texts, in percent
    accuracy : the share of right ones among them, in percent; 100 if there are none
    low, high : its exact 95 % interval (Clopper and Pearson 1934)
    """

    min_confidence: float
    texts: int
    coverage: float
    accuracy: float
    low: float
    high: float

    def to_row(self) -> dict[str, Any]:
        """As an object of JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        return (
            f"it decides {self.coverage:.1f} % of the texts ({self.texts:,}), {self.accuracy:.1f} % of them right "
            f"({100 * LEVEL:.0f} % confidence interval {self.low:.1f} to {self.high:.1f})"
        )


@dataclass(frozen=True, eq=False)
class Coverage:
    """The accuracy of the most confident predictions, for any share of the texts.

    Parameters
    ----------
    confidences : (S,) probability of each text's label, with the six digits of predictions
    right : (S,) whether it is right
    """

    confidences: Floats
    right: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, shares: Sequence[float] | Floats, right: Sequence[bool] | npt.NDArray[np.bool_]) -> Coverage:
        """Round the probabilities as in rows of output."""
        return cls(np.array(shares, np.float64).round(_DIGITS), np.asarray(right, bool))

    @cached_property
    def _steps(self) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Different confidences, the highest first, and the numbers of texts, and of right ones, that have each."""
        values, index = np.unique(-self.confidences, return_inverse=True)
        return -values, np.bincount(index), np.bincount(index, self.right).astype(np.int64)

    @property
    def area(self) -> float:
        """The area under accuracy over coverage, in percent: the mean accuracy of the 1, 2, ... most confident texts.

        It is 100 minus the area under the risk-coverage curve (El-Yaniv and Wiener 2010). Texts of equal confidence
        are in the mean of all orders.
        """
        _, counts, rights = self._steps
        before = np.repeat(np.cumsum(counts) - counts, counts), np.repeat(np.cumsum(rights) - rights, counts)
        inside = np.arange(1, counts.sum() + 1) - before[0]  # of the texts of equal confidence
        expected = before[1] + inside * np.repeat(rights / counts, counts)
        return float(100 * np.mean(expected / np.arange(1, counts.sum() + 1)))

    def at(self, min_confidence: float) -> Decided:
        """The texts that are decided from a confidence on."""
        decided = self.confidences >= min_confidence
        return self._describe(min_confidence, int(decided.sum()), int(self.right[decided].sum()))

    def reach(self, accuracy: float) -> Decided | None:
        """The most texts of which this percentage is right; None if no confidence is high enough."""
        confidences, counts, rights = self._steps
        totals, sums = np.cumsum(counts), np.cumsum(rights)
        enough = np.flatnonzero(_reaches(sums, totals, accuracy))
        if not len(enough):
            return None
        last = int(enough[-1])
        return self._describe(float(confidences[last]), int(totals[last]), int(sums[last]))

    def bootstrap(self, accuracy: float) -> tuple[float, float]:
        """The 95 % interval of the confidence of :meth:`reach`, over resampled texts; 1 where none is high enough."""
        confidences, counts, rights = self._steps
        times = np.concatenate([rights, counts - rights])
        random, found = np.random.default_rng(SEED), []
        for draws in draw_times(random, times):
            right, wrong = np.split(draws, 2, axis=1)
            sums, totals = np.cumsum(right, 1), np.cumsum(right + wrong, 1)
            enough = _reaches(sums, totals, accuracy) & (totals > 0)
            last = enough.shape[1] - 1 - np.argmax(enough[:, ::-1], axis=1)
            found.append(np.where(enough.any(1), confidences[last], 1.0))
        return find_interval(np.concatenate(found))

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each confidence that a text has, the highest first."""
        confidences, counts, rights = self._steps
        sums = zip(confidences.tolist(), np.cumsum(counts).tolist(), np.cumsum(rights).tolist(), strict=True)
        return [self._describe(*row).to_row() for row in sums]

    def _describe(self, min_confidence: float, count: int, right: int) -> Decided:
        from scipy.stats import beta

        tail = (1 - LEVEL) / 2
        low = float(beta.ppf(tail, right, count - right + 1)) if right else 0.0
        high = float(beta.ppf(1 - tail, right + 1, count - right)) if right < count else 1.0
        accuracy = 100 * right / count if count else 100.0
        return Decided(min_confidence, count, 100 * count / len(self.right), accuracy, 100 * low, 100 * high)


def _reaches(right: npt.NDArray[np.int64], total: npt.NDArray[np.int64], accuracy: float) -> npt.NDArray[np.bool_]:
    """Whether the percentage of right ones is high enough."""
    reached: npt.NDArray[np.bool_] = 100 * right >= accuracy * total - 1e-9
    return reached
