"""Classifiers: predict one or several classes of a text, or a class of a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn._validation import require_choice, require_range
from graphattn.builders.readers._cells import parse_cell_columns
from graphattn.exceptions import ConfigError, verbatim
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.inputs import as_list
from graphattn.models._estimators.loading import register_task
from graphattn.models._estimators.state import PresetOptions, list_arguments, preset_option, text_columns_option
from graphattn.models._estimators.tasks.classify import Classification, PairClassification
from graphattn.models._estimators.tasks.labels import ClassLabels
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models._results.class_probabilities import name_class
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.models.training._decisions import METRICS
from graphattn.models.training._threshold_goals import ThresholdGoals
from graphattn.options import ParsingOptions, option


@dataclass
class WeightedOptions(PresetOptions):
    """Arguments of estimators whose classes have weights, besides their groups of options."""

    class_weight: Mapping[str, float] | str | None = option(
        None, "weights of classes in the loss, such as spam=5; balanced: by how rare they are"
    )

    @override
    def check(self) -> None:
        if isinstance(self.class_weight, str):
            require_choice("class_weight", self.class_weight, ("balanced",))


@dataclass
class PairOptions(WeightedOptions):
    """Arguments of :class:`PairClassifier` besides its groups of options."""

    tune_threshold: str | None = option(
        None,
        "choose the probability above which the rarer of two classes is predicted, or each of several labels, on the "
        "dev set, or by cross-validation if that is small: for f1, balanced_accuracy, matthews_corrcoef or accuracy; "
        "for a wanted precision=0.95 or recall=0.9, also of one class, spam:precision=0.95; or for costs of mistakes, "
        "GOLD:PREDICTED=COST such as ham:spam=10,spam:ham=1 (default: f1 for several labels)",
    )
    feature_columns: tuple[str, ...] = text_columns_option()

    @override
    def check(self) -> None:
        super().check()
        parse_cell_columns(self.feature_columns, typed=True)
        try:
            if self.tune_threshold is not None:
                ThresholdGoals.parse(self.tune_threshold)
        except ValueError:
            raise ConfigError(
                f"{{tune_threshold}} is {verbatim(repr(self.tune_threshold))}; choose one of: {', '.join(METRICS)}; or "
                "write precision=0.95, recall=0.9, CLASS:precision=0.95, or costs such as ham:spam=10,spam:ham=1",
                options=("tune_threshold",),
            ) from None


@dataclass
class ClassifierOptions(PairOptions):
    """Arguments of :class:`TextClassifier` besides its groups of options."""

    preset: str = preset_option(Classification.presets)
    multilabel: bool = option(False, "a text may have several labels, or none", common=True)


class Classes(Estimator):
    """The classes of the fitted model, for the estimators that predict some."""

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes, in the order of their ids."""
        labels = self.task_.labels
        assert isinstance(labels, ClassLabels)
        return labels.class_array


class ClassScores(Classes):
    """Probabilities and scores of the classes, for the estimators that predict classes."""

    task_: Classification

    def predict_proba(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) probabilities, columns as in ``classes_``; with ``multilabel`` they are independent."""
        rows = self.predict_details(X, probabilities=True).probabilities
        return np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)

    def decision_function(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) scores, as in scikit-learn of shape (S,) for two classes: then the log-odds of the second one."""
        rows = self.predict_details(X, scores=True).scores
        scores = np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)
        if len(self.classes_) == 2 and not self.task_.labels.multilabel:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict_rows(
        self,
        X: Sequence[Any],
        *,
        probabilities: bool = False,
        top_k: int | None = None,
        min_confidence: float | None = None,
        threshold: float | Mapping[Any, float] | None = None,
    ) -> list[dict[str, Any]]:
        """Predictions as rows of JSON, each with its input, as ``graphattn predict`` prints them.

        Parameters
        ----------
        X : the inputs
        probabilities : add the probability of each class
        top_k : add ``top``, the probabilities of this many classes, the most probable one first
        min_confidence : add ``confidence``, the label's probability; the label is None if it is lower
        threshold : as for :meth:`set_thresholds`, for these predictions alone

        Raises
        ------
        ConfigError
            for more classes than the model has, or a ``min_confidence`` of several labels
        """
        classes = self.classes_.tolist()
        if top_k is not None:
            require_range("top_k", top_k, min=1, max=len(classes))
        if min_confidence is not None:
            require_range("min_confidence", min_confidence, min=0, max=1)
        self.task_.require_single_labels(min_confidence=min_confidence)
        head, needs_shares = self.task_.head, probabilities or top_k is not None or min_confidence is not None
        rows: list[dict[str, Any]]
        if threshold is None:
            rows = super().predict_rows(X, probabilities=needs_shares)
        else:
            X = as_list(X, self.task_)
            shares = self.predict_proba(X)
            labels = self.task_.labels.decode(head.decide_above(shares, threshold))
            rows = self._format_rows(X, labels, *([shares] if needs_shares else []))
        for row in rows:
            shares = row["probabilities"] if probabilities else row.pop("probabilities", {})
            if min_confidence is not None:
                row["confidence"] = shares[name_class(row["label"])]
                if row["confidence"] < min_confidence:
                    row["label"] = None
            if top_k is not None:
                best = sorted(shares, key=shares.get, reverse=True)[:top_k]
                row["top"] = {name: shares[name] for name in best}
        return rows

    @property
    def temperature_(self) -> float:
        """What the scores were divided by after training, so that the loss of the dev set is the least (1: nothing)."""
        return self.task_.head.temperature

    @property
    def thresholds_(self) -> dict[Any, float]:
        """Class -> the probability above which it is predicted; empty if the most probable class is."""
        thresholds: Sequence[float] | None = self.task_.head.thresholds
        if thresholds is None and self.task_.labels.multilabel:
            thresholds = [0.5] * len(self.classes_)
        return dict(zip(self.classes_.tolist(), thresholds or (), strict=False))

    def set_thresholds(self, thresholds: float | Mapping[Any, float] | None) -> Any:
        """Change the probabilities above which classes are predicted.

        Parameters
        ----------
        thresholds : class -> probability, where other labels keep theirs, and the other one of two classes has the
            rest; a number for all of several labels; None for 0.5

        Raises
        ------
        ConfigError
            for a number that is no probability, an unknown class, or a model of more than two classes without several
            labels
        """
        self._check_fitted()
        head = self.task_.head
        head.set_thresholds(self.model_, head.resolve_thresholds(thresholds))
        head.changed_thresholds = True
        return self


@register_task
class TextClassifier(ClassScores):
    """Classify texts (MS-Trans, section 3.4).

    Inputs are texts, lists of words, :class:`Sentence` or :class:`Example`; labels are class names or numbers. With
    ``multilabel`` there is a collection of them for each text, or a (texts, classes) matrix of zeros and ones as in
    scikit-learn, in an array, frame or list; then classes are column numbers, and predictions are a matrix too.

    Parameters
    ----------
    encoder : a name such as ``"ms-trans"`` (all: ``graphattn.models._encoders.ENCODERS``), or an encoder's options
    inputs, head, training : options; None for the defaults
    class_weight : None, ``"balanced"``, or class -> weight; with ``multilabel`` the weight of texts with the class
        relative to texts without, whose sums ``"balanced"`` makes equal
    multilabel : a text may have several classes, or none
    tune_threshold : what to choose the probability for above which the rarer of two classes, or each of several labels,
        is predicted: ``"f1"``, ``"balanced_accuracy"``, ``"matthews_corrcoef"`` or ``"accuracy"``; a wanted
        ``"precision=0.95"`` or ``"recall=0.9"``, or that of one class, ``"spam:precision=0.95"``; or the costs of
        mistakes, ``"ham:spam=10,spam:ham=1"`` (gold, predicted). None for F1 of several labels, and the more probable
        one of two classes
    feature_columns : further columns of tables that are features beside the text: ``"priority:category"`` becomes a
        small embedding, with a row of its own for empty cells and new values, ``"amount:number"`` a standardized
        number, the mean for empty cells; in the linear model each has the weight of a text. Inputs are then tables,
        dictionaries, or :class:`Example` with ``cells``
    parsing : the parser of texts without heads, for encoders that use dependency arcs; None for no parser
    pretrained : a Hugging Face directory or a name on the hub, or options with it
    warm_start : whether ``fit`` continues from the fitted model, if there is one

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=10, learning_rate=1e-3, dev_fraction=0))
    >>> texts = ["a good film", "a bad film", "the plot is good", "the plot is bad"] * 8
    >>> classifier.fit(texts, ["pos", "neg"] * 16).predict(["the film is good", "a bad plot"]).tolist()
    ['pos', 'neg']
    """

    task = Classification
    option_groups: ClassVar = {**Estimator.option_groups, "task": ClassifierOptions}
    unused_options = frozenset({"crf", "word_pieces", "predicate_embedding", "pair_features", "join_pairs"})

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        preset: str = "default",
        multilabel: bool = False,
        tune_threshold: str | None = None,
        feature_columns: Sequence[str] = (),
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        warm_start: bool = False,
    ):
        super().__init__(**list_arguments(locals()))

    @override
    def predict(self, X: Iterable[Any]) -> npt.NDArray[Any] | list[tuple[Any, ...]]:
        """(S,) classes; with ``multilabel`` a tuple for each input, or a (S, C) matrix if the labels were one."""
        predicted: npt.NDArray[Any] | list[tuple[Any, ...]] = super().predict(X)
        return predicted


@register_task
class PairClassifier(ClassScores):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3).

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, class_weight, tune_threshold, feature_columns : as for :class:`TextClassifier`
    parsing, pretrained, preset, warm_start : as for :class:`TextClassifier`
    """

    task = PairClassification
    option_groups: ClassVar = {**Estimator.option_groups, "task": PairOptions}
    unused_options = frozenset({"crf", "word_pieces", "predicate_embedding"})

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        preset: str = "default",
        tune_threshold: str | None = None,
        feature_columns: Sequence[str] = (),
        warm_start: bool = False,
    ):
        super().__init__(**list_arguments(locals()))
