"""Relation ``global``: a few tokens attend to all tokens and all attend to them (Longformer, BigBird)."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from graphattn.builders.layout import Layout
from graphattn.builders.relations.base import RangeRelation, check_minimum
from graphattn.ragged import Ints


class Global(RangeRelation):
    """The first tokens of a text, including ``[CLS]``, attend to every token, and every token attends to them.

    ``[CLS]`` is the global token of Longformer's classifiers; the first tokens are the set G in BigBird's internal
    transformer construction.

    Parameters
    ----------
    count : number of global tokens

    Raises
    ------
    ConfigError
        if it is below 1

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
        check_minimum("count", count, 1)
        self.count = count
        self.name = f"global:{count}"

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        starts = np.repeat(layout.token_starts, layout.lengths)
        lengths = np.repeat(layout.lengths, layout.lengths)
        return starts, starts + np.where(layout.positions < self.count, lengths, self.count)

    def __repr__(self) -> str:
        return f"Global({self.count})"
