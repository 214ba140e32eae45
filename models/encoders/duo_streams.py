"""Two streams of vectors side by side, as encoder and decoder of the Duo Transformer have them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphattn.layers.linear import linear

STREAMS = 2


class StreamMaps(nn.Module):
    """A linear map of each stream: one for both, or one each.

    Parameters
    ----------
    in_feats, out_feats : widths of one stream
    shared : whether both have the same weights
    """

    def __init__(self, in_feats: int, out_feats: int, *, shared: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1 if shared else STREAMS, out_feats, in_feats))
        self.bias = nn.Parameter(torch.zeros(1 if shared else STREAMS, out_feats))
        for own in self.weight:
            nn.init.xavier_uniform_(own)

    def forward(self, streams: Tensor) -> Tensor:
        """(..., 2, in_feats) -> (..., 2, out_feats)."""
        if len(self.weight) == 1:
            return linear(streams, self.weight[0], self.bias[0])
        parts = zip(streams.unbind(-2), self.weight, self.bias, strict=True)
        return torch.stack([linear(own, weight, bias) for own, weight, bias in parts], dim=-2)


class DuoNorm(nn.Module):
    r"""Layer norm of a residual connection in which each stream also gets the other (Duo, section 3.4).

    .. math:: LN(x_S + p_S \odot x_P + sublayer_S), \quad LN(x_P + p_P \odot x_S + sublayer_P)

    The formula is missing from the paper's text, which tells of a map for widths that differ and of a better flow
    between the streams. Ours are of one width. A full matrix as the map would add tens of millions of numbers, where
    Table 6 has none; so it is a learned factor for each feature, 1 at first.

    Parameters
    ----------
    width : of a stream
    crossed : whether the other stream is added; otherwise it is the usual layer norm of each
    """

    def __init__(self, width: int, *, crossed: bool):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(STREAMS, width)), nn.Parameter(torch.zeros(STREAMS, width))
        self.factors = nn.Parameter(torch.ones(STREAMS, width)) if crossed else None

    def forward(self, streams: Tensor, added: Tensor) -> Tensor:
        """(..., 2, width) and what the sub-layer adds -> (..., 2, width)."""
        summed = streams + added
        if self.factors is not None:
            summed = summed + self.factors * streams.flip(-2)
        return F.layer_norm(summed, summed.shape[-1:]) * self.weight + self.bias
