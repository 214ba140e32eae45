"""From token vectors to one vector for each sentence."""

from __future__ import annotations

import torch
from torch import Tensor


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
