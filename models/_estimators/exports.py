"""What else an estimator is written as: its model card, a plain PyTorch module, an ONNX file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from graphattn.exceptions import ConfigError
from graphattn.models._estimators.state import EstimatorState
from graphattn.models._files.dense_model import DenseModel, make_dense_model
from graphattn.models._files.model_card import add_results, format_card, set_decisions
from graphattn.models._files.onnx import write_onnx
from graphattn.models._results.reports import Report
from graphattn.models._text_model import TextModel
from graphattn.models.pretrained._stack import find_pretrained


def write_card(
    estimator: EstimatorState,
    report_dev_set: Callable[[], Report | None],
    results: Mapping[str, Report],
    corpora: Mapping[str, Sequence[str | Path]],
) -> str:
    """The model card in Markdown; of a loaded model the card that it has, with results added."""
    card = estimator.card_
    if not card:
        options, examples = estimator.changed_options(), estimator.num_examples_
        card = format_card(estimator, options, examples=examples, files=corpora, dev=report_dev_set())
    elif estimator.task_.head.changed_thresholds:
        card = set_decisions(card, estimator)
    for name, report in results.items():
        card = add_results(card, name, report)
    return card


def export_dense(estimator: EstimatorState) -> DenseModel:
    """A classifier, tagger or regressor as a plain module; a ConfigError for other models."""
    if not isinstance(estimator.model_, TextModel):
        raise ConfigError(f"a model that {estimator.task.description} cannot be exported; use a classifier or tagger")
    return make_dense_model(estimator.model_, estimator.task_.labels.rescale)


def export_onnx(estimator: EstimatorState, path: str | Path) -> None:
    """Write a classifier, tagger or regressor as an ONNX file, with its labels and thresholds."""
    model, lower, builder = export_dense(estimator), find_pretrained(estimator.model_.encoder), estimator.builder_
    limit, of_pair = estimator.text_inputs_.length_limits
    longest, special = of_pair or limit, builder.cls + builder.count_special_tokens(estimator.task.texts_per_input)
    metadata = {"labels": np.asarray(estimator.task_.labels.classes).tolist()}
    if thresholds := estimator.task_.head.thresholds:
        metadata["thresholds"] = list(thresholds)
    write_onnx(
        path,
        model,
        estimator.vocabulary_,
        segments=lower is not None and lower.architecture.types > 1,
        longest=longest and longest + special,
        metadata=metadata,
        begins_with_cls=builder.cls,
    )
