"""Relations ``forward`` and ``backward``: all earlier or all later tokens (masks of MTSA, section 2.2)."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from graphattn.builders.layout import Layout
from graphattn.builders.relations.base import RangeRelation, Relation, check_choice
from graphattn.ragged import Ints
from graphattn.schema import BACKWARD, FORWARD


class Order(RangeRelation):
    """``forward``: each token attends to the tokens before it; ``backward``: to those after it; never to itself.

    Parameters
    ----------
    direction : ``"forward"``, ``"backward"``, or ``"both"`` for both relations

    Raises
    ------
    ConfigError
        for another direction
    """

    def __init__(self, direction: str = "both"):
        check_choice("direction", direction, (FORWARD, BACKWARD, "both"))
        self.direction = self.name = direction

    @override
    def parts(self) -> tuple[Relation, ...]:
        return (Order(FORWARD), Order(BACKWARD)) if self.direction == "both" else (self,)

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        starts = np.repeat(layout.token_starts, layout.lengths)
        tokens = np.arange(layout.num_tokens)
        if self.direction == FORWARD:
            return starts, tokens
        return tokens + 1, starts + np.repeat(layout.lengths, layout.lengths)

    def __repr__(self) -> str:
        return f"Order({self.direction!r})"
