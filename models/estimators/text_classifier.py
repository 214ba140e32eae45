"""The text classifier: predicts one or several classes of a text."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from reprlib import repr as shorten
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError, verbatim
from graphattn.models.encoders import EncoderOptions
from graphattn.models.estimators.class_weights import class_weights
from graphattn.models.estimators.indicators import (
    BOTH_FORMS,
    IndicatorRows,
    as_matrix,
    find_indicators,
    is_collection,
)
from graphattn.models.estimators.inputs import as_text, input_fields, resolve_labels, single_target
from graphattn.models.estimators.labelling import PRESET_HELP, PRESETS, LabellingEstimator
from graphattn.models.estimators.labels import LabelSet, plain_label
from graphattn.models.estimators.prediction import predict_corpus
from graphattn.models.estimators.task import Examples
from graphattn.models.heads import ClassificationHead, Head
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained.options import PretrainedOptions
from graphattn.models.reports import Outcomes
from graphattn.models.saving import ModelFiles, register_task
from graphattn.options import Options, ParsingOptions, option


@dataclass
class ClassifierOptions(Options):
    """Arguments of :class:`TextClassifier` besides its groups of options."""

    preset: str = option("default", PRESET_HELP, choices=PRESETS, common=True)
    class_weight: str | None = option(None, "give rare classes more weight in the loss", choices=("balanced",))
    multilabel: bool = option(False, "a text may have several labels, or none", common=True)


@register_task
class TextClassifier(LabellingEstimator):
    """Classify texts (MS-Trans, section 3.4).

    Inputs are texts, lists of words, :class:`Sentence` or :class:`Example`; labels are class names or numbers. With
    ``multilabel`` there is a collection of them for each text, or a (texts, classes) matrix of zeros and ones as in
    scikit-learn, in an array, frame or list; then classes are column numbers, and predictions are a matrix too.

    Parameters
    ----------
    encoder : a name such as ``"ms-trans"`` (all: ``graphattn.models.encoders.ENCODERS``), or an encoder's options
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

    task = corpus_kind = "classify"
    description = "classifies texts"
    option_groups: ClassVar = {**LabellingEstimator.option_groups, "task": ClassifierOptions}
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
            warm_start=warm_start,
        )
        self.multilabel = multilabel

    @property
    @override
    def main_metric(self) -> str:
        return "micro_f1" if self._is_multilabel else "accuracy"

    @property
    def _is_multilabel(self) -> bool:
        """``multilabel`` as in the last fit, or in the next one."""
        return getattr(self, "multilabel_", self.multilabel)

    @override
    def predict(self, X: Iterable[Any]) -> npt.NDArray[Any] | list[tuple[Any, ...]]:
        """(S,) classes; with ``multilabel`` a tuple for each input, or a (S, C) matrix if the labels were one."""
        return self._decode_labels(self._run(X).decisions)

    def predict_proba(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) probabilities, columns as in ``classes_``; with ``multilabel`` they are independent."""
        rows = self._run(X, probabilities=True).probabilities
        return np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)

    def decision_function(self, X: Iterable[Any]) -> npt.NDArray[np.float32]:
        """(S, C) scores, as in scikit-learn of shape (S,) for two classes: then the log-odds of the second one."""
        rows = self._run(X, scores=True).scores
        scores = np.stack(rows) if rows else np.empty((0, len(self.classes_)), np.float32)
        if len(self.classes_) == 2 and not self._is_multilabel:
            return scores[:, 1] - scores[:, 0]
        return scores

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags(multi_label=self.multilabel)
        tags.target_tags.required = True
        return tags

    # -- reading and writing -------------------------------------------------------------------------------------------

    @override
    def read(self, paths: Sequence[str | Path], *, format: str = "auto", **options: Any) -> tuple[Any, Any]:
        items, _ = super().read(paths, format=format, **options)
        return items, self._parse_labels(items) if hasattr(self, "model_") else None

    def _parse_labels(self, items: Any) -> list[Any] | None:
        """Convert labels of a file for a model whose labels are not strings; None if they are."""
        if any(isinstance(name, str) for name in self.classes_):
            return None
        known: dict[Any, Any] = {}
        for name in self.classes_.tolist():
            known |= {str(name): name, json.dumps(name): name}
            if isinstance(name, float) and name.is_integer():
                known[str(int(name))] = name
        labels = [item.label for item in items] if isinstance(items, list) else items.texts().column("label")
        if self.multilabel:
            return [tuple(known.get(name, name) for name in names) for names in labels]
        return [known.get(label, label) for label in labels]

    @override
    def _read_file(self, path: Path, format: str, options: dict[str, Any]) -> list[Example | Sentence]:
        items = super()._read_file(path, format, {**options, **({"multilabel": True} if self.multilabel else {})})
        if self.multilabel and items and all(isinstance(item.label, str) for item in items):
            raise DataError(
                f"the label {verbatim(repr(items[0].label))} is not a list",
                path=path,
                hint="Set {label_separator}, to ',' for example.",
                options=("label_separator",),
            )
        return items

    @override
    def _check_read(self, labels: Sequence[Any], path: Path) -> None:
        super()._check_read(labels, path)
        several = next((number for number, label in enumerate(labels, 1) if isinstance(label, tuple)), None)
        if several is not None and not self.multilabel:
            raise DataError(
                f"text {several} has a list of labels", path=path, hint=self._one_label_hint, options=("multilabel",)
            )

    _one_label_hint = "Use {multilabel=True} if a text may have several."

    @override
    def _format_prediction(self, x: Any, prediction: Any) -> dict[str, Any]:
        if isinstance(prediction, tuple):
            return {**input_fields(x), "labels": list(prediction)}
        if getattr(prediction, "ndim", 0) == 1:
            return {**input_fields(x), "labels": self.classes_[prediction.astype(bool)].tolist()}
        return {**input_fields(x), "label": plain_label(prediction)}

    # -- fitting -------------------------------------------------------------------------------------------------------

    @override
    def _labels(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        if not self._is_multilabel:
            labels = resolve_labels(X, single_target(y), "label")
            return self._unify_spelling([_check_single(label) for label in labels])
        matrix = as_matrix(y)
        labels = resolve_labels(X, y if matrix is None else matrix, "label")
        indicators = find_indicators(labels) if matrix is None else _columns_of_ones(matrix)
        if indicators is not None:
            return indicators
        if y is None and any(isinstance(label, tuple) for label in labels):  # JSON Lines may mix both
            labels = [(label,) if isinstance(label, str) else label for label in labels]
        return self._unify_spelling([_unique_labels(label) for label in labels])

    @override
    def _names(self, labels: Sequence[Any]) -> Iterable[Any]:
        return chain.from_iterable(labels) if self._is_multilabel else labels

    @override
    def _respell(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        if not self._is_multilabel:
            return super()._respell(label, respellings)
        return tuple(dict.fromkeys(respellings.get(name, name) for name in label))

    @override
    def _normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        if not isinstance(labels, IndicatorRows):
            return super()._normalize_labels(labels, where)
        if self.indicators_:
            return IndicatorRows(labels, labels.columns)
        if labels.collections is not None:
            return super()._normalize_labels([_unique_labels(label) for label in labels.collections], where)
        self._check_width(labels, where)
        return [tuple(self.labels_.classes[column] for column in row) for row in labels]

    @override
    def _flat_labels(self, labels: Sequence[Any]) -> Iterable[Any]:
        return [label for several in labels for label in several] if self._is_multilabel else labels

    @override
    def _resolve_options(self) -> None:
        super()._resolve_options()
        self.multilabel_ = self.multilabel

    @override
    def _fit_labels(self, examples: Examples) -> None:
        from graphattn.models.training.hints import (
            hint_at_lists,
            hint_at_marks,
            hint_at_quantities,
            hint_at_swapped_columns,
        )

        super()._fit_labels(examples)
        labels = self._flat_labels(examples.labels)
        hints = [hint_at_quantities(self.labels_.classes) or hint_at_swapped_columns(labels), hint_at_marks(labels)]
        if not self._is_multilabel:
            hints.append(hint_at_lists(examples.labels, self.labels_.classes))
        for hint in filter(None, hints):
            warnings.warn(hint, stacklevel=4)

    @override
    def _label_set(self, labels: Sequence[Any]) -> LabelSet:
        self.indicators_ = isinstance(labels, IndicatorRows)
        if isinstance(labels, IndicatorRows):
            if labels.collections is not None:
                problem = "rows of zeros and ones may be a matrix, or the classes 0 and 1 of each text"
                raise DataError(problem, hint=BOTH_FORMS)
            return LabelSet.of([*range(labels.columns), *self._list_known_classes()], least=0)
        every = chain(self._flat_labels(labels), self._list_known_classes())
        return LabelSet.of(every, least=1 if self._is_multilabel else 2)

    @override
    def _strata(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return None if self._is_multilabel else self.labels_.ids(labels)

    @override
    def _targets(self, labels: Sequence[Any], where: str) -> npt.NDArray[Any]:
        if not self._is_multilabel:
            return self.labels_.ids(labels, where=where)
        self._check_width(labels, where)
        targets = np.zeros((len(labels), len(self.labels_)), dtype=np.float32)
        rows = np.repeat(np.arange(len(labels)), [len(several) for several in labels])
        targets[rows, self.labels_.ids(self._flat_labels(labels), where=where)] = 1
        return targets

    @override
    def _make_head(self, width: int, weights: Tensor | None) -> Head:
        return ClassificationHead(
            width,
            len(self.labels_),
            self.head_,
            multilabel=self._is_multilabel,
            class_weights=weights,
            label_smoothing=self.training_.label_smoothing,
        )

    @override
    def _metrics(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        from graphattn.models.training.metrics import classification_metrics, multilabel_metrics

        if self._is_multilabel:
            from sklearn.preprocessing import MultiLabelBinarizer

            self._check_width(labels, "evaluation set")
            extra = sorted({*self._flat_labels(labels)} - {*self.labels_.classes}, key=repr)  # count as wrong
            binary = MultiLabelBinarizer(classes=[*self.labels_.classes, *extra]).fit(labels)
            predicted = binary.transform(self._decode_sets(decisions))
            return multilabel_metrics(binary.transform(labels), predicted, weights)
        numbers = {label: number for number, label in enumerate(self.labels_.classes)}
        gold = [numbers.setdefault(label, len(numbers)) for label in labels]
        return classification_metrics(gold, [int(decided) for decided in decisions], weights)

    @override
    def _hashable_labels(self, labels: Iterable[Any]) -> list[Any]:
        return [tuple(sorted(several, key=repr)) for several in labels] if self._is_multilabel else list(labels)

    @override
    def _outcomes(self, labels: Sequence[Any], decisions: list[Any]) -> Outcomes:
        known, predicted = self.labels_.classes, self._readable_labels(decisions)
        if not self._is_multilabel:
            return Outcomes.of(zip(range(len(labels)), labels, predicted.tolist(), strict=True), len(labels), known)
        rows = (
            (number, name if name in gold else None, name if name in found else None)
            for number, (gold, found) in enumerate(zip(labels, predicted, strict=True))
            for name in dict.fromkeys((*gold, *found))
        )
        return Outcomes.of(rows, len(labels), known, keep_unused=True)

    @override
    def _find_mistakes(self, examples: Examples) -> list[dict[str, Any]]:
        run = predict_corpus(self.model_, self._corpus(examples.columns), probabilities=True)
        predicted, rows = self._readable_labels(run.decisions), []
        for number, shares in enumerate(run.probabilities or []):
            names = ("text", "second")[: len(examples.columns)]
            texts = {name: as_text(column[number]) for name, column in zip(names, examples.columns, strict=True)}
            gold, found = examples.labels[number], plain_label(predicted[number])
            by_class = dict(zip(self.labels_.classes, shares.tolist(), strict=True))
            confidence = by_class[found] if not self._is_multilabel else 0.0
            if self._is_multilabel:  # the surest wrong class; a text without it has the rest of its probability
                wrong = {name: by_class.get(name, 0.0) for name in {*gold} ^ {*found}}
                confidence = max((p if name in found else 1 - p for name, p in wrong.items()), default=0.0)
                gold, found = list(gold), list(found)
            if gold != found:
                rows.append({**texts, "gold": gold, "predicted": found, "confidence": round(confidence, 6)})
        return rows

    @override
    def _class_weights(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        if not self._is_multilabel:
            return super()._class_weights(labels, weights)
        of_texts = np.ones(len(labels)) if weights is None else weights
        of_labels = np.repeat(of_texts, [len(several) for several in labels])
        occurrences = self._flat_labels(labels)
        return class_weights(self.class_weight, self.labels_, occurrences, of_labels, texts=float(of_texts.sum()))

    @override
    def _metric_names(self) -> list[str]:
        from graphattn.models.training.metrics import classification_metrics, multilabel_metrics

        ones = np.ones((1, 1), int)
        return list(multilabel_metrics(ones, ones) if self._is_multilabel else classification_metrics(ones[0], ones[0]))

    def _check_width(self, labels: Sequence[Any], where: str) -> None:
        """Reject a matrix with another number of columns than the training set's."""
        if isinstance(labels, IndicatorRows) and labels.columns != len(self.labels_):
            columns = f"{labels.columns} columns, the model {len(self.labels_)} classes"
            raise DataError(
                f"the matrix of the {where}'s labels has {columns}",
                hint="Give a column for each class, in the order of classes_.",
            )

    @override
    def _decode_labels(self, decisions: list[Any]) -> npt.NDArray[Any] | list[tuple[Any, ...]]:
        if not self._is_multilabel:
            return self.classes_[np.array(decisions, dtype=np.int64)]
        if self.indicators_:
            return np.array(decisions, dtype=np.int64).reshape(-1, len(self.classes_))
        return self._decode_sets(decisions)

    @override
    def _readable_labels(self, decisions: list[Any]) -> Any:
        return self._decode_sets(decisions) if self._is_multilabel else self._decode_labels(decisions)

    def _decode_sets(self, decisions: list[Any]) -> list[tuple[Any, ...]]:
        """The classes of each text."""
        return [tuple(self.classes_[row.astype(bool)].tolist()) for row in decisions]

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        return {**super().config_types(), "multilabel": bool | None, "indicators": bool | None}

    @override
    def _extra_config(self) -> dict[str, Any]:
        return {"multilabel": self._is_multilabel, "indicators": self.indicators_}

    @override
    @classmethod
    def _from_files(cls, files: ModelFiles) -> Self:
        classifier = super()._from_files(files)
        classifier.indicators_ = bool(files.config.get("indicators"))
        return classifier


def _columns_of_ones(matrix: npt.NDArray[Any]) -> IndicatorRows:
    return IndicatorRows([tuple(np.flatnonzero(row).tolist()) for row in matrix], matrix.shape[1])


def _check_single(label: Any) -> Any:
    if isinstance(label, (tuple, list, Set, Mapping)) or len(getattr(label, "shape", ())) > 0:
        raise DataError(
            f"label {shorten(label)} is a collection",
            hint="Of one-hot rows give the column of the one, as np.argmax(y, axis=1) does; for texts with several "
            "labels use TextClassifier(multilabel=True).",
        )
    label = label.item() if hasattr(label, "item") else label  # of NumPy or PyTorch
    if isinstance(label, float) and math.isfinite(label) and not label.is_integer():
        hint = "Labels are classes, not quantities: round them, sort them into ranges, or use str(label)."
        raise DataError(f"the label {label!r} is a fraction, and this is classification", hint=hint)
    return label


def _unique_labels(label: Any) -> tuple[Any, ...]:
    if not is_collection(label):
        raise DataError(
            f"label {shorten(label)} is not a collection", hint="Give a tuple of class names for each text."
        )
    return tuple(dict.fromkeys(map(_check_single, label)))
