"""Regression: a number for each text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Example, Sentence
from graphattn.builders.readers._unlabelled import find_marks
from graphattn.exceptions import DataError, verbatim
from graphattn.models._estimators.inputs import resolve_labels, single_target
from graphattn.models._estimators.tasks.explain import Explainer, NumberExplainer
from graphattn.models._estimators.tasks.head import ScorePredictor, joins_pairs
from graphattn.models._estimators.tasks.labels import Labels, measure_inputs
from graphattn.models._estimators.tasks.rows import NumberRows, Rows
from graphattn.models._estimators.tasks.text_task import TextTask
from graphattn.models._estimators.texts import Texts
from graphattn.models._files.saving import ModelFiles
from graphattn.models._prediction import Predictions
from graphattn.models._results.numbers import shorten, split_ranges
from graphattn.models._results.reports import Report
from graphattn.models._results.significance import bootstrap_correlation, compare_models, list_moments
from graphattn.models.heads import Head, PairRegressionHead, RegressionHead
from graphattn.models.training._metrics import regression_metrics

if TYPE_CHECKING:
    from graphattn.builders.store import Store

_RANGES = 5
"""Rows of a report: ranges of targets with equally many texts."""
MAX_TARGET = 1e38
"""Targets are standardized to float32; products of four of them are still finite in float64."""


class NumberLabels(Labels):
    """A number for each text, of which the model learns (target - mean) / scale; both are of the training set."""

    main_metric, predicted_field = "pearson", "value"
    score_metric = "r2"
    mean: float
    scale: float

    @property
    @override
    def rescale(self) -> tuple[float, float]:
        return self.mean, self.scale

    @override
    def check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        if item.label is not None:
            parse_number(item.label, path=path, line=line)

    @override
    def check_stored(self, store: Store, path: Path) -> None:
        super().check_stored(store, path)
        for label in store.texts().column("label"):
            parse_number(label, path=str(path))

    @override
    def resolve(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = resolve_labels(X, single_target(y), "label")
        return [parse_number(label, index=index) for index, label in enumerate(labels)]

    @override
    def normalize(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        if min(labels) == max(labels):
            hint = "Give examples with different targets."
            raise DataError(f"all targets of the {where} are {labels[0]:.12g}, so there is no correlation", hint=hint)
        return labels

    @override
    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Self | None = None) -> None:
        mean = float(np.average(examples.labels, weights=examples.weights))
        scale = math.sqrt(np.average((np.array(examples.labels) - mean) ** 2, weights=examples.weights))
        if min(examples.labels) == max(examples.labels) or scale < 1 / MAX_TARGET:
            raise DataError(
                f"all targets are {examples.labels[0]:.12g}; training needs at least two different ones",
                hint="Check the column of the label.",
            )
        if previous is not None:
            self.mean, self.scale = previous.mean, previous.scale
        else:
            self.mean, self.scale = mean, scale

    @override
    def make_targets(self, labels: Sequence[Any], where: str) -> npt.NDArray[np.float32]:
        return ((np.array(labels) - self.mean) / self.scale).astype(np.float32)

    @override
    def list_metrics(self) -> list[str]:
        return ["pearson", "spearman", "r2"]  # the largest is the best; r2 chooses the smallest squared error

    @override
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        return regression_metrics(np.array(labels), self.decode(decisions), weights)

    @override
    def decode(self, decisions: list[Any]) -> npt.NDArray[np.float64]:
        return self.mean + self.scale * np.array(decisions, np.float64)

    @override
    def read_predictions(self, predictions: Iterable[Any], size: int) -> Sequence[Any]:
        return self.resolve(range(size), predictions)  # equal ones are no error

    @override
    def report(
        self, examples: Texts, predictions: Predictions, *, others: Mapping[str, Any] | None = None, **unused: Any
    ) -> Report:
        decisions = predictions.decisions
        gold, predicted = np.array(examples.labels), self.decode(decisions)
        sides = {name: np.array(self.read_predictions(theirs, len(gold))) for name, theirs in (others or {}).items()}
        sums = {name: list_moments(gold, self._round(theirs)) for name, theirs in sides.items()}
        of_model = list_moments(gold, self._round(predicted) if sums else predicted)
        return Report(
            self.measure(examples.labels, decisions),
            self.main_metric,
            interval=bootstrap_correlation(gold, predicted),
            ranges=_compare_ranges(gold, predicted),
            find_mistakes=partial(_list_errors, examples, predicted, self.scale),
            sums=of_model,
            measure=partial(measure_inputs, self, examples.labels, decisions),
            comparisons=compare_models(self.main_metric, of_model, sums),
            find_disagreements=partial(_list_predictions, examples, {"predicted": predicted, **sides}, self.scale),
        )

    def _round(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Numbers with the digits of rows of output, so that a model does not differ from a file of its predictions."""
        return np.array([shorten(value, self.scale) for value in values.tolist()])

    @override
    def to_config(self) -> dict[str, Any]:
        return {"mean": self.mean, "scale": self.scale}

    @override
    def restore(self, files: ModelFiles) -> None:
        self.mean, self.scale = files.config["mean"], files.config["scale"]


class NumberPredictor(ScorePredictor):
    """Predicts one number of each text: the head of classification with one output and a squared error."""

    @override
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        return RegressionHead(width, 1, options["head"])


class PairNumberPredictor(NumberPredictor):
    """Predicts a number of each pair, whose texts are compared unless the model reads them as one sequence."""

    @override
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        if joins_pairs(options):
            return super().make_head(width, options, weights)
        return PairRegressionHead(width, 1, options["head"])


class Regression(TextTask):
    """Predict a number for each text."""

    name = "regress"
    can_be_frozen = True
    corpus_kind = "classify"
    description = "predicts a number for texts"
    prediction_options = frozenset({"mistakes", "plain", "compare", "disagreements", "by"})
    estimator_type = "regressor"
    labels_type: ClassVar[type[NumberLabels]] = NumberLabels
    head_type: ClassVar[type[ScorePredictor]] = NumberPredictor
    labels: NumberLabels

    def __init__(self, **arguments: Any):
        super().__init__(**arguments)
        self.labels, self.head = self.labels_type(), self.head_type()

    @property
    @override
    def rows(self) -> Rows:
        return NumberRows(self.labels.scale)

    @override
    def explain(self, model: Any) -> Explainer:
        return NumberExplainer(model, self.labels.mean, self.labels.scale, self.description)

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), "mean": float, "scale": float}


class PairRegression(Regression):
    """Predict a number for each pair of texts; both go through the same encoder."""

    name, corpus_kind = "regress-pair", "pair"
    description = "predicts a number for pairs of texts"
    texts_per_input = 2
    head_type = PairNumberPredictor


def parse_number(label: Any, *, index: int | None = None, path: str | None = None, line: int | None = None) -> float:
    """A target as a number.

    Examples
    --------
    >>> parse_number("4.5")
    4.5
    """
    try:
        no_number = isinstance(label, (bool, np.bool_)) or (isinstance(label, str) and "_" in label)
        number = float("nan" if no_number else label)
    except OverflowError:  # an integer
        number = 2 * MAX_TARGET
    except (TypeError, ValueError):
        number = math.nan
    what = "the target" if index is None else f"target {index}"
    if abs(number) > MAX_TARGET and math.isfinite(number):
        hint = f"Write numbers between {-MAX_TARGET:g} and {MAX_TARGET:g}."
        raise DataError(f"{what} {verbatim(repr(label))} is too large", path=path, line=line, hint=hint)
    if math.isfinite(number):
        return number
    hint = "Write a finite number such as 4.5, or choose another {label}; for classes there is a classifier."
    options = ("label",)
    if isinstance(label, str) and find_marks([label]):
        hint, options = f"If it stands for none, {{drop_label={label}}} leaves it out.", ("drop_label",)
    message = f"{what} {verbatim(repr(label))} is not a number"
    raise DataError(message, path=path, line=line, hint=hint, options=options)


def _compare_ranges(gold: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]) -> dict[str, dict[str, float]]:
    """Range of targets -> means of targets and predictions, mean squared error, and number of texts."""
    rows = {}
    for name, inside in split_ranges(gold, _RANGES).items():
        errors = predicted[inside] - gold[inside]
        means = {"gold": gold[inside], "predicted": predicted[inside], "mse": errors**2}
        rows[name] = {key: float(values.mean()) for key, values in means.items()} | {"support": len(inside)}
    return rows


def _list_errors(examples: Texts, predicted: npt.NDArray[np.float64], scale: float) -> list[dict[str, Any]]:
    """Texts with target, prediction and error."""
    return [
        {
            **examples.show(number),
            "gold": gold,
            "predicted": shorten(value, scale),
            "error": shorten(value - gold, scale),
        }
        for number, (gold, value) in enumerate(zip(examples.labels, predicted.tolist(), strict=True))
    ]


def _list_predictions(
    examples: Texts, predicted: Mapping[str, npt.NDArray[np.float64]], scale: float
) -> list[dict[str, Any]]:
    """Texts with target and the prediction of each model, the largest difference first."""
    columns = np.stack(list(predicted.values()), axis=1)
    rows = []
    for number in np.argsort(-np.ptp(columns, axis=1), kind="stable").tolist():
        values = {name: shorten(value, scale) for name, value in zip(predicted, columns[number].tolist(), strict=True)}
        rows.append({**examples.show(number), "gold": examples.labels[number], **values})
    return rows
