"""What tasks with classes have in common: class ids as targets, probabilities by class, and outcomes of each class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn.exceptions import GraphAttnWarning, Hint, UnknownLabelError, warn_caller
from graphattn.models._estimators.class_weights import class_weights
from graphattn.models._estimators.labels import LabelSet, find_respellings
from graphattn.models._estimators.tasks.explain import ClassExplainer, Explainer
from graphattn.models._estimators.tasks.task import Task
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._estimators.texts import Texts
from graphattn.models._files.saving import ModelFiles
from graphattn.models._prediction import Predictions
from graphattn.models._results.class_probabilities import ClassProbabilities
from graphattn.models._results.reports import Outcomes, Report
from graphattn.models.training._hints import hint_at_invisible_ends, hint_at_single_class

if TYPE_CHECKING:
    pass


class LabelTask(Task):
    """A task whose items have classes."""

    labels: LabelSet

    @property
    @override
    def class_names(self) -> list[Any]:
        return self.labels.classes

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The classes as an array."""
        return np.asarray(self.labels.classes)

    # -- labels --------------------------------------------------------------------------------------------------------

    @override
    def normalize_labels(self, labels: Sequence[Any], where: str) -> Sequence[Any]:
        return self.unify_spelling(labels, self.labels.classes)

    def unify_spelling(self, labels: Sequence[Any], known: Iterable[Any] = ()) -> Sequence[Any]:
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
                    f"{self.label_field.removesuffix('s')}s such as {example!r} are written in several Unicode forms; "
                    "all are read as the form that occurs first"  # without counts, so that folds repeat one warning
                )
            )
        return [self.respell(label, respellings) for label in labels]

    def list_names(self, labels: Sequence[Any]) -> Iterable[Any]:
        """The names in labels, each as often as it occurs."""
        return labels

    def respell(self, label: Any, respellings: Mapping[Any, str]) -> Any:
        """A label in which names have other spellings."""
        return respellings.get(label, label)

    @abstractmethod
    def collect_classes(self, labels: Sequence[Any], known: Sequence[Any]) -> LabelSet:
        """The classes of the training set, and the known ones of the model to continue from."""

    @override
    def fit(self, examples: Texts, options: Mapping[str, Any], previous: Any = None) -> None:
        self.labels = self.collect_classes(examples.labels, [] if previous is None else previous.labels.classes)
        if hint := hint_at_invisible_ends(self.labels.classes):
            warn_caller(hint)

    @override
    def stratify(self, labels: Sequence[Any]) -> npt.NDArray[Any] | None:
        return self.labels.ids(labels)

    @override
    def weigh_classes(self, labels: Sequence[Any], weights: npt.NDArray[np.float64] | None = None) -> Tensor | None:
        return class_weights(self.class_weight, self.labels, self.list_names(labels), weights)

    @override
    def check_labels(self, texts: Texts, inputs: TextInputs, *, unknown: str | None) -> None:
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
    def match_classes(self, previous: Any) -> list[int]:
        ids: list[int] = self.labels.ids(previous.labels.classes).tolist()
        return ids

    # -- predictions ---------------------------------------------------------------------------------------------------

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
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> Report:
        decisions = predictions.decisions
        metrics, outcomes = self.measure(examples.labels, decisions), self.compare(examples.labels, decisions)
        find_mistakes = partial(self.find_mistakes, examples.select(outcomes.wrong_inputs), inputs, rerun)
        probabilities = self.compare_probabilities(examples.labels, predictions)
        return Report(metrics, self.main_metric, outcomes, probabilities=probabilities, find_mistakes=find_mistakes)

    def compare_probabilities(self, labels: Sequence[Any], predictions: Predictions) -> ClassProbabilities | None:
        """Probabilities of texts next to the labels; None if words have labels."""
        return None

    @abstractmethod
    def compare(self, labels: Sequence[Any], decisions: list[Any]) -> Outcomes:
        """Compare decisions with labels."""

    @abstractmethod
    def find_mistakes(
        self, examples: Texts, inputs: TextInputs, rerun: Callable[..., Predictions]
    ) -> list[dict[str, Any]]:
        """Predict examples again; rows of the wrong decisions, see :attr:`Report.mistakes`."""

    @override
    def explain(self, model: Any) -> Explainer:
        return ClassExplainer(model, self.classes.tolist(), self.decode_for_reports)

    # -- saving --------------------------------------------------------------------------------------------------------

    @override
    def restore(self, inputs: TextInputs, files: ModelFiles) -> None:
        super().restore(inputs, files)
        self.labels = LabelSet(files.labels)
