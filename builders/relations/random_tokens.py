"""Relation ``random``: every token sees a few tokens drawn by lot (BigBird, section 2)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation, edges_per_sentence
from graphattn.builders.relations.csc import indptr_from_degrees
from graphattn.builders.relations.random_draws import check_seed, lots, mixed, named
from graphattn.exceptions import ConfigError


class Random(Relation):
    """Every token sees ``count`` different tokens of its text, all sets of so many equally likely.

    It is meant for a few: drawing takes count² steps a token. The lot depends on the seed, the text's length and the
    token's position, so a text has the same edges in every batch and in every process.

    Parameters
    ----------
    count : how many tokens each token sees; all of them in a text that has no more
    seed : another one gives other edges

    Raises
    ------
    ConfigError
        when the count is below 1, or the seed is negative

    References
    ----------
    Zaheer et al.: Big Bird. NeurIPS 2020. arXiv:2007.14062, section 2.

    Examples
    --------
    >>> Random(3).name, Random(3, seed=7).name
    ('random:3', 'random:3:7')
    """

    def __init__(self, count: int, seed: int = 0):
        if count < 1:
            raise ConfigError(f"random:{count} has no edges; give at least 1")
        check_seed(seed)
        self.count, self.seed = count, seed
        self.name = named(f"random:{count}", seed)

    def edges(self, layout: Layout) -> RelationArrays:
        """Sources drawn without replacement (Floyd's algorithm, for all tokens at once).

        Raises
        ------
        GraphError
            when there are more edges than one graph can number
        """
        lengths = np.repeat(layout.lengths, layout.lengths)
        degrees = np.minimum(lengths, self.count)
        indptr = indptr_from_degrees(degrees)
        check_edge_count(self.name, int(indptr[-1]))
        drawn = self._drawn(lengths, layout.positions, degrees)
        real = np.arange(drawn.shape[1]) < degrees[:, None]
        sources = drawn + np.repeat(layout.token_starts, layout.lengths)[:, None]
        return RelationArrays(indptr, sources[real], edges_per_sentence(layout, self.target, indptr))

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, without drawing them."""
        return np.minimum(layout.lengths, self.count) * layout.lengths

    def _drawn(self, lengths: Ints, positions: Ints, degrees: Ints) -> Ints:
        """(N, most edges) positions, ascending; the first ``degrees`` of each row are real."""
        most = int(degrees.max(initial=0))
        drawn = np.full((len(lengths), most), np.iinfo(np.int64).max)
        state = lots(self.seed, lengths, positions)
        for step in range(most):
            last = lengths - degrees + step  # this step adds one of the positions up to here
            lot = (mixed(state + np.uint64(step)) % np.maximum(last + 1, 1).astype(np.uint64)).astype(np.int64)
            taken = (drawn[:, :step] == lot[:, None]).any(axis=1)
            drawn[:, step] = np.where(step < degrees, np.where(taken, last, lot), drawn[:, step])
        return np.sort(drawn, axis=1)

    def __repr__(self) -> str:
        return f"Random({self.count}{f', seed={self.seed}' if self.seed else ''})"
