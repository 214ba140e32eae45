"""Relations ``forward`` and ``backward``: the tokens strictly before or strictly after (masks of MTSA, section 2.2)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation, Relation
from graphattn.exceptions import ConfigError
from graphattn.schema import BACKWARD, FORWARD


class Order(RangeRelation):
    """Temporal order: ``forward`` edges come from earlier tokens, ``backward`` edges from later ones, none from itself.

    Parameters
    ----------
    direction : ``"forward"``, ``"backward"``, or ``"both"`` for the two relations at once

    Raises
    ------
    ConfigError
        for another direction
    """

    def __init__(self, direction: str = "both"):
        if direction not in (FORWARD, BACKWARD, "both"):
            raise ConfigError(f"direction {direction!r} does not exist; choose forward, backward or both")
        self.direction = self.name = direction

    def parts(self) -> tuple[Relation, ...]:
        """Two relations for ``both``."""
        return (Order(FORWARD), Order(BACKWARD)) if self.direction == "both" else (self,)

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """From the sentence's start up to the token, or from the next token to the sentence's end."""
        starts = np.repeat(layout.token_starts, layout.lengths)
        here = np.arange(layout.num_tokens)
        if self.direction == FORWARD:
            return starts, here
        return here + 1, starts + np.repeat(layout.lengths, layout.lengths)

    def __repr__(self) -> str:
        return f"Order({self.direction!r})"
