"""The BiLSTM baseline: no attention, the same inputs and heads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from graphattn.builders.relations import Relation, Window
from graphattn.edges import lengths_of
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.options import option
from graphattn.models.padding import pad, padding_groups, turned_around, unpad
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


_FORMER_NAME = re.compile(r"lstm\.(\w+)_l(\d+)(_reverse)?")
"""Of the weights of models that were saved when both directions were one module."""


@dataclass
class BiLSTMOptions(EncoderOptions):
    """Options of the bidirectional LSTM."""

    name = "bilstm"

    hidden: int = option(300, "width of the encoder", min=1, multiple_of=2)
    layers: int = option(1, "depth of the encoder", min=1)


class BiLSTMEncoder(Encoder):
    """Half of the width reads forward, half backward; each sentence alone, whatever else is in the batch.

    Sentences are read as rows with padding behind them, those of the backward half turned around first: no state that
    is kept has seen padding. PyTorch's own packed sequences would do the same, but on a CPU their gradients take time
    that grows with the square of the longest sentence. Less than half of the rows is ever padding.
    """

    def __init__(self, options: BiLSTMOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.dropout = nn.Dropout(options.dropout)
        self.forwards, self.backwards = nn.ModuleList(), nn.ModuleList()
        for _ in range(options.layers):
            for direction in (self.forwards, self.backwards):
                direction.append(nn.LSTM(options.hidden, options.hidden // 2, batch_first=True))
        self.register_load_state_dict_pre_hook(_take_former_names)

    def relations(self) -> list[Relation]:
        """None is needed; a graph must have one."""
        return [Window(1)]

    def heads_along(self) -> dict[str, int]:
        """None."""
        return {}

    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        lengths = lengths_of(graph, TOKEN)
        groups = padding_groups(lengths)
        if len(groups) == 1:
            return self._read(tokens, lengths)
        order = torch.cat([own for own, _ in groups])
        return torch.cat([self._read(tokens[own], sizes) for own, sizes in groups])[order.argsort()]

    def _read(self, states: Tensor, lengths: Tensor) -> Tensor:
        """(N, hidden) -> (N, hidden) of sentences that are padded to the longest."""
        turned = turned_around(lengths)
        for layer, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            if layer:
                states = self.dropout(states)
            ahead = unpad(forwards(pad(states, lengths))[0], lengths)
            back = unpad(backwards(pad(states[turned], lengths))[0], lengths)
            states = torch.cat([ahead, back[turned]], dim=1)
        return states


def _take_former_names(encoder: nn.Module, weights: dict[str, Tensor], prefix: str, *_: Any) -> None:
    for name in list(weights):
        former = _FORMER_NAME.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if former is not None:
            kind, layer, backwards = former.groups()
            direction = "backwards" if backwards else "forwards"
            weights[f"{prefix}{direction}.{layer}.{kind}_l0"] = weights.pop(name)
