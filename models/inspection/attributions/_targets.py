"""The quantities that attributions explain: the log-odds of a class, or the log-probability of an output text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Sentence
from graphattn.exceptions import ConfigError, verbatim
from graphattn.models._results.numbers import format_number
from graphattn.models.heads import Head
from graphattn.models.heads._crf import LinearChainCRF
from graphattn.models.heads._tagging import as_precise
from graphattn.models.inspection._branch_scores import ENCODER, NEIGHBOURS, BranchScores
from graphattn.models.inspection._edge_kinds import word_ids_of


class ExplanationTarget(ABC):
    """A quantity that attributions explain, as a function of the model's scores."""

    quantity: ClassVar[str]

    @abstractmethod
    def describe(self) -> str:
        """The quantity and what it is of, in words."""

    @abstractmethod
    def value(self, scores: Tensor) -> Tensor:
        """(copies, items, classes) scores of copies of one input -> (copies,) values."""

    def divide(self, scores: Tensor, linear: Mapping[str, Tensor]) -> BranchScores | None:
        """How much the linear branch and the graph encoder give; None if there is nothing to compare with.

        Parameters
        ----------
        scores : (items, classes) scores of one input
        linear : name of features -> what the linear branch adds to the scores for them
        """
        return None


@dataclass(frozen=True)
class ClassLogOdds(ExplanationTarget):
    r"""Log-odds of one class per item, summed over the items.

    .. math:: \log \frac{p}{1 - p}

    Unlike the probability, they do not saturate for confident models. p is what ``predict_proba`` returns: for a
    tagger with a CRF the marginal of the word's tag.

    ``items`` are indices of the items, 0 or words, with one class each; ``independent`` classes have a sigmoid, others
    a softmax. ``names`` are the labels of all classes.
    """

    items: tuple[int, ...]
    classes: tuple[int, ...]
    independent: bool
    names: Sequence[Any]
    crf: LinearChainCRF | None = None
    quantity = "log_odds"

    @override
    def describe(self) -> str:
        return f"log-odds of {', '.join(str(self.names[number]) for number in dict.fromkeys(self.classes))}"

    @override
    def value(self, scores: Tensor) -> Tensor:
        if self.crf is not None:
            scores = as_precise(scores)
            scores = self.crf.marginal_scores(scores, torch.ones_like(scores[..., 0], dtype=torch.bool))
        selected = scores[:, list(self.items)]  # (copies, items, classes)
        classes = torch.tensor(self.classes, device=scores.device).view(1, -1, 1).expand(len(selected), -1, 1)
        log_odds = selected.gather(2, classes).squeeze(2)
        if not self.independent:
            log_odds = log_odds - selected.scatter(2, classes, float("-inf")).logsumexp(2)
        return log_odds.sum(1)

    @override
    def divide(self, scores: Tensor, linear: Mapping[str, Tensor]) -> BranchScores | None:
        if scores.shape[1] < 2 and not self.independent:
            return None
        scores = as_precise(scores)
        marginal = scores
        if self.crf is not None:
            is_word = torch.ones_like(scores[None, :, 0], dtype=torch.bool)
            marginal = self.crf.marginal_scores(scores.unsqueeze(0), is_word)[0]
        items = list(self.items)
        classes = torch.tensor(self.classes, device=scores.device).unsqueeze(1)
        others = marginal[items].scatter(1, classes, float("-inf")).argmax(1, keepdim=True)

        def compare(table: Tensor) -> Tensor:
            of_classes = table[items].gather(1, classes)
            return (of_classes if self.independent else of_classes - table[items].gather(1, others)).squeeze(1)

        numbers = {name: compare(part.to(scores.dtype)) for name, part in linear.items()}
        of_branches = compare(scores)
        numbers[ENCODER] = of_branches - sum(numbers.values())
        if self.crf is not None:
            numbers[NEIGHBOURS] = compare(marginal) - of_branches
        explains = self.describe()
        if len(items) > 1:
            explains = "log-odds of each tag against the next best"
        elif not self.independent:
            explains += f" against {self.names[int(others)]}"
        return BranchScores(explains, {name: tuple(values.tolist()) for name, values in numbers.items()})


@dataclass(frozen=True, eq=False)
class TextLogProbability(ExplanationTarget):
    """Log-probability of tokens of an output text, each given its predecessors.

    ``tokens`` are (T,) ids of all tokens, with the end of the text; ``selected`` ones are explained.
    """

    tokens: Tensor
    selected: slice
    quantity = "log_probability"

    @override
    def describe(self) -> str:
        return "log-probability of the output"

    @override
    def value(self, scores: Tensor) -> Tensor:
        tokens = self.tokens[self.selected].to(scores.device).view(1, -1, 1).expand(len(scores), -1, -1)
        return scores[:, self.selected].log_softmax(2).gather(2, tokens).sum((1, 2))


@dataclass(frozen=True)
class Value(ExplanationTarget):
    """The number that a regressor predicts; ``mean`` and ``scale`` are those of the targets of the training set."""

    mean: float
    scale: float
    quantity = "value"

    @override
    def describe(self) -> str:
        return "the predicted value"

    @override
    def value(self, scores: Tensor) -> Tensor:
        return self.mean + self.scale * scores[:, 0, 0]

    @override
    def divide(self, scores: Tensor, linear: Mapping[str, Tensor]) -> BranchScores:
        of_branches = {name: self.scale * part[:, 0] for name, part in linear.items()}
        of_branches[ENCODER] = self.scale * scores[:, 0] - sum(of_branches.values())
        explains = f"the predicted value minus the mean of {format_number(self.mean, self.scale)}"
        return BranchScores(explains, {name: tuple(values.tolist()) for name, values in of_branches.items()})


def select_class(
    head: Head,
    classes: Sequence[Any],
    scores: Tensor,
    *,
    predicted: Sequence[int] | None = None,
    label: Any = None,
    word: int | None = None,
) -> ClassLogOdds:
    """The class to explain, given (items, classes) scores: ``label``, or the predicted one; of all words or one.

    ``predicted`` is the class of each item; the most probable ones when None.
    """
    if label is not None and label not in classes:
        known = ", ".join(map(str, classes))
        raise ConfigError(
            f"{{label}} is {verbatim(repr(label))}, but the classes are: {verbatim(known)}", options=("label",)
        )
    if word is not None and not head.per_word:
        raise ConfigError("{word} is for taggers and translators, not for classifiers", options=("word",))
    if not len(scores):
        raise ConfigError("there is nothing to explain: the text has no words")
    if word is not None:
        _check_word(word, len(scores))
    items = tuple(range(len(scores))) if word is None else (word,)
    predicted = _predict_classes(head, scores) if predicted is None else predicted
    selected = tuple(predicted[item] if label is None else classes.index(label) for item in items)
    return ClassLogOdds(items, selected, head.multilabel, classes, head.crf)


def _check_word(word: int, count: int) -> None:
    if not 0 <= word < count:
        raise ConfigError(f"{{word}} is {word}; words count from 0 to {count - 1}", options=("word",))


def _predict_classes(head: Head, scores: Tensor) -> list[int]:
    """The most probable class of each item; with a CRF, the best tag sequence."""
    if head.crf is not None:
        mask = torch.ones(1, len(scores), dtype=torch.bool, device=scores.device)
        return head.crf.best_tags(scores.detach().unsqueeze(0), mask)[0].tolist()
    return scores.argmax(1).tolist()


def select_text(tokens: Tensor, sentence: Sentence, word: int | None = None) -> TextLogProbability:
    """The part of an output text to explain, a word or all; ``tokens`` are (T,) ids, with the end of the text."""
    if word is None:
        return TextLogProbability(tokens, slice(0, len(tokens)))
    _check_word(word, sentence.num_words)
    positions = np.flatnonzero(np.array(word_ids_of(sentence)[1:]) == word + 1)
    return TextLogProbability(tokens, slice(int(positions[0]), int(positions[-1]) + 1))
