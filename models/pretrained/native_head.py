"""Heads in the form that ``transformers`` gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graphattn.models.heads import ClassificationHead, Head, PairHead, RegressionHead, TaggingHead
from graphattn.models.pretrained.architecture import FAMILIES
from graphattn.models.pretrained.export import NativeHead
from graphattn.models.pretrained.stack import StackedEncoder
from graphattn.models.text_model import TextModel

_PREFIXES = {
    **{name: name for name in ("bert", "distilbert", "electra", "mpnet")},
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert"), "roberta"),
}
"""Families whose heads can be linear -> prefix of the encoder's tensors beside a head."""
_TANH, _RELU = 2, 1
_CLASSIFIERS: Mapping[str, tuple[str, str, int]] = {
    "bert": ("bert.pooler.dense", "classifier", _TANH),
    "distilbert": ("pre_classifier", "classifier", _RELU),
    "electra": ("classifier.dense", "classifier.out_proj", _RELU),  # GELU
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "mpnet"), ("classifier.dense", "classifier.out_proj", _TANH)
    ),
}
"""Family -> the two layers of its classifiers, and the slope of a(x) - a(-x) at 0 for the activation between them."""
_SCALE = 2.0**-13
"""Scores times this are small enough for tanh to be linear to seven digits."""


def find_missing_layers(model: TextModel, family: str) -> list[str]:
    """What the classifiers and taggers of ``transformers`` lack of a model on a pretrained encoder."""
    encoder, head, embedding = model.encoder, model.head, model.embedding
    upper = encoder.upper if isinstance(encoder, StackedEncoder) else None
    missing = {
        f"the encoder on top ({type(upper).__name__})": upper is not None,
        "features of characters": embedding.characters is not None,
        "features of suffixes and names": embedding.lexicon is not None,
        "marks of predicates": embedding.predicate is not None,
        "the linear branch": model.wide is not None,
        f"a linear head ({family})": family not in _PREFIXES,
    }
    if isinstance(head, TaggingHead):
        missing["the conditional random field"] = head.crf is not None
        missing["the mean of a word's tokens"] = head.options.word_pieces == "mean"
    if isinstance(head, ClassificationHead):
        missing["a regressor's head"] = isinstance(head, RegressionHead)
        missing["a head on two texts apart"] = isinstance(head, PairHead)
        missing[f"a head on {head.pooling} instead of cls"] = head.pooling != "cls"
        missing["a head with a hidden layer"] = head.options.head_hidden != 0
        missing["a head with so many classes"] = 2 * head.output.out_features > encoder.width
    return [name for name, lacks in missing.items() if lacks]


def convert_head(head: Head, family: str, labels: Sequence[Any]) -> NativeHead:
    """A linear head of a model without missing layers.

    Parameters
    ----------
    head : of the tokens or of ``[CLS]``
    family : of the pretrained encoder
    labels : classes, by id
    """
    names = [label if isinstance(label, str) else json.dumps(label) for label in labels]
    config: dict[str, Any] = {
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
    }
    task = "TokenClassification"
    layers: dict[str, tuple[Tensor, Tensor]] = {"classifier": (head.output.weight, head.output.bias)}
    note = "The tag of a word is that of its first token; tags of entities are BIOES."
    if isinstance(head, ClassificationHead):
        task, note = "SequenceClassification", "Its two layers compute one; to train further, begin with the encoder."
        config["problem_type"] = f"{'multi' if head.multilabel else 'single'}_label_classification"
        inner, outer, slope = _CLASSIFIERS[family]
        layers = dict(zip((inner, outer), _through_activation(head.output, slope), strict=True))
    config["architectures"] = [FAMILIES[family].model.removesuffix("Model") + f"For{task}"]
    tensors: dict[str, Tensor] = {}
    for name, (weight, bias) in layers.items():
        tensors |= {f"{name}.weight": weight.detach().cpu().clone(), f"{name}.bias": bias.detach().cpu().clone()}
    return NativeHead(task, _PREFIXES[family], tensors, config, note)


def _through_activation(output: nn.Linear, slope: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A linear layer as two layers with an activation a between them: x = (a(s x) - a(-s x)) / (slope s).

    This is exact for ReLU and GELU, and for tanh up to a relative error of (s x)^2 / 3.
    """
    classes, width = output.weight.shape
    weight, bias = output.weight.detach().float().cpu(), output.bias.detach().float().cpu()
    pad = torch.zeros(width - 2 * classes, width + 1)
    inner = _SCALE * torch.cat([weight, bias.unsqueeze(1)], 1)
    inner = torch.cat([inner, -inner, pad])
    unit = torch.eye(classes) / (_SCALE * slope)
    outer = torch.cat([unit, -unit, torch.zeros(classes, width - 2 * classes)], 1)
    return (inner[:, :-1], inner[:, -1]), (outer, torch.zeros(classes))
