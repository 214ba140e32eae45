"""Random relations: ``random``, ``random-pairs``, ``random-arcs`` and ``shuffled-group``.

The draws depend only on the seed, the text's length and the position, so a text has the same edges in every batch,
process and run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn._ragged import Ints, count_up, offsets_from_counts
from graphattn._schema import WORD
from graphattn._validation import require_range
from graphattn.builders._batch import RelationArrays, check_edge_count, indptr_from_degrees
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import RangeRelation, Relation
from graphattn.builders.relations._dependency import UNKNOWN, Dependency
from graphattn.builders.relations._word_group import Membership

_GOLDEN = 0x9E3779B97F4A7C15


class _Seeded(Relation):
    """A relation with a seed as its only parameter."""

    prefix: str

    def __init__(self, seed: int = 0):
        require_range("seed", seed, min=0)
        self.seed = seed
        self.name = _with_seed(self.prefix, seed)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.seed or ''})"


class Random(Relation):
    """Every token attends to ``count`` tokens of its text, drawn uniformly without replacement (BigBird, section 2).

    Drawing takes count² steps per token.

    Parameters
    ----------
    count : sources of each token; all tokens in a text that has no more
    seed : another seed gives other edges

    References
    ----------
    Zaheer et al.: Big Bird. NeurIPS 2020. arXiv:2007.14062, section 2.

    Examples
    --------
    >>> Random(3).name, Random(3, seed=7).name
    ('random:3', 'random:3:7')
    """

    def __init__(self, count: int, seed: int = 0):
        require_range("count", count, min=1)
        require_range("seed", seed, min=0)
        self.count, self.seed = count, seed
        self.name = _with_seed(f"random:{count}", seed)

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        lengths = np.repeat(layout.lengths, layout.lengths)
        degrees = np.minimum(lengths, self.count)
        indptr = indptr_from_degrees(self.name, degrees)
        drawn = self._draw_sources(lengths, layout.positions, degrees)
        is_edge = np.arange(drawn.shape[1]) < degrees[:, None]
        sources = drawn + layout.bounds_of_token[0][:, None]
        return RelationArrays(indptr, sources[is_edge])

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return np.minimum(layout.lengths, self.count) * layout.lengths

    def _draw_sources(self, lengths: Ints, positions: Ints, degrees: Ints) -> Ints:
        """(N, most edges) positions, ascending; the first ``degrees`` of each row count (Floyd's algorithm)."""
        most = int(degrees.max(initial=0))
        drawn = np.full((len(lengths), most), np.iinfo(np.int64).max)
        bits = draw_bits(self.seed, lengths, positions)
        for step in range(most):
            last = lengths - degrees + step  # this step adds one of the positions up to here
            draw = (scramble(bits + np.uint64(step)) % np.maximum(last + 1, 1).astype(np.uint64)).astype(np.int64)
            is_taken = (drawn[:, :step] == draw[:, None]).any(axis=1)
            drawn[:, step] = np.where(step < degrees, np.where(is_taken, last, draw), drawn[:, step])
        return np.sort(drawn, axis=1)

    def __repr__(self) -> str:
        return f"Random({self.count}{f', seed={self.seed}' if self.seed else ''})"


class RandomPairs(_Seeded):
    """Each pair of a text's tokens is joined with probability 1/2, and each token with itself (UMST, Figure 5).

    Parameters
    ----------
    seed : another seed gives other pairs
    """

    prefix = "random-pairs"

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        check_edge_count(self.name, int((layout.lengths**2).sum()))
        lengths = np.repeat(layout.lengths, layout.lengths)
        targets = np.repeat(layout.positions, lengths)
        sources = count_up(lengths)
        smaller, larger = np.minimum(targets, sources), np.maximum(targets, sources)
        coins = draw_bits(self.seed, np.repeat(lengths, lengths), smaller, larger)
        is_edge = (targets == sources) | (coins & np.uint64(1)).astype(bool)
        indptr = offsets_from_counts(is_edge)[offsets_from_counts(lengths)]
        starts = np.repeat(layout.bounds_of_token[0], lengths)
        return RelationArrays(indptr, (starts + sources)[is_edge])


class RandomArcs(_Seeded):
    """A random dependency tree over the words, undirected and with self-loops (UMST, section 6: the noise parser).

    Words are shuffled, and each depends on a random one before it. ``[CLS]`` is a word like the others. Edge features
    are those of :class:`Dependency`; all labels are unknown.

    Parameters
    ----------
    seed : another seed gives other arcs
    """

    prefix = "random-arcs"
    source = target = WORD

    @override
    def parts(self) -> tuple[Relation, ...]:
        return self, Membership()

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        heads = self._draw_heads(layout)
        return Dependency().edges(replace(layout, heads=heads, deprels=np.full_like(heads, UNKNOWN)))

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return np.maximum(3 * layout.word_counts - 2, 0)

    def _draw_heads(self, layout: Layout) -> Ints:
        """(W,) 0-based head of each word within its sentence, -1 for the first in the shuffled order."""
        words = np.repeat(layout.word_counts, layout.word_counts)
        starts = np.repeat(layout.word_starts, layout.word_counts)
        positions = count_up(layout.word_counts)
        bits = draw_bits(self.seed, words, positions)
        order = np.lexsort((bits, layout.sentence_of_word))  # shuffles the words within each sentence
        earlier = (scramble(bits) % np.maximum(positions, 1).astype(np.uint64)).astype(np.int64)
        heads = np.empty(len(words), np.int64)
        heads[order] = np.where(positions == 0, -1, order[starts + earlier] - starts)
        return heads


class ShuffledGroup(_Seeded, RangeRelation):
    """Word groups of the same sizes in random order; every token attends to the tokens of its group.

    ``[CLS]`` is a token and a word like the others.

    Parameters
    ----------
    seed : another seed gives other groups
    """

    prefix = "shuffled-group"

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        first, stop = layout.word_bounds
        words = layout.word_counts
        bits = draw_bits(self.seed, np.repeat(words, words), count_up(words))
        sizes = (stop - first)[np.lexsort((bits, layout.sentence_of_word))]
        ends = offsets_from_counts(sizes)
        return np.repeat(ends[:-1], sizes), np.repeat(ends[1:], sizes)


def draw_bits(seed: int, lengths: Ints, *positions: Ints) -> npt.NDArray[np.uint64]:
    """(N,) 64 random bits for each position, or combination of positions, in a text.

    ``lengths`` (N,) are the lengths of the texts, each array of ``positions`` is (N,); another seed gives other bits.
    """
    bits = scramble(lengths.astype(np.uint64) + np.uint64(seed))
    for column in positions:
        bits = scramble(bits + column.astype(np.uint64))
    return bits


def scramble(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hash 64-bit integers (SplitMix64)."""
    bits = bits + np.uint64(_GOLDEN)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return bits


def _with_seed(name: str, seed: int) -> str:
    """A relation's name; seed 0 is left out."""
    return f"{name}:{seed}" if seed else name
