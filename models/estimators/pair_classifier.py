"""The pair classifier: predicts a class for two texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from typing_extensions import override

from graphattn.models.estimators.labelling import PRESET_HELP, PRESETS, LabellingEstimator
from graphattn.models.estimators.text_classifier import TextClassifier
from graphattn.models.heads import Head, PairHead
from graphattn.models.saving import register_task
from graphattn.options import Options, option


@dataclass
class PairOptions(Options):
    """Arguments of :class:`PairClassifier` besides its groups of options."""

    preset: str = option("default", PRESET_HELP, choices=PRESETS, common=True)
    class_weight: str | None = option(None, "give rare classes more weight in the loss", choices=("balanced",))


@register_task
class PairClassifier(TextClassifier):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3).

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, class_weight, parsing, pretrained, warm_start : as for :class:`TextClassifier`
    """

    task = corpus_kind = "pair"
    description = "classifies pairs of texts"
    texts_per_input = 2
    option_groups: ClassVar = {**TextClassifier.option_groups, "task": PairOptions}
    unused_options = frozenset({"crf", "word_pieces", "predicate_embedding"})
    _one_label_hint = "A pair has one."

    multilabel = False
    __init__ = LabellingEstimator.__init__

    @override
    def _make_head(self, width: int, weights: Tensor | None) -> Head:
        if self.joins_pairs:
            return super()._make_head(width, weights)
        return PairHead(
            width,
            len(self.labels_),
            self.head_,
            class_weights=weights,
            label_smoothing=self.training_.label_smoothing,
        )

    @override
    def _extra_config(self) -> dict[str, Any]:
        return {}
