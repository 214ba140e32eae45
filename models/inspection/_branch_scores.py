"""Who decides: how much of a prediction's score the linear branch and the graph encoder give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphattn.models._results.numbers import choose_format

SMALL_SHARE = 0.1
"""Share of the graph encoder below which its attention says little about the prediction."""
ENCODER, NGRAMS, WORD_FEATURES, NEIGHBOURS = "graph encoder", "n-grams", "word features", "neighbouring tags"
_DIGITS = 6


@dataclass(frozen=True)
class BranchScores:
    """How much of the score of a prediction each branch of the model gives; the numbers add up to the score.

    The score is the log-odds of the explained class against the most probable other class, log p1 / p2, which is the
    difference of their scores; of several labels the log-odds of the most probable label, log p / (1 - p); of a
    regressor the predicted number minus the mean of the training set, in its unit. A tagger has one score for each
    word. With a CRF, p1 and p2 are the marginals, and ``neighbouring tags`` is what transitions from and to other words
    add to the scores of both branches.

    Parameters
    ----------
    explains : the score in words, such as ``log-odds of good against bad``
    scores : branch -> its number for each item, one or one for each word: ``n-grams`` or ``word features`` for the
        linear branch, and one for each column beside the text, such as ``priority=high``; ``graph encoder``, and with a
        CRF ``neighbouring tags``

    Examples
    --------
    >>> branches = BranchScores("log-odds of good against bad", {"n-grams": (2.1,), "graph encoder": (0.1,)})
    >>> str(branches), round(branches.encoder_share, 3)
    ('log-odds of good against bad: n-grams +2.10, graph encoder +0.10', 0.045)
    >>> branches.note
    'The graph encoder gives 5 % of this score; graphattn train --no-linear-branch makes a model that is all graph'
    """

    explains: str
    scores: Mapping[str, tuple[float, ...]]

    @property
    def encoder_share(self) -> float:
        """Share of the graph encoder in the sum of the absolute numbers."""
        sums = BranchSums()
        sums.add([self])
        return sums.shares()[ENCODER]

    @property
    def note(self) -> str:
        """A sentence if the share of the graph encoder is below :data:`SMALL_SHARE`, else empty."""
        return note_small_share([self])

    def __str__(self) -> str:
        """The score and the numbers of the branches in one line; means if there are several words."""
        count = len(self.scores[ENCODER])
        means = {name: sum(numbers) / count for name, numbers in self.scores.items()}
        form = choose_format(means.values(), 2, "+")
        numbers = ", ".join(f"{name} {format(mean, form)}" for name, mean in means.items())
        return f"{self.explains}{f', mean of {count} words' if count > 1 else ''}: {numbers}"

    def lines(self) -> list[str]:
        """The line and, if there is one, the note."""
        return [str(self), *filter(None, [self.note])]

    def to_json(self) -> dict[str, Any]:
        """The fields, ``encoder_share``, the line as ``text``, and the ``note``, as plain values."""
        return {
            "explains": self.explains,
            "scores": {name: [round(number, _DIGITS) for number in numbers] for name, numbers in self.scores.items()},
            "encoder_share": round(self.encoder_share, _DIGITS),
            "text": str(self),
            "note": self.note,
        }


@dataclass(eq=False)
class BranchSums:
    """Sums over the predictions of a corpus: the ``items`` (texts or words), and each branch's absolute ``numbers``."""

    items: int = 0
    numbers: dict[str, float] = field(default_factory=dict)

    def add(self, results: Iterable[BranchScores | None]) -> None:
        """Add the results of some texts; None is a result without a linear branch."""
        for branches in results:
            if branches is not None:
                self.items += len(branches.scores[ENCODER])
                for name, numbers in branches.scores.items():
                    self.numbers[name] = self.numbers.get(name, 0.0) + sum(map(abs, numbers))

    def shares(self) -> dict[str, float]:
        """Branch -> its share in the sum of the absolute numbers."""
        total = sum(self.numbers.values()) or 1.0
        return {name: number / total for name, number in self.numbers.items()}

    def note(self, subject: str) -> str:
        """A sentence if the graph encoder's share of the ``subject`` is below :data:`SMALL_SHARE`, else empty."""
        share = self.shares().get(ENCODER, 1.0)
        if share >= SMALL_SHARE:
            return ""
        percent = "less than 1 %" if share < 0.01 else format_percent(share)
        advice = "graphattn train --no-linear-branch makes a model that is all graph"
        return f"The graph encoder gives {percent} of {subject}; {advice}"


def note_small_share(results: Iterable[BranchScores | None]) -> str:
    """A sentence if the graph encoder's share in several results is below :data:`SMALL_SHARE`, else empty."""
    explained = [branches for branches in results if branches is not None]
    sums = BranchSums()
    sums.add(explained)
    return sums.note("this score" if len(explained) == 1 else f"the scores of {len(explained):,} texts")


def format_percent(share: float) -> str:
    """A share as a whole percentage.

    Examples
    --------
    >>> format_percent(0.127)
    '13 %'
    """
    return f"{100 * share:.0f} %"
