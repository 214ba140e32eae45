"""Relation ``shuffled-group``: word groups of the right sizes in the wrong places (UMST, section 6, Figure 5)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.builders.relations.csc import indptr_from_degrees
from graphattn.builders.relations.random_draws import check_seed, lots, named


class ShuffledGroup(RangeRelation):
    """The sizes of a text's words, in an order drawn by lot, cut the text into other groups; each token sees its own.

    ``[CLS]`` is a token and a word like the others here. The lot is that of :class:`Random`.

    Parameters
    ----------
    seed : another one gives other groups

    Raises
    ------
    ConfigError
        when the seed is negative
    """

    def __init__(self, seed: int = 0):
        check_seed(seed)
        self.seed = seed
        self.name = named("shuffled-group", seed)

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """First and last token of the group."""
        first, stop = layout.word_bounds
        words = layout.word_counts
        places = np.arange(len(first)) - np.repeat(layout.word_starts, words)
        drawn = lots(self.seed, np.repeat(words, words), places)
        sizes = (stop - first)[np.lexsort((drawn, layout.sentence_of_word))]
        ends = indptr_from_degrees(sizes)
        return np.repeat(ends[:-1], sizes), np.repeat(ends[1:], sizes)

    def __repr__(self) -> str:
        return f"ShuffledGroup({self.seed or ''})"
