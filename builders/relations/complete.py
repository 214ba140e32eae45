"""Relation ``all``: every token of the sentence, itself included; the plain Transformer's graph."""

from __future__ import annotations

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.schema import ALL


class Complete(RangeRelation):
    """Every token sees every token of its sentence."""

    name = ALL

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """The sentence's ends."""
        starts = np.repeat(layout.token_starts, layout.lengths)
        return starts, starts + np.repeat(layout.lengths, layout.lengths)
