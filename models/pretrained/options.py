"""Options of a pretrained Transformer in an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.models.options import InputOptions, Options, option

FINE_TUNING: Mapping[str, Mapping[str, Any]] = {
    "inputs": {"level": "bpe", "word_dropout": 0.0, "characters": False},
    "head": {"wide": False, "head_hidden": 0, "head_dropout": 0.1},
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
EPOCHS: Mapping[str, int] = {"passes": 30_000, "most": 10}
"""Epochs by default, see :meth:`~graphattn.models.TrainingOptions.resolve_epochs`."""
_WORD_OPTIONS = (
    *("level", "lowercase", "min_count", "vocabulary_size", "vectors", "vectors_words", "tune_vectors"),
    *("normalize_vectors", "combine", "embedding", "embedding_start", "embedding_dropout", "word_dropout"),
)
"""Options of the input layer that a pretrained model replaces by its own tokenizer, vectors and dropout."""


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
    tuned_layers: int | None = option(
        None, "train only this many last layers; 0 freezes the model (default: all, and the word vectors)", min=0
    )
    tuning_rate: float = option(1e-4, "maximum learning rate of the pretrained weights", above=0)
    layer_decay: float = option(0.9, "factor of the learning rate from a layer to the one below", above=0, max=1)
    gradient_checkpointing: bool = option(False, "compute states again in the backward pass, which saves memory")
    join_pairs: bool = option(True, "make one sequence of the two texts of a pair, as in pretraining")

    @override
    def check(self) -> None:
        for item in fields(self):
            if self.pretrained is None and getattr(self, item.name) != item.default:
                raise ConfigError(f"{{{item.name}}} needs {{pretrained}}", options=(item.name, "pretrained"))


def check_inputs(inputs: InputOptions) -> None:
    """Raise a ConfigError for an option of the input layer that has no effect with a pretrained model."""
    tuned = InputOptions(**FINE_TUNING["inputs"])
    for name in _WORD_OPTIONS:
        if getattr(inputs, name) not in (getattr(tuned, name), getattr(InputOptions, name)):
            raise ConfigError(
                f"{{{name}}} has no effect with {{pretrained}}, whose tokens and vectors are its own; leave it out",
                options=(name, "pretrained"),
            )


def pretrained_options(given: PretrainedOptions | str | None) -> PretrainedOptions:
    """Options of a model given by name, by its options, or not at all."""
    return given if isinstance(given, PretrainedOptions) else PretrainedOptions(given)
