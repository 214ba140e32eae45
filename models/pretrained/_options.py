"""Options of a pretrained Transformer in an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphattn.options import Options, option

FINE_TUNING: Mapping[str, Mapping[str, Any]] = {
    "inputs": {"level": "bpe", "word_dropout": 0.0, "characters": False},
    "head": {"linear_branch": False, "head_hidden": 0, "head_dropout": 0.1},
    "training": {
        # MiniLM on SST-2, CR and 1,500 sentences of CoNLL-2003: on the first two dev sets all rates are equal within
        # noise; entities gain five points of F1 from faster layers on top and small batches, one more from the average
        "learning_rate": 2e-3,
        "batch_size": 16,
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "clip": 1.0,
        "average": 0.995,
        "patience": None,
    },
}
"""Defaults that differ with a pretrained model: group of options -> values."""
DEFAULT_EPOCHS: Mapping[str, int] = {"visits": 30_000, "maximum": 10, "least": 640}
"""See :meth:`~graphattn.models.TrainingOptions.resolve_epochs`."""


@dataclass
class PretrainedOptions(Options):
    """A pretrained Transformer from which token vectors come."""

    pretrained: str | None = option(
        None, "Hugging Face directory of a pretrained Transformer, or its name on the hub", common=True
    )
    pretrained_heads: str = option(
        "",
        "edges of its heads: window:257|global=12, or for some layers 4-5:all=10,dependency=2 "
        "(default: as in pretraining)",
    )
    pretrained_length: int | None = option(None, "tokens of the longest text (default: as in pretraining)", min=1)
    extend_positions: str = option(
        "copy", "position vectors of longer texts: copies, or stretched", choices=("copy", "interpolate")
    )
    frozen: bool | None = option(
        None,
        "encode each text once, and fit logistic regression on the vectors (default: with few examples the best in "
        "cross-validation, else fine-tune)",
    )
    contrastive: bool | None = option(
        None, "first train the encoder so that texts of a class have similar vectors (default: as for frozen)"
    )
    tuned_layers: int | None = option(
        None, "train only this many last layers; 0 freezes the model (default: all, and the word vectors)", min=0
    )
    tuning_rate: float = option(1e-4, "maximum learning rate of the pretrained weights", above=0)
    layer_decay: float = option(0.9, "factor of the learning rate from a layer to the one below", above=0, max=1)
    gradient_checkpointing: bool = option(False, "compute states again in the backward pass, which saves memory")
    join_pairs: bool = option(True, "make one sequence of the two texts of a pair, as in pretraining")
