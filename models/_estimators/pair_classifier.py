"""The pair classifier: predicts a class for two texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from graphattn.models._encoders import EncoderOptions
from graphattn.models._estimators.estimator import PRESET_HELP, PRESETS, Estimator
from graphattn.models._estimators.loading import register_task
from graphattn.models._estimators.tasks.pair import PairClassification
from graphattn.models._estimators.text_classifier import ClassScores
from graphattn.models._options import HeadOptions, InputOptions, TrainingOptions
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.options import Options, ParsingOptions, option


@dataclass
class PairOptions(Options):
    """Arguments of :class:`PairClassifier` besides its groups of options."""

    preset: str = option("default", PRESET_HELP, choices=PRESETS, common=True)
    class_weight: str | None = option(None, "give rare classes more weight in the loss", choices=("balanced",))


@register_task
class PairClassifier(ClassScores, Estimator):
    """Classify pairs of texts; both go through the same encoder (MS-Trans, section 4.3).

    Inputs are pairs of texts or :class:`Example` with ``second``.

    Parameters
    ----------
    encoder, inputs, head, training, class_weight, parsing, pretrained, preset, warm_start : as for
        :class:`TextClassifier`
    """

    task = PairClassification
    option_groups: ClassVar = {**Estimator.option_groups, "task": PairOptions}
    unused_options = frozenset({"crf", "word_pieces", "predicate_embedding"})

    def __init__(
        self,
        encoder: str | EncoderOptions | None = None,
        *,
        inputs: InputOptions | None = None,
        head: HeadOptions | None = None,
        training: TrainingOptions | None = None,
        class_weight: str | Mapping[Any, float] | None = None,
        parsing: ParsingOptions | None = None,
        pretrained: PretrainedOptions | str | None = None,
        preset: str = "default",
        warm_start: bool = False,
    ):
        super().__init__(
            encoder,
            inputs=inputs,
            head=head,
            training=training,
            class_weight=class_weight,
            parsing=parsing,
            pretrained=pretrained,
            preset=preset,
            warm_start=warm_start,
        )
