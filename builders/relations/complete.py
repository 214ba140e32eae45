"""Relation ``all``: every token attends to every token of its sentence, as in the Transformer; or words to words."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from graphattn.builders.layout import Layout
from graphattn.builders.relations.base import RangeRelation, check_choice
from graphattn.ragged import Ints
from graphattn.schema import ALL, ALL_WORDS, TOKEN, WORD


class Complete(RangeRelation):
    """Every token attends to every token of its sentence, or every word to every word (``all:word``).

    Relations between words need ``Membership()`` or ``Dependency()`` next to them, which connect words to tokens.

    Parameters
    ----------
    on : ``"token"`` or ``"word"``

    Raises
    ------
    ConfigError
        for other nodes
    """

    def __init__(self, on: str = TOKEN):
        check_choice("on", on, (TOKEN, WORD))
        self.source = self.target = on
        self.name = ALL if on == TOKEN else ALL_WORDS

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        counts = layout.lengths if self.target == TOKEN else layout.word_counts
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        return starts, starts + np.repeat(counts, counts)

    def __repr__(self) -> str:
        return "Complete()" if self.target == TOKEN else f"Complete(on={self.target!r})"
