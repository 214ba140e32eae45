"""Regressors: predict a number for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn.builders.readers._cells import parse_cell_columns
from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.estimator import Estimator
from graphattn.models._estimators.loading import register_task
from graphattn.models._estimators.state import PresetOptions, list_arguments, text_columns_option
from graphattn.models._estimators.tasks.regress import PairRegression, Regression
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import ParsingOptions


@dataclass
class RegressorOptions(PresetOptions):
    """Arguments of regressors besides their groups of options."""

    feature_columns: tuple[str, ...] = text_columns_option()

    @override
    def check(self) -> None:
        super().check()
        parse_cell_columns(self.feature_columns, typed=True)


class Regressor(Estimator):
    """The arguments, and mean and deviation of the targets, of the estimators that predict numbers."""

    task_: Regression

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        preset: str = "default",
        feature_columns: Sequence[str] = (),
        warm_start: bool = False,
    ):
        super().__init__(**list_arguments(locals()))

    @property
    def mean_(self) -> float:
        """The mean of the training set's targets."""
        return float(self.task_.labels.mean)

    @property
    def scale_(self) -> float:
        """The standard deviation of the training set's targets."""
        return float(self.task_.labels.scale)


@register_task
class TextRegressor(Regressor):
    """Predict a number for each text: the head of :class:`TextClassifier` with one output and a squared error.

    Inputs are texts, lists of words, :class:`Sentence` or :class:`Example`; targets are numbers, in files the label.
    The model learns (target - mean) / standard deviation of the training set; predictions are in the targets' units.

    Parameters
    ----------
    encoder : a name such as ``"ms-trans"`` (all: ``graphattn.models._encoders.ENCODERS``), or an encoder's options
    pretrained : a Hugging Face directory or a name on the hub, or options with it
    inputs, head, training : options; None for the defaults
    parsing : the parser of texts without heads, for encoders that use dependency arcs; None for no parser
    preset : ``"paper"`` for the papers' settings, without linear branch
    feature_columns : as for :class:`TextClassifier`
    warm_start : whether ``fit`` continues from the fitted model, if there is one; its mean and deviation remain

    Examples
    --------
    >>> from graphattn.models import TrainingOptions
    >>> regressor = TextRegressor(training=TrainingOptions(epochs=10, learning_rate=1e-3, dev_fraction=0))
    >>> texts = ["a good film", "a bad film", "the plot is good", "the plot is bad"] * 8
    >>> good, bad = regressor.fit(texts, [4.5, 1, 4, 1.5] * 8).predict(["the film is good", "a bad plot"])
    >>> bool(good > bad)
    True
    """

    task = Regression
    option_groups: ClassVar = {**Estimator.option_groups, "task": RegressorOptions}
    unused_options = frozenset(
        {"crf", "word_pieces", "predicate_embedding", "pair_features", "label_smoothing", "join_pairs", "contrastive"}
    )

    @override
    def predict(self, X: Iterable[Any]) -> npt.NDArray[np.float64]:
        """(S,) numbers."""
        numbers: npt.NDArray[np.float64] = super().predict(X)
        return numbers


@register_task
class PairRegressor(Regressor):
    """Predict a number for each pair of texts, such as their similarity; both go through the same encoder.

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, parsing, pretrained, preset, feature_columns, warm_start : as for
        :class:`TextRegressor`
    """

    task = PairRegression
    option_groups: ClassVar = {**Estimator.option_groups, "task": RegressorOptions}
    unused_options = TextRegressor.unused_options - {"pair_features", "join_pairs"}
