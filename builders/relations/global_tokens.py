"""Relation ``global``: a few tokens that see all and are seen by all (Longformer, section 3.1; BigBird, section 2)."""

from __future__ import annotations

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.exceptions import ConfigError


class Global(RangeRelation):
    """The first tokens of a text, ``[CLS]`` among them, see every token, and every token sees them.

    Global attention is symmetric (Longformer). Which tokens are global is the first ones: ``[CLS]`` in Longformer's
    classifiers, the set G of existing tokens in BigBird's internal transformer construction.

    Parameters
    ----------
    count : how many of the first tokens

    Raises
    ------
    ConfigError
        when it is below 1

    References
    ----------
    Beltagy, Peters, Cohan: Longformer. 2020. arXiv:2004.05150, section 3.1.
    Zaheer et al.: Big Bird. NeurIPS 2020. arXiv:2007.14062, section 2.

    Examples
    --------
    >>> from graphattn.builders import Window
    >>> (Global(1) | Window(3)).name
    'global:1|window:3'
    """

    def __init__(self, count: int = 1):
        if count < 1:
            raise ConfigError(f"global:{count} has no tokens; give at least 1, which is [CLS]")
        self.count = count
        self.name = f"global:{count}"

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """The whole text for global tokens, the global tokens for the others."""
        starts = np.repeat(layout.token_starts, layout.lengths)
        lengths = np.repeat(layout.lengths, layout.lengths)
        return starts, starts + np.where(layout.positions < self.count, lengths, self.count)

    def __repr__(self) -> str:
        return f"Global({self.count})"
