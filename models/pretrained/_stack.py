"""A pretrained model, and an optional encoder on its states and other features of the tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation
from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear
from graphattn.models._encoders import make_encoder
from graphattn.models._encoders.base import Encoder, EncoderOptions, LayerWeights, NoEncoderOptions
from graphattn.models.pretrained._directories import make_model
from graphattn.models.pretrained._model import PretrainedDirectory, PretrainedModel
from graphattn.models.pretrained._options import PretrainedOptions
from graphattn.models.pretrained._transformers_architecture import AnyArchitecture


class StackedEncoder(Encoder):
    """A pretrained model whose states, joined with other token features, feed a second encoder.

    ``project`` maps states and other features to the input of ``upper``; dropout is on its input.
    """

    def __init__(
        self, lower: PretrainedModel, upper: Encoder | None, project: nn.Module, *, width: int, dropout: float
    ):
        super().__init__()
        self.lower, self.upper, self.project, self.width = lower, upper, project, width
        self.dropout = Dropout(dropout)

    @property
    def _parts(self) -> Sequence[Encoder]:
        return [self.lower] if self.upper is None else [self.lower, self.upper]

    @override
    def relations(self) -> list[Relation]:
        by_name = {relation.name: relation for part in self._parts for relation in part.relations()}
        return list(by_name.values())

    @override
    def heads_along(self) -> dict[str, int]:
        return dict(sum((Counter(part.heads_along()) for part in self._parts), Counter()))

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, embedding width + F) word vectors of the pretrained model and F other features -> (N, width).

        The weights of the pretrained model come first.
        """
        width = self.lower.architecture.embedding
        words, features = tokens.split([width, tokens.shape[1] - width], dim=1)
        states = torch.cat([self.lower(graph, words, weights=weights), features], dim=1)
        vectors: Tensor = self.project(self.dropout(states))
        return vectors if self.upper is None else self.upper(graph, vectors, weights=weights)


def stack_encoders(
    lower: PretrainedModel, upper: EncoderOptions, widths: Sequence[int], dropout: float
) -> PretrainedModel | StackedEncoder:
    """A pretrained model with another encoder on top, or alone.

    ``widths`` are those of a token vector's parts: pretrained states, then other features; ``dropout`` is on the input
    of the encoder on top.
    """
    if upper.name != NoEncoderOptions.name:
        encoder = make_encoder(upper)
        project = nn.Identity() if upper.takes_parts else Linear(sum(widths), upper.hidden)
        return StackedEncoder(lower, encoder, project, width=encoder.width, dropout=dropout)
    if len(widths) == 1:
        return lower
    return StackedEncoder(lower, None, nn.Identity(), width=sum(widths), dropout=0.0)  # the head has dropout


def make_pretrained(
    options: PretrainedOptions, architecture: AnyArchitecture, source: PretrainedDirectory | None
) -> PretrainedModel:
    """The pretrained model that the options describe, to be trained; without a source its weights are loaded later."""
    heads, length = options.pretrained_heads, options.pretrained_length
    try:
        if source is None:
            lower = make_model(architecture, heads=heads, max_length=length)
        else:
            lower = source.read_encoder(heads=heads, max_length=length, extend_positions=options.extend_positions)
            if options.gradient_checkpointing:
                lower.check_gradient_checkpointing()
    except ConfigError as error:
        error.rename_option("heads", "pretrained_heads")
        error.rename_option("max_length", "pretrained_length")
        raise
    lower.gradient_checkpointing = options.gradient_checkpointing
    if options.tuned_layers is not None:
        lower.freeze(options.tuned_layers)
    return lower.train()


def find_pretrained(encoder: nn.Module) -> PretrainedModel | None:
    """The pretrained model inside an encoder; None if there is none."""
    lower = encoder.lower if isinstance(encoder, StackedEncoder) else encoder
    return lower if isinstance(lower, PretrainedModel) else None


def learning_rates(options: PretrainedOptions, encoder: Encoder, *, embedding: str = "embedding") -> dict[str, float]:
    """Name of a parameter of the model -> learning rate, for those that are pretrained.

    ``embedding`` is the model's module with the pretrained vectors of words.
    """
    lower, prefix = find_pretrained(encoder), "encoder." if isinstance(encoder, PretrainedModel) else "encoder.lower."
    assert lower is not None
    rates = lower.learning_rates(options.tuning_rate, options.layer_decay)
    return {f"{embedding}.trained": min(rates.values()), **{f"{prefix}{name}": rate for name, rate in rates.items()}}
