"""What a relation is: a name and one method that turns a batch's layout into edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.csc import indptr_from_degrees
from graphattn.builders.relations.validation import is_third_party, vetted_bounds
from graphattn.exceptions import ConfigError
from graphattn.schema import TOKEN, WORD, CanonicalRelation

COUNTED_AT_ONCE = 1 << 23
"""Pairs of tokens in texts whose edges are made together to be counted."""


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of one type, which a relation brings along.

    Parameters
    ----------
    per_sentence : (B,) how many each sentence has
    data : node features, name -> (M, ...)
    """

    per_sentence: Ints
    data: Mapping[str, npt.NDArray] = field(default_factory=dict)


class Relation(ABC):
    """One kind of edge. A relation of your own is a subclass with ``name`` and :meth:`edges`.

    Two relations between the same node types compose: ``a | b`` has the edges of both, ``a & b`` those that are in
    both, ``a.reverse()`` leads the other way, ``a.within_words()`` keeps the edges inside a word.

    Attributes
    ----------
    name : the edge type's name, what users see
    source, target : node types the edges lead from and to
    needs_heads : whether sentences must come with dependency heads
    takes_heads : whether edges follow dependency heads, those of all sentences or where there are some
    needs_sentences : whether the layout must know the sentences of a text
    needs_links : whether sentences must come with links of the user's
    needs_vectors : whether the builder must have vectors of its vocabulary

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
    takes_heads: bool = False
    needs_sentences: bool = False
    needs_links: bool = False
    needs_vectors: bool = False

    @property
    def canonical(self) -> CanonicalRelation:
        """(source type, name, target type)."""
        return self.source, self.name, self.target

    @property
    def spec(self) -> str:
        """The name, with the nodes where it leaves them open: what ``parse_relation`` makes this relation of."""
        return self.name

    def parts(self) -> tuple[Relation, ...]:
        """The single relations this one stands for; itself, unless it is a shorthand for several."""
        return (self,)

    def operands(self) -> tuple[Relation, ...]:
        """The relations it is composed of; none, unless it is composed."""
        return ()

    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        """Nodes that its edges need beside tokens and words, by type; none as a rule."""
        return {}

    @abstractmethod
    def edges(self, layout: Layout) -> RelationArrays:
        """All edges of the batch, by destination."""

    def reversed_data(self, data: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        """Edge features as they are when the same edges are led the other way; as they were, as a rule."""
        return dict(data)

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) number of edges in each sentence, for batching by an edge budget.

        As it stands it makes the edges, of a few texts at a time: those whose tokens and words would make
        ``COUNTED_AT_ONCE`` pairs. A relation that can count otherwise does.
        """
        pairs = np.maximum(layout.lengths, layout.word_counts).astype(np.int64) ** 2
        cuts = np.flatnonzero(np.diff(np.cumsum(pairs) // COUNTED_AT_ONCE)) + 1
        if not len(cuts):
            return self.edges(layout).per_sentence
        runs = np.split(np.arange(len(layout)), cuts)
        return np.concatenate([self.edges(layout.take(texts)).per_sentence for texts in runs])

    def __or__(self, other: Relation) -> Relation:
        """The edges of either."""
        return COMPOSITIONS["union"](self, other)

    def __and__(self, other: Relation) -> Relation:
        """The edges that are in both."""
        return COMPOSITIONS["intersection"](self, other)

    def reverse(self) -> Relation:
        """The same edges, led the other way."""
        return COMPOSITIONS["reverse"](self)

    def within_words(self) -> Relation:
        """The edges between tokens of the same word."""
        return COMPOSITIONS["within words"](self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


COMPOSITIONS: dict[str, Callable[..., Relation]] = {}
"""Ways to compose relations; filled by the module of composed relations, which needs this one."""


class CompoundRelation(Relation):
    """A relation of several kinds of edges under one name: a shorthand for its parts, which differ in node types."""

    @abstractmethod
    def parts(self) -> tuple[Relation, ...]:
        """One relation for each pair of node types."""

    def edges(self, layout: Layout) -> RelationArrays:
        """Refused: each part has arrays of its own.

        Raises
        ------
        ConfigError
            always
        """
        raise ConfigError(f"relation {self.name!r} has several kinds of edges; take those of its parts()")

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, over all parts."""
        return np.sum([part.num_edges(layout) for part in self.parts()], axis=0)


class RangeRelation(Relation):
    """A relation in which the sources of every destination are neighbours in the text: a range of tokens."""

    @abstractmethod
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N_dst,) first source of each destination and (N_dst,) the one after its last, counted over the batch."""

    def edges(self, layout: Layout) -> RelationArrays:
        """The ranges, written out; :class:`~graphattn.builders.TextGraphBuilder` takes :meth:`bounds` instead.

        Raises
        ------
        GraphError
            when there are more edges than one graph can number
        """
        first, stop = self.validated_bounds(layout)
        indptr = indptr_from_degrees(stop - first)
        check_edge_count(self.name, int(indptr[-1]))
        sources = np.arange(int(indptr[-1]), dtype=np.int32)
        sources += np.repeat((first - indptr[:-1]).astype(np.int32), stop - first)
        return RelationArrays(indptr, sources, edges_per_sentence(layout, self.target, indptr, self.nodes(layout)))

    def validated_bounds(self, layout: Layout, nodes: Mapping[str, Ints] | None = None) -> tuple[Ints, Ints]:
        """:meth:`bounds`, validated when a user's class returned them.

        Parameters
        ----------
        layout : the batch
        nodes : node type -> (B,) how many each text has; tokens, words and this relation's own when None
        """
        bounds = self.bounds(layout)
        return vetted_bounds(self, bounds, layout, nodes) if is_third_party(self) else bounds

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, without writing them out."""
        first, stop = self.validated_bounds(layout)
        return edges_per_sentence(layout, self.target, indptr_from_degrees(stop - first), self.nodes(layout))


def edges_per_sentence(layout: Layout, target: str, indptr: Ints, nodes: Mapping[str, Nodes] | None = None) -> Ints:
    """(B,) number of edges that arrive in each sentence.

    Parameters
    ----------
    layout : the batch
    target : node type that the edges lead to
    indptr : (N_dst + 1,) where the edges of each destination begin
    nodes : what the relation's ``nodes`` gave, when it leads to other nodes than tokens and words
    """
    counts = {TOKEN: layout.lengths, WORD: layout.word_counts}.get(target)
    if counts is None:
        assert nodes is not None
        counts = nodes[target].per_sentence
    ends = np.cumsum(counts)
    return indptr[ends] - indptr[ends - counts]
