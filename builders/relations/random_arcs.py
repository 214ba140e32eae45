"""Relation ``random-arcs``: a tree over the words that no parser made (UMST, section 6: the noise parser)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation, RelationArrays
from graphattn.builders.relations.dependency import UNKNOWN, Dependency
from graphattn.builders.relations.membership import Membership
from graphattn.builders.relations.random_draws import check_seed, lots, mixed, named
from graphattn.schema import WORD


class RandomArcs(Relation):
    """As many arcs as a parse with one root has, drawn by lot, undirected and with self-loops, between words.

    Words come in an order drawn by lot, and each hangs on one of those before it. ``[CLS]`` is a word like the others
    here. The lot is that of :class:`Random`; edge features are those of :class:`Dependency`,
    the labels unknown.

    Parameters
    ----------
    seed : another one gives other arcs

    Raises
    ------
    ConfigError
        when the seed is negative
    """

    source = target = WORD

    def __init__(self, seed: int = 0):
        check_seed(seed)
        self.seed = seed
        self.name = named("random-arcs", seed)

    def parts(self) -> tuple[Relation, ...]:
        """Membership comes along: word nodes are of no use without it."""
        return self, Membership()

    def edges(self, layout: Layout) -> RelationArrays:
        """Those of the tree."""
        heads = self._heads(layout)
        return Dependency().edges(replace(layout, heads=heads, deprels=np.full_like(heads, UNKNOWN)))

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, without drawing them."""
        return np.maximum(3 * layout.word_counts - 2, 0)

    def _heads(self, layout: Layout) -> Ints:
        """(W,) 0-based head of each word within its sentence, -1 for the first in the drawn order."""
        words = np.repeat(layout.word_counts, layout.word_counts)
        places = np.arange(len(words)) - np.repeat(layout.word_starts, layout.word_counts)
        drawn = lots(self.seed, words, places)
        order = np.lexsort((drawn, layout.sentence_of_word))  # sentence by sentence, as the words are
        earlier = (mixed(drawn) % np.maximum(places, 1).astype(np.uint64)).astype(np.int64)
        starts = np.repeat(layout.word_starts, layout.word_counts)
        heads = np.empty(len(words), np.int64)
        heads[order] = np.where(places == 0, -1, order[starts + earlier] - starts)
        return heads

    def __repr__(self) -> str:
        return f"RandomArcs({self.seed or ''})"
