"""The BiLSTM baseline: no attention, the same inputs and heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._devices import to_device
from graphattn._edges import lengths_of
from graphattn._schema import TOKEN
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation, Window
from graphattn.models._encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models._padding import pad, padding_groups, reversal, unpad
from graphattn.options import option


@dataclass
class BiLSTMOptions(EncoderOptions):
    """Options of the bidirectional LSTM."""

    name = "bilstm"
    max_tokens = None

    hidden: int = option(300, "width of the encoder", min=1, multiple_of=2)
    layers: int = option(1, "depth of the encoder", min=1)


class BiLSTMEncoder(Encoder):
    """One LSTM per direction, each with half of the width.

    Rows are padded at their end, and the backward LSTM reads reversed rows, so that no state depends on padding.
    PyTorch's packed sequences would give the same result, but on a CPU the time of their gradients grows with the
    square of the longest sentence. Less than half of the rows is padding.
    """

    def __init__(self, options: BiLSTMOptions):
        super().__init__()
        self.options, self.width = options, options.hidden
        self.dropout = nn.Dropout(options.dropout)
        self.forwards, self.backwards = nn.ModuleList(), nn.ModuleList()
        for _ in range(options.layers):
            for direction in (self.forwards, self.backwards):
                direction.append(nn.LSTM(options.hidden, options.hidden // 2, batch_first=True))

    @override
    def relations(self) -> list[Relation]:
        return [Window(1)]  # not used, but a DGL graph needs at least one

    @override
    def heads_along(self) -> dict[str, int]:
        return {}

    @override
    def forward(self, graph: TextBatch, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        lengths = lengths_of(graph, TOKEN)
        groups = padding_groups(lengths)
        if len(groups) == 1:
            return self._read(tokens, lengths)
        device = tokens.device
        order = to_device(torch.cat([group for group, _ in groups]).argsort(), device)
        return torch.cat([self._read(tokens[to_device(group, device)], sizes) for group, sizes in groups])[order]

    def _read(self, states: Tensor, lengths: Tensor) -> Tensor:
        """(N, hidden) -> (N, hidden), padding the sentences to the longest."""
        reverse = to_device(reversal(lengths), states.device)
        for layer, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            if layer:
                states = self.dropout(states)
            ahead = unpad(forwards(pad(states, lengths))[0], lengths)
            back = unpad(backwards(pad(states[reverse], lengths))[0], lengths)
            states = torch.cat([ahead, back[reverse]], dim=1)
        return states
