"""Decoder attention: padded rows, cached keys and values, weights on request."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphattn._dense import attend_dense
from graphattn._precision import at_least_float32
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear


def split_heads(tensor: Tensor, heads: int) -> Tensor:
    """(R, T, H D) -> (R, H, T, D)."""
    split: Tensor = tensor.unflatten(2, (heads, -1))
    return split.transpose(1, 2)


def attend_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    weights: list[Tensor] | None = None,
) -> Tensor:
    """Scaled dot-product attention on padded rows, by PyTorch's kernel unless weights are requested.

    ``query``, ``key`` and ``value`` are (R, H, T, D), (R, H, S, D) and (R, H, S, D_v); the result is (R, T, H D_v).
    ``mask``, (R, 1, 1, S), is True for keys that may be attended to; with ``causal``, a query sees the keys up to its
    own position. (R, H, T, S) weights are appended to ``weights``, without dropout.
    """
    # with bfloat16, PyTorch's kernel is several times slower
    query, key, value = at_least_float32(query), at_least_float32(key), at_least_float32(value)
    if weights is None:
        values = attend_dense(query, key, value, mask=mask, dropout=dropout, causal=causal)
        return values.transpose(1, 2).flatten(2)
    scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[3])
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    if causal:
        later = torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    weights.append(scores.softmax(3))
    return (weights[-1] @ value).transpose(1, 2).flatten(2)


class DecoderAttention(nn.Module):
    """Multi-head attention with separately computed keys and values, so that they can be cached.

    Keys and values have the input width ``memory_width``, by default that of queries.
    """

    def __init__(self, width: int, heads: int, memory_width: int | None = None, *, attn_drop: float = 0.0):
        super().__init__()
        self.heads, self.attn_drop = heads, attn_drop
        self.query = Linear(width, width)
        self.key_value = Linear(memory_width or width, 2 * width)
        self.output = Linear(width, width)
        for weight in (self.query.weight, *self.key_value.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for module in (self.query, self.key_value, self.output):
            nn.init.zeros_(module.bias)

    def keys_values(self, memory: Tensor) -> Tensor:
        """(R, S, memory width) -> (2, R, H, S, D): keys and values."""
        return torch.stack([split_heads(part, self.heads) for part in self.key_value(memory).chunk(2, dim=2)])

    def forward(
        self,
        inputs: Tensor,
        keys_values: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """(R, T, width) -> (R, T, width); see :func:`attend_rows`."""
        query = split_heads(self.query(inputs), self.heads)
        dropout = self.attn_drop if self.training else 0.0
        values = attend_rows(query, *keys_values.unbind(0), mask=mask, causal=causal, dropout=dropout, weights=weights)
        return self.output(values)


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU and dropout between them."""

    def __init__(self, width: int, inner: int, dropout: float):
        super().__init__(Linear(width, inner), nn.ReLU(inplace=True), Dropout(dropout), Linear(inner, width))
