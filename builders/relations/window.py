"""Relation ``window``: the tokens around a token, itself included (MS-Trans, Eq. 6-7)."""

from __future__ import annotations

import re

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import RangeRelation
from graphattn.exceptions import ConfigError
from graphattn.scales import Scale
from graphattn.schema import window


class Window(RangeRelation):
    """Tokens within a window of a scale's total width, clipped at the ends of the sentence.

    Parameters
    ----------
    scale : total width, odd, or a share of the sentence's length such as ``"N/16"``
    as_radius : read the scale as the reach to each side, as Eq. 7 literally says; the name is then ``radius:...``

    Raises
    ------
    ConfigError
        when the scale is even or is none; the paper forces scales to be odd in either reading

    Examples
    --------
    >>> Window("N/16").name, Window(3, as_radius=True).name
    ('window:N/16', 'radius:3')
    """

    def __init__(self, scale: int | str | Scale, *, as_radius: bool = False):
        if as_radius and re.fullmatch(r"\d*[02468]", str(scale).strip()):
            raise ConfigError(
                f"radius {scale} is even, and the paper's scales are odd in either reading; for so many tokens to each "
                f"side write window:{2 * int(str(scale)) + 1}"
            )
        self.scale, self.as_radius = Scale(scale), as_radius
        self.name = f"radius:{self.scale}" if as_radius else window(self.scale)

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """From ``reach`` tokens before to ``reach`` tokens after."""
        widths = self.scale.widths(layout.lengths)
        reach = np.repeat(widths if self.as_radius else (widths - 1) // 2, layout.lengths)
        starts = np.repeat(layout.token_starts, layout.lengths)
        ends = starts + np.repeat(layout.lengths, layout.lengths)
        here = np.arange(layout.num_tokens)
        return np.maximum(here - reach, starts), np.minimum(here + reach + 1, ends)

    def __repr__(self) -> str:
        return f"Window({str(self.scale)!r}{', as_radius=True' if self.as_radius else ''})"
