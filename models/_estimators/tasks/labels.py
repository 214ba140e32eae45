"""What a task does with labels: targets for a model, labels from its decisions, metrics and reports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn.builders import Example, Sentence
from graphattn.exceptions import DataError, GraphAttnWarning, Hint, UnknownLabelError, warn_caller
from graphattn.models._estimators.class_weights import class_weights
from graphattn.models._estimators.label_set import LabelSet, find_respellings
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._files.saving import ModelFiles
from graphattn.models._prediction import Predictions
from graphattn.models._results.class_probabilities import ClassProbabilities
from graphattn.models._results.coverage import Coverage
from graphattn.models._results.reports import Outcomes, Report
from graphattn.models._results.significance import compare_models
from graphattn.models.training._hints import hint_at_invisible_ends, hint_at_single_class

if TYPE_CHECKING:
    from graphattn.builders.store import Store


class Labels:
    """Labels of a task: as targets, as they follow from decisions, in metrics and in reports.

    Attributes
    ----------
    field : attribute of an ``Example`` or ``Sentence`` with its label
    weighted_metrics : whether examples can have weights in metrics
    score_metric : the metric of ``score``; the main one when None
    class_weight : weights of classes in the loss
    predicted_field : key of a prediction in a row of output
    """

    field: ClassVar[str] = "label"
    weighted_metrics: ClassVar[bool] = True
    score_metric: ClassVar[str | None] = None
    predicted_field: str = "label"
    class_weight: Mapping[Any, float] | str | None = None

    @property
    def classes(self) -> list[Any]:
        """The classes in the order of their ids; empty for labels that are no classes."""
        return []

    @property
    def rescale(self) -> tuple[float, float]:
        """Mean and unit of predictions, whose model learns standardized ones."""
        return 0.0, 1.0

    # -- from users and files ------------------------------------------------------------------------------------------

    @abstractmethod
    def resolve(self, X: Any, y: Iterable[Any] | None) -> Sequence[Any]:
        """One label per input; the inputs' own when ``y`` is None."""

    def normalize(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        """Convert labels of a dev or evaluation set to the training set's notation."""
        return labels

    def check_item(self, item: Example | Sentence, path: str, line: int) -> None:
        """Reject a label in a line of a file."""

    def check_stored(self, store: Store, path: Path) -> None:
        """Reject a store without labels."""
        self.check_read(store.texts().column(self.field), path)

    def check_read(self, labels: Sequence[Any], path: Path) -> None:
        """Reject a corpus with unlabelled texts."""
        missing = next((number for number, label in enumerate(labels, 1) if label is None), None)
        if missing is not None:
            hint = "Label every text, or delete those without labels."
            raise DataError(f"text {missing} has no {self.field}", path=path, hint=hint)

    def check_file(self, labels: Sequence[Any], path: Path) -> None:
        """Reject a file whose labels the task cannot use."""
        self.check_read(labels, path)

    # -- in training ---------------------------------------------------------------------------------------------------

    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Self | None = None) -> None:
        """Learn from the labels of the training set (classes, scale, scheme); reject examples that cannot be used.

        ``previous`` are the labels of the model to continue from, if any.
        """

    def list_hints(self, labels: Sequence[Any], previous: Self | None = None) -> Iterable[Hint | None]:
        """Hints at labels of the training set that are probably mistakes."""
        return ()

    def stratify(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        """(S,) class ids for a stratified split; None for a random one."""
        return None

    def weigh_classes(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        """The weight of each class in the loss; ``weights`` are those of the examples."""
        return None

    @abstractmethod
    def make_targets(self, labels: Sequence[Any], where: str) -> Any:
        """Labels as targets of a :class:`~graphattn.models._corpus.Corpus`."""

    def check_known(self, texts: Texts, inputs: TextInputs, *, unknown: str | None) -> None:
        """Reject labels that cannot be evaluated."""

    def describe_references(self, held_out: Texts | None) -> str | None:
        """A digest of the labels of a dev set, if its corpus does not contain them."""
        return None

    def match_classes(self, previous: Self) -> list[int]:
        """The new id of each class of the model to continue from."""
        return []

    # -- decisions and metrics -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def main_metric(self) -> str:
        """The metric of ``score``, which chooses the best epoch unless ``training.metric`` names another."""

    @abstractmethod
    def list_metrics(self) -> Sequence[str]:
        """The names of the metrics that can choose the best epoch, whose largest value is the best."""

    @abstractmethod
    def measure(
        self, labels: Sequence[Any], decisions: list[Any], weights: npt.NDArray[np.float64] | None = None
    ) -> dict[str, float]:
        """Metrics, those of :meth:`list_metrics` in percent.

        ``weights`` are those of the examples, unless ``weighted_metrics`` is False.
        """

    @abstractmethod
    def decode(self, decisions: list[Any]) -> Any:
        """Convert decisions to the labels of ``predict``."""

    def hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any], *, has_vectors: bool) -> Hint | None:
        """A hint if the decisions for the dev set are all alike or empty."""
        return None

    @abstractmethod
    def report(
        self,
        examples: Texts,
        predictions: Predictions,
        *,
        inputs: TextInputs,
        rerun: Callable[..., Predictions],
        others: Mapping[str, Any] | None = None,
    ) -> Report:
        """Metrics, outcomes and mistakes of predictions; ``rerun`` predicts texts again."""

    def read_predictions(self, predictions: Iterable[Any], size: int) -> Sequence[Any]:
        """Predictions of another model for ``size`` inputs, in the notation of the training set's labels."""
        return self.normalize(self.resolve(range(size), predictions), "other model's predictions")

    # -- saving --------------------------------------------------------------------------------------------------------

    def to_config(self) -> dict[str, Any]:
        """Values for ``config.json`` besides the options."""
        return {}

    def restore(self, files: ModelFiles) -> None:
        """Restore what :meth:`fit` learnt."""


class ClassLabels(Labels):
    """Labels that are classes, of texts or of words; ``label_set`` are those of the training set."""

    label_set: LabelSet

    def __init__(self, class_weight: Mapping[Any, float] | str | None = None):
        self.class_weight = class_weight

    @property
    @override
    def classes(self) -> list[Any]:
        return self.label_set.classes

    @property
    def class_array(self) -> npt.NDArray[Any]:
        """The classes as an array."""
        return np.asarray(self.classes)

    @override
    def normalize(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        return self.normalize_unicode(labels, self.classes)

    @override
    def read_predictions(self, predictions: Iterable[Any], size: int) -> Sequence[Any]:
        read = super().read_predictions(predictions, size)
        names = dict.fromkeys(self.list_names(read))
        self.label_set.reject_other_types(names, "other model's predictions")
        if names and _name_types(names).isdisjoint(_name_types(self.classes)):
            problem = f"no prediction of the other model is a label of this one: {', '.join(map(str, [*names][:3]))}"
            raise DataError(problem, hint="Give predictions of the same labels, spelled alike.")
        return read

    def normalize_unicode(self, labels: Sequence[Any], known: Iterable[Any] = ()) -> Sequence[Any]:
        """Labels whose names have one Unicode form each: the known one, or the first.

        Without known ones, a hint says that there are several.
        """
        respellings = find_respellings(dict.fromkeys(self.list_names(labels)), known)
        if not respellings:
            return labels
        if not known:
            example = next(iter(respellings.values()))
            warn_caller(
                Hint(
                    f"{self.field.removesuffix('s')}s such as {example!r} are written in several Unicode forms; "
                    "all are read as the form that occurs first"  # without counts, so that folds repeat one warning
                )
            )
        return [self.rename_label(label, respellings) for label in labels]

    def list_names(self, labels: Sequence[Any]) -> Iterable[Any]:
        """The names in labels, each as often as it occurs."""
        return labels

    def rename_label(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        """A label in which names have other spellings."""
        return respellings.get(label, label)

    @abstractmethod
    def collect_classes(self, labels: Sequence[Any], known: Sequence[Any]) -> LabelSet:
        """The classes of the training set, and the known ones of the model to continue from."""

    @override
    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Self | None = None) -> None:
        self.label_set = self.collect_classes(examples.labels, [] if previous is None else previous.classes)
        if hint := hint_at_invisible_ends(self.classes):
            warn_caller(hint)

    @override
    def stratify(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return self.label_set.ids(labels)

    @override
    def weigh_classes(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        return class_weights(self.class_weight, self.label_set, self.list_names(labels), weights)

    @override
    def check_known(self, texts: Texts, inputs: TextInputs, *, unknown: str | None) -> None:
        try:
            self.make_targets(texts.labels, "evaluation set")
        except UnknownLabelError as error:
            if unknown == "error":
                raise
            if unknown is None and error.count == error.total:  # probably another column, or labels of another corpus
                error.hint = f"{error.hint} No label here is known; {{unknown=wrong}} counts all as wrong."
                error.options += ("unknown",)
                raise
            advice = error.alternative or "{unknown=error} rejects them"
            message = f"{error.message} ({error.count:,} in all); these count as wrong. {advice}"
            warn_caller(GraphAttnWarning(message, options=("unknown", *error.options)))

    @override
    def match_classes(self, previous: Self) -> list[int]:
        ids: list[int] = self.label_set.ids(previous.classes).tolist()
        return ids

    # -- decisions and metrics -----------------------------------------------------------------------------------------

    def decode_for_reports(self, decisions: list[Any]) -> Any:
        """Convert decisions to labels for reports."""
        return self.decode(decisions)

    def make_hashable(self, labels: Iterable[Any]) -> list[Any]:
        """The class of each item, hashable."""
        return list(labels)

    @override
    def hint_at_predictions(self, labels: Sequence[Any], decisions: list[Any], *, has_vectors: bool) -> Hint | None:
        gold, predicted = self.make_hashable(labels), self.make_hashable(self.decode_for_reports(decisions))
        return hint_at_single_class(gold, predicted, has_vectors=has_vectors)

    @override
    def report(
        self,
        examples: Texts,
        predictions: Predictions,
        *,
        inputs: TextInputs,
        rerun: Callable[..., Predictions],
        others: Mapping[str, Any] | None = None,
    ) -> Report:
        labels, decisions = examples.labels, predictions.decisions
        predicted = self.decode_for_reports(decisions)
        outcomes = self.compare(labels, predicted)
        find_mistakes = partial(self.find_mistakes, examples.select(outcomes.wrong_inputs), inputs, rerun)
        sides = {name: self.read_predictions(theirs, len(labels)) for name, theirs in (others or {}).items()}
        sums = {name: self.compare(labels, theirs).sums for name, theirs in sides.items()}
        return Report(
            self.measure(labels, decisions),
            self.main_metric,
            outcomes,
            probabilities=self.compare_probabilities(labels, predictions),
            coverage=self.measure_coverage(labels, predictions),
            find_mistakes=find_mistakes,
            measure=partial(measure_inputs, self, labels, decisions),
            comparisons=compare_models(self.main_metric, outcomes.sums, sums),
            find_disagreements=partial(self.find_disagreements, examples, inputs, {"predicted": predicted, **sides}),
        )

    def compare_probabilities(self, labels: Sequence[Any], predictions: Predictions) -> ClassProbabilities | None:
        """Probabilities of texts next to the labels; None if words have labels."""
        return None

    def measure_coverage(self, labels: Sequence[Any], predictions: Predictions) -> Coverage | None:
        """How many texts are right from a confidence on; None if texts have several labels, or words have them."""
        return None

    @abstractmethod
    def compare(self, labels: Sequence[Any], predicted: Sequence[Any]) -> Outcomes:
        """Compare predicted labels with the gold ones."""

    @abstractmethod
    def find_disagreements(
        self, examples: Texts, inputs: TextInputs, predicted: Mapping[str, Sequence[Any]]
    ) -> list[dict[str, Any]]:
        """Rows of :attr:`Report.disagreements`; ``predicted`` are the labels of each model."""

    @abstractmethod
    def find_mistakes(
        self, examples: Texts, inputs: TextInputs, rerun: Callable[..., Predictions]
    ) -> list[dict[str, Any]]:
        """Predict examples again; rows of the wrong decisions, see :attr:`Report.mistakes`."""

    @override
    def restore(self, files: ModelFiles) -> None:
        self.label_set = LabelSet(files.labels)


def measure_inputs(
    labels: Labels, gold: Sequence[Any], decisions: Sequence[Any], numbers: Sequence[int]
) -> dict[str, float]:
    """The metrics of the inputs with these numbers."""
    return labels.measure([gold[number] for number in numbers], [decisions[number] for number in numbers])


def _name_types(labels: Iterable[Any]) -> set[str]:
    """Labels as text; of tags such as B-PER only the type."""
    return {str(label).rpartition("-")[2] for label in labels}
