"""Where a token stands, as a vector that encoders without windows of their own add to its state."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphattn.edges import features_of
from graphattn.schema import TOKEN

if TYPE_CHECKING:
    from graphattn.builders.batch import TextBatch


def position_vectors(graph: TextBatch, width: int, device: torch.device) -> Tensor:
    """Sinusoids of the places that the tokens of a graph have in their texts: (N, width)."""
    return sinusoids(features_of(graph, TOKEN)["position"].to(device), width)


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Position vectors: sines in the even columns, cosines in the odd ones (Vaswani et al. 2017, section 3.5).

    Parameters
    ----------
    positions : (N,)
    width : number of columns

    Returns
    -------
    (N, width)

    Examples
    --------
    >>> sinusoids(torch.tensor([0]), 4)
    tensor([[0., 1., 0., 1.]])
    """
    rates = torch.exp(torch.arange(0, width, 2, device=positions.device) * (-math.log(10000.0) / width))
    angles = positions.unsqueeze(1) * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
