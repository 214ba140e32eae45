"""Classification: one class of each text, or several."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from pathlib import Path
from reprlib import repr as shorten
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from graphattn._validation import require_range
from graphattn.builders import Example, Sentence
from graphattn.builders._values import describe_value, is_missing
from graphattn.exceptions import ConfigError, DataError, GraphAttnWarning, Hint, verbatim, warn_caller
from graphattn.models._corpus import Corpus
from graphattn.models._estimators.class_weights import class_weights
from graphattn.models._estimators.indicators import (
    BOTH_FORMS,
    IndicatorRows,
    as_matrix,
    find_indicators,
    is_collection,
    list_rows,
)
from graphattn.models._estimators.inputs import resolve_labels, single_target
from graphattn.models._estimators.label_set import LabelSet, plain_label
from graphattn.models._estimators.tasks.explain import ClassExplainer, Explainer
from graphattn.models._estimators.tasks.files import CorpusFiles
from graphattn.models._estimators.tasks.head import ScorePredictor, joins_pairs
from graphattn.models._estimators.tasks.labels import ClassLabels
from graphattn.models._estimators.tasks.recipes import STAR_TRANSFORMER, Recipe
from graphattn.models._estimators.tasks.rows import ClassRows, Rows
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.tasks.text_task import TextTask
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._files.saving import ModelFiles
from graphattn.models._prediction import Predictions, predict_corpus
from graphattn.models._results.class_probabilities import ClassProbabilities, name_class
from graphattn.models._results.coverage import Coverage
from graphattn.models._results.reports import Outcomes
from graphattn.models.heads import ClassificationHead, Head, PairHead
from graphattn.models.training._decisions import (
    FOLDS,
    METRICS,
    ScoredTexts,
    calibrate,
    is_small,
    tune_thresholds,
)
from graphattn.models.training._hints import (
    hint_at_alike_classes,
    hint_at_forgotten_classes,
    hint_at_joined_names,
    hint_at_lists,
    hint_at_marks,
    hint_at_quantities,
    hint_at_single_labels,
)
from graphattn.models.training._metrics import classification_metrics, multilabel_metrics
from graphattn.models.training._threshold_goals import ThresholdGoals


class BaseTextLabels(ClassLabels):
    """What labels of texts share, whether a text has one class or several (``multilabel``).

    ``indicators`` says whether the labels of the training set were a matrix of zeros and ones.
    """

    multilabel: ClassVar[bool]
    indicators = False

    def parse(self, items: Any) -> list[Any] | None:
        """Convert labels of a file for a model whose labels are not strings; None if they are."""
        known = self._labels_by_text()
        if not known:
            return None
        labels = [item.label for item in items] if isinstance(items, list) else items.texts().column("label")
        return [self.parse_label(label, known) for label in labels]

    def _labels_by_text(self) -> dict[str, Any]:
        """Text -> the class that is written so in a file; empty if classes are strings."""
        known: dict[str, Any] = {}
        if any(isinstance(name, str) for name in self.classes):
            return known
        for name in self.class_array.tolist():
            known |= {str(name): name, json.dumps(name): name}
            if isinstance(name, float) and name.is_integer():
                known[str(int(name))] = name
        return known

    def parse_label(self, label: Any, known: Mapping[str, Any]) -> Any:
        """Convert text to the class that is written so."""
        return known.get(label, label) if isinstance(label, str) else label

    @override
    def read_predictions(self, predictions: Iterable[Any], size: int) -> Sequence[Any]:
        known = self._labels_by_text()
        if known and as_matrix(predictions) is None:
            predictions = [self.parse_label(label, known) for label in predictions]
        return super().read_predictions(predictions, size)

    @override
    def list_hints(self, labels: Sequence[Any], previous: Self | None = None) -> Iterable[Hint | None]:
        names = self.list_names(labels)
        yield hint_at_quantities(self.classes) or hint_at_single_labels(names)
        yield hint_at_marks(names)
        yield hint_at_alike_classes(names, self.classes)
        if previous is not None:
            yield hint_at_forgotten_classes(names, previous.classes)

    @override
    def compare_probabilities(self, labels: Sequence[Any], predictions: Predictions) -> ClassProbabilities | None:
        shares = predictions.probabilities
        if shares is None:
            return None
        return ClassProbabilities.of(labels, shares, self.classes, multilabel=self.multilabel)

    @override
    def find_mistakes(
        self, examples: Texts, inputs: TextInputs, rerun: Callable[..., Predictions]
    ) -> list[dict[str, Any]]:
        run = rerun(examples, probabilities=True)
        predicted, rows = self.decode_for_reports(run.decisions), []
        for number, shares in enumerate(run.probabilities or []):
            gold, found = self.as_cell(examples.labels[number]), self.as_cell(predicted[number])
            if gold != found:
                by_class = dict(zip(self.classes, shares.tolist(), strict=True))
                confidence = round(self.rate_mistake(gold, found, by_class), 6)
                rows.append({**examples.show(number), "gold": gold, "predicted": found, "confidence": confidence})
        return rows

    def rate_mistake(self, gold: Any, predicted: Any, shares: Mapping[Any, float]) -> float:
        """The probability of a wrong decision, from those of the classes."""
        return shares[predicted]

    @override
    def find_disagreements(
        self, examples: Texts, inputs: TextInputs, predicted: Mapping[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        rows = []
        for number, (gold, *sides) in enumerate(zip(examples.labels, *predicted.values(), strict=True)):
            if len({*self.make_hashable(sides)}) > 1:
                cells = dict(zip(("gold", *predicted), map(self.as_cell, (gold, *sides)), strict=True))
                rows.append({**examples.show(number), **cells})
        return rows

    def as_cell(self, label: Any) -> Any:
        """A label as a value of JSON."""
        return plain_label(label)

    @override
    def to_config(self) -> dict[str, Any]:
        return {"multilabel": self.multilabel, "indicators": self.indicators}

    @override
    def restore(self, files: ModelFiles) -> None:
        super().restore(files)
        self.indicators = files.config["indicators"]


class TextLabels(BaseTextLabels):
    """The class of each text."""

    multilabel = False
    main_metric = "accuracy"
    one_label_hint: ClassVar[str] = "Use {multilabel=True} if a text may have several."

    @override
    def check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        if isinstance(item.label, tuple):
            hint = self.one_label_hint
            raise DataError("a list of labels, not one", path=path, line=line, hint=hint, options=("multilabel",))

    @override
    def check_read(self, labels: Sequence[Any], path: Path) -> None:
        super().check_read(labels, path)
        several = next((number for number, label in enumerate(labels, 1) if isinstance(label, tuple)), None)
        if several is not None:
            problem, hint = f"text {several} has a list of labels", self.one_label_hint
            raise DataError(problem, path=path, hint=hint, options=("multilabel",))

    @override
    def resolve(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        labels = resolve_labels(X, single_target(y), "label")
        return self.normalize_unicode([_check_single(label, index) for index, label in enumerate(labels)])

    @override
    def list_hints(self, labels: Sequence[Any], previous: Self | None = None) -> Iterable[Hint | None]:
        yield from super().list_hints(labels, previous)
        yield hint_at_lists(labels, self.classes)
        yield hint_at_joined_names(labels, self.classes)

    @override
    def collect_classes(self, labels: Sequence[Any], known: Sequence[Any]) -> LabelSet:
        return LabelSet.of(chain(labels, known))

    @override
    def make_targets(self, labels: Sequence[Any], where: str) -> npt.NDArray[Any]:
        return self.label_set.ids(labels, where=where)

    @override
    def list_metrics(self) -> list[str]:
        return list(classification_metrics([1], [1]))

    @override
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        numbers = {label: number for number, label in enumerate(self.classes)}
        gold = [numbers.setdefault(label, len(numbers)) for label in labels]
        return classification_metrics(gold, [int(decided) for decided in decisions], weights)

    @override
    def compare(self, labels: Sequence[Any], predicted: Sequence[Any]) -> Outcomes:
        names = map(plain_label, predicted)
        return Outcomes.of(zip(range(len(labels)), labels, names, strict=True), len(labels), self.classes)

    @override
    def measure_coverage(self, labels: Sequence[Any], predictions: Predictions) -> Coverage | None:
        shares, decisions, classes = predictions.probabilities, predictions.decisions, self.classes
        if shares is None:
            return None
        right = [classes[decided] == gold for decided, gold in zip(decisions, labels, strict=True)]
        return Coverage.of([each[decided] for each, decided in zip(shares, decisions, strict=True)], right)

    @override
    def decode(self, decisions: list[Any]) -> npt.NDArray[Any]:
        return self.class_array[np.array(decisions, dtype=np.int64)]


class MultiLabels(BaseTextLabels):
    """The classes of each text, which may be several or none."""

    multilabel = True
    main_metric, predicted_field = "micro_f1", "labels"

    @override
    def parse_label(self, label: Any, known: Mapping[str, Any]) -> Any:
        parse = super().parse_label
        return tuple(parse(name, known) for name in label)

    @override
    def check_file(self, labels: Sequence[Any], path: Path) -> None:
        super().check_file(labels, path)
        if labels and all(isinstance(label, str) for label in labels):
            separator = max(",;|", key=lambda mark: sum(mark in label for label in labels))
            raise DataError(
                f"the label {verbatim(repr(labels[0]))} is not a list",
                path=path,
                hint=f"Set {{label_separator}}, to {separator!r} for example.",
                options=("label_separator",),
            )

    @override
    def resolve(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        matrix = as_matrix(y)
        labels = resolve_labels(X, y if matrix is None else matrix, "label")
        if matrix is not None:
            return list_rows(y, matrix)
        if (indicators := find_indicators(labels)) is not None:
            return indicators
        if y is None and any(isinstance(label, tuple) for label in labels):  # JSON Lines may mix both
            labels = [(label,) if isinstance(label, str) else label for label in labels]
        return self.normalize_unicode([_unique_labels(label, index) for index, label in enumerate(labels)])

    @override
    def list_names(self, labels: Sequence[Any]) -> Iterable[Any]:
        return list(chain.from_iterable(labels))

    @override
    def rename_label(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        return tuple(dict.fromkeys(respellings.get(name, name) for name in label))

    @override
    def normalize(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        if not isinstance(labels, IndicatorRows):
            return super().normalize(labels, where)
        if labels.collections is not None and not self.indicators:
            rows = [_unique_labels(label, index) for index, label in enumerate(labels.collections)]
            return super().normalize(rows, where)
        classes = self.classes
        columns_are_named, classes_are_named = _have_names(labels.columns), _have_names(classes)
        if columns_are_named and classes_are_named:
            if missing := [name for name in classes if name not in labels.columns]:
                problem = f"the matrix of the {where}'s labels has no column {verbatim(repr(missing[0]))}"
                raise DataError(problem, hint="Give a column for each class.")
        elif columns_are_named or classes_are_named or not self.indicators:  # columns are in the order of the classes
            self._check_width(labels, where)
            class_of = dict(zip(labels.columns, classes, strict=True))
            labels = IndicatorRows([tuple(map(class_of.__getitem__, row)) for row in labels], classes)
        return IndicatorRows(labels, labels.columns) if self.indicators else list(labels)

    @override
    def collect_classes(self, labels: Sequence[Any], known: Sequence[Any]) -> LabelSet:
        self.indicators = isinstance(labels, IndicatorRows)
        if isinstance(labels, IndicatorRows):
            if labels.collections is not None:
                problem = "rows of zeros and ones may be a matrix, or the classes 0 and 1 of each text"
                raise DataError(problem, hint=BOTH_FORMS)
            return LabelSet(list(dict.fromkeys([*known, *labels.columns])))
        return LabelSet.of(chain(self.list_names(labels), known), least=1)

    @override
    def stratify(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return None

    @override
    def make_targets(self, labels: Sequence[Any], where: str) -> npt.NDArray[Any]:
        self._check_width(labels, where)
        targets = np.zeros((len(labels), len(self.classes)), dtype=np.float32)
        rows = np.repeat(np.arange(len(labels)), [len(several) for several in labels])
        targets[rows, self.label_set.ids(self.list_names(labels), where=where)] = 1
        return targets

    @override
    def weigh_classes(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        of_texts = np.ones(len(labels)) if weights is None else weights
        of_labels = np.repeat(of_texts, [len(several) for several in labels])
        occurrences = self.list_names(labels)
        return class_weights(self.class_weight, self.label_set, occurrences, of_labels, texts=float(of_texts.sum()))

    def _check_width(self, labels: Sequence[Any], where: str) -> None:
        """Reject a matrix with another number of columns than the training set's."""
        if isinstance(labels, IndicatorRows) and len(labels.columns) != len(self.classes):
            columns = f"{len(labels.columns)} columns, the model {len(self.classes)} classes"
            raise DataError(
                f"the matrix of the {where}'s labels has {columns}",
                hint="Give a column for each class, in the order of classes_.",
            )

    @override
    def list_metrics(self) -> list[str]:
        return list(multilabel_metrics(np.ones((1, 1), int), np.ones((1, 1), int)))

    @override
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        from sklearn.preprocessing import MultiLabelBinarizer

        self._check_width(labels, "evaluation set")
        extra = sorted({*self.list_names(labels)} - {*self.classes}, key=repr)  # count as wrong
        binary = MultiLabelBinarizer(classes=[*self.classes, *extra]).fit(labels)
        predicted = binary.transform(self.decode_for_reports(decisions))
        return multilabel_metrics(binary.transform(labels), predicted, weights)

    @override
    def make_hashable(self, labels: Iterable[Any]) -> list[Any]:
        return [tuple(sorted(several, key=repr)) for several in labels]

    @override
    def compare(self, labels: Sequence[Any], predicted: Sequence[Any]) -> Outcomes:
        rows = (
            (number, name if name in gold else None, name if name in found else None)
            for number, (gold, found) in enumerate(zip(labels, predicted, strict=True))
            for name in dict.fromkeys((*gold, *found))
        )
        return Outcomes.of(rows, len(labels), self.classes, keep_unused=True)

    @override
    def rate_mistake(self, gold: Any, predicted: Any, shares: Mapping[Any, float]) -> float:
        # of the surest wrong class; a text without it has the rest of its probability
        wrong = {name: shares.get(name, 0.0) for name in {*gold} ^ {*predicted}}
        return max((share if name in predicted else 1 - share for name, share in wrong.items()), default=0.0)

    @override
    def as_cell(self, label: Any) -> Any:
        return list(label)

    @override
    def decode(self, decisions: list[Any]) -> npt.NDArray[Any] | list[tuple[Any, ...]]:
        if self.indicators:
            return np.array(decisions, dtype=np.int64).reshape(-1, len(self.classes))
        return self.decode_for_reports(decisions)

    @override
    def decode_for_reports(self, decisions: list[Any]) -> list[tuple[Any, ...]]:
        classes = self.class_array
        return [tuple(classes[row.astype(bool)].tolist()) for row in decisions]


class PairLabels(TextLabels):
    """The class of each pair of texts."""

    one_label_hint = "A pair has one."


class ClassPredictor(ScorePredictor):
    """Decides for the most probable class, or for that of two whose probability is above its threshold.

    ``tune_threshold`` is what thresholds are chosen for, see :class:`ThresholdGoals`; None for no thresholds, and for
    F1 of several labels.
    """

    calibrates = True

    def __init__(self, labels: BaseTextLabels, tune_threshold: str | None = None):
        self.labels, self.tune_threshold = labels, tune_threshold

    @override
    def fit(self, labels: Sequence[Any], previous: Self | None = None) -> None:
        if self.tune_threshold is None:
            return
        try:
            self._check_tunable(labels)
        except (ConfigError, DataError) as error:
            if previous is None or previous.tune_threshold != self.tune_threshold:
                raise
            self.tune_threshold = None  # which the model brought along
            problem = error.template.removesuffix(", so leave it out")
            message = f"{{tune_threshold}} of the model to continue from is dropped: {problem}"
            warn_caller(GraphAttnWarning(message, options=("tune_threshold",)))

    def _check_tunable(self, labels: Sequence[Any]) -> None:
        """Reject classes without thresholds, and a training set without folds to choose them on."""
        if not self.has_thresholds:
            raise ConfigError(
                "{tune_threshold} is for two classes, or several labels for a text; there are "
                f"{len(self.labels.classes)} classes, so leave it out",
                options=("tune_threshold",),
            )
        self._list_goals()  # an error for unknown classes
        strata = self.labels.stratify(labels)
        rarest = len(labels) if strata is None else np.bincount(strata, minlength=len(self.labels.classes)).min()
        if len(labels) < FOLDS or rarest < 2:
            raise DataError(
                f"thresholds need {FOLDS} training examples or more, and two of each class",
                hint="Give more, or leave {tune_threshold} out.",
                options=("tune_threshold",),
            )

    @property
    def has_thresholds(self) -> bool:
        """Whether classes have thresholds: if there are two, or texts may have several."""
        return len(self.labels.classes) == 2

    @property
    @override
    def has_requested_thresholds(self) -> bool:
        return self.tune_threshold is not None and self.thresholds is not None

    @override
    def fit_decisions(
        self,
        model: Any,
        corpus: Corpus,
        dev: ScoredTexts | None,
        *,
        cross_validate: Callable[[], ScoredTexts] | None,
        log: Callable[[str], None],
    ) -> list[Any] | None:
        if dev is not None:
            self.temperature, dev = calibrate(dev, log)
            model.scale(1 / self.temperature)
        goals = self._list_goals()
        if not goals:
            return None
        positive = self._find_positive(np.asarray(corpus.targets), goals)
        texts = dev
        is_dev_small = dev is None or is_small(dev, positive)
        if self.tune_threshold and is_dev_small and cross_validate is not None:
            log(f"thresholds: {FOLDS} models for cross-validation, since the dev set is small")
            texts = cross_validate()
        if texts is None:
            return None
        chosen = self._tune(texts, goals, positive, log)
        self.set_thresholds(model, chosen)
        if dev is None or chosen is None:
            return None
        rows = torch.from_numpy(dev.scores).to(model.device)
        return list(model.head.decide(rows, None).cpu().numpy())

    def _list_goals(self) -> dict[int, str]:
        """Number of a class -> the metric that its threshold is chosen for."""
        goals = ThresholdGoals() if self.tune_threshold is None else ThresholdGoals.parse(self.tune_threshold)
        names = [name_class(name) for name in self.labels.classes]
        metrics = goals.list_metrics(names, multilabel=self.labels.multilabel)
        return {names.index(name): metric for name, metric in metrics.items()}

    def _find_positive(self, targets: npt.NDArray[Any], goals: Mapping[int, str]) -> int | None:
        """Of two classes the one that has a goal alone, or the rarer one; None for several labels."""
        return next(iter(goals)) if len(goals) == 1 else int(np.bincount(targets, minlength=2).argmin())

    def _tune(
        self, texts: ScoredTexts, goals: Mapping[int, str], positive: int | None, log: Callable[[str], None]
    ) -> Sequence[float] | None:
        """The threshold of each class; None if all stay at 0.5."""
        assert positive is not None
        return tune_thresholds(texts, goals[positive], positive, log)

    def set_thresholds(self, model: Any, thresholds: Sequence[float] | None) -> None:
        """Decide classes whose probability is above their threshold; None for the most probable one, or for 0.5."""
        if thresholds is not None and len(thresholds) != len(self.labels.classes):
            raise ValueError(f"{len(thresholds)} thresholds for {len(self.labels.classes)} classes")
        self.thresholds = None if thresholds is None else tuple(map(float, thresholds))
        cutoffs = None if self.thresholds is None else torch.logit(torch.tensor(self.thresholds, dtype=torch.float64))
        model.head.cutoffs = None if cutoffs is None else cutoffs.float().to(model.device)

    def resolve_thresholds(self, thresholds: float | Mapping[Any, float] | None) -> list[float] | None:
        """The threshold of each class from those of some classes, or from one of all."""
        if thresholds is None:
            return None
        classes = self.labels.classes
        if not self.has_thresholds:
            problem = f"{{threshold}} is for two classes or several labels, and the model has {len(classes)} classes"
            advice = "{min_confidence} leaves out uncertain ones"
            raise ConfigError(f"{problem}; {advice}", options=("threshold", "min_confidence"))
        if not isinstance(thresholds, Mapping):
            example = f"{thresholds} for {verbatim(name_class(classes[0]))}"
            raise ConfigError(f"{{threshold}} needs a class, such as {example}", options=("threshold",))
        if len(thresholds) == 2 and not math.isclose(sum(thresholds.values()), 1):
            raise ConfigError("{threshold} of two classes must add up to 1; give one of them", options=("threshold",))
        resolved = list(self.thresholds or (0.5, 0.5))
        for number, value in self._read_thresholds(thresholds):
            resolved[number], resolved[1 - number] = value, 1 - value
        return resolved

    def _read_thresholds(self, thresholds: Mapping[Any, float]) -> Iterator[tuple[int, float]]:
        """The number and the threshold of each class that is named."""
        spelled = {name_class(name): name for name in self.labels.classes}
        for name, value in thresholds.items():
            (number,) = self.labels.label_set.ids([spelled.get(name, name)], where="threshold").tolist()
            require_range("threshold", value, min=0, max=1)
            yield number, float(value)

    def decide_above(self, shares: npt.NDArray[np.float32], thresholds: float | Mapping[Any, float]) -> list[Any]:
        """Decisions for (S, C) probabilities with other thresholds, see :meth:`resolve_thresholds`."""
        return list((shares > np.asarray(self.resolve_thresholds(thresholds)))[:, 1].astype(np.int64))

    def choose_head(self, options: Mapping[str, Any]) -> type[ClassificationHead]:
        """The class of the head."""
        return ClassificationHead

    @override
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        head = self.choose_head(options)(
            width,
            len(self.labels.classes),
            options["head"],
            multilabel=self.labels.multilabel,
            class_weights=weights,
            label_smoothing=options["training"].label_smoothing,
        )
        head.is_balanced = self.labels.class_weight == "balanced"
        return head

    @override
    def predict_for_report(self, model: Any, corpus: Corpus) -> Predictions:
        return predict_corpus(model, corpus, probabilities=True)

    @override
    def to_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        if self.tune_threshold is not None:
            config["tune_threshold"] = self.tune_threshold
        if self.temperature != 1:
            config["temperature"] = self.temperature
        if self.thresholds is not None:
            config["thresholds"] = list(self.thresholds)
        return config

    @override
    def restore(self, files: ModelFiles) -> None:
        self.temperature = files.config.get("temperature", 1.0)


class MultiLabelPredictor(ClassPredictor):
    """Decides for the classes whose probability is above their threshold."""

    has_thresholds = True

    @override
    def _find_positive(self, targets: npt.NDArray[Any], goals: Mapping[int, str]) -> None:
        return None

    @override
    def _tune(
        self, texts: ScoredTexts, goals: Mapping[int, str], positive: int | None, log: Callable[[str], None]
    ) -> Sequence[float] | None:
        groups: dict[Any, list[int]] = {}  # thresholds for the same metric are chosen together
        for number, metric in goals.items():  # wanted shares and costs are those of one class
            groups.setdefault(metric if metric in METRICS else number, []).append(number)
        thresholds = [0.5] * len(self.labels.classes)
        for numbers in groups.values():
            of_group = texts.select_classes(numbers)
            names = ", ".join(name_class(self.labels.classes[number]) for number in numbers)
            chosen = tune_thresholds(of_group, goals[numbers[0]], None, log, name=names if len(groups) > 1 else "")
            for number, threshold in zip(numbers, chosen or (), strict=False):
                thresholds[number] = threshold
        return thresholds if any(threshold != 0.5 for threshold in thresholds) else None

    @override
    def resolve_thresholds(self, thresholds: float | Mapping[Any, float] | None) -> list[float] | None:
        if thresholds is None:
            return None
        of_classes = thresholds if isinstance(thresholds, Mapping) else dict.fromkeys(self.labels.classes, thresholds)
        resolved = list(self.thresholds or [0.5] * len(self.labels.classes))
        for number, value in self._read_thresholds(of_classes):
            resolved[number] = value
        return resolved

    @override
    def decide_above(self, shares: npt.NDArray[np.float32], thresholds: float | Mapping[Any, float]) -> list[Any]:
        return list((shares > np.asarray(self.resolve_thresholds(thresholds))).astype(np.int64))


class PairPredictor(ClassPredictor):
    """Decides for pairs, whose texts are compared unless the model reads them as one sequence."""

    @override
    def choose_head(self, options: Mapping[str, Any]) -> type[ClassificationHead]:
        return ClassificationHead if joins_pairs(options) else PairHead


class Classification(TextTask):
    """Classify texts (MS-Trans, section 3.4)."""

    name = corpus_kind = "classify"
    description = "classifies texts"
    estimator_type = "classifier"
    presets: ClassVar[Mapping[str, Recipe]] = {**Task.presets, "sst-phrases": STAR_TRANSFORMER}
    can_be_frozen = has_contrastive = True
    prediction_options = Task.prediction_options | {
        "curves",
        "coverage",
        "min_accuracy",
        "min_confidence",
        "threshold",
        "top_k",
    }
    labels_type: ClassVar[type[BaseTextLabels]] = TextLabels
    head_type: ClassVar[type[ClassPredictor]] = ClassPredictor
    multilabel_types: ClassVar[tuple[type[BaseTextLabels], type[ClassPredictor]]] = MultiLabels, MultiLabelPredictor
    labels: BaseTextLabels
    head: ClassPredictor

    def __init__(
        self,
        class_weight: Mapping[Any, float] | str | None = None,
        *,
        multilabel: bool = False,
        tune_threshold: str | None = None,
        **arguments: Any,
    ):
        super().__init__(**arguments)
        labels_type, head_type = self.multilabel_types if multilabel else (self.labels_type, self.head_type)
        self.labels = labels_type(class_weight)
        self.head = head_type(self.labels, tune_threshold)

    @override
    def read(self, corpus: CorpusFiles) -> tuple[Any, Any, Mapping[str, Any]]:
        if self.labels.multilabel:
            corpus = replace(corpus, options={**corpus.options, "multilabel": True})
        items, _, training = super().read(corpus)
        return items, self.labels.parse(items) if hasattr(self.labels, "label_set") else None, training

    @property
    @override
    def rows(self) -> Rows:
        return ClassRows(self.labels.class_array.tolist())

    def require_single_labels(self, **options: Any) -> None:
        """Reject options of confidences, None if not set, where texts may have several labels."""
        for name, value in options.items():
            if value is not None and self.labels.multilabel:
                problem = f"{{{name}}} is for one label for each text; several have {{threshold}}"
                raise ConfigError(problem, options=(name, "threshold"))

    @override
    def explain(self, model: Any) -> Explainer:
        labels = self.labels
        classes = labels.class_array.tolist()
        return ClassExplainer(model, classes, labels.decode_for_reports, explains_decision=not labels.multilabel)

    @override
    @classmethod
    def config_types(cls) -> dict[str, Any]:
        decisions = {"tune_threshold": str | None, "temperature": float | None, "thresholds": list[float] | None}
        return {**super().config_types(), "multilabel": bool, "indicators": bool, **decisions}


class PairClassification(Classification):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3)."""

    name = corpus_kind = "pair"
    description = "classifies pairs of texts"
    texts_per_input = 2
    labels_type, head_type = PairLabels, PairPredictor


def _have_names(columns: Sequence[Any]) -> bool:
    """Whether columns or classes have names; they have numbers otherwise."""
    return any(isinstance(name, str) for name in columns)


def _check_single(label: Any, index: int) -> Any:
    """A class; a missing or an empty one is an error with the number of its text."""
    if is_missing(label):
        hint = "Leave this input out, or name its class."
        raise DataError(f"label {index} is {describe_value(label)}", hint=hint)
    if isinstance(label, (tuple, list, Set, Mapping)) or len(getattr(label, "shape", ())) > 0:
        raise DataError(
            f"label {shorten(label)} is a collection",
            hint="Of one-hot rows give the column of the one, as np.argmax(y, axis=1) does; for texts with several "
            "labels use TextClassifier(multilabel=True).",
        )
    label = label.item() if hasattr(label, "item") else label  # of NumPy or PyTorch
    if isinstance(label, str) and not label.strip():
        raise DataError(f"label {index} is empty", hint="Leave this input out, or name its class.")
    if isinstance(label, float) and math.isfinite(label) and not label.is_integer():
        hint = "Labels are classes, not quantities: round them, sort them into ranges, or use str(label)."
        raise DataError(f"the label {label!r} is a fraction, and this is classification", hint=hint)
    return label


def _unique_labels(label: Any, index: int) -> tuple[Any, ...]:
    """The classes of a text, without empty names."""
    if not is_collection(label):
        raise DataError(
            f"label {index}, {shorten(label)}, is not a collection", hint="Give a tuple of class names for each text."
        )
    names = (name for name in label if not isinstance(name, str) or name.strip())
    return tuple(dict.fromkeys(_check_single(name, index) for name in names))
