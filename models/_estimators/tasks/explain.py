"""What inspection asks of a model and its task: attention weights, what attributions explain, and the prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import override

from graphattn._schema import TOKEN
from graphattn.exceptions import ConfigError, DataError
from graphattn.models._corpus import Batch, Corpus
from graphattn.models._estimators.label_set import find_respellings, plain_label
from graphattn.models._results.numbers import shorten
from graphattn.models._text_model import TextModel

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
        from graphattn.models.inspection._branch_scores import NGRAMS, WORD_FEATURES

        model = self.model
        if not isinstance(model, TextModel) or model.linear_branch is None or not len(scores):
            return None
        target = self.choose_target(inputs, scores) if target is None else target
        features = WORD_FEATURES if model.head.per_word else NGRAMS
        return target.divide(scores, model.linear_branch(inputs.first_batch).to(scores.device), features)

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
            encoded = model.head(model.encoder(batch.graph, vectors), batch.graph)
            rows = model.add_linear_scores(encoded, batch, presence)
        scores: Tensor = rows.unflatten(0, (batch.size, -1))
        return scores


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

        if label is None and self.explains_decision:
            label = self.classes[int(self.model.head.decide(scores, inputs.first_batch.graph)[0])]
        label = find_respellings([label], self.classes).get(label, label)
        return select_class(self.model.head, self.classes, scores, label=label, word=word)

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
    def describe_prediction(self, inputs: Corpus, scores: Tensor) -> tuple[str, Any, Any]:
        return inputs.title, shorten(self.mean + self.scale * float(scores[0, 0]), self.scale), {}
