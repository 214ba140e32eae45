"""Base classes of relations. A relation has a name and turns a batch's layout into edges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn._ragged import Ints, offsets_from_counts
from graphattn._schema import TOKEN, CanonicalRelation
from graphattn.builders._batch import Nodes, RelationArrays, indptr_from_degrees
from graphattn.builders._layout import Layout
from graphattn.builders.relations._csc import edges_per_sentence
from graphattn.exceptions import ConfigError

COUNT_CHUNK = 1 << 23
"""Pairs of tokens in the texts whose edges are built at once to count them."""


class Relation(ABC):
    """One kind of edge. To add your own, derive from this class and define ``name`` and :meth:`edges`.

    Relations between the same node types compose: ``a | b`` is their union, ``a & b`` their intersection,
    ``a.reverse()`` swaps sources and targets, ``a.within_words()`` keeps the edges inside a word. Relations of the
    library raise ConfigError for parameters that are out of bounds and for relations that do not compose.

    Attributes
    ----------
    name : the edge type's name
    source, target : node types of both ends
    needs_heads : whether every sentence must have dependency heads
    takes_heads : whether edges follow dependency heads where a sentence has them
    needs_sentences : whether the layout must have the sentences of each text
    needs_links : whether edges follow the links of sentences
    needs_vectors : whether the builder must have a vector for each entry of its vocabulary
    num_kinds : number of kinds of its edges, for layers that learn from them (see :meth:`edge_kinds`); 0 for none

    Examples
    --------
    A relation from every token to the first one of its sentence:

    >>> class ToFirst(RangeRelation):
    ...     name = "to-first"
    ...     def bounds(self, layout):
    ...         first, stop = layout.bounds_of_token
    ...         return first, np.where(layout.positions == 0, stop, first)
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
    num_kinds: int = 0

    @property
    def canonical(self) -> CanonicalRelation:
        """(source type, name, target type)."""
        return self.source, self.name, self.target

    @property
    def spec(self) -> str:
        """The text that ``parse_relation`` reads as this relation: the name, with the node type if it needs one."""
        return self.name

    def parts(self) -> tuple[Relation, ...]:
        """The single relations of a compound relation; otherwise the relation itself."""
        return (self,)

    def edge_kinds(self, features: Mapping[str, Tensor]) -> Tensor:
        """(E,) kinds of edges, in ``range(num_kinds)``, from their features, such as labels and directions."""
        raise ConfigError(f"edges of relation {self.name!r} have no kinds")

    def operands(self) -> tuple[Relation, ...]:
        """The relations it is composed of, if any."""
        return ()

    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        """Additional nodes that its edges need, by type."""
        return {}

    @abstractmethod
    def edges(self, layout: Layout) -> RelationArrays:
        """All edges of the batch, sorted by destination."""

    def reverse_data(self, data: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Edge features for the reversed edges; unchanged by default."""
        return dict(data)

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) number of edges in each sentence, for batches with an edge budget.

        By default it builds the edges, a few texts at a time. Override it if you can count without building.
        """
        pairs = np.maximum(layout.lengths, layout.word_counts).astype(np.int64) ** 2
        cuts = np.flatnonzero(np.diff(np.cumsum(pairs) // COUNT_CHUNK)) + 1
        chunks = map(layout.take, np.split(np.arange(len(layout)), cuts)) if len(cuts) else [layout]
        return np.concatenate([self._per_sentence(chunk, self.edges(chunk).indptr) for chunk in chunks])

    def _per_sentence(self, layout: Layout, indptr: Ints) -> Ints:
        """(B,) number of incoming edges of each sentence, from the (N_dst + 1,) first edge of each destination."""
        return edges_per_sentence(layout, self.target, indptr, self.nodes(layout))

    def __or__(self, other: Relation | str) -> Relation:
        """Union."""
        return COMPOSITIONS["union"](self, other)

    def __ror__(self, other: str) -> Relation:
        """Union."""
        return COMPOSITIONS["union"](other, self)

    def __and__(self, other: Relation | str) -> Relation:
        """Intersection."""
        return COMPOSITIONS["intersection"](self, other)

    def __rand__(self, other: str) -> Relation:
        """Intersection."""
        return COMPOSITIONS["intersection"](other, self)

    def reverse(self) -> Relation:
        """The same edges with sources and targets swapped."""
        return COMPOSITIONS["reverse"](self)

    def within_words(self) -> Relation:
        """The edges between tokens of the same word."""
        return COMPOSITIONS["within words"](self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def as_relation(relation: object) -> Relation:
    """A relation, given as such or by name; a ConfigError for anything else."""
    if isinstance(relation, Relation):
        return relation
    if isinstance(relation, str):
        return COMPOSITIONS["name"](relation)
    problem = f"{relation!r} is no relation"
    if isinstance(relation, type):
        problem = f"{relation.__name__} is a class; call it with its parameters"
    raise ConfigError(f"{problem}; give relations such as Window(3), or names such as 'window:3'")


def iterate_operands(relation: Relation) -> Iterator[Relation]:
    """The relation, then the relations that it is composed of, and those that they are composed of."""
    yield relation
    for operand in relation.operands():
        yield from iterate_operands(operand)


COMPOSITIONS: dict[str, Callable[..., Relation]] = {}
"""Filled by the modules of compositions and of names, which import this one."""


class CompoundRelation(Relation):
    """Several relations under one name, each between other node types."""

    @override
    @abstractmethod
    def parts(self) -> tuple[Relation, ...]: ...

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        raise ConfigError(f"relation {self.name!r} has several kinds of edges; use its parts()")

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return np.sum([part.num_edges(layout) for part in self.parts()], axis=0)


class RangeRelation(Relation):
    """A relation in which the sources of each destination are a range of consecutive nodes.

    :class:`~graphattn.builders.TextGraphBuilder` reads :meth:`bounds` and never writes the edges out.
    """

    @abstractmethod
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        """(N_dst,) first source of each destination and (N_dst,) one past its last, numbered over the batch."""

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        first, stop = self.bounds(layout)
        indptr = indptr_from_degrees(self.name, stop - first)
        sources = np.arange(int(indptr[-1]), dtype=np.int32)
        sources += np.repeat((first - indptr[:-1]).astype(np.int32), stop - first)
        return RelationArrays(indptr, sources)

    @override
    def num_edges(self, layout: Layout) -> Ints:
        first, stop = self.bounds(layout)
        return self._per_sentence(layout, offsets_from_counts(stop - first))


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise ConfigError if a relation's parameter is none of its choices."""
    if value not in choices:
        raise ConfigError(f"{name} is {value!r}; choose {' or '.join(map(repr, choices))}")
