"""Relations composed of others: union, intersection, reverse. A composed relation is a relation like any other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from graphattn.builders.batch import RelationArrays
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import COMPOSITIONS, Nodes, Relation, edges_per_sentence
from graphattn.builders.relations.csc import destinations, indptr_from_degrees
from graphattn.builders.relations.word_group import WordGroup
from graphattn.exceptions import ConfigError
from graphattn.schema import TOKEN, WORD


class ComposedRelation(Relation):
    """A relation made of operands, which needs what they need."""

    def __init__(self, *operands: Relation):
        for operand in operands:
            if not isinstance(operand, Relation):
                raise ConfigError(f"{operand!r} is no relation; compose objects such as Window(3)")
            if operand not in operand.parts():
                raise ConfigError(
                    f"relation {operand.name!r} has several kinds of edges and cannot be composed; compose its parts()"
                )
        self._operands = operands
        self.needs_heads = any(operand.needs_heads for operand in operands)
        self.takes_heads = any(operand.takes_heads for operand in operands)
        self.needs_sentences = any(operand.needs_sentences for operand in operands)
        self.needs_links = any(operand.needs_links for operand in operands)
        self.needs_vectors = any(operand.needs_vectors for operand in operands)

    def operands(self) -> tuple[Relation, ...]:
        """The relations it is composed of."""
        return self._operands

    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        """Those of the operands."""
        return {kind: own for operand in self._operands for kind, own in operand.nodes(layout).items()}

    def reversed_data(self, data: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        """As that of an only operand, whose features these are; of several as they were."""
        return self._operands[0].reversed_data(data) if len(self._operands) == 1 else dict(data)

    def _per_sentence(self, layout: Layout, indptr: Ints) -> Ints:
        return edges_per_sentence(layout, self.target, indptr, self.nodes(layout))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._operands))})"


def may_read_ids(relation: Relation) -> bool:
    """Whether a relation, one of a user's say, may look at the ids of tokens; ours do so by vectors alone.

    Examples
    --------
    >>> may_read_ids(WordGroup())
    False
    """
    if isinstance(relation, ComposedRelation):
        return any(map(may_read_ids, relation.operands()))
    return relation.needs_vectors or not type(relation).__module__.startswith("graphattn.builders.relations.")


class _SetOfEdges(ComposedRelation):
    """Union or intersection of relations between the same node types; edge features are left out."""

    sign: str

    def __init__(self, *operands: Relation):
        if len(operands) < 2:
            raise ConfigError(f"{type(self).__name__} is given {len(operands)} relation; it takes two or more")
        nested = [own.operands() if type(own) is type(self) else (own,) for own in operands]
        super().__init__(*(operand for own in nested for operand in own))
        ends = {(operand.source, operand.target) for operand in self._operands}
        if len(ends) > 1:
            listed = ", ".join(f"{own.name!r} {own.source} -> {own.target}" for own in self._operands)
            raise ConfigError(f"relations between different nodes cannot be composed: {listed}")
        self.source, self.target = ends.pop()
        self.name = self.sign.join(_bracketed(operand, operand.name, self) for operand in self._operands)

    @property
    def spec(self) -> str:
        """The operands' spellings with the sign between them."""
        return self.sign.join(_bracketed(operand, operand.spec, self) for operand in self._operands)

    def edges(self, layout: Layout) -> RelationArrays:
        """The operands' edges as numbers, target * number of sources + source, put together."""
        num_sources = max(_count(self, layout, self.source), 1)
        keys = self._together([_keys(operand.edges(layout), num_sources) for operand in self._operands])
        targets, sources = np.divmod(keys, num_sources)
        indptr = indptr_from_degrees(np.bincount(targets, minlength=_count(self, layout, self.target)))
        return RelationArrays(indptr, sources, self._per_sentence(layout, indptr))

    @abstractmethod
    def _together(self, keys: list[Ints]) -> Ints:
        """One ascending list of edges from one for each operand."""


class Union(_SetOfEdges):
    """The edges of any of the relations, each once.

    Raises
    ------
    ConfigError
        when there are fewer than two relations, they join different nodes, or one has several kinds of edges

    Examples
    --------
    BigBird's graph:

    >>> from graphattn.builders import Global, Random, Window
    >>> (Window(3) | Global(1) | Random(2)).name
    'window:3|global:1|random:2'
    """

    sign = "|"

    def _together(self, keys: list[Ints]) -> Ints:
        together = np.sort(np.concatenate(keys), kind="stable")  # runs that are sorted already are merged
        return together[np.diff(together, prepend=-1) > 0]


class Intersection(_SetOfEdges):
    """The edges that are in all of the relations.

    Raises
    ------
    ConfigError
        when there are fewer than two relations, they join different nodes, or one has several kinds of edges

    Examples
    --------
    >>> from graphattn.builders import Window, WordGroup
    >>> (Window(3) & WordGroup()).name
    'window:3&group'
    """

    sign = "&"

    def _together(self, keys: list[Ints]) -> Ints:
        common = keys[0]
        for other in keys[1:]:
            few, many = sorted((common, other), key=len)
            common = few[many.take(np.searchsorted(many, few), mode="clip") == few] if len(many) else few
        return common


class Reverse(ComposedRelation):
    """The edges of a relation led the other way: its destinations become sources; edge features come along, and
    those that tell a direction tell the other one.

    Raises
    ------
    ConfigError
        when the relation has several kinds of edges

    Examples
    --------
    >>> from graphattn.builders import Membership
    >>> Reverse(Membership()).canonical
    ('word', 'reverse(in)', 'token')
    """

    def __init__(self, relation: Relation):
        super().__init__(relation)
        self.source, self.target = relation.target, relation.source
        self.name = f"reverse({relation.name})"

    @property
    def spec(self) -> str:
        """``reverse`` of the relation's spelling."""
        return f"reverse({self._operands[0].spec})"

    def edges(self, layout: Layout) -> RelationArrays:
        """The transposed matrix."""
        arrays = self._operands[0].edges(layout)
        order = np.argsort(arrays.indices, kind="stable")  # by source; destinations ascend already
        indptr = indptr_from_degrees(np.bincount(arrays.indices, minlength=_count(self, layout, self.target)))
        data = self._operands[0].reversed_data({name: values[order] for name, values in arrays.data.items()})
        sources = destinations(arrays.indptr)[order]
        return RelationArrays(indptr, sources, self._per_sentence(layout, indptr), data)

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence: as many as the other way."""
        return self._operands[0].num_edges(layout)


def _bracketed(operand: Relation, name: str, within: _SetOfEdges) -> str:
    """The operand's name, in brackets when it is a union inside an intersection."""
    loose = isinstance(operand, Union) and isinstance(within, Intersection)
    return f"({name})" if loose else name


def _count(relation: Relation, layout: Layout, kind: str) -> int:
    """How many nodes of a type the batch has."""
    known = {TOKEN: layout.lengths, WORD: layout.word_counts}
    return int((known[kind] if kind in known else relation.nodes(layout)[kind].per_sentence).sum())


def _keys(arrays: RelationArrays, num_sources: int) -> Ints:
    """A number for each edge, ascending when sources ascend within destinations."""
    keys = destinations(arrays.indptr) * num_sources + arrays.indices
    return keys if (np.diff(keys) > 0).all() else np.unique(keys)


def _within_words(relation: Relation) -> Relation:
    return relation & WordGroup()


COMPOSITIONS.update({"union": Union, "intersection": Intersection, "reverse": Reverse, "within words": _within_words})
