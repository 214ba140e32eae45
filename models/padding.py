"""From flat tokens to padded rows and back, for the few parts that need rows (LSTM, CRF)."""

from __future__ import annotations

import torch
from torch import Tensor


def prefix_mask(lengths: Tensor, longest: int | None = None) -> Tensor:
    """(B, T) True where a row has an element; T is at least 1.

    Examples
    --------
    >>> prefix_mask(torch.tensor([2, 0])).tolist()
    [[True, True], [False, False]]
    """
    if longest is None:
        longest = max(1, int(lengths.max())) if lengths.numel() else 1
    return torch.arange(longest, device=lengths.device) < lengths.unsqueeze(1)


def pad(flat: Tensor, lengths: Tensor, value: float = 0) -> Tensor:
    """(N, ...) -> (B, T, ...), filled up with ``value``."""
    mask = prefix_mask(lengths)
    rows = flat.new_full((*mask.shape, *flat.shape[1:]), value)
    rows[mask] = flat
    return rows


def unpad(rows: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, ...) -> (N, ...); undoes :func:`pad`."""
    return rows[prefix_mask(lengths, rows.shape[1])]


def turned_around(lengths: Tensor) -> Tensor:
    """(N,) where each flat element is once every sentence is read from its end; applied twice, nothing has changed.

    Examples
    --------
    >>> turned_around(torch.tensor([3, 0, 2])).tolist()
    [2, 1, 0, 4, 3]
    """
    ends = lengths.cumsum(0)
    first_and_last = torch.repeat_interleave(2 * ends - lengths - 1, lengths)  # their sum is that of any mirrored pair
    return first_and_last - torch.arange(len(first_and_last), device=lengths.device)


def padded_together(lengths: Tensor) -> Tensor:
    """(B,) numbers of the groups in which sentences are padded, so that less than half of all rows is padding.

    That is one group where the lengths are alike, else one for each power of two.

    Examples
    --------
    >>> padded_together(torch.tensor([5, 4, 0, 3])).tolist()
    [0, 0, 0, 0]
    >>> padded_together(torch.tensor([5, 4, 0, 900])).tolist()
    [1, 1, 0, 2]
    """
    filled = lengths.clamp(min=1)
    if not len(lengths) or len(lengths) * filled.max() <= 2 * filled.sum():
        return torch.zeros_like(lengths)
    powers = torch.frexp(filled.double()).exponent  # length 4 to 7: 3
    return powers.unique(return_inverse=True)[1]
