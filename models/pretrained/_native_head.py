"""Heads in the form that ``transformers`` gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from graphattn.builders._pretrained_vocabulary import PretrainedVocabulary
from graphattn.exceptions import ConfigError, GraphAttnWarning, warn_caller
from graphattn.models._estimators.state import EstimatorState
from graphattn.models._files.dense_model import list_own_layers
from graphattn.models._results.class_probabilities import name_class
from graphattn.models._text_model import TextModel
from graphattn.models.heads import Head
from graphattn.models.pretrained._architecture import FAMILIES, Architecture
from graphattn.models.pretrained._export import EXACT, LINEAR_TANH, HeadPlace, NativeHead, split_layer
from graphattn.models.pretrained._model import PretrainedModel
from graphattn.models.pretrained._stack import StackedEncoder, find_pretrained
from graphattn.models.pretrained._transformers_architecture import AnyArchitecture

_PREFIXES = {
    **{name: name for name in ("bert", "distilbert", "electra", "mpnet")},
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "roberta"),
}
"""Families whose heads can be linear -> prefix of the encoder's tensors beside a head."""
_CLASSIFIERS: Mapping[str, tuple[str, str, float]] = {
    "bert": ("bert.pooler.dense", "classifier", LINEAR_TANH),
    "distilbert": ("pre_classifier", "classifier", EXACT),
    "electra": ("classifier.dense", "classifier.out_proj", EXACT),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "mpnet"), ("classifier.dense", "classifier.out_proj", LINEAR_TANH)
    ),
}
"""Family -> the two layers of its classifiers, and the factor of scores between them."""


def export_estimator(estimator: EstimatorState, directory: str | Path, *, encoder_only: bool) -> None:
    """Write the pretrained model of an estimator, with its head unless ``encoder_only``.

    What ``transformers`` lacks of the model is an error before anything is written, or else is left out.
    """
    lower, missing = check_native(estimator, encoder_only=encoder_only)
    model, head, vocabulary = estimator.model_, None, estimator.vocabulary_
    assert isinstance(vocabulary, PretrainedVocabulary)
    if not encoder_only:
        place = find_head_place(lower.architecture, model.head)
        assert place is not None
        head = convert_head(model.head, place, np.asarray(estimator.task_.labels.classes).tolist())
        _warn_of_losses(directory, estimator)
    lower.to_huggingface(
        directory,
        embedding=model.embedding.trained,
        vocabulary=vocabulary,
        head=head,
        missing=missing or (["the head"] if encoder_only else []),
    )


def check_native(estimator: EstimatorState, *, encoder_only: bool) -> tuple[PretrainedModel, list[str]]:
    """The pretrained encoder of an estimator, and the parts that ``transformers`` lacks.

    An error says why it has no form in ``transformers``, or lists what is lacking unless only the encoder is written.
    """
    model, task = estimator.model_, estimator.task_
    if not isinstance(model, TextModel):
        raise ConfigError(f"a model that {task.description} has no form in transformers; use its save")
    lower = find_pretrained(model.encoder)
    if lower is None:
        raise ConfigError(
            "the model is not built on a pretrained one; train with {pretrained}", options=("pretrained",)
        )
    lower.check_native()
    missing = find_missing_layers(model, lower.architecture)
    if missing and not encoder_only:
        raise ConfigError(
            f"transformers lacks parts of this model: {', '.join(missing)}. {{encoder_only=True}} leaves out all but "
            "the tuned encoder and its tokenizer",
            options=("encoder_only",),
        )
    return lower, missing


def _warn_of_losses(directory: str | Path, estimator: EstimatorState) -> None:
    """Warn of settings of a model with a head that ``transformers`` does not apply."""
    options = [name for name in ("strip_html", "max_tokens_per_text") if getattr(estimator.inputs_, name, None)]
    lost = [f"{{{name}}}" for name in options]
    lost += ["thresholds"] if estimator.task_.head.thresholds is not None else []
    if lost:
        warn_caller(GraphAttnWarning(f"{directory} has no {', '.join(lost)}: apply them yourself", options=options))


def find_missing_layers(model: TextModel, architecture: AnyArchitecture) -> list[str]:
    """List the parts of a model that the classifiers and taggers of ``transformers`` lack."""
    encoder, head = model.encoder, model.head
    upper = encoder.upper if isinstance(encoder, StackedEncoder) else None
    missing = {f"the encoder on top ({type(upper).__name__})": upper is not None, **list_own_layers(model)}
    if not head.per_word:
        missing["a regressor's head"] = head.is_regression
        missing[f"a head on {head.pooling} instead of cls"] = head.pooling != "cls"
        missing["a head with a hidden layer"] = head.options.head_hidden != 0
        missing["a head with so many classes"] = 2 * head.output.out_features > encoder.width
    names = [name for name, lacks in missing.items() if lacks]
    is_own = isinstance(architecture, Architecture)
    if (is_own or not names) and find_head_place(architecture, head) is None:
        names.append(f"a linear head ({architecture.family})")
    return names


def find_head_place(architecture: AnyArchitecture, head: Head) -> HeadPlace | None:
    """The layers of ``transformers`` for a head, if they can be linear."""
    family, task = architecture.family, _name_task(head)
    if not isinstance(architecture, Architecture):
        from graphattn.models.pretrained._transformers_heads import find_place

        return find_place(architecture, task, head.output.out_features)
    if family not in _PREFIXES:
        return None
    name = FAMILIES[family].model.removesuffix("Model") + f"For{task}"
    *layers, scale = ("classifier", EXACT) if head.per_word else _CLASSIFIERS[family]
    return HeadPlace(_PREFIXES[family], tuple(map(str, layers)), float(scale), name)


def _name_task(head: Head) -> str:
    return "TokenClassification" if head.per_word else "SequenceClassification"


def convert_head(head: Head, place: HeadPlace, labels: Sequence[Any]) -> NativeHead:
    """A linear head of a model without missing layers."""
    names = list(map(name_class, labels))
    config: dict[str, Any] = {
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }
    note = "The tag of a word is that of its first token; tags of entities are BIOES."
    if not head.per_word:
        note = "Its two layers compute one; to train further, begin with the encoder." if len(place.layers) == 2 else ""
        config["problem_type"] = f"{'multi' if head.multilabel else 'single'}_label_classification"
    config["architectures"] = [place.model]
    layers: list[tuple[Tensor, Tensor]] = [(head.output.weight, head.output.bias)]
    if len(place.layers) == 2:
        layers = split_layer(head.output, place.scale)
    tensors: dict[str, Tensor] = {}
    for name, (weight, bias) in zip(place.layers, layers, strict=True):
        tensors |= {f"{name}.weight": weight.detach().cpu().clone(), f"{name}.bias": bias.detach().cpu().clone()}
    return NativeHead(_name_task(head), place.prefix, tensors, config, note)
