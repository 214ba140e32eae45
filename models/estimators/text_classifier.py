"""The text classifier: a text in, a class (or several) out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphattn.exceptions import DataError
from graphattn.models.encoders import EncoderOptions
from graphattn.models.estimators.base import TextEstimator
from graphattn.models.estimators.inputs import Columns, carried_labels, listed, single_column
from graphattn.models.heads import ClassificationHead, Head
from graphattn.models.labels import LabelSet
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.prediction import encode_corpus


class TextClassifier(TextEstimator):
    """Classify texts (MS-Trans, section 3.4).

    Inputs are texts, lists of words, :class:`Sentence` or :class:`Example`; labels are class names or numbers, or
    with ``multilabel`` a collection of them for each text.

    Parameters
    ----------
    encoder : a name such as ``"ms-trans"`` (all: ``graphattn.models.encoders.ENCODERS``), or an encoder's options
    inputs, head, training : options; None for the defaults
    class_weight : None, ``"balanced"``, or class -> weight
    multilabel : a text may have several classes, or none

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> classifier = TextClassifier(training=TrainingOptions(epochs=10, learning_rate=1e-3, dev_fraction=0))
    >>> texts = ["a good film", "a bad film", "the plot is good", "the plot is bad"] * 8
    >>> classifier.fit(texts, ["pos", "neg"] * 16).predict(["the film is good", "a bad plot"]).tolist()
    ['pos', 'neg']
    """

    task = "classify"

    def __init__(
        self,
        encoder: str | EncoderOptions = "ms-trans",
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        multilabel: bool = False,
    ):
        super().__init__(encoder, inputs=inputs, head=head, training=training, class_weight=class_weight)
        self.multilabel = multilabel

    @property
    def main_metric(self) -> str:  # type: ignore[override]
        """What :meth:`score` gives and what chooses the best epoch unless told otherwise."""
        return "micro_f1" if self.multilabel else "accuracy"

    def predict_proba(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) probabilities, columns as in ``classes_``; with ``multilabel`` each for itself."""
        rows = self._run(X, probabilities=True).probabilities
        return np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=self.multilabel)
        tags.target_tags.required = True
        return tags

    def sentence_vectors(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, F) what the last layers see of each text, for scikit-learn or a search; two rows for a pair."""
        self._check_fitted()
        return encode_corpus(self.model_, self._corpus(self._columns(listed(X))))

    def _columns(self, X: Iterable[Any]) -> Columns:
        return single_column(X, type(self).__name__)

    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = carried_labels(X, y, "label")
        return [_several(label) for label in labels] if self.multilabel else [_single(label) for label in labels]

    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return [label for several in labels for label in several] if self.multilabel else labels

    def _fit_labels(self, labels: Sequence[Any]) -> LabelSet:
        return LabelSet.of(self._flat_labels(labels))

    def _strata(self, labels: Sequence[Any]) -> npt.NDArray | None:
        return None if self.multilabel else self.labels_.ids(labels)

    def _targets(self, labels: Sequence[Any], columns: Columns, where: str) -> npt.NDArray:
        if not self.multilabel:
            return self.labels_.ids(labels, where=where)
        targets = np.zeros((len(labels), len(self.labels_)), dtype=np.float32)
        rows = np.repeat(np.arange(len(labels)), [len(several) for several in labels])
        targets[rows, self.labels_.ids(self._flat_labels(labels), where=where)] = 1
        return targets

    def _make_head(self, width: int, weights: torch.Tensor | None) -> Head:
        return ClassificationHead(
            width,
            len(self.labels_),
            self.head_,
            multilabel=self.multilabel,
            class_weights=weights,
            label_smoothing=self.training_.label_smoothing,
        )

    def _metrics(self, labels: Sequence[Any], decisions: list[Any]) -> dict[str, float]:
        from graphattn.models.metrics import classification_metrics, multilabel_metrics

        if self.multilabel:
            from sklearn.preprocessing import MultiLabelBinarizer

            extra = sorted({*self._flat_labels(labels)} - {*self.labels_.classes}, key=repr)  # known to be wrong
            binary = MultiLabelBinarizer(classes=[*self.labels_.classes, *extra]).fit(labels)
            return multilabel_metrics(binary.transform(labels), binary.transform(self._decided(decisions)))
        numbers = {label: number for number, label in enumerate(self.labels_.classes)}
        gold = [numbers.setdefault(label, len(numbers)) for label in labels]
        return classification_metrics(gold, [int(decided) for decided in decisions])

    def _decided(self, decisions: list[Any]) -> Any:
        if self.multilabel:
            return [tuple(self.classes_[row.astype(bool)].tolist()) for row in decisions]
        return self.classes_[np.array(decisions, dtype=np.int64)]

    def _extra_config(self) -> dict[str, Any]:
        return {"multilabel": self.multilabel}

    @classmethod
    def _extra_arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"multilabel": config["multilabel"]}


def _single(label: Any) -> Any:
    if isinstance(label, (tuple, list, set, dict, np.ndarray)):
        raise DataError(f"label {label!r} is a collection", hint="Use TextClassifier(multilabel=True).")
    return label.item() if isinstance(label, np.generic) else label


def _several(label: Any) -> tuple[Any, ...]:
    if isinstance(label, str) or not isinstance(label, Iterable):
        raise DataError(f"label {label!r} is no collection", hint="Give a tuple of class names for each text.")
    return tuple(dict.fromkeys(_single(one) for one in label))
