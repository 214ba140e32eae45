"""Weights of classes in the loss, for rare classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphattn.builders._values import is_missing
from graphattn.exceptions import ConfigError
from graphattn.models._estimators.label_set import LabelSet, plain_label

_LARGEST = 1e30  # losses are float32


def serialize_class_weight(class_weight: str | Mapping[Any, float] | None) -> str | list[list[Any]] | None:
    """An estimator's ``class_weight`` as a JSON value; classes need not be strings."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    return [[plain_label(label), float(weight)] for label, weight in class_weight.items()]


def deserialize_class_weight(saved: str | list[list[Any]] | None) -> str | dict[Any, float] | None:
    """The ``class_weight`` that :func:`serialize_class_weight` converted."""
    return dict(map(tuple, saved)) if isinstance(saved, list) else saved


def class_weights(
    class_weight: str | Mapping[Any, float] | None,
    labels: LabelSet,
    occurrences: Iterable[Any],
    weights: npt.NDArray[np.floating] | None = None,
    *,
    texts: float | None = None,
) -> torch.Tensor | None:
    """(classes,) the weight of each class.

    ``"balanced"`` is the inverse of each class' share among the occurrences, which ``weights`` weigh. If a text has any
    number of classes, ``texts`` is their number, and the weight is the ratio of texts without the class to texts with
    it. A mapping leaves other classes at 1.

    Examples
    --------
    >>> class_weights("balanced", LabelSet(["a", "b"]), ["a", "b", "b", "b"])
    tensor([2.0000, 0.6667])
    >>> class_weights("balanced", LabelSet(["a", "b"]), ["a", "b", "b", "b"], texts=4)
    tensor([3.0000, 0.3333])
    """
    if class_weight is None:
        return None
    factors = np.ones(len(labels))
    if isinstance(class_weight, Mapping):
        for label, weight in class_weight.items():
            if is_missing(weight) or not isinstance(weight, Real) or not 1 / _LARGEST <= weight <= _LARGEST:
                raise ConfigError(
                    f"{{class_weight}} of {label!r} is {weight!r}; it must be {1 / _LARGEST:.0e} to {_LARGEST:.0e}",
                    options=("class_weight",),
                )
            factors[labels.ids([label], where="class_weight")] = weight
    else:  # balanced
        counts = np.bincount(labels.ids(occurrences), weights, len(labels))
        present = counts > 0  # a class may occur in the held-out texts only
        counts = counts[present]
        if texts is None:
            factors[present] = counts.sum() / (len(counts) * counts)  # as in scikit-learn
        else:
            factors[present] = np.maximum(texts - counts, 1) / counts  # classes are independent
    return torch.tensor(factors, dtype=torch.float32)
