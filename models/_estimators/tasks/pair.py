"""Classification and regression of pairs of texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from typing_extensions import override

from graphattn.models._estimators.tasks.classify import Classification
from graphattn.models._estimators.tasks.regress import Regression
from graphattn.models.heads import Head, PairHead, PairRegressionHead


class PairClassification(Classification):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3)."""

    name = corpus_kind = "pair"
    description = "classifies pairs of texts"
    texts_per_input = 2
    _one_label_hint = "A pair has one."

    @override
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        if self.joins_pairs:
            return super().make_head(width, options, weights)
        return PairHead(
            width,
            len(self.labels),
            options["head"],
            class_weights=weights,
            label_smoothing=options["training"].label_smoothing,
        )


class PairRegression(Regression):
    """Predict a number for each pair of texts; both go through the same encoder."""

    name, corpus_kind = "regress-pair", "pair"
    description = "predicts a number for pairs of texts"
    texts_per_input = 2

    @override
    def make_head(self, width: int, options: Mapping[str, Any], weights: Tensor | None) -> Head:
        if self.joins_pairs:
            return super().make_head(width, options, weights)
        return PairRegressionHead(width, 1, options["head"])
