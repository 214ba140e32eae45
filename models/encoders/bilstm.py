"""The BiLSTM baseline: no attention, the same inputs and heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from graphattn.builders.relations import Relation, Window
from graphattn.exceptions import ConfigError
from graphattn.graphs import lengths_of
from graphattn.models.encoders.base import Encoder, EncoderOptions, LayerWeights
from graphattn.models.options import option
from graphattn.models.padding import pad, unpad
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from dgl import DGLGraph


@dataclass
class BiLSTMOptions(EncoderOptions):
    """Options of the bidirectional LSTM."""

    name = "bilstm"

    layers: int = option(1, "depth of the encoder")

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        if self.hidden % 2:
            raise ConfigError(f"hidden {self.hidden} is odd; half of it goes to each direction")


class BiLSTMEncoder(Encoder):
    """Half of the width reads forward, half backward; sentences are packed, so batches do not mix."""

    def __init__(self, options: BiLSTMOptions):
        super().__init__()
        options.check()
        self.options, self.width = options, options.hidden
        self.lstm = nn.LSTM(
            options.hidden,
            options.hidden // 2,
            num_layers=options.layers,
            dropout=options.dropout if options.layers > 1 else 0.0,
            batch_first=True,
            bidirectional=True,
        )

    def relations(self) -> list[Relation]:
        """None is needed; a graph must have one."""
        return [Window(1)]

    def heads_along(self) -> dict[str, int]:
        """None."""
        return {}

    def forward(self, graph: DGLGraph, tokens: Tensor, *, weights: list[LayerWeights] | None = None) -> Tensor:
        """(N, hidden) -> (N, hidden)."""
        lengths = lengths_of(graph, TOKEN)
        filled = lengths.clamp(min=1)  # packing refuses empty sequences; their padding is dropped again below
        packed = pack_padded_sequence(pad(tokens, lengths), filled, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return unpad(states, lengths)
