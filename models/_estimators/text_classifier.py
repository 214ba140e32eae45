"""Classifiers: predict one or several classes of a text, or a class of a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.estimator import Estimator, PresetOptions
from graphattn.models._estimators.loading import register_task
from graphattn.models._estimators.tasks.classify import Classification, PairClassification
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import ParsingOptions, option


@dataclass
class WeightedOptions(PresetOptions):
    """Arguments of estimators whose classes have weights, besides their groups of options."""

    class_weight: str | None = option(None, "give rare classes more weight in the loss", choices=("balanced",))


@dataclass
class ClassifierOptions(WeightedOptions):
    """Arguments of :class:`TextClassifier` besides its groups of options."""

    multilabel: bool = option(False, "a text may have several labels, or none", common=True)


class Classes:
    """The classes of the fitted model, for the estimators that predict some."""

    @property
    def classes_(self: Any) -> npt.NDArray[Any]:
        """The classes, in the order of their ids."""
        classes: npt.NDArray[Any] = self.task_.classes
        return classes


class ClassScores(Classes):
    """Probabilities and scores of the classes, for the estimators that predict classes."""

    def predict_proba(self: Any, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) probabilities, columns as in ``classes_``; with ``multilabel`` they are independent."""
        rows = self.predict_details(X, probabilities=True).probabilities
        return np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)

    def decision_function(self: Any, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) scores, as in scikit-learn of shape (S,) for two classes: then the log-odds of the second one."""
        rows = self.predict_details(X, scores=True).scores
        scores = np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)
        if len(self.classes_) == 2 and not self.task_.multilabel:
            return scores[:, 1] - scores[:, 0]
        return scores


@register_task
class TextClassifier(ClassScores, Estimator):
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
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        warm_start: bool = False,
    ):
        super().__init__(
            encoder,
            inputs=inputs,
            head=head,
            training=training,
            class_weight=class_weight,
            parsing=parsing,
            pretrained=pretrained,
            preset=preset,
            multilabel=multilabel,
            warm_start=warm_start,
        )

    @override
    def predict(self, X: Iterable[Any]) -> npt.NDArray[Any] | list[tuple[Any, ...]]:
        """(S,) classes; with ``multilabel`` a tuple for each input, or a (S, C) matrix if the labels were one."""
        predicted: npt.NDArray[Any] | list[tuple[Any, ...]] = super().predict(X)
        return predicted


@register_task
class PairClassifier(ClassScores, Estimator):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3).

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, class_weight, parsing, pretrained, preset, warm_start : as for
        :class:`TextClassifier`
    """

    task = PairClassification
    option_groups: ClassVar = {**Estimator.option_groups, "task": WeightedOptions}
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
        warm_start: bool = False,
    ):
        super().__init__(
            encoder,
            inputs=inputs,
            head=head,
            training=training,
            class_weight=class_weight,
            parsing=parsing,
            pretrained=pretrained,
            preset=preset,
            warm_start=warm_start,
        )
