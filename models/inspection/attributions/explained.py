"""What is explained: the log-odds of a class, for an input as a whole or for one of its words.

Of a tagger with a CRF they are those of the scores that each word hands to the CRF, whatever its neighbours' tags are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.models.heads import ClassificationHead, Head, TaggingHead
from graphattn.models.inspection.passes import writes

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from graphattn.models.estimators import Estimator
    from graphattn.models.estimators.translator import Translator


class ExplanationTarget(ABC):
    """A quantity that attributions explain: a class's log-odds, or a text's log-probability."""

    @abstractmethod
    def value(self, scores: Tensor) -> Tensor:
        """(copies, items, classes) scores of copies of one input -> (copies,)."""


@dataclass(frozen=True)
class Explained(ExplanationTarget):
    """A class of an input, or one class for each of some words.

    Parameters
    ----------
    items : numbers of the input's items, 0, or those of words
    classes : for each of them the class
    single : whether each class is decided for itself, with a sigmoid
    """

    items: tuple[int, ...]
    classes: tuple[int, ...]
    single: bool

    @override
    def value(self, scores: Tensor) -> Tensor:
        return self.log_odds(scores)

    def log_odds(self, scores: Tensor) -> Tensor:
        """What speaks for the classes: log p / (1 - p), summed over the items.

        Unlike the probability it does not flatten where the model is sure.

        Parameters
        ----------
        scores : (copies, items, classes), as the head gives them

        Returns
        -------
        (copies,)
        """
        own = scores[:, list(self.items)]  # (copies, chosen, classes)
        classes = torch.tensor(self.classes, device=scores.device).view(1, -1, 1).expand(len(own), -1, 1)
        chosen = own.gather(2, classes).squeeze(2)
        if not self.single:
            chosen = chosen - own.scatter(2, classes, float("-inf")).logsumexp(2)
        return chosen.sum(1)


def explained(estimator: Any, scores: Tensor, label: Any = None, word: int | None = None) -> Explained:
    """The class to explain.

    Parameters
    ----------
    estimator : a fitted one
    scores : (items, classes) of one input
    label : the class; what the model decides when None, for a tagger the tag of each word
    word : of a tagger, the word to explain; all words together when None

    Raises
    ------
    ConfigError
        when there is no such class or word
    """
    head, classes = estimator.model_.head, estimator.classes_.tolist()
    if label is not None and label not in classes:
        raise ConfigError(f"the model knows no class {label!r}; it knows: {', '.join(map(str, classes))}")
    if word is not None and not head.per_word:
        raise ConfigError("word is for taggers; a classifier decides about the whole text")
    if word is not None and not 0 <= word < len(scores):
        raise ConfigError(f"there is no word {word}; words count from 0 to {len(scores) - 1}")
    if not len(scores):
        raise ConfigError("there is nothing to explain: the text has no words")
    items = tuple(range(len(scores))) if word is None else (word,)
    best = _decided(head, scores)
    chosen = tuple(best[item] if label is None else classes.index(label) for item in items)
    return Explained(items, chosen, isinstance(head, ClassificationHead) and head.multilabel)


def _decided(head: Head, scores: Tensor) -> list[int]:
    """The likeliest class of each item; with a CRF the tags of the best sequence."""
    if isinstance(head, TaggingHead) and head.crf is not None:
        mask = torch.ones(1, len(scores), dtype=torch.bool, device=scores.device)
        best: list[int] = head.crf.decode(scores.detach().unsqueeze(0), mask=mask)[0]
        return best
    return scores.argmax(1).tolist()


def explains_text(estimator: Estimator, *, label: Any = None, target: str | None = None) -> TypeIs[Translator]:
    """Whether a text that the estimator writes is explained, and not a class.

    Parameters
    ----------
    estimator : of any task
    label, target : the class, or the text, that was named

    Raises
    ------
    ConfigError
        for the label of a translator, and for the target of another model
    NotFittedError
        before ``fit``
    """
    estimator._check_fitted()
    if not writes(estimator):
        if target is not None:
            raise ConfigError("target is for translators; give label for a class")
        return False
    if label is not None:
        raise ConfigError("a translator has no classes; leave label out, and give target for a text")
    return True
