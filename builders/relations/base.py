"""What a relation is: a name and one method that turns a batch's layout into edges."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from graphattn.builders.layout import Ints, Layout
from graphattn.graphs import RelationArrays, check_edge_count
from graphattn.schema import TOKEN, WORD, CanonicalRelation


class Relation(ABC):
    """One kind of edge. A relation of your own is a subclass with ``name`` and :meth:`edges`.

    Attributes
    ----------
    name : the edge type's name, what users see
    source, target : node types the edges lead from and to
    needs_heads : whether sentences must come with dependency heads

    Examples
    --------
    A relation from every token to the first one of its sentence:

    >>> class ToFirst(RangeRelation):
    ...     name = "to-first"
    ...     def bounds(self, layout):
    ...         first = layout.positions == 0
    ...         starts = np.repeat(layout.token_starts, layout.lengths)
    ...         return starts, np.where(first, starts + np.repeat(layout.lengths, layout.lengths), starts)
    >>> layout = Layout(np.array([3]), np.array([3]), np.arange(3))
    >>> ToFirst().edges(layout).indices.tolist()
    [0, 1, 2]
    """

    name: str
    source: str = TOKEN
    target: str = TOKEN
    needs_heads: bool = False

    @property
    def canonical(self) -> CanonicalRelation:
        """(source type, name, target type)."""
        return self.source, self.name, self.target

    def parts(self) -> tuple[Relation, ...]:
        """The single relations this one stands for; itself, unless it is a shorthand for several."""
        return (self,)

    @abstractmethod
    def edges(self, layout: Layout) -> RelationArrays:
        """All edges of the batch, by destination."""

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) number of edges in each sentence, for batching by an edge budget."""
        return self.edges(layout).per_sentence

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RangeRelation(Relation):
    """A relation in which the sources of every destination are neighbours in the text: a range of tokens."""

    @abstractmethod
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N_dst,) first source of each destination and (N_dst,) the one after its last, counted over the batch."""

    def edges(self, layout: Layout) -> RelationArrays:
        """The ranges written out.

        Raises
        ------
        GraphError
            when there are more edges than one graph can number
        """
        first, stop = self.bounds(layout)
        degrees = stop - first
        indptr = np.zeros(len(degrees) + 1, dtype=np.int64)
        np.cumsum(degrees, out=indptr[1:])
        check_edge_count(self.name, int(indptr[-1]))
        shift = (first - indptr[:-1]).astype(np.int32)
        indices = np.arange(indptr[-1], dtype=np.int32) + np.repeat(shift, degrees)
        return RelationArrays(indptr, indices, edges_per_sentence(layout, self.target, indptr))

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, without writing them out."""
        first, stop = self.bounds(layout)
        indptr = np.concatenate([[0], np.cumsum(stop - first)])
        return edges_per_sentence(layout, self.target, indptr)


def edges_per_sentence(layout: Layout, target: str, indptr: Ints) -> Ints:
    """(B,) number of edges that arrive in each sentence."""
    counts = layout.word_counts if target == WORD else layout.lengths
    ends = np.cumsum(counts)
    return indptr[ends] - indptr[ends - counts]
