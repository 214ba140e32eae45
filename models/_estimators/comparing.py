"""Compare estimators on the same inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, overload

from graphattn.exceptions import ConfigError
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._results.significance import Comparison


@overload
def compare(
    a: Estimator, b: Mapping[str, Any], X: Iterable[Any], y: Iterable[Any] | None = None
) -> dict[str, Comparison]: ...
@overload
def compare(a: Estimator, b: Any, X: Iterable[Any], y: Iterable[Any] | None = None) -> Comparison: ...
def compare(
    a: Estimator, b: Any, X: Iterable[Any], y: Iterable[Any] | None = None
) -> Comparison | dict[str, Comparison]:
    """Is one model better than another, or is the difference of their main metric chance?

    The difference has a 95 % interval, by paired bootstrap over inputs, and a p-value: of the exact McNemar's test
    where each input is right or wrong (accuracy of classifiers), and of approximate randomization for all other metrics
    (F1 of entities and of several labels, accuracy of tags, Pearson's correlation).

    Parameters
    ----------
    a : a fitted estimator
    b : another one, anything else with ``predict``, or its predictions for ``X``; or name -> one of these, for several
        comparisons, whose ``adjusted_p_value`` has Holm's correction
    X, y : inputs and labels, as for :meth:`Estimator.evaluate`

    Returns
    -------
    A :class:`Comparison`; of several models, name -> comparison. ``a.report(X, y, others=...)`` has them with the texts
    that the models predict differently

    Raises
    ------
    ConfigError
        for translators, which ``report(others=...)`` compares with sacrebleu
    DataError
        when there is not one prediction for each input

    Examples
    --------
    >>> from graphattn import TextClassifier
    >>> from graphattn.models import TrainingOptions
    >>> texts, labels = ["a good film", "a bad film", "a good plot", "a bad plot"] * 5, ["pos", "neg"] * 10
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=0, dev_fraction=0)).fit(texts, labels)
    >>> comparison = compare(classifier, ["pos"] * 20, texts, labels)
    >>> comparison.difference, round(comparison.p_value, 4), comparison.only_model
    (50.0, 0.002, 10)
    """
    if a.task.source_and_target_files:
        raise ConfigError(
            f"a model that {a.task.description} is compared by report(X, y, others={{'b': b.predict(X)}})"
        )
    others: Mapping[str, Any] = b if isinstance(b, Mapping) else {"b": b}
    comparisons = a.report(X, y, others=others).comparisons
    return comparisons if isinstance(b, Mapping) else comparisons["b"]
