"""How words are carried to tokens: by membership, or as pictures are enlarged, by the nearest or by interpolation."""

from __future__ import annotations

import torch
from torch import Tensor

from graphattn.aggregation import aggregate
from graphattn.edges import Edges
from graphattn.exceptions import ConfigError

KINDS = ("membership", "nearest", "linear")


class Upsampling:
    r"""The matrix U (N, W) by which a map of words becomes one of tokens, :math:`U A U^T` (UMST, Eq. 4 and Table 6).

    ``membership`` is the paper's G, one where a token belongs to a word. Interpolation of a map, ``nearest`` or
    ``linear`` in both directions, is such a product too: U then has one or two numbers for each token, which depend on
    the numbers of tokens and words alone.

    Parameters
    ----------
    edges : from words to tokens
    coefficients : (E,) entries of U in CSC order; one when None
    normalize : divide each column of U in :math:`U^T` by its sum, so that the rows of :math:`U A U^T` have sum one when
        those of A have; where words are split they have more otherwise

    Examples
    --------
    >>> members = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 1, 2]), 3)  # a word of one token, and one of two
    >>> words = Upsampling.of("membership", members, torch.tensor([3]), torch.tensor([2]))
    >>> words.spread(torch.tensor([[1.0], [5.0]])).flatten().tolist()
    [1.0, 5.0, 5.0]
    >>> words.sums(torch.ones(3, 1)).flatten().tolist()
    [1.0, 2.0]
    """

    def __init__(self, edges: Edges, coefficients: Tensor | None = None, *, normalize: bool = False):
        self._up, self._of_tokens = edges, coefficients
        self._down, slots = edges.reverse
        self._of_words = None if coefficients is None else coefficients[slots]
        if normalize:
            own = self._of_words
            if own is None:
                own = torch.ones(edges.num_edges, dtype=torch.float64, device=slots.device)
            sums = own.new_zeros(self._down.num_destinations).index_add(0, self._down.destinations, own)
            self._of_words = own / sums[self._down.destinations]

    @classmethod
    def of(
        cls, kind: str, members: Edges, token_counts: Tensor, word_counts: Tensor, *, normalize: bool = False
    ) -> Upsampling:
        """The matrix of a batch.

        Parameters
        ----------
        kind : ``"membership"``, ``"nearest"`` or ``"linear"``
        members : from tokens to words
        token_counts, word_counts : (B,) of each sentence
        normalize : as above

        Raises
        ------
        ConfigError
            for another kind
        """
        if kind not in KINDS:
            raise ConfigError(f"upsampling is {kind!r}; choose one of: {', '.join(KINDS)}")
        if kind == "membership":
            return cls(members.reverse[0], normalize=normalize)
        edges, coefficients = _interpolated(kind, token_counts.long(), word_counts.long())
        return cls(edges, coefficients, normalize=normalize)

    def sums(self, values: Tensor) -> Tensor:
        """(N, D) of tokens -> (W, D), :math:`U^T x`."""
        return aggregate(self._down, values, self._of_words)

    def spread(self, values: Tensor) -> Tensor:
        """(W, D) of words -> (N, D), :math:`U x`."""
        return aggregate(self._up, values, self._of_tokens)


def _interpolated(kind: str, tokens: Tensor, words: Tensor) -> tuple[Edges, Tensor | None]:
    """Edges from words to tokens and their coefficients, as pixels of a row are enlarged."""
    starts = torch.repeat_interleave(words.cumsum(0) - words, tokens)
    places = torch.arange(len(starts), device=tokens.device) - torch.repeat_interleave(
        tokens.cumsum(0) - tokens, tokens
    )
    own, all_tokens = torch.repeat_interleave(words, tokens), torch.repeat_interleave(tokens, tokens)
    total = int(words.sum())
    if kind == "nearest":
        nodes = torch.arange(len(starts) + 1, device=tokens.device)
        return Edges(nodes, starts + places * own // all_tokens, total, checked=True), None
    # pixels are squares: the middle of token i lies at (i + 1/2) W / N - 1/2 among the middles of words
    middle = ((places + 0.5) * own.double() / all_tokens - 0.5).clamp(min=0)
    left = middle.floor().long()
    right = torch.minimum(left + 1, own - 1)
    share = middle - left
    indices = torch.stack([starts + left, starts + right], dim=1).flatten()
    indptr = torch.arange(0, len(indices) + 1, 2, device=tokens.device)
    return Edges(indptr, indices, total, checked=True), torch.stack([1 - share, share], dim=1).flatten()
