"""Relation ``dilated``: a window with gaps (the dilated sliding window of Longformer, section 3.1)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation, edges_per_sentence
from graphattn.builders.relations.csc import indptr_from_degrees, ragged_arange
from graphattn.exceptions import ConfigError
from graphattn.scales import Scale


class Dilated(Relation):
    """Every token sees ``scale`` tokens around it, itself included, ``dilation`` apart; clipped at the text's ends.

    Parameters
    ----------
    scale : how many tokens, odd, or a share of the text's length such as ``"N/16"``
    dilation : distance between two of them; 1 is an ordinary window

    Raises
    ------
    ConfigError
        when the scale is even or is none, or the dilation is below 1

    References
    ----------
    Beltagy, Peters, Cohan: Longformer. 2020. arXiv:2004.05150, section 3.1.

    Examples
    --------
    >>> Dilated(5, 2).name
    'dilated:5:2'
    """

    def __init__(self, scale: int | str | Scale, dilation: int):
        if dilation < 1:
            raise ConfigError(f"dilation is {dilation}; it must be at least 1, which is a window without gaps")
        self.scale, self.dilation = Scale(scale), dilation
        self.name = f"dilated:{self.scale}:{dilation}"

    def edges(self, layout: Layout) -> RelationArrays:
        """To the left as far as the gaps fit in, and to the right.

        Raises
        ------
        GraphError
            when there are more edges than one graph can number
        """
        before, after = self._reach(layout)
        degrees = before + 1 + after
        indptr = indptr_from_degrees(degrees)
        check_edge_count(self.name, int(indptr[-1]))
        sources = ragged_arange(np.arange(layout.num_tokens) - before * self.dilation, degrees, self.dilation)
        return RelationArrays(indptr, sources, edges_per_sentence(layout, self.target, indptr))

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, without writing them out."""
        before, after = self._reach(layout)
        return edges_per_sentence(layout, self.target, indptr_from_degrees(before + 1 + after))

    def _reach(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N,) how many tokens are seen before each token, and after it."""
        most = np.repeat((self.scale.widths(layout.lengths) - 1) // 2, layout.lengths)
        behind = np.repeat(layout.lengths, layout.lengths) - 1 - layout.positions
        return np.minimum(most, layout.positions // self.dilation), np.minimum(most, behind // self.dilation)

    def __repr__(self) -> str:
        return f"Dilated({str(self.scale)!r}, {self.dilation})"
