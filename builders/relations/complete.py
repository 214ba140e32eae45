"""Relation ``all``: every token of the sentence, itself included; the plain Transformer's graph. Or every word."""

from __future__ import annotations

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.exceptions import ConfigError
from graphattn.schema import ALL, ALL_WORDS, TOKEN, WORD


class Complete(RangeRelation):
    """Every token sees every token of its sentence, or every word every word (``all:word``).

    Words are of no use alone; take ``Membership()`` or ``Dependency()`` with them.

    Parameters
    ----------
    on : ``"token"`` or ``"word"``

    Raises
    ------
    ConfigError
        when ``on`` is neither
    """

    def __init__(self, on: str = TOKEN):
        if on not in (WORD, TOKEN):
            raise ConfigError(f"Complete(on={on!r}) is not possible; choose 'token' or 'word'")
        self.source = self.target = on
        self.name = ALL if on == TOKEN else ALL_WORDS

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """The sentence's ends."""
        counts = layout.lengths if self.target == TOKEN else layout.word_counts
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        return starts, starts + np.repeat(counts, counts)

    def __repr__(self) -> str:
        return "Complete()" if self.target == TOKEN else f"Complete(on={self.target!r})"
