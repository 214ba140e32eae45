"""Convert ragged tokens to padded rows and back, for modules that need rows (LSTM, CRF)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphattn._devices import to_device


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
    """(N, ...) -> (B, T, ...), padded with ``value``; the lengths may be on the CPU and the rows on a GPU."""
    mask = prefix_mask(lengths)
    rows = flat.new_full((*mask.shape, *flat.shape[1:]), value)
    rows[_index(mask, flat.device)] = flat
    return rows


def unpad(rows: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, ...) -> (N, ...); undoes :func:`pad`."""
    return rows[_index(prefix_mask(lengths, rows.shape[1]), rows.device)]


def _index(mask: Tensor, device: torch.device) -> Any:
    """A mask on the CPU as an index on a device: a GPU would wait for the number of its elements."""
    if device == mask.device:
        return mask
    return tuple(to_device(index, device) for index in mask.nonzero(as_tuple=True))


def reversal(lengths: Tensor) -> Tensor:
    """(N,) permutation that reverses each sentence; it is its own inverse.

    Examples
    --------
    >>> reversal(torch.tensor([3, 0, 2])).tolist()
    [2, 1, 0, 4, 3]
    """
    ends = lengths.cumsum(0)
    sums = torch.repeat_interleave(2 * ends - lengths - 1, lengths)  # index of an element plus that of its mirror
    return sums - torch.arange(len(sums), device=lengths.device)


def padding_groups(lengths: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Group sentences so that less than half of each padded batch is padding.

    For each group there are the indices of its flat elements and the lengths of its sentences, in their order.
    Sentences of similar length form one group; otherwise there is one for each range between two powers of two.

    Examples
    --------
    >>> padding_groups(torch.tensor([1, 0, 2]))
    [(tensor([0, 1, 2]), tensor([1, 0, 2]))]
    >>> padding_groups(torch.tensor([1, 9, 0, 1]))
    [(tensor([ 0, 10]), tensor([1, 0, 1])), (tensor([1, 2, 3, 4, 5, 6, 7, 8, 9]), tensor([9]))]
    """
    filled = lengths.clamp(min=1)  # an empty sentence also takes a row
    if not len(lengths) or len(lengths) * filled.max() <= 2 * filled.sum():
        return [(torch.arange(int(lengths.sum()), device=lengths.device), lengths)]
    powers = torch.frexp(filled.double()).exponent
    of_element = powers.repeat_interleave(lengths)
    return [((of_element == power).nonzero().squeeze(1), lengths[powers == power]) for power in powers.unique()]
