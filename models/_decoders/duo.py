"""The Duo Transformer's decoder and output layer (Li et al. 2020, sections 3.3 and 3.4)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphattn._precision import at_least_float32
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear, linear
from graphattn.models._decoders.attention import FeedForward, attend_rows, split_heads
from graphattn.models._decoders.options import DecoderOptions
from graphattn.models._decoders.transformer import Decoder, DecoderState
from graphattn.models._encoders.duo_transformer import STREAMS, DuoNorm, DuoTransformerOptions, StreamMaps


class DuoAttention(nn.Module):
    """Attention between streams: queries and keys of one, values of the other; for tokens and for the source.

    ``width`` and ``heads`` are those of one stream.
    """

    def __init__(self, width: int, heads: int, *, shared: bool, attn_drop: float = 0.0):
        super().__init__()
        self.heads, self.attn_drop = STREAMS * heads, attn_drop
        self.query, self.key, self.value, self.output = (StreamMaps(width, width, shared=shared) for _ in range(4))

    def keys_values(self, memory: Tensor) -> Tensor:
        """(R, S, 2 width) -> (2, R, 2 H, S, D): for each stream the other stream's keys and its own values."""
        streams = _split_streams(memory)
        sides = (self.key(streams).flip(2), self.value(streams))
        return torch.stack([split_heads(side.flatten(2), self.heads) for side in sides])

    def forward(
        self,
        inputs: Tensor,
        keys_values: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """(R, T, 2 width) -> (R, T, 2 width); see :func:`attend_rows`."""
        query = split_heads(self.query(_split_streams(inputs)).flip(2).flatten(2), self.heads)
        dropout = self.attn_drop if self.training else 0.0
        values = attend_rows(query, *keys_values.unbind(0), mask=mask, causal=causal, dropout=dropout, weights=weights)
        output: Tensor = self.output(_split_streams(values))
        return output.flatten(2)


class DuoDecoderLayer(nn.Module):
    """Masked Duo attention, Duo attention to the source and a feed-forward layer, each with residual and post-norm."""

    def __init__(self, width: int, options: DecoderOptions, duo: DuoTransformerOptions):
        super().__init__()
        self.own, self.source = (
            DuoAttention(width, options.decoder_heads, shared=duo.share_weights, attn_drop=options.decoder_attn_drop)
            for _ in range(2)
        )
        self.feed_forward = FeedForward(width, options.decoder_ffn, options.inner_dropout)
        self.own_norm, self.source_norm = (DuoNorm(width, crossed=duo.duo_norm) for _ in range(2))  # section 3.4
        self.feed_norm = DuoNorm(width, crossed=False)
        self.dropout = Dropout(options.decoder_dropout)

    def forward(self, inputs: Tensor, state: DecoderState, number: int, weights: list[Tensor] | None = None) -> Tensor:
        """(R, T, 2 width) -> (R, T, 2 width); ``number`` counts layers from 0."""
        keys_values = state.append(number, self.own.keys_values(inputs))
        attended = self.own(inputs, keys_values, causal=inputs.shape[1] > 1)
        streams = self.own_norm(_split_streams(inputs), self.dropout(_split_streams(attended)))
        by_source = streams.flatten(2).unflatten(0, (-1, state.beams)).flatten(1, 2)
        attended = self.source(by_source, state.sources[number], mask=state.mask, weights=weights)
        streams = self.source_norm(streams, self.dropout(attended.view_as(streams)))
        output: Tensor = self.feed_norm(streams, self.dropout(self.feed_forward(streams)))
        return output.flatten(2)


class DuoSoftmax(nn.Module):
    r"""Fusion of both streams, then scores by the shared table (section 3.3).

    .. math:: (W_F [h_S; h_P]) (W_E [E_S; E_P])^T

    The paper shares the softmax's weights with the embeddings "after a linear projection of the original concatenated
    duo embedding layer": W_E. We apply it to the fused state instead of the whole table, which gives the same scores.
    Without the fusion layer (Table 6) scores are products of the concatenated streams with the concatenated embeddings.
    """

    def __init__(self, width: int):
        super().__init__()
        self.fusion = Linear(STREAMS * width, width)
        self.table = Linear(width, STREAMS * width, bias=False)

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """(..., 2 width) and (V, 2 width) -> (..., V), at least float32."""
        return at_least_float32(linear(self.table(self.fusion(states)), table))


def make_duo_decoder(width: int, options: DecoderOptions, duo: DuoTransformerOptions) -> Decoder:
    """The Duo Transformer's decoder; ``width`` is that of a stream."""
    layers = [DuoDecoderLayer(width, options, duo) for _ in range(options.decoder_layers)]
    return Decoder(width, layers, nn.Identity(), streams=STREAMS)


def _split_streams(streams: Tensor) -> Tensor:
    """(R, T, 2 width) -> (R, T, 2, width)."""
    return streams.unflatten(2, (STREAMS, -1))
