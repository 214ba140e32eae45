"""Relation ``random-pairs``: every two tokens are joined or not, by the toss of a coin (UMST, section 6, Figure 5)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Layout
from graphattn.builders.relations.base import Relation, edges_per_sentence
from graphattn.builders.relations.csc import indptr_from_degrees, ragged_arange
from graphattn.builders.relations.random_draws import check_seed, lots, named


class RandomPairs(Relation):
    """Half of all pairs of a text's tokens see each other; each token sees itself. The lot is that of :class:`Random`.

    Parameters
    ----------
    seed : another one gives other pairs

    Raises
    ------
    ConfigError
        when the seed is negative
    """

    def __init__(self, seed: int = 0):
        check_seed(seed)
        self.seed = seed
        self.name = named("random-pairs", seed)

    def edges(self, layout: Layout) -> RelationArrays:
        """All pairs, less those that lose.

        Raises
        ------
        GraphError
            when there are more pairs than one graph can number
        """
        check_edge_count(self.name, int((layout.lengths**2).sum()))
        lengths = np.repeat(layout.lengths, layout.lengths)
        targets = np.repeat(layout.positions, lengths)
        sources = ragged_arange(np.zeros_like(lengths), lengths)
        coins = lots(self.seed, np.repeat(lengths, lengths), np.minimum(targets, sources), np.maximum(targets, sources))
        joined = (targets == sources) | (coins & np.uint64(1)).astype(bool)
        ends = indptr_from_degrees(lengths)
        indptr = np.concatenate([[0], np.cumsum(joined)])[ends]
        starts = np.repeat(np.repeat(layout.token_starts, layout.lengths), lengths)
        return RelationArrays(indptr, (starts + sources)[joined], edges_per_sentence(layout, self.target, indptr))

    def __repr__(self) -> str:
        return f"RandomPairs({self.seed or ''})"
