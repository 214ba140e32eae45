"""The decoder: a pre-norm Transformer that writes all tokens of a known text at once, or one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from graphattn.layers.dropout import Dropout
from graphattn.models.decoders.attention import DecoderAttention, FeedForward
from graphattn.models.decoders.options import DecoderOptions
from graphattn.models.encoders.base import sinusoids


@dataclass(frozen=True, eq=False)
class Memory:
    """What an encoder has made of sources, as padded rows.

    Parameters
    ----------
    states : (B, S, memory width)
    mask : (B, 1, 1, S), True where there is a token
    """

    states: Tensor
    mask: Tensor


@dataclass(eq=False)
class DecoderState:
    """Keys and values of what has been read and written; each source has K texts in the making.

    Letters: B sources, K texts of each, R = B K rows, L layers.

    Parameters
    ----------
    sources : for each layer the (n, B, H, S, D) keys and values of the source
    mask : (B, 1, 1, S)
    beams : K
    written : for each layer the (n, R, H, T, D) keys and values of the T tokens written; empty at the beginning
    """

    sources: list[Tensor]
    mask: Tensor
    beams: int = 1
    written: list[Tensor] | None = None

    @property
    def length(self) -> int:
        """T, how many tokens have been written."""
        return 0 if self.written is None else self.written[0].shape[3]

    def extended(self, layer: int, keys_values: Tensor) -> Tensor:
        """Keys and values of all tokens written, those of the new ones last; they are kept."""
        if self.written is None:
            self.written = []
        if layer == len(self.written):
            self.written.append(keys_values)
        else:
            self.written[layer] = torch.cat([self.written[layer], keys_values], dim=3)
        return self.written[layer]

    def keep(self, sources: Tensor, beams: Tensor) -> None:
        """Go on with some sources, (b,) numbers, and for each with (b, K) of its texts."""
        rows = (sources.unsqueeze(1) * self.beams + beams).flatten()
        self.written = None if self.written is None else [own.index_select(1, rows) for own in self.written]
        if len(sources) < self.mask.shape[0]:
            self.sources = [own.index_select(1, sources) for own in self.sources]
            self.mask = self.mask.index_select(0, sources)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source and a feed-forward part, each with norm before and residual after."""

    def __init__(self, width: int, memory_width: int, options: DecoderOptions):
        super().__init__()
        heads, rate = options.decoder_heads, options.decoder_dropout
        self.own, self.source = DecoderAttention(width, heads), DecoderAttention(width, heads, memory_width)
        self.feed_forward = FeedForward(width, options.decoder_ffn, rate)
        self.own_norm, self.source_norm, self.feed_norm = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = Dropout(rate)

    def forward(self, inputs: Tensor, state: DecoderState, number: int, weights: list[Tensor] | None = None) -> Tensor:
        """(R, T, width) -> (R, T, width); ``number`` is this layer's."""
        normed = self.own_norm(inputs)
        seen = state.extended(number, self.own.keys_values(normed))
        inputs = inputs + self.dropout(self.own(normed, seen, causal=inputs.shape[1] > 1))
        by_source = self.source_norm(inputs).unflatten(0, (-1, state.beams)).flatten(1, 2)  # (B, K T, width)
        found = self.source(by_source, state.sources[number], mask=state.mask, weights=weights)
        inputs = inputs + self.dropout(found.view_as(inputs))
        return inputs + self.dropout(self.feed_forward(self.feed_norm(inputs)))


class Decoder(nn.Module):
    """A stack of layers that write, with sinusoidal positions.

    Parameters
    ----------
    width : of a stream of token vectors
    layers : each with its attention to the source, ``source``
    norm : behind the last one
    streams : how many lie side by side
    """

    def __init__(self, width: int, layers: Sequence[nn.Module], norm: nn.Module, *, streams: int = 1):
        super().__init__()
        self.width, self.streams = width, streams
        self.layers, self.norm = nn.ModuleList(layers), norm

    def start(self, memory: Memory, beams: int = 1) -> DecoderState:
        """The state before the first token; keys and values of sources are made once, whatever K is."""
        layers: list[Any] = list(self.layers)
        return DecoderState([layer.source.keys_values(memory.states) for layer in layers], memory.mask, beams)

    def forward(self, inputs: Tensor, state: DecoderState, weights: list[Tensor] | None = None) -> Tensor:
        """Write T further tokens; several at once only at the beginning.

        Parameters
        ----------
        inputs : (R, T, streams width) vectors of the tokens before them
        state : is moved on by T tokens
        weights : when given, the attention to the source is appended, (B, H, K T, S) for each layer

        Returns
        -------
        (R, T, streams width)
        """
        places = torch.arange(state.length, state.length + inputs.shape[1], device=inputs.device)
        states = inputs + sinusoids(places, self.width).repeat(1, self.streams)
        for number, layer in enumerate(self.layers):
            states = layer(states, state, number, weights)
        return self.norm(states)


def plain_decoder(width: int, memory_width: int, options: DecoderOptions) -> Decoder:
    """The Transformer's decoder (Vaswani et al. 2017) with norms before its parts (Wang et al. 2019), as UMST has it.

    Parameters
    ----------
    width : of token vectors
    memory_width : of the encoder's output
    options : depth, heads, feed-forward part, dropout
    """
    layers = [DecoderLayer(width, memory_width, options) for _ in range(options.decoder_layers)]
    return Decoder(width, layers, nn.LayerNorm(width))
