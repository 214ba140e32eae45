"""What users hand to estimators: inputs and labels in their many forms, made plain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphattn.builders import Example, Sentence
from graphattn.builders.word_boundaries import Source
from graphattn.exceptions import DataError

Columns = list[list[Source]]


def listed(X: Iterable[Any]) -> list[Any]:
    """Inputs as a list.

    Raises
    ------
    DataError
        for a single text, or a table
    """
    if isinstance(X, (str, bytes, Sentence, Example)) or not isinstance(X, Iterable):
        raise DataError(f"a {type(X).__name__} is given where many inputs are expected", hint="Put it into a list.")
    if hasattr(X, "columns"):
        raise DataError(
            f"a {type(X).__name__} is given where a list is expected",
            hint="Give one column of it, or for pairs the rows of two columns with to_numpy().",
        )
    return list(X)


def single_column(X: Iterable[Any], estimator: str) -> Columns:
    """Inputs of an estimator that takes one text each.

    Raises
    ------
    DataError
        for an input that is no text, list of words, ``Sentence`` or ``Example``
    """
    return [[_source(item, index, estimator) for index, item in enumerate(X)]]


def _source(item: Any, index: int, estimator: str) -> Source:
    if isinstance(item, Example):
        return item.text
    if isinstance(item, (str, Sentence)):
        return item
    if isinstance(item, (list, tuple, np.ndarray)) and all(isinstance(word, str) for word in item):
        return list(item)
    raise DataError(
        f"input {index} of {estimator} is a {type(item).__name__}",
        hint="Give a text, a list of words, a Sentence or an Example.",
    )


def pair_columns(X: Iterable[Any]) -> Columns:
    """Inputs of an estimator that takes two texts each.

    Raises
    ------
    DataError
        for an input that is no pair
    """
    first, second = [], []
    for index, item in enumerate(X):
        if isinstance(item, Example):
            item = (item.text, item.second)
        if not isinstance(item, (list, tuple, np.ndarray)) or len(item) != 2 or item[1] is None:
            raise DataError(f"input {index} of PairClassifier is no pair of texts", hint="Give (first, second).")
        first.append(_source(item[0], index, "PairClassifier"))
        second.append(_source(item[1], index, "PairClassifier"))
    return [first, second]


def carried_labels(X: Sequence[Any], y: Iterable[Any] | None, field: str) -> list[Any]:
    """Labels as given, or as the inputs carry them.

    Raises
    ------
    DataError
        when there are none, or not one for each input
    """
    if y is not None:
        given = list(y)
        if len(given) != len(X):
            raise DataError(f"{len(X)} inputs but {len(given)} labels", hint="Give one for each.")
        return given
    labels = [getattr(item, field, None) for item in X]
    missing = next((index for index, label in enumerate(labels) if label is None), None)
    if missing is not None:
        raise DataError(f"input {missing} has no {field}", hint=f"Give y, or inputs that carry their {field}.")
    return labels


def held_out_split(count: int, held: int, strata: npt.NDArray | None, seed: int) -> tuple[list[int], list[int]]:
    """Numbers to keep and numbers to hold out, in order; the same share of each class where that is possible."""
    from sklearn.model_selection import train_test_split

    if strata is not None and (np.bincount(strata).min() < 2 or min(held, count - held) < len(np.unique(strata))):
        strata = None
    rest, taken = train_test_split(np.arange(count), test_size=held, random_state=seed, stratify=strata)
    return sorted(rest.tolist()), sorted(taken.tolist())
