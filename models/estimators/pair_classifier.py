"""The pair classifier: two texts in, the class of their relation out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from graphattn.models.encoders import EncoderOptions
from graphattn.models.estimators.inputs import Columns, pair_columns
from graphattn.models.estimators.text_classifier import TextClassifier
from graphattn.models.heads import Head, PairHead
from graphattn.models.options import HeadOptions, InputOptions, TrainingOptions


class PairClassifier(TextClassifier):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3).

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, class_weight : as for :class:`TextClassifier`
    """

    task = "pair"

    def __init__(
        self,
        encoder: str | EncoderOptions = "ms-trans",
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
    ):
        super().__init__(encoder, inputs=inputs, head=head, training=training, class_weight=class_weight)

    @property
    def multilabel(self) -> bool:
        """A pair has one class."""
        return False

    @multilabel.setter
    def multilabel(self, value: bool) -> None:
        assert not value

    def _columns(self, X: Iterable[Any]) -> Columns:
        return pair_columns(X)

    def _make_head(self, width: int, weights: torch.Tensor | None) -> Head:
        return PairHead(
            width,
            len(self.labels_),
            self.head_,
            class_weights=weights,
            label_smoothing=self.training_.label_smoothing,
        )

    def _extra_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _extra_arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        return {}
