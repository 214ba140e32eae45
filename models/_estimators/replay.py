"""Old examples beside new ones, so that a model that is trained further forgets less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from math import ceil
from typing import Any

import numpy as np

from graphattn.models._estimators.state import EstimatorState
from graphattn.models._estimators.tasks.labels import ClassLabels

MIN_EXAMPLES = 20
"""Old examples of a class that are kept even if the new classes have fewer."""


def add_old_examples(
    estimator: EstimatorState, new: tuple[Any, Any], old: tuple[Any, Any], *, seed: int = 0
) -> tuple[list[Any], list[Any]]:
    """New examples and a sample of old ones, for the ``fit`` of an estimator that continues from a trained model.

    An old class gets as many examples as a new class has on average, but at least 20; of numbers, sentences with tags
    and translations, there are as many old examples as new ones.

    Parameters
    ----------
    estimator : the trained model
    new, old : inputs, and their labels, None if the inputs contain them; as for ``fit``
    seed : of the sample

    Returns
    -------
    Inputs and labels, the new ones first

    Examples
    --------
    >>> from graphattn.models import TextClassifier, TrainingOptions
    >>> new, old = (["c"] * 30, ["C"] * 30), (["a", "b"] * 100, ["A", "B"] * 100)
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=0)).fit(*old)
    >>> texts, labels = add_old_examples(classifier, new, old)
    >>> {name: labels.count(name) for name in "ABC"}
    {'A': 30, 'B': 30, 'C': 30}
    """
    now = estimator.read_examples(*new, empty="there are no training examples", where="training set").load()
    before = estimator.read_examples(*old, empty="there are no old examples", where="old examples").load()
    order = np.random.default_rng(seed).permutation(len(before.labels)).tolist()
    labels = estimator.task_.labels
    if estimator.task.estimator_type == "classifier" and isinstance(labels, ClassLabels):
        counts = Counter(labels.list_names(now.labels))
        quota = max(MIN_EXAMPLES, ceil(counts.total() / max(1, len(counts))))
        names = [tuple(labels.list_names([before.labels[number]])) for number in order]
        order = [number for number, is_kept in zip(order, _fill(names, quota), strict=True) if is_kept]
    else:
        order = order[: len(now.labels)]
    kept = before.select(sorted(order))
    return [*now, *kept], [*now.labels, *kept.labels]


def _fill(classes: Iterable[Sequence[Hashable]], quota: int) -> Iterable[bool]:
    """Whether each example has a class of which there are fewer than the quota before it."""
    counts = Counter[Hashable]()
    for names in classes:
        is_kept = any(counts[name] < quota for name in names)
        counts.update(names if is_kept else ())
        yield is_kept
