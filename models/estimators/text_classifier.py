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
from graphattn.models.estimators.class_weights import class_weights
from graphattn.models.estimators.inputs import Columns, as_list, resolve_labels, single_column
from graphattn.models.estimators.labels import LabelSet
from graphattn.models.estimators.prediction import encode_corpus
from graphattn.models.heads import ClassificationHead, Head
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.saving import ModelFiles


class TextClassifier(TextEstimator):
    """Classify texts (MS-Trans, section 3.4).

    Inputs are texts, lists of words, :class:`Sentence` or :class:`Example`; labels are class names or numbers, or
    with ``multilabel`` a collection of them for each text, or a matrix of 0 and 1, (texts, classes), as scikit-learn's
    tools want it: classes are the numbers of its columns then, and predictions are such a matrix too.

    Parameters
    ----------
    encoder : a name such as ``"ms-trans"`` (all: ``graphattn.models.encoders.ENCODERS``), or an encoder's options
    inputs, head, training : options; None for the defaults
    class_weight : None, ``"balanced"``, or class -> weight; with ``multilabel`` that of the texts with the class
        against those without, which ``"balanced"`` makes equal in sum
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
        return "micro_f1" if self._several else "accuracy"

    @property
    def _several(self) -> bool:
        """Whether a text may have several classes: as the model was fitted, else as it will be."""
        return getattr(self, "multilabel_", self.multilabel)

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
        return encode_corpus(self.model_, self._corpus(self._columns(as_list(X))))

    def _columns(self, X: Iterable[Any]) -> Columns:
        return single_column(X, type(self).__name__)

    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        if self._several and _is_matrix(y):
            matrix = _indicators(y)
            resolve_labels(X, matrix, "label")
            return _Rows([tuple(np.flatnonzero(row).tolist()) for row in matrix], matrix.shape[1])
        labels = resolve_labels(X, y, "label")
        if not self._several:
            return [_single(label) for label in labels]
        if y is None and any(isinstance(label, tuple) for label in labels):  # JSON Lines may have "x" beside ["x", "y"]
            labels = [(label,) if isinstance(label, str) else label for label in labels]
        collected = [_collected(label) for label in labels]
        if {*collected} == {(0, 1), (1, 0)}:
            raise DataError("labels look like the rows of a matrix of 0 and 1", hint="Give numpy.array(y).")
        return collected

    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return [label for several in labels for label in several] if self._several else labels

    def _resolve_options(self) -> None:
        super()._resolve_options()
        self.multilabel_ = self.multilabel

    def _fit_labels(self, labels: Sequence[Any]) -> LabelSet:
        self.indicators_ = isinstance(labels, _Rows)
        if isinstance(labels, _Rows):
            return LabelSet(range(labels.columns))
        return LabelSet.of(self._flat_labels(labels), least=1 if self._several else 2)

    def _strata(self, labels: Sequence[Any]) -> npt.NDArray | None:
        return None if self._several else self.labels_.ids(labels)

    def _targets(self, labels: Sequence[Any], columns: Columns, where: str) -> npt.NDArray:
        if not self._several:
            return self.labels_.ids(labels, where=where)
        self._check_width(labels, where)
        targets = np.zeros((len(labels), len(self.labels_)), dtype=np.float32)
        rows = np.repeat(np.arange(len(labels)), [len(several) for several in labels])
        targets[rows, self.labels_.ids(self._flat_labels(labels), where=where)] = 1
        return targets

    def _make_head(self, width: int, weights: torch.Tensor | None) -> Head:
        return ClassificationHead(
            width,
            len(self.labels_),
            self.head_,
            multilabel=self._several,
            class_weights=weights,
            label_smoothing=self.training_.label_smoothing,
        )

    def _metrics(self, labels: Sequence[Any], decisions: list[Any]) -> dict[str, float]:
        from graphattn.models.training.metrics import classification_metrics, multilabel_metrics

        if self._several:
            from sklearn.preprocessing import MultiLabelBinarizer

            self._check_width(labels, "evaluation set")
            extra = sorted({*self._flat_labels(labels)} - {*self.labels_.classes}, key=repr)  # known to be wrong
            binary = MultiLabelBinarizer(classes=[*self.labels_.classes, *extra]).fit(labels)
            return multilabel_metrics(binary.transform(labels), binary.transform(self._names(decisions)))
        numbers = {label: number for number, label in enumerate(self.labels_.classes)}
        gold = [numbers.setdefault(label, len(numbers)) for label in labels]
        return classification_metrics(gold, [int(decided) for decided in decisions])

    def _class_weights(self, labels: Sequence[Any]) -> torch.Tensor | None:
        texts = len(labels) if self._several else None
        return class_weights(self.class_weight, self.labels_, self._flat_labels(labels), texts)

    def _metric_names(self) -> list[str]:
        from graphattn.models.training.metrics import classification_metrics, multilabel_metrics

        one = np.ones((1, 1), int)
        return list(multilabel_metrics(one, one) if self._several else classification_metrics(one[0], one[0]))

    def _check_width(self, labels: Sequence[Any], where: str) -> None:
        """A matrix made anew from other labels has other columns, which would pass for these."""
        if isinstance(labels, _Rows) and labels.columns != len(self.labels_):
            columns = f"{labels.columns} columns, the model {len(self.labels_)} classes"
            raise DataError(
                f"the matrix of the {where}'s labels has {columns}",
                hint="Give a column for each class, in the order of classes_.",
            )

    def _decided(self, decisions: list[Any]) -> Any:
        if not self._several:
            return self.classes_[np.array(decisions, dtype=np.int64)]
        if self.indicators_:
            return np.array(decisions, dtype=np.int64).reshape(-1, len(self.classes_))
        return self._names(decisions)

    def _named(self, decisions: list[Any]) -> Any:
        return self._names(decisions) if self._several else self._decided(decisions)

    def _names(self, decisions: list[Any]) -> list[tuple[Any, ...]]:
        """The classes of each text."""
        return [tuple(self.classes_[row.astype(bool)].tolist()) for row in decisions]

    def _extra_config(self) -> dict[str, Any]:
        return {"multilabel": self._several, "indicators": self.indicators_}

    @classmethod
    def _from_files(cls, files: ModelFiles) -> TextClassifier:
        classifier = super()._from_files(files)
        classifier.indicators_ = files.config.get("indicators", False)
        return classifier

    @classmethod
    def _extra_arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        return {"multilabel": config["multilabel"]}


class _Rows(list[tuple[int, ...]]):
    """The classes of each text, read off a matrix of so many columns."""

    def __init__(self, rows: Iterable[tuple[int, ...]], columns: int):
        super().__init__(rows)
        self.columns = columns


def _is_matrix(y: Any) -> bool:
    """Whether labels are an array of two dimensions, sparse ones too, and not one of names."""
    if len(getattr(y, "shape", ())) != 2 or hasattr(y, "columns"):
        return False
    return not (isinstance(y, np.ndarray) and y.size and isinstance(y.flat[0], str))


def _indicators(y: Any) -> npt.NDArray:
    """A matrix of 0 and 1 as an array."""
    matrix = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
    if matrix.dtype.kind not in "biuf" or not np.isin(matrix, (0, 1)).all():
        raise DataError(
            "a matrix of labels holds other values than 0 and 1",
            hint="Give a 1 for each class that a text has, or a list of tuples with the names of its classes.",
        )
    return matrix


def _single(label: Any) -> Any:
    if getattr(label, "ndim", None) == 0 and hasattr(label, "item"):
        return label.item()  # a number of NumPy's or PyTorch's
    if getattr(label, "ndim", 0) == 1 and len(label) == 1:
        raise DataError(f"label {label!r} is an array", hint="Give labels in one dimension: y.ravel().")
    if isinstance(label, (tuple, list, set, dict)) or hasattr(label, "ndim"):
        raise DataError(f"label {label!r} is a collection", hint="Use TextClassifier(multilabel=True).")
    return label


def _collected(label: Any) -> tuple[Any, ...]:
    if isinstance(label, str) or not isinstance(label, Iterable):
        raise DataError(f"label {label!r} is no collection", hint="Give a tuple of class names for each text.")
    classes = [_single(one) for one in label]
    if len(set(classes)) < len(classes) and set(classes) <= {0, 1}:
        raise DataError(f"label {label!r} looks like a row of a matrix of 0 and 1", hint="Give numpy.array(y).")
    return tuple(dict.fromkeys(classes))
