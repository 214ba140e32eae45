"""The decoder: a pre-norm Transformer, for teacher forcing and for step-by-step generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from graphattn._precision import residual_type
from graphattn.layers._dropout import Dropout
from graphattn.layers._norm import LayerNorm
from graphattn.models._decoders.attention import DecoderAttention, FeedForward
from graphattn.models._decoders.options import DecoderOptions
from graphattn.models._encoders.base import sinusoids


@dataclass(frozen=True, eq=False)
class Memory:
    """The encoder's output as padded rows: (B, S, memory width) states, and a (B, 1, 1, S) mask, False for padding."""

    states: Tensor
    mask: Tensor


@dataclass(eq=False)
class DecoderState:
    """Cached keys and values of sources and generated tokens.

    Letters: B sources, K beams of each, R = B K rows, S source and T generated tokens.

    ``sources`` has (n, B, H, S, D) keys and values of the source for each layer, ``tokens`` (n, R, H, T, D) of the
    generated tokens, empty before the first; ``mask`` is (B, 1, 1, S), ``beams`` K.
    """

    sources: list[Tensor]
    mask: Tensor
    beams: int = 1
    tokens: list[Tensor] = field(default_factory=list)

    @property
    def length(self) -> int:
        """T, the number of generated tokens."""
        return self.tokens[0].shape[3] if self.tokens else 0

    def append(self, layer: int, keys_values: Tensor) -> Tensor:
        """Append the new tokens' keys and values, and return those of all tokens."""
        if layer == len(self.tokens):
            self.tokens.append(keys_values)
        else:
            self.tokens[layer] = torch.cat([self.tokens[layer], keys_values], dim=3)
        return self.tokens[layer]

    def keep(self, sources: Tensor, beams: Tensor) -> None:
        """Select sources: indices (b,), and (b, K) of the beams that each keeps."""
        rows = (sources.unsqueeze(1) * self.beams + beams).flatten()
        self.tokens = [keys_values.index_select(1, rows) for keys_values in self.tokens]
        if len(sources) < self.mask.shape[0]:
            self.sources = [keys_values.index_select(1, sources) for keys_values in self.sources]
            self.mask = self.mask.index_select(0, sources)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and a feed-forward layer, each with pre-norm and residual."""

    def __init__(self, width: int, memory_width: int, options: DecoderOptions):
        super().__init__()
        heads, attn_drop = options.decoder_heads, options.decoder_attn_drop
        self.own = DecoderAttention(width, heads, attn_drop=attn_drop)
        self.source = DecoderAttention(width, heads, memory_width, attn_drop=attn_drop)
        self.feed_forward = FeedForward(width, options.decoder_ffn, options.inner_dropout)
        self.own_norm, self.source_norm, self.feed_norm = (LayerNorm(width) for _ in range(3))
        self.dropout = Dropout(options.decoder_dropout)

    def forward(self, inputs: Tensor, state: DecoderState, number: int, weights: list[Tensor] | None = None) -> Tensor:
        """(R, T, width) -> (R, T, width); ``number`` counts layers from 0."""
        normed = self.own_norm(inputs)
        keys_values = state.append(number, self.own.keys_values(normed))
        inputs = inputs + self.dropout(self.own(normed, keys_values, causal=inputs.shape[1] > 1))
        by_source = self.source_norm(inputs).unflatten(0, (-1, state.beams)).flatten(1, 2)  # (B, K T, width)
        attended = self.source(by_source, state.sources[number], mask=state.mask, weights=weights)
        inputs = inputs + self.dropout(attended.view_as(inputs))
        return inputs + self.dropout(self.feed_forward(self.feed_norm(inputs)))


class Decoder(nn.Module):
    """A stack of decoder layers with sinusoidal positions and a norm after the last layer.

    ``width`` is that of one of the concatenated ``streams``; each layer calls its attention to the source ``source``.
    """

    def __init__(self, width: int, layers: Sequence[nn.Module], norm: nn.Module, *, streams: int = 1):
        super().__init__()
        self.width, self.streams = width, streams
        self.layers, self.norm = nn.ModuleList(layers), norm

    def start(self, memory: Memory, beams: int = 1) -> DecoderState:
        """The state before the first token; all beams share their source's keys and values."""
        layers: list[Any] = list(self.layers)
        return DecoderState([layer.source.keys_values(memory.states) for layer in layers], memory.mask, beams)

    def forward(self, inputs: Tensor, state: DecoderState, weights: list[Tensor] | None = None) -> Tensor:
        """Read T further tokens, (R, T, streams width) -> the same; several at once only at the beginning.

        ``state`` gets the keys and values of the T tokens, ``weights`` each layer's (B, H, K T, S) attention to the
        source.
        """
        positions = torch.arange(state.length, state.length + inputs.shape[1], device=inputs.device)
        states = inputs + sinusoids(positions, self.width, residual_type(inputs)).repeat(1, self.streams)
        for number, layer in enumerate(self.layers):
            states = layer(states, state, number, weights)
        return self.norm(states)


def make_transformer_decoder(width: int, memory_width: int, options: DecoderOptions) -> Decoder:
    """A Transformer decoder (Vaswani et al. 2017) with pre-norm (Wang et al. 2019), as in UMST."""
    layers = [DecoderLayer(width, memory_width, options) for _ in range(options.decoder_layers)]
    return Decoder(width, layers, LayerNorm(width))
