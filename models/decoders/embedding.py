"""Embeddings that sources, targets and the softmax share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from graphattn.layers.dropout import dropout
from graphattn.layers.embedding import look_up
from graphattn.layers.linear import linear


class SharedEmbedding(nn.Module):
    """One table for sources, targets and output scores (Press and Wolf 2017; Vaswani et al. 2017, section 3.4).

    Parameters
    ----------
    num_tokens : entries of the vocabulary
    width : numbers of a vector
    dropout : on the vectors

    Attributes
    ----------
    trained : (num_tokens, width), drawn with a variance of 1 / width; looked up they are multiplied by its root
    """

    def __init__(self, num_tokens: int, width: int, dropout: float):
        super().__init__()
        self.trained = nn.Parameter(torch.randn(num_tokens, width) / math.sqrt(width))
        self.dropout = dropout

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., width)."""
        return dropout(self.vectors(ids), self.dropout, self.training)

    def vectors(self, ids: Tensor) -> Tensor:
        """The vectors alone, without dropout."""
        return look_up(self.trained, ids) * math.sqrt(self.trained.shape[1])


class TiedSoftmax(nn.Module):
    """Scores of all tokens: products with the shared table."""

    def forward(self, states: Tensor, table: Tensor) -> Tensor:
        """(..., width) and (V, width) -> (..., V), float32."""
        return linear(states, table).float()
