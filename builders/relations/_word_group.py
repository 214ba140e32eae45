"""Relations ``group`` and ``in``: between the tokens of a word, and from them to the word (UMST, section 2.1)."""

from __future__ import annotations

from typing_extensions import override

from graphattn._ragged import Ints
from graphattn._schema import GROUP, MEMBERSHIP, WORD
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import RangeRelation


class WordGroup(RangeRelation):
    """Every token attends to all tokens of its word (A_w); ``[CLS]`` to itself."""

    name = GROUP

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = layout.word_bounds
        return first[layout.word_of_token], stop[layout.word_of_token]


class Membership(RangeRelation):
    """Every word node attends to its tokens (G); ``[CLS]`` is a word of its own."""

    name = MEMBERSHIP
    target = WORD

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.word_bounds
