"""Relation ``binary``: near tokens one by one, far ones in longer and longer spans (BP-Transformer, section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints, concatenate_ranges, count_up, offsets_from_counts
from graphattn._schema import SPAN
from graphattn._validation import require_range
from graphattn.builders._batch import Nodes, RelationArrays, indptr_from_degrees
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import CompoundRelation, RangeRelation, Relation


class BinaryPartition(CompoundRelation):
    """A binary tree over the text: spans attend to their tokens, tokens to spans, which get longer with the distance.

    Level 0 consists of the tokens; node m of level l spans the 2^l tokens from m·2^l (fewer at the end), up to one
    root. Nodes above level 0 are of type ``span`` and have the features ``level``, ``first`` and ``stop``.

    - Affiliated edges lead from every token to each span that contains it.
    - Contextual edges lead to a token, on either side, from the ``count`` nearest nodes of level 0, then from the
      ``count`` next nodes of level 1, and so on. If the next node of a level overlaps nodes of the level below, its
      other child is used instead, so that the sources of a token cover the text without overlap.
    - A token attends to itself.

    Parameters
    ----------
    count : nodes of each level on each side, k in the paper

    References
    ----------
    Ye, Guo, Gan, Qiu, Zhang: BP-Transformer. 2019. arXiv:1911.04070, section 3.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> batch = TextGraphBuilder([BinaryPartition(1)], cls=False).text_batch([list("abcdefgh")])
    >>> batch.node_features["span"]["level"].tolist()
    [1, 1, 1, 1, 2, 2, 3]
    >>> edges = batch.edges["span", "binary:1", "token"]
    >>> edges.sources[edges.destinations == 0].tolist()  # cd and efgh; b is a token
    [1, 5]
    """

    def __init__(self, count: int = 1):
        require_range("count", count, min=1)
        self.count = count
        self.name = f"binary:{count}"

    @override
    def parts(self) -> tuple[Relation, ...]:
        return _NearTokens(self), _FarSpans(self), _Affiliated(self)

    def __repr__(self) -> str:
        return f"BinaryPartition({self.count})"


class _WithSpans(Relation):
    def __init__(self, relation: BinaryPartition):
        self.name, self.count = relation.name, relation.count

    @override
    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        return {SPAN: _spans(layout)}


class _NearTokens(_WithSpans, RangeRelation):
    """Sources of level 0, the token included; they are consecutive."""

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        level = next(_iterate_levels(layout, self.count))
        starts, _ = layout.bounds_of_token
        return starts + level.left, starts + level.right_stop


class _FarSpans(_WithSpans):
    """Sources above level 0: on each level a range of spans before the token and one after it."""

    source = SPAN

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        first, counts = self._ranges(layout)
        indptr = indptr_from_degrees(self.name, counts.sum(axis=1))
        return RelationArrays(indptr, concatenate_ranges(first.ravel(), counts.ravel()))

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return self._per_sentence(layout, offsets_from_counts(self._ranges(layout)[1].sum(axis=1)))

    def _ranges(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N, ranges) first span of each range, ascending, and its number of spans."""
        sizes = _level_sizes(layout.lengths)
        before = np.cumsum(sizes, axis=0) - sizes + offsets_from_counts(sizes.sum(axis=0))[:-1]
        first, stop = [np.empty((0, layout.num_tokens), np.int64)], [np.empty((0, layout.num_tokens), np.int64)]
        for begin, level in zip(before, islice(_iterate_levels(layout, self.count), 1, None), strict=True):
            offset = np.repeat(begin, layout.lengths)
            first.append(offset + np.stack([level.left, level.right]))
            stop.append(offset + np.stack([level.left_stop, level.right_stop]))
        begins, ends = np.concatenate(first).T, np.concatenate(stop).T
        return begins, ends - begins


class _Affiliated(_WithSpans, RangeRelation):
    """The tokens of a span."""

    target = SPAN

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        spans = _spans(layout)
        starts = np.repeat(layout.token_starts, spans.per_sentence)
        return starts + spans.data["first"], starts + spans.data["stop"]


class _Level(NamedTuple):
    """Sources of each token on one level: the ranges ``left:left_stop`` and ``right:right_stop``, each (N,)."""

    left: Ints
    left_stop: Ints
    right: Ints
    right_stop: Ints


def _iterate_levels(layout: Layout, count: int) -> Iterator[_Level]:
    """The sources of each token on level 0, level 1 and so on, up to the highest root of the batch."""
    low, high = layout.positions, layout.positions + 1  # nodes before low and from high on are not covered yet
    left_extra = right_extra = np.zeros_like(low)  # nodes that the level below covered for this one
    for sizes in (layout.lengths, *_level_sizes(layout.lengths)):
        size = np.repeat(sizes, layout.lengths)
        left = np.maximum(low - count + left_extra, 0)
        right = np.minimum(high + count - right_extra, size)
        # If the sibling is covered, use the node itself instead of its parent.
        left_extra, right_extra = left & 1, right & 1
        left, right = left - left_extra, right + right_extra
        stop = np.minimum(right, size)
        yield _Level(left, low, np.minimum(high, stop), stop)
        low, high = left // 2, right // 2


def _level_sizes(lengths: Ints) -> Ints:
    """(levels, B) number of nodes on each level above the tokens; 0 above a root."""
    sizes, above = [], lengths
    while (above > 1).any():
        above = np.where(above > 1, (above + 1) // 2, 0)
        sizes.append(above)
    return np.array(sizes, dtype=np.int64).reshape(len(sizes), len(lengths))


def _spans(layout: Layout) -> Nodes:
    """The span nodes, text by text, in the order of levels."""
    sizes = _level_sizes(layout.lengths)
    per_sentence = sizes.sum(axis=0)
    by_text = sizes.T.ravel()  # (B · levels,)
    index = count_up(by_text)
    level = np.repeat(np.tile(np.arange(1, len(sizes) + 1), len(layout)), by_text)
    first = index << level
    stop = np.minimum((index + 1) << level, np.repeat(layout.lengths, per_sentence))
    columns = {"position": count_up(per_sentence), "level": level, "first": first, "stop": stop}
    return Nodes(per_sentence, {name: values.astype(np.int32) for name, values in columns.items()})
