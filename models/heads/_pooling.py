"""From token vectors to one vector for each sentence."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn._devices import to_device
from graphattn._precision import at_least_float32
from graphattn.layers._dropout import Dropout
from graphattn.layers._linear import Linear
from graphattn.models._padding import pad, unpad

UNIT = "unit-"
"""Prefix of poolings whose vectors are scaled to length 1, as most sentence-transformers models do."""
CLS_POOLINGS = ("cls+max", "concat", "cls", f"{UNIT}cls")
"""Sentence vectors that need ``[CLS]``."""


def count_pooled_features(pooling: str, width: int) -> int:
    """Features of a sentence vector."""
    return 2 * width if pooling in ("concat", "mean-max") else width


def pool(tokens: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    """(B, F) sentence vectors of (N, F) tokens, zero without any; for :data:`CLS_POOLINGS`, texts begin with ``[CLS]``.

    ``pooling`` is ``"cls+max"`` (half their sum; MS-Trans, section 3.4, as reconstructed), ``"max"``, ``"mean"``,
    ``"cls"`` or ``"last"`` (the last token); with 2 F features ``"concat"`` (``[CLS]`` and maximum) or ``"mean-max"``.
    Maximum and mean include ``[CLS]``. ``"unit-mean"``, ``"unit-cls"`` and ``"unit-last"`` have length 1.

    Examples
    --------
    >>> pool(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([2, 1]), "cls+max").flatten().tolist()
    [2.0, 5.0]
    """
    lengths = to_device(lengths, tokens.device)
    if pooling.startswith(UNIT):
        return F.normalize(pool(tokens, lengths, pooling.removeprefix(UNIT)), dim=1)
    if pooling == "mean":
        return _mean(tokens, lengths)
    if pooling == "max":
        return _maximum(tokens, lengths)
    if pooling == "last":
        return tokens[(lengths.cumsum(0) - 1).clamp(min=0)] * (lengths > 0).unsqueeze(1)
    if pooling == "mean-max":
        return torch.cat([_mean(tokens, lengths), _maximum(tokens, lengths)], dim=1)
    first = tokens[lengths.cumsum(0) - lengths]
    if pooling == "cls":
        return first
    top = _maximum(tokens, lengths)
    return torch.cat([first, top], dim=1) if pooling == "concat" else 0.5 * (first + top)


def _mean(tokens: Tensor, lengths: Tensor) -> Tensor:
    return _sum(tokens, lengths) / lengths.clamp(min=1).unsqueeze(1)


def _sum(tokens: Tensor, lengths: Tensor) -> Tensor:
    """(N, F) -> (B, F), at least in float32: half precision loses small terms of a long text."""
    tokens = at_least_float32(tokens)
    return tokens.new_zeros(lengths.shape[0], tokens.shape[1]).index_add(0, _sentences(tokens, lengths), tokens)


def _maximum(tokens: Tensor, lengths: Tensor) -> Tensor:
    index = _sentences(tokens, lengths).unsqueeze(1).expand_as(tokens)
    empty = tokens.new_zeros(lengths.shape[0], tokens.shape[1])
    return empty.scatter_reduce(0, index, tokens, "amax", include_self=False)


def _sentences(tokens: Tensor, lengths: Tensor) -> Tensor:
    """(N,) sentence number of each token."""
    return torch.repeat_interleave(lengths, output_size=tokens.shape[0])


class Source2TokenPooling(nn.Module):
    r"""Multi-dimensional source2token attention (Shen et al. 2018, Eq. 8; on top of MTSA in its section 4).

    .. math:: s = \sum_i softmax_i(W_2 \, elu(W_1 x_i + b_1) + b_2) \odot x_i

    with a softmax over the tokens of a sentence for each feature. Dropout is on the input of both linear layers.
    """

    def __init__(self, width: int, dropout: float = 0.0):
        super().__init__()
        self.inner, self.outer = Linear(width, width), Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(N, F) tokens of sentences with (B,) lengths -> (B, F)."""
        scores = self.outer(self.dropout(F.elu(self.inner(self.dropout(tokens)))))
        weights = unpad(pad(at_least_float32(scores), lengths, float("-inf")).softmax(1), lengths)
        return _sum(weights * tokens, to_device(lengths, tokens.device))
