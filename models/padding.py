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


def padding_groups(lengths: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Sentences that are padded together, so that less than half of the rows is padding, however lengths differ.

    Parameters
    ----------
    lengths : (B,) of the sentences

    Returns
    -------
    For each group the numbers of its flat elements and its sentences' lengths, both in their order. All sentences are
    one group where they are of like length, else those between two powers of two.

    Examples
    --------
    >>> padding_groups(torch.tensor([1, 0, 2]))
    [(tensor([0, 1, 2]), tensor([1, 0, 2]))]
    >>> padding_groups(torch.tensor([1, 9, 0, 1]))
    [(tensor([ 0, 10]), tensor([1, 0, 1])), (tensor([1, 2, 3, 4, 5, 6, 7, 8, 9]), tensor([9]))]
    """
    filled = lengths.clamp(min=1)  # an empty sentence has a row, too
    if not len(lengths) or len(lengths) * filled.max() <= 2 * filled.sum():
        return [(torch.arange(int(lengths.sum()), device=lengths.device), lengths)]
    powers = torch.frexp(filled.double()).exponent
    of_element = powers.repeat_interleave(lengths)
    return [((of_element == own).nonzero().squeeze(1), lengths[powers == own]) for own in powers.unique()]
