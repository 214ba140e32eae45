"""Weights of classes in the loss, for labels of which some are rare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
import torch

from graphattn.exceptions import ConfigError
from graphattn.models.estimators.labels import LabelSet, plain_label


def saved_weights(given: str | Mapping[Any, float] | None) -> str | list[list[Any]] | None:
    """An estimator's ``class_weight`` as a JSON value; classes need not be strings."""
    if not isinstance(given, Mapping):
        return given
    return [[plain_label(label), float(weight)] for label, weight in given.items()]


def restored_weights(saved: str | list[list[Any]] | None) -> str | dict[Any, float] | None:
    """The ``class_weight`` that :func:`saved_weights` converted."""
    return dict(map(tuple, saved)) if isinstance(saved, list) else saved


_LARGEST = 1e30  # losses are float32


def class_weights(
    given: str | Mapping[Any, float] | None, labels: LabelSet, occurring: Iterable[Any], texts: int | None = None
) -> torch.Tensor | None:
    """The weight of each class.

    Parameters
    ----------
    given : None for no weights, ``"balanced"`` for the inverse of each class' share (where a text may have several,
        for texts without the class over texts with it), or class -> weight, 1 for others
    labels : the classes
    occurring : all labels of the training set
    texts : number of texts if each has any number of labels; None if each has one

    Returns
    -------
    (classes,), float32

    Raises
    ------
    ConfigError
        when ``given`` is something else, or a weight is not positive
    DataError
        when a class with a weight does not exist

    Examples
    --------
    >>> class_weights("balanced", LabelSet(["a", "b"]), ["a", "b", "b", "b"])
    tensor([2.0000, 0.6667])
    >>> class_weights("balanced", LabelSet(["a", "b"]), ["a", "b", "b", "b"], texts=4)
    tensor([3.0000, 0.3333])
    """
    if given is None:
        return None
    weights = np.ones(len(labels))
    if isinstance(given, Mapping):
        for label, weight in given.items():
            if not isinstance(weight, Real) or not 1 / _LARGEST <= weight <= _LARGEST:
                raise ConfigError(
                    f"{{class_weight}} of {label!r} is {weight!r}; it must be {1 / _LARGEST:.0e} to {_LARGEST:.0e}",
                    options=("class_weight",),
                )
            weights[labels.ids([label], where="class_weight")] = weight
    elif isinstance(given, str) and given == "balanced":
        from sklearn.utils.class_weight import compute_class_weight

        ids = labels.ids(occurring)
        present, counts = np.unique(ids, return_counts=True)  # a class may be in the held-out share only
        if texts is None:
            weights[present] = compute_class_weight("balanced", classes=present, y=ids)
        else:
            weights[present] = np.maximum(texts - counts, 1) / counts  # the loss of each class stands for itself
    else:
        raise ConfigError(
            f"{{class_weight}} is {given!r}; choose balanced, or give class -> weight", options=("class_weight",)
        )
    return torch.tensor(weights, dtype=torch.float32)
