"""Relation ``binary``: near tokens one by one, far ones in ever longer spans (BP-Transformer, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import CompoundRelation, Nodes, RangeRelation, Relation, edges_per_sentence
from graphattn.builders.relations.csc import indptr_from_degrees, ragged_arange
from graphattn.exceptions import ConfigError
from graphattn.schema import SPAN, TOKEN


class BinaryPartition(CompoundRelation):
    """A binary tree over the text: spans see their tokens, tokens see spans, the farther away the longer.

    Level 0 are the tokens; node m of level l spans the tokens from m·2^l on, 2^l of them or as many as are left, up to
    one root. Nodes from level 1 on are of type ``span`` and carry ``level``, ``first`` and ``stop``.

    - Affiliated edges lead from every token to each span it lies in.
    - Contextual edges lead to a token, on either side, from the ``count`` nearest nodes of level 0, then from the
      ``count`` next ones of level 1, and so on. Where the next level's node would span tokens that were seen already,
      its other child is seen in its place, so that what a token sees covers the text without overlap.
    - A token sees itself.

    Parameters
    ----------
    count : nodes of each level on each side, k of the paper

    Raises
    ------
    ConfigError
        when it is below 1

    References
    ----------
    Ye, Guo, Gan, Qiu, Zhang: BP-Transformer. 2019. arXiv:1911.04070, section 3.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> graph = TextGraphBuilder([BinaryPartition(1)], cls=False).build(list("abcdefgh"))
    >>> graph.nodes["span"].data["level"].tolist()
    [1, 1, 1, 1, 2, 2, 3]
    >>> graph.in_edges(0, etype=("span", "binary:1", "token"))[0].tolist()  # cd and efgh; b is a token
    [1, 5]
    """

    def __init__(self, count: int = 1):
        if count < 1:
            raise ConfigError(f"binary:{count} has no edges between tokens; give at least 1")
        self.count = count
        self.name = f"binary:{count}"

    def parts(self) -> tuple[Relation, ...]:
        """Token to token, span to token, token to span."""
        return _NearTokens(self), _FarSpans(self), _Affiliated(self)

    def __repr__(self) -> str:
        return f"BinaryPartition({self.count})"


class _Part(Relation):
    """What the three kinds of edges share."""

    def __init__(self, whole: BinaryPartition):
        self.name, self.count = whole.name, whole.count

    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        return {SPAN: _spans(layout)}


class _NearTokens(_Part, RangeRelation):
    """Level 0: the tokens that a token sees one by one, itself included; they lie side by side."""

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        seen = next(_levels_seen(layout, self.count))
        starts = np.repeat(layout.token_starts, layout.lengths)
        return starts + seen.left, starts + seen.right_stop


class _FarSpans(_Part):
    """Levels from 1 on: of each level a run of spans before the token and one after it."""

    source = SPAN

    def edges(self, layout: Layout) -> RelationArrays:
        first, counts = self._runs(layout)
        indptr = indptr_from_degrees(counts.sum(axis=1))
        check_edge_count(self.name, int(indptr[-1]))
        sources = ragged_arange(first.ravel(), counts.ravel())
        return RelationArrays(indptr, sources, edges_per_sentence(layout, TOKEN, indptr))

    def num_edges(self, layout: Layout) -> Ints:
        return edges_per_sentence(layout, TOKEN, indptr_from_degrees(self._runs(layout)[1].sum(axis=1)))

    def _runs(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N, runs) first span of each run, ascending, and how many spans it has."""
        sizes = _level_sizes(layout.lengths)
        before = np.cumsum(sizes, axis=0) - sizes + _starts(sizes.sum(axis=0))
        first, stop = [np.empty((0, layout.num_tokens), np.int64)], [np.empty((0, layout.num_tokens), np.int64)]
        for begin, seen in zip(before, islice(_levels_seen(layout, self.count), 1, None), strict=True):
            offset = np.repeat(begin, layout.lengths)
            first.append(offset + np.stack([seen.left, seen.right]))
            stop.append(offset + np.stack([seen.left_stop, seen.right_stop]))
        begins, ends = np.concatenate(first).T, np.concatenate(stop).T
        return begins, ends - begins


class _Affiliated(_Part, RangeRelation):
    """The tokens that a span is made of."""

    target = SPAN

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        spans = _spans(layout)
        starts = np.repeat(layout.token_starts, spans.per_sentence)
        return starts + spans.data["first"], starts + spans.data["stop"]


class _Seen(NamedTuple):
    """(N,) each: the nodes of one level from ``left`` to ``left_stop`` and from ``right`` to ``right_stop``."""

    left: Ints
    left_stop: Ints
    right: Ints
    right_stop: Ints


def _levels_seen(layout: Layout, count: int) -> Iterator[_Seen]:
    """What each token sees of level 0, of level 1 and so on, up to the highest root of the batch."""
    low, high = layout.positions, layout.positions + 1  # the nodes before low and from high on are not seen yet
    left_extra = right_extra = np.zeros_like(low)  # nodes that the level below has seen for this one
    for sizes in (layout.lengths, *_level_sizes(layout.lengths)):
        size = np.repeat(sizes, layout.lengths)
        left = np.maximum(low - count + left_extra, 0)
        right = np.minimum(high + count - right_extra, size)
        left_extra, right_extra = left & 1, right & 1  # the sibling is seen already: not its parent next, but itself
        left, right = left - left_extra, right + right_extra
        stop = np.minimum(right, size)
        yield _Seen(left, low, np.minimum(high, stop), stop)
        low, high = left // 2, right // 2


def _level_sizes(lengths: Ints) -> Ints:
    """(levels, B) nodes of each level above the tokens; 0 above a root."""
    sizes, above = [], lengths
    while (above > 1).any():
        above = np.where(above > 1, (above + 1) // 2, 0)
        sizes.append(above)
    return np.array(sizes, dtype=np.int64).reshape(len(sizes), len(lengths))


def _spans(layout: Layout) -> Nodes:
    """The span nodes, text by text, from level 1 up."""
    sizes = _level_sizes(layout.lengths)
    per_sentence = sizes.sum(axis=0)
    by_text = sizes.T.ravel()  # (B · levels,)
    place = ragged_arange(np.zeros_like(by_text), by_text)
    level = np.repeat(np.tile(np.arange(1, len(sizes) + 1), len(layout)), by_text)
    first = place << level
    stop = np.minimum((place + 1) << level, np.repeat(layout.lengths, per_sentence))
    position = np.arange(len(place)) - np.repeat(_starts(per_sentence), per_sentence)
    columns = {"position": position, "level": level, "first": first, "stop": stop}
    return Nodes(per_sentence, {name: values.astype(np.int32) for name, values in columns.items()})


def _starts(counts: Ints) -> Ints:
    return np.cumsum(counts) - counts
