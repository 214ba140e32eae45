"""Map words to their tokens: by membership, or by interpolation as in image resizing (nearest or linear)."""

from __future__ import annotations

import torch
from torch import Tensor

from graphattn._aggregation import aggregate
from graphattn._edges import Edges
from graphattn._validation import require_choice

METHODS = ("membership", "nearest", "linear")


class Upsampling:
    r"""The matrix U (N, W) that turns a word map A into a token map :math:`U A U^T` (UMST, Eq. 4 and Table 6).

    ``membership`` is the paper's G: one where a token belongs to a word. ``nearest`` and ``linear`` interpolate a map
    in both directions, which is such a product too: U then has one or two numbers per token, which depend only on the
    numbers of tokens and words. The coefficients (E,) are entries of U in CSC order, ones when None.

    ``normalize`` divides each column of U in :math:`U^T` by its sum. Rows of :math:`U A U^T` then sum to one if those
    of A do; otherwise they sum to more where words have several tokens.

    Examples
    --------
    >>> members = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 1, 2]), 3)  # a word of one token, and one of two
    >>> words = Upsampling.of("membership", members, torch.tensor([3]), torch.tensor([2]))
    >>> words.expand_to_tokens(torch.tensor([[1.0], [5.0]])).flatten().tolist()
    [1.0, 5.0, 5.0]
    >>> words.sum_to_words(torch.ones(3, 1)).flatten().tolist()
    [1.0, 2.0]
    """

    def __init__(self, edges: Edges, coefficients: Tensor | None = None, *, normalize: bool = False):
        self._up, self._up_coefficients = edges, coefficients
        self._down, slots = edges.reverse
        down = None if coefficients is None else coefficients[slots]
        if normalize:
            if down is None:
                down = torch.ones(edges.num_edges, dtype=torch.float64, device=slots.device)
            sums = down.new_zeros(self._down.num_destinations).index_add(0, self._down.destinations, down)
            down = down / sums[self._down.destinations]
        self._down_coefficients = down

    @classmethod
    def of(
        cls, method: str, members: Edges, token_counts: Tensor, word_counts: Tensor, *, normalize: bool = False
    ) -> Upsampling:
        """The matrix of a batch, from the edges from tokens to words and the numbers (B,) of each sentence."""
        require_choice("upsampling", method, METHODS)
        if method == "membership":
            return cls(members.reverse[0], normalize=normalize)
        edges, coefficients = _interpolate(method, token_counts.long(), word_counts.long())
        return cls(edges, coefficients, normalize=normalize)

    def sum_to_words(self, values: Tensor) -> Tensor:
        """(N, D) of tokens -> (W, D), :math:`U^T x`."""
        return aggregate(self._down, values, self._down_coefficients)

    def expand_to_tokens(self, values: Tensor) -> Tensor:
        """(W, D) of words -> (N, D), :math:`U x`."""
        return aggregate(self._up, values, self._up_coefficients)


def _interpolate(method: str, token_counts: Tensor, word_counts: Tensor) -> tuple[Edges, Tensor | None]:
    """Edges from words to tokens and their coefficients; words and tokens are pixels of rows of equal length."""

    def expand(per_sentence: Tensor) -> Tensor:
        return torch.repeat_interleave(per_sentence, token_counts)

    device, total = token_counts.device, int(word_counts.sum())
    first_word = expand(word_counts.cumsum(0) - word_counts)
    count = len(first_word)
    position = torch.arange(count, device=device) - expand(token_counts.cumsum(0) - token_counts)
    words, tokens = expand(word_counts), expand(token_counts)
    if method == "nearest":
        indptr = torch.arange(count + 1, device=device)
        return Edges(indptr, first_word + position * words // tokens, total, checked=True), None
    # the centre of token i is at (i + 1/2) W / N - 1/2 on the axis of word centres
    centre = ((position + 0.5) * words.double() / tokens - 0.5).clamp(min=0)
    left = centre.floor().long()
    right = torch.minimum(left + 1, words - 1)
    fraction = centre - left
    indices = torch.stack([first_word + left, first_word + right], dim=1).flatten()
    indptr = torch.arange(0, 2 * count + 1, 2, device=device)
    return Edges(indptr, indices, total, checked=True), torch.stack([1 - fraction, fraction], dim=1).flatten()
