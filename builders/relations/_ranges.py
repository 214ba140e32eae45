"""Relations ``all``, ``causal``, ``global``, ``forward``, ``backward``: sources of a token are a part of its text."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints
from graphattn._schema import ALL, ALL_WORDS, BACKWARD, CAUSAL, FORWARD, TOKEN, WORD
from graphattn._validation import require_range
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import RangeRelation, Relation, check_choice


class Complete(RangeRelation):
    """Every token attends to every token of its sentence, or every word to every word (``all:word``).

    Relations between words need ``Membership()`` or ``Dependency()`` next to them, which connect words to tokens.

    Parameters
    ----------
    on : ``"token"`` or ``"word"``
    """

    def __init__(self, on: str = TOKEN):
        check_choice("on", on, (TOKEN, WORD))
        self.source = self.target = on
        self.name = ALL if on == TOKEN else ALL_WORDS

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        if self.target == TOKEN:
            return layout.bounds_of_token
        starts, counts = layout.word_starts, layout.word_counts
        return np.repeat(starts, counts), np.repeat(starts + counts, counts)

    def __repr__(self) -> str:
        return "Complete()" if self.target == TOKEN else f"Complete(on={self.target!r})"


class Causal(RangeRelation):
    """Every token attends to itself and to the tokens before it, as in a decoder; with ``width`` to the last of them.

    Parameters
    ----------
    width : number of tokens, with itself; None for all

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> batch = TextGraphBuilder([Causal(2)], cls=False).text_batch([["time", "flies", "fast"]])
    >>> batch.edges["token", "causal:2", "token"].indices.tolist()
    [0, 0, 1, 1, 2]
    """

    def __init__(self, width: int | None = None):
        if width is not None:
            require_range("width", width, min=1)
        self.width = width
        self.name = CAUSAL if width is None else f"{CAUSAL}:{width}"

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, _ = layout.bounds_of_token
        stop = np.arange(1, layout.num_tokens + 1)
        return first if self.width is None else np.maximum(first, stop - self.width), stop

    def __repr__(self) -> str:
        return "Causal()" if self.width is None else f"Causal({self.width})"


class Global(RangeRelation):
    """The first tokens of a text, including ``[CLS]``, attend to every token, and every token attends to them.

    ``[CLS]`` is the global token of Longformer's classifiers; the first tokens are the set G in BigBird's internal
    transformer construction.

    Parameters
    ----------
    count : number of global tokens

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
        require_range("count", count, min=1)
        self.count = count
        self.name = f"global:{count}"

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = layout.bounds_of_token
        return first, np.where(layout.positions < self.count, stop, first + self.count)

    def __repr__(self) -> str:
        return f"Global({self.count})"


class Order(RangeRelation):
    """``forward``: each token attends to the tokens before it; ``backward``: to those after it; never to itself.

    Parameters
    ----------
    direction : ``"forward"``, ``"backward"``, or ``"both"`` for both relations
    """

    def __init__(self, direction: str = "both"):
        check_choice("direction", direction, (FORWARD, BACKWARD, "both"))
        self.direction = self.name = direction

    @override
    def parts(self) -> tuple[Relation, ...]:
        return (Order(FORWARD), Order(BACKWARD)) if self.direction == "both" else (self,)

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = layout.bounds_of_token
        tokens = np.arange(layout.num_tokens)
        return (first, tokens) if self.direction == FORWARD else (tokens + 1, stop)

    def __repr__(self) -> str:
        return f"Order({self.direction!r})"
