"""Regressors: predict a number for a text, or for a pair of texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Example, Sentence
from graphattn.builders.readers.unlabelled import find_marks
from graphattn.exceptions import ConfigError, DataError, Hint, verbatim
from graphattn.models.encoders import EncoderOptions
from graphattn.models.estimators.inputs import (
    as_text,
    input_fields,
    resolve_labels,
    single_target,
)
from graphattn.models.estimators.labelling import PRESET_HELP, PRESETS, LabellingEstimator
from graphattn.models.estimators.labels import LabelSet
from graphattn.models.estimators.task import EncodedInputs, Examples
from graphattn.models.heads import Head, PairRegressionHead, RegressionHead
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained.options import PretrainedOptions
from graphattn.models.reports import Report, bootstrap_correlation
from graphattn.models.saving import ModelFiles, register_task
from graphattn.options import Options, ParsingOptions, option

if TYPE_CHECKING:
    from graphattn.builders.store import Store
    from graphattn.models.inspection.attributions.targets import ExplanationTarget

_RANGES = 5
"""Rows of a report: ranges of targets with equally many texts."""


MAX_TARGET = 1e38
"""Targets are standardized to float32; products of four of them are still finite in float64."""


@dataclass
class RegressorOptions(Options):
    """Arguments of :class:`TextRegressor` besides its groups of options."""

    preset: str = option("default", PRESET_HELP, choices=PRESETS, common=True)


@register_task
class TextRegressor(LabellingEstimator):
    """Predict a number for each text: the head of :class:`TextClassifier` with one output and a squared error.

    Inputs are texts, lists of words, :class:`Sentence` or :class:`Example`; targets are numbers, in files the label.
    The model learns (target - mean) / standard deviation of the training set; predictions are in the targets' units.

    Parameters
    ----------
    encoder : a name such as ``"ms-trans"`` (all: ``graphattn.models.encoders.ENCODERS``), or an encoder's options
    pretrained : a Hugging Face directory or a name on the hub, or options with it
    inputs, head, training : options; None for the defaults
    parsing : the parser of texts without heads, for encoders that use dependency arcs; None for no parser
    preset : ``"paper"`` for the papers' settings, without linear branch
    warm_start : whether ``fit`` continues from the fitted model, if there is one; its mean and deviation remain

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> regressor = TextRegressor(training=TrainingOptions(epochs=10, learning_rate=1e-3, dev_fraction=0))
    >>> texts = ["a good film", "a bad film", "the plot is good", "the plot is bad"] * 8
    >>> good, bad = regressor.fit(texts, [4.5, 1, 4, 1.5] * 8).predict(["the film is good", "a bad plot"])
    >>> bool(good > bad)
    True
    """

    task = "regress"
    corpus_kind = "classify"
    description = "predicts a number for texts"
    main_metric = "pearson"
    option_groups: ClassVar = {**LabellingEstimator.option_groups, "task": RegressorOptions}
    prediction_options = frozenset({"mistakes", "plain"})
    unused_options = frozenset(
        {"crf", "word_pieces", "predicate_embedding", "pair_features", "label_smoothing", "join_pairs"}
    )
    mean_: float
    scale_: float

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        preset: str = "default",
        warm_start: bool = False,
    ):
        super().__init__(
            encoder,
            inputs=inputs,
            head=head,
            training=training,
            parsing=parsing,
            pretrained=pretrained,
            preset=preset,
            warm_start=warm_start,
        )

    @override
    def predict(self, X: Iterable[Any]) -> npt.NDArray[np.float64]:
        """(S,) numbers."""
        return self._decode_labels(self._run(X).decisions)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
        return tags

    @override
    def score(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        sample_weight: Sequence[float] | npt.NDArray[Any] | float | None = None,
    ) -> float:
        """The coefficient of determination, as of scikit-learn's regressors."""
        return self.evaluate(X, y, sample_weight=sample_weight)["r2"] / 100

    # -- reading and writing -------------------------------------------------------------------------------------------

    @override
    def _check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        if item.label is not None:
            parse_number(item.label, path=path, line=line)

    @override
    def _check_stored(self, store: Store, path: Path) -> None:
        super()._check_stored(store, path)
        for label in store.texts().column("label"):
            parse_number(label, path=str(path))

    @override
    def _format_prediction(self, x: Any, prediction: Any) -> dict[str, Any]:
        return {**input_fields(x), "value": round(float(prediction), 6)}

    # -- fitting -------------------------------------------------------------------------------------------------------

    @override
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = resolve_labels(X, single_target(y), "label")
        return [parse_number(label, index=index) for index, label in enumerate(labels)]

    @override
    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        if min(labels) == max(labels):
            hint = "Give examples with different targets."
            raise DataError(f"all targets of the {where} are {labels[0]:g}, so there is no correlation", hint=hint)
        return labels

    @override
    def _fit_labels(self, examples: Examples) -> None:
        self.labels_, self.classes_ = LabelSet([]), np.empty(0)
        scale = float(np.std(examples.labels))
        if min(examples.labels) == max(examples.labels) or scale < 1 / MAX_TARGET:
            raise DataError(
                f"all targets are {examples.labels[0]:g}; training needs at least two different ones",
                hint="Check the column of the label.",
            )
        if self._previous is not None:
            self.mean_, self.scale_ = self._previous.mean_, self._previous.scale_
        else:
            self.mean_, self.scale_ = float(np.mean(examples.labels)), scale

    @override
    def _strata(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return None

    @override
    def _targets(self, labels: Sequence[Any], where: str) -> npt.NDArray[np.float32]:
        return ((np.array(labels) - self.mean_) / self.scale_).astype(np.float32)

    @override
    def _make_head(self, width: int, weights: Tensor | None) -> Head:
        return RegressionHead(width, 1, self.head_)

    @override
    def _decode_labels(self, decisions: list[Any]) -> npt.NDArray[np.float64]:
        return self.mean_ + self.scale_ * np.array(decisions, np.float64)

    @override
    def _metrics(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        from graphattn.models.training.metrics import regression_metrics

        return regression_metrics(np.array(labels), self._decode_labels(decisions), weights)

    @override
    def _metric_names(self) -> list[str]:
        return ["pearson", "spearman", "r2"]  # the largest is the best; r2 chooses the smallest squared error

    @override
    def _class_weights(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        return None

    @override
    def _hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any]) -> Hint | None:
        return None

    # -- using ---------------------------------------------------------------------------------------------------------

    @override
    def report(
        self,
        X: Iterable[Any],
        y: Iterable[Any] | None = None,
        *,
        unknown: str = "wrong",
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        examples = self._evaluation_set(X, y, unknown)
        decisions = self._predict_columns(examples.columns)
        gold, predicted = np.array(examples.labels), self._decode_labels(decisions)
        return Report(
            self._metrics(examples.labels, decisions),
            self.main_metric,
            interval=bootstrap_correlation(gold, predicted),
            ranges=_compare_ranges(gold, predicted),
            find_mistakes=partial(_list_errors, examples, predicted),
        )

    @override
    def target(
        self, inputs: EncodedInputs, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        from graphattn.models.inspection.attributions.targets import Value

        if label is not None or word is not None:
            name = "label" if word is None else "word"
            raise ConfigError(f"{{{name}}} is not for a model that {self.description}; leave it out", options=(name,))
        return Value(self.mean_, self.scale_)

    @override
    def _describe_prediction(self, inputs: EncodedInputs, scores: Tensor) -> tuple[str, Any, Any]:
        title = " / ".join(" ".join(sentence.words) for sentence in inputs.single.values())
        return title, round(self.mean_ + self.scale_ * float(scores[0, 0]), 6), {}

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), "mean": float, "scale": float}

    @override
    def _extra_config(self) -> dict[str, Any]:
        return {"mean": self.mean_, "scale": self.scale_}

    @override
    @classmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        regressor = super()._from_files(files)
        regressor.mean_, regressor.scale_ = files.config["mean"], files.config["scale"]
        return regressor


@register_task
class PairRegressor(TextRegressor):
    """Predict a number for each pair of texts, such as their similarity; both go through the same encoder.

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, parsing, preset, warm_start : as for :class:`TextRegressor`
    """

    task, corpus_kind = "regress-pair", "pair"
    description = "predicts a number for pairs of texts"
    texts_per_input = 2
    unused_options = TextRegressor.unused_options - {"pair_features", "join_pairs"}

    @override
    def _make_head(self, width: int, weights: Tensor | None) -> Head:
        if self.joins_pairs:
            return super()._make_head(width, weights)
        return PairRegressionHead(width, 1, self.head_)


def parse_number(label: Any, *, index: int | None = None, path: str | None = None, line: int | None = None) -> float:
    """A target as a number.

    Parameters
    ----------
    label : a number, or its text in a file
    index, path, line : where it is, for errors

    Raises
    ------
    DataError
        when it is no number, not finite, or too large

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
    edges = np.unique(np.quantile(gold, np.linspace(0, 1, _RANGES + 1)))
    numbers = np.clip(np.searchsorted(edges, gold, side="right") - 1, 0, len(edges) - 2)
    rows = {}
    for number in np.unique(numbers).tolist():
        inside = numbers == number
        errors = predicted[inside] - gold[inside]
        means = {"gold": gold[inside], "predicted": predicted[inside], "mse": errors**2}
        name = f"{edges[number]:g} to {edges[number + 1]:g}"
        rows[name] = {**{key: float(values.mean()) for key, values in means.items()}, "support": int(inside.sum())}
    return rows


def _list_errors(examples: Examples, predicted: npt.NDArray[np.float64]) -> list[dict[str, Any]]:
    """Texts with target, prediction and error."""
    names = ("text", "second")[: len(examples.columns)]
    rows = []
    for number, (gold, value) in enumerate(zip(examples.labels, predicted.tolist(), strict=True)):
        texts = {name: as_text(column[number]) for name, column in zip(names, examples.columns, strict=True)}
        numbers = {"gold": gold, "predicted": round(value, 6), "error": round(value - gold, 6)}
        rows.append({**texts, **numbers})
    return rows
