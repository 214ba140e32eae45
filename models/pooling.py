"""From token vectors to one vector for each sentence."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.models.dropout import Dropout
from graphattn.models.padding import pad, unpad


def pooled_width(pooling: str, width: int) -> int:
    """Features of a sentence vector."""
    return 2 * width if pooling == "concat" else width


def pool(tokens: Tensor, lengths: Tensor, pooling: str) -> Tensor:
    """Sentence vectors; ``[CLS]`` is a token among the others for maximum and mean.

    Parameters
    ----------
    tokens : (N, F), sentence after sentence, each beginning with ``[CLS]``
    lengths : (B,) tokens of each sentence, at least 1
    pooling : ``"cls+max"`` is half their sum (MS-Trans, section 3.4, as reconstructed), ``"concat"`` puts them
        side by side; or ``"max"``, ``"mean"``, ``"cls"``

    Returns
    -------
    (B, F), or (B, 2 F) for ``"concat"``

    Examples
    --------
    >>> pool(torch.tensor([[1.0], [3.0], [5.0]]), torch.tensor([2, 1]), "cls+max").flatten().tolist()
    [2.0, 5.0]
    """
    lengths = lengths.to(tokens.device)
    first = tokens[lengths.cumsum(0) - lengths]
    if pooling == "cls":
        return first
    sentence = torch.repeat_interleave(lengths, output_size=tokens.shape[0])
    if pooling == "mean":
        sums = tokens.new_zeros(lengths.shape[0], tokens.shape[1]).index_add(0, sentence, tokens)
        return sums / lengths.unsqueeze(1)
    index = sentence.unsqueeze(1).expand_as(tokens)
    top = tokens.new_zeros(lengths.shape[0], tokens.shape[1]).scatter_reduce(
        0, index, tokens, "amax", include_self=False
    )
    if pooling == "max":
        return top
    return torch.cat([first, top], dim=1) if pooling == "concat" else 0.5 * (first + top)


class Source2TokenPooling(nn.Module):
    r"""Multi-dimensional source2token attention (Shen et al. 2018, Eq. 8; on top of MTSA in its section 4).

    .. math:: s = \sum_i softmax_i(W_2 \, elu(W_1 x_i + b_1) + b_2) \odot x_i

    with a softmax over the tokens of a sentence for each feature.

    Parameters
    ----------
    width : features of a token
    dropout : on the input of both maps
    """

    def __init__(self, width: int, dropout: float = 0.0):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(N, F) tokens of sentences with (B,) lengths -> (B, F)."""
        lengths = lengths.to(tokens.device)
        scores = self.outer(self.dropout(F.elu(self.inner(self.dropout(tokens)))))
        weights = unpad(pad(scores.float(), lengths, float("-inf")).softmax(1), lengths).to(tokens.dtype)
        sentence = torch.repeat_interleave(lengths, output_size=tokens.shape[0])
        return tokens.new_zeros(lengths.shape[0], tokens.shape[1]).index_add(0, sentence, weights * tokens)
