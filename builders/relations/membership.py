"""Relation ``in``: from the tokens of a word to the word's node (G of UMST, section 2.1)."""

from __future__ import annotations

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.schema import MEMBERSHIP, WORD


class Membership(RangeRelation):
    """Every word node receives from each of its tokens; ``[CLS]`` is a word of its own."""

    name = MEMBERSHIP
    target = WORD

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """The word's first and last token."""
        return layout.word_bounds
