"""Relations ``window``, ``radius`` and ``dilated``: the tokens around a token, itself included."""

from __future__ import annotations

import re

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints, concatenate_ranges, offsets_from_counts
from graphattn._scales import Scale
from graphattn._schema import window
from graphattn._validation import require_range
from graphattn.builders._batch import RelationArrays, indptr_from_degrees
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import RangeRelation, Relation
from graphattn.exceptions import ConfigError


class Window(RangeRelation):
    """Tokens within a window of a given total width, clipped at both ends of the sentence (MS-Trans, Eq. 6-7).

    Parameters
    ----------
    scale : total width, odd, or a fraction of the sentence's length such as ``"N/16"``
    as_radius : the scale is the reach to each side, as Eq. 7 says literally; the name is then ``radius:...``

    Raises
    ------
    ConfigError
        if the scale is even or invalid; the paper's scales are odd in both readings

    Examples
    --------
    >>> Window("N/16").name, Window(3, as_radius=True).name
    ('window:N/16', 'radius:3')
    """

    def __init__(self, scale: int | str | Scale, *, as_radius: bool = False):
        if as_radius and re.fullmatch(r"\d*[02468]", str(scale).strip()):
            raise ConfigError(
                f"radius {scale} is even, but the paper's scales are odd; for {scale} tokens to each side use "
                f"window:{2 * int(str(scale)) + 1}"
            )
        self.scale, self.as_radius = Scale(scale), as_radius
        self.name = f"radius:{self.scale}" if as_radius else window(self.scale)

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        widths = self.scale.widths(layout.lengths)
        reach = np.repeat(widths if self.as_radius else (widths - 1) // 2, layout.lengths)
        first, stop = layout.bounds_of_token
        tokens = np.arange(layout.num_tokens)
        return np.maximum(tokens - reach, first), np.minimum(tokens + reach + 1, stop)

    def __repr__(self) -> str:
        return f"Window({str(self.scale)!r}{', as_radius=True' if self.as_radius else ''})"


class Dilated(Relation):
    """A window with gaps: ``scale`` tokens, ``dilation`` apart, clipped at both ends of the text.

    Parameters
    ----------
    scale : number of tokens, odd, or a fraction of the text's length such as ``"N/16"``
    dilation : distance between neighbours; 1 is an ordinary window

    Raises
    ------
    ConfigError
        if the scale is even or invalid, or the dilation is below 1

    References
    ----------
    Beltagy, Peters, Cohan: Longformer. 2020. arXiv:2004.05150, section 3.1.

    Examples
    --------
    >>> Dilated(5, 2).name
    'dilated:5:2'
    """

    def __init__(self, scale: int | str | Scale, dilation: int):
        require_range("dilation", dilation, min=1)
        self.scale, self.dilation = Scale(scale), dilation
        self.name = f"dilated:{self.scale}:{dilation}"

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        before, after = self._reach(layout)
        degrees = before + 1 + after
        indptr = indptr_from_degrees(self.name, degrees)
        sources = concatenate_ranges(np.arange(layout.num_tokens) - before * self.dilation, degrees, self.dilation)
        return RelationArrays(indptr, sources)

    @override
    def num_edges(self, layout: Layout) -> Ints:
        before, after = self._reach(layout)
        return self._per_sentence(layout, offsets_from_counts(before + 1 + after))

    def _reach(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N,) number of sources before each token, and after it."""
        most = np.repeat((self.scale.widths(layout.lengths) - 1) // 2, layout.lengths)
        following = np.repeat(layout.lengths, layout.lengths) - 1 - layout.positions
        return np.minimum(most, layout.positions // self.dilation), np.minimum(most, following // self.dilation)

    def __repr__(self) -> str:
        return f"Dilated({str(self.scale)!r}, {self.dilation})"
