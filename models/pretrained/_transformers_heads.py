"""Where models of ``transformers`` keep the linear layers of a head, found out by trial."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphattn.models.pretrained._export import EXACT, LINEAR_TANH, HeadPlace, split_layer
from graphattn.models.pretrained._transformers_architecture import TransformersArchitecture, make_headed_model

_IDS = torch.tensor([[5, 9, 7, 6, 8]])
_TOLERANCE = 1e-3
"""Difference of scores that rounding, and tanh, explain, relative to the largest."""


def find_place(architecture: TransformersArchitecture, task: str, classes: int) -> HeadPlace | None:
    """The layers of the family's model for a task, such as ``TokenClassification``; None if it cannot be linear.

    A random head is put into the layers that have its shape, and its scores are compared.
    """
    names = {str(number): str(number) for number in range(classes)}
    config = {"id2label": {number: number for number in names}, "label2id": {n: int(n) for n in names}}
    if task == "SequenceClassification":
        config["problem_type"] = "single_label_classification"
    try:
        model = make_headed_model(architecture, task, config, architecture.max_length)
        with torch.no_grad():
            return _try_layers(model, task, classes, architecture.hidden)
    except Exception:  # each family fails in its own way
        return None


def _try_layers(model: Any, task: str, classes: int, width: int) -> HeadPlace | None:
    prefix = model.base_model_prefix
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear) and (not name.startswith(f"{prefix}.") or "pooler" in name)
    }
    outer = [name for name, layer in layers.items() if layer.weight.shape == (classes, width)]
    inner = [name for name, layer in layers.items() if layer.weight.shape == (width, width)]
    if len(outer) != 1 or any(layers[name].bias is None for name in outer + inner[:1]):
        return None
    head = nn.Linear(width, classes)
    base = getattr(model, prefix)
    expected = head(base(input_ids=_IDS, attention_mask=torch.ones_like(_IDS)).last_hidden_state)[0]
    if task == "SequenceClassification":
        expected = expected[0]
    choices: list[tuple[tuple[str, ...], float]] = [((outer[0],), EXACT)]
    if task == "SequenceClassification":
        choices += [((inner[0], outer[0]), scale) for scale in (EXACT, LINEAR_TANH) if len(inner) == 1]
    for names, scale in choices:
        tensors = [(head.weight, head.bias)] if len(names) == 1 else split_layer(head, scale)
        for name, (weight, bias) in zip(names, tensors, strict=True):
            layers[name].weight.copy_(weight)
            layers[name].bias.copy_(bias)
        scores: Tensor = model(input_ids=_IDS, attention_mask=torch.ones_like(_IDS)).logits[0]
        difference = (scores - expected).abs().max() / expected.abs().max()
        if scores.shape == expected.shape and difference < _TOLERANCE:
            return HeadPlace(prefix, names, scale, type(model).__name__)
    return None
