"""Relation ``group``: all tokens of the same word, itself included (A_w of UMST, section 2.1)."""

from __future__ import annotations

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.schema import GROUP


class WordGroup(RangeRelation):
    """Every token sees all tokens of its word; ``[CLS]`` sees itself."""

    name = GROUP

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """The word's first and last token."""
        first, stop = layout.word_bounds
        return first[layout.word_of_token], stop[layout.word_of_token]
