"""What inspection asks of a model and its task: attention weights, what attributions explain, and the prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._schema import TOKEN
from graphattn.exceptions import ConfigError, DataError
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._estimators.label_set import find_respellings, plain_label
from graphattn.models._results.numbers import shorten
from graphattn.models._text_model import TextModel
from graphattn.models.heads._ngrams import NgramBranch

if TYPE_CHECKING:
    import pandas as pd

    from graphattn.models.inspection._branch_scores import BranchScores
    from graphattn.models.inspection._capture import ForwardCapture
    from graphattn.models.inspection.attributions._targets import ExplanationTarget


class Explainer(ABC):
    """Explains the predictions of a model."""

    def __init__(self, model: Any):
        self.model = model

    def check_input(self, inputs: Corpus) -> None:
        """Reject an input without tokens."""
        if not inputs.first_batch.graph.num_nodes(TOKEN):
            raise DataError("the text has no words, so there is no attention", hint="Give a text with words.")

    def capture(self, batch: Batch, *, features: bool = False) -> ForwardCapture:
        """Run the model on a batch and keep its attention weights.

        Parameters
        ----------
        batch : with targets for a translator
        features : also keep the weights by feature of an encoder that has them (MTSA)

        Raises
        ------
        DataError
            when there are more weights than :data:`graphattn.models.inspection.limits.MOST_WEIGHTS`
        """
        from graphattn.models.inspection._capture import capture_scores

        return capture_scores(self.model, batch, features=features)

    @abstractmethod
    def choose_target(
        self, inputs: Corpus, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        """The quantity that attributions explain for one input.

        Parameters
        ----------
        inputs : the input
        scores : its (items, classes) scores
        label : a class; the predicted one when None
        word : a word of a tagger's input or of a translator's output; all words when None

        Raises
        ------
        ConfigError
            when there is no such class or word
        """

    @abstractmethod
    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        """Title, prediction and probabilities of an :class:`~graphattn.models.inspection.Attention`."""

    def score_branches(
        self, inputs: Corpus, scores: Tensor, target: ExplanationTarget | None = None
    ) -> BranchScores | None:
        """How much of the score each branch of the model gives; None without a linear branch.

        Parameters
        ----------
        inputs : one input
        scores : its (items, classes) scores
        target : what is explained; the prediction when None
        """
        linear = linear_scores(self.model, inputs.first_batch)
        if linear is None or not len(scores):
            return None
        target = self.choose_target(inputs, scores) if target is None else target
        return target.divide(scores, linear)

    def score_branches_of_texts(self, batch: Batch, scores: Tensor) -> list[BranchScores]:
        """As :meth:`score_branches` of the predictions for a batch, with a number for each text, or word, in order.

        There is one result for all texts, or one for each where a text has several items. No result without a linear
        branch.
        """
        return []

    def score_copies(
        self,
        batch: Batch,
        *,
        vectors: Tensor | None = None,
        presence: Tensor | None = None,
        hidden: pd.DataFrame | None = None,
    ) -> Tensor:
        """(copies, items, classes) scores of a batch of copies of one input.

        ``vectors`` are (N, D) token vectors that replace those of the batch's ids; with them, ``presence`` is the (N,)
        share of each token in the linear branch. ``hidden`` are decoder edges to mask, with the columns copy, source
        and target.
        """
        model = self.model
        if vectors is None:
            rows = model(batch)
        else:
            encoded = model.head(model.encoder(batch.graph, vectors), batch.graph, batch.cells)
            rows = model.add_linear_scores(encoded, batch, presence)
        scores: Tensor = rows.unflatten(0, (batch.size, -1))
        return scores


def linear_scores(model: Any, batch: Batch) -> dict[str, Tensor] | None:
    """Name of features -> (items, classes) scores that a model's linear branch gives them; None without a branch.

    Columns beside a text have names with its values, such as ``priority=high``, those of several texts without.
    """
    from graphattn.models.inspection._branch_scores import NGRAMS, WORD_FEATURES

    if not isinstance(model, TextModel) or model.linear_branch is None:
        return None
    total = to_device(model.linear_branch(batch), model.device)
    if model.head.per_word:
        return {WORD_FEATURES: total}
    if batch.cells is None:
        return {NGRAMS: total}
    head, branch = model.head, model.linear_branch
    assert head.columns is not None and isinstance(branch, NgramBranch)
    columns = head.columns.columns
    names = columns.show(batch.cells[0].tolist()) if batch.size == 1 else columns.names
    parts = to_device(branch.score_columns(batch), model.device)
    return {NGRAMS: total - parts.sum(1), **dict(zip(names, parts.unbind(1), strict=True))}


class ClassExplainer(Explainer):
    """Explains the scores of classes; ``decode`` makes labels of decisions.

    Without a label, ``explains_decision`` explains what the head decides; else the class with the largest score.
    """

    def __init__(
        self,
        model: Any,
        classes: Sequence[Any],
        decode: Callable[[list[Any]], Any],
        *,
        explains_decision: bool = False,
    ):
        super().__init__(model)
        self.classes, self.decode, self.explains_decision = classes, decode, explains_decision

    @override
    def choose_target(
        self, inputs: Corpus, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        from graphattn.models.inspection.attributions._targets import select_class

        predicted = self._decide(scores, inputs.first_batch)
        label = find_respellings([label], self.classes).get(label, label)
        return select_class(self.model.head, self.classes, scores, predicted=predicted, label=label, word=word)

    @override
    def score_branches_of_texts(self, batch: Batch, scores: Tensor) -> list[BranchScores]:
        from graphattn.models.inspection.attributions._targets import select_class

        head, linear = self.model.head, linear_scores(self.model, batch)
        if linear is None:
            return []
        counts = head.items(batch.graph).tolist() if head.per_word else [len(scores)]
        parts = [
            dict(zip(linear, of_text, strict=True))
            for of_text in zip(*(part.split(counts) for part in linear.values()), strict=True)
        ]
        divided = [
            select_class(head, self.classes, rows, predicted=self._decide(rows, batch)).divide(rows, of_text)
            for rows, of_text in zip(scores.split(counts), parts, strict=True)
            if len(rows)
        ]
        return [branches for branches in divided if branches is not None]

    def _decide(self, scores: Tensor, batch: Batch) -> list[int] | None:
        """The class of each item that the head decides for; None to explain the class with the largest score."""
        return self.model.head.decide(scores, batch.graph).tolist() if self.explains_decision else None

    @override
    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        head, graph = self.model.head, inputs.first_batch.graph
        decisions = head.decide(scores, graph).cpu().numpy()
        rows = head.probabilities(scores, graph).cpu().numpy().tolist()
        label = self.decode([decisions if head.per_word else decisions[0]])[0]
        probabilities = [dict(zip(self.classes, row, strict=True)) for row in rows]
        return inputs.title, plain_label(label), tuple(probabilities) if head.per_word else probabilities[0]


class NumberExplainer(Explainer):
    """Explains predicted numbers; ``mean`` and ``scale`` are those of the targets of the training set."""

    def __init__(self, model: Any, mean: float, scale: float, description: str):
        super().__init__(model)
        self.mean, self.scale, self.description = mean, scale, description

    @override
    def choose_target(
        self, inputs: Corpus, scores: Tensor, *, label: Any = None, word: int | None = None
    ) -> ExplanationTarget:
        from graphattn.models.inspection.attributions._targets import Value

        if label is not None or word is not None:
            name = "label" if word is None else "word"
            raise ConfigError(f"{{{name}}} is not for a model that {self.description}; leave it out", options=(name,))
        return Value(self.mean, self.scale)

    @override
    def score_branches_of_texts(self, batch: Batch, scores: Tensor) -> list[BranchScores]:
        from graphattn.models.inspection.attributions._targets import Value

        linear = linear_scores(self.model, batch)
        return [] if linear is None else [Value(self.mean, self.scale).divide(scores, linear)]

    @override
    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        return inputs.title, shorten(self.mean + self.scale * float(scores[0, 0]), self.scale), {}
