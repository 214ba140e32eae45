"""What a task makes of a model's scores: the head itself, decisions, and probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from torch import Tensor
from typing_extensions import override

from graphattn.models._corpus import Corpus
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.text_inputs import TextInputs
from graphattn.models._files.saving import ModelFiles
from graphattn.models._prediction import Predictions, predict_corpus
from graphattn.models._text_model import TextModel, Trainable
from graphattn.models.heads import ClassificationHead, Head
from graphattn.models.training._decisions import ScoredTexts


class Predictor:
    """Makes the model of a task, and decides with its scores.

    Attributes
    ----------
    calibrates : whether :meth:`fit_decisions` needs the scores of a dev set
    temperature : what the scores were divided by after training
    thresholds : (classes,) the probability above which each class is decided; None for the most probable one, or 0.5
    changed_thresholds : whether they were set after training, so that earlier results are not theirs
    """

    calibrates: ClassVar[bool] = False
    temperature = 1.0
    thresholds: tuple[float, ...] | None = None
    changed_thresholds = False

    def fit(self, labels: Sequence[Any], previous: Self | None = None) -> None:
        """Reject labels of the training set that decisions cannot be fitted to.

        ``previous`` is the head of the model to continue from, if any.
        """

    @abstractmethod
    def make_model(
        self, inputs: TextInputs, encoder: EncoderOptions, options: Mapping[str, Any], weights: Tensor | None = None
    ) -> tuple[Trainable, EncoderOptions]:
        """Create the model, with the builder of the inputs; return also the encoder's options for their width.

        ``weights`` are those of the classes in the loss.
        """

    def fit_decisions(
        self,
        model: Any,
        corpus: Corpus,
        dev: ScoredTexts | None,
        *,
        cross_validate: Callable[[], ScoredTexts] | None,
        log: Callable[[str], None],
    ) -> list[Any] | None:
        """Fit what turns scores into probabilities and labels, on a dev set or by cross-validation.

        Parameters
        ----------
        model, corpus : the trained model, and the training set
        dev : scores of the dev set, if there is one
        cross_validate : trains models on folds of the training set, and returns its scores; None if ``dev`` has these
        log : prints a line

        Returns
        -------
        New decisions for the dev set; None if they are the same, or there is none
        """
        return None

    @property
    def has_requested_thresholds(self) -> bool:
        """Whether thresholds are those that the user asked for, which may give nearly all texts the same class."""
        return False

    def predict_dev_set(self, model: Any, corpus: Corpus) -> list[Any]:
        """Predict the dev set during training; :meth:`measure` takes the results."""
        return self.predict(model, corpus)

    @abstractmethod
    def predict(self, model: Any, corpus: Corpus) -> list[Any]:
        """Predict a corpus; :meth:`Labels.measure` and :meth:`Labels.decode` take the results."""

    def predict_for_report(self, model: Any, corpus: Corpus) -> Predictions:
        """Predict a corpus for :meth:`report`."""
        return Predictions(self.predict(model, corpus))

    def to_config(self) -> dict[str, Any]:
        """Values for ``config.json`` besides the options."""
        return {}

    def restore(self, files: ModelFiles) -> None:
        """Restore what :meth:`fit_decisions` learnt, except for thresholds, which need the model."""


class ScorePredictor(Predictor):
    """Makes a model of inputs, encoder and head, whose scores decide."""

    @abstractmethod
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        """Create the layers that give scores; ``weights`` are those of the classes in the loss."""

    @override
    def make_model(
        self, inputs: TextInputs, encoder: EncoderOptions, options: Mapping[str, Any], weights: Tensor | None = None
    ) -> tuple[Trainable, EncoderOptions]:
        layers = inputs.make_layers(encoder, options["head"].head_dropout)
        head = self.make_head(layers.encoder.width, options, weights)
        if inputs.text_columns is not None:
            assert isinstance(head, ClassificationHead)
            head.add_columns(inputs.text_columns)
        model = TextModel(layers.embedding, layers.encoder, head)
        model.learning_rates = layers.learning_rates
        return model, layers.options

    @override
    def predict(self, model: Any, corpus: Corpus) -> list[Any]:
        return predict_corpus(model, corpus).decisions


def joins_pairs(options: Mapping[str, Any]) -> bool:
    """Whether a model of pairs reads both texts as one sequence."""
    pretrained = options["pretrained"]
    return bool(pretrained.pretrained and pretrained.join_pairs)
