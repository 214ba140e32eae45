"""Compositions of relations: union, intersection and reverse."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn._ragged import Ints, offsets_from_counts
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import Nodes, RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import COMPOSITIONS, Relation, as_relation
from graphattn.builders.relations._csc import destinations
from graphattn.builders.relations._word_group import WordGroup
from graphattn.exceptions import ConfigError


class ComposedRelation(Relation):
    """A relation composed of operands; it needs whatever they need."""

    def __init__(self, *relations: Relation | str):
        operands = [as_relation(relation) for relation in relations]
        for operand in operands:
            if operand not in operand.parts():
                raise ConfigError(f"relation {operand.name!r} has several kinds of edges; compose its parts()")
        self._operands = tuple(operands)
        for need in ("needs_heads", "takes_heads", "needs_sentences", "needs_links", "needs_vectors"):
            setattr(self, need, any(getattr(operand, need) for operand in operands))

    @override
    def operands(self) -> tuple[Relation, ...]:
        return self._operands

    @override
    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        return {node_type: nodes for operand in self._operands for node_type, nodes in operand.nodes(layout).items()}

    @override
    def reverse_data(self, data: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        return self._operands[0].reverse_data(data) if len(self._operands) == 1 else dict(data)

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return self._operands[0].num_edges(layout) if len(self._operands) == 1 else super().num_edges(layout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._operands))})"


class _SetOfEdges(ComposedRelation):
    """Union or intersection of relations between the same node types; edge features are dropped."""

    sign: str

    def __init__(self, *relations: Relation | str):
        operands = [as_relation(relation) for relation in relations]
        if len(operands) < 2:
            raise ConfigError(f"{type(self).__name__} of {len(operands)} relations; give two or more")
        flattened = [operand.operands() if type(operand) is type(self) else (operand,) for operand in operands]
        super().__init__(*chain.from_iterable(flattened))
        ends = {(operand.source, operand.target) for operand in self._operands}
        if len(ends) > 1:
            listing = ", ".join(f"{operand.name!r} {operand.source} -> {operand.target}" for operand in self._operands)
            raise ConfigError(f"relations between different nodes cannot be composed: {listing}")
        self.source, self.target = ends.pop()
        self.name = self.sign.join(_add_brackets(operand, operand.name, self) for operand in self._operands)

    @property
    @override
    def spec(self) -> str:
        return self.sign.join(_add_brackets(operand, operand.spec, self) for operand in self._operands)

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        num_sources = max(_count_nodes(self, layout, self.source), 1)
        keys = self._combine([_edge_keys(operand.edges(layout), num_sources) for operand in self._operands])
        targets, sources = np.divmod(keys, num_sources)
        indptr = offsets_from_counts(np.bincount(targets, minlength=_count_nodes(self, layout, self.target)))
        return RelationArrays(indptr, sources)

    @abstractmethod
    def _combine(self, keys: list[Ints]) -> Ints:
        """Combine the operands' sorted edge keys."""


class Union(_SetOfEdges):
    """The edges of any of the relations, which may be given by name: ``Union("window:3", "global")``.

    Raises
    ------
    ConfigError
        if there are fewer than two relations, they join different nodes, or one has several kinds of edges

    Examples
    --------
    BigBird's graph:

    >>> from graphattn.builders import Global, Random, Window
    >>> (Window(3) | Global(1) | Random(2)).name
    'window:3|global:1|random:2'
    """

    sign = "|"

    @override
    def _combine(self, keys: list[Ints]) -> Ints:
        merged = np.sort(np.concatenate(keys), kind="stable")  # a stable sort merges sorted runs
        return merged[np.diff(merged, prepend=-1) > 0]


class Intersection(_SetOfEdges):
    """The edges that are in all of the relations.

    Examples
    --------
    >>> from graphattn.builders import Window, WordGroup
    >>> (Window(3) & WordGroup()).name
    'window:3&group'
    """

    sign = "&"

    @override
    def _combine(self, keys: list[Ints]) -> Ints:
        common = keys[0]
        for other in keys[1:]:
            few, many = sorted((common, other), key=len)
            common = few[many.take(np.searchsorted(many, few), mode="clip") == few] if len(many) else few
        return common


class Reverse(ComposedRelation):
    """The edges of a relation with sources and destinations swapped; features of a direction are reversed too.

    Examples
    --------
    >>> from graphattn.builders import Membership
    >>> Reverse(Membership()).canonical
    ('word', 'reverse(in)', 'token')
    """

    def __init__(self, relation: Relation | str):
        relation = as_relation(relation)
        super().__init__(relation)
        self.source, self.target = relation.target, relation.source
        self.name = f"reverse({relation.name})"

    @property
    @override
    def spec(self) -> str:
        return f"reverse({self._operands[0].spec})"

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        arrays = self._operands[0].edges(layout)
        order = np.argsort(arrays.indices, kind="stable")  # by source; destinations are already ascending
        indptr = offsets_from_counts(np.bincount(arrays.indices, minlength=_count_nodes(self, layout, self.target)))
        data = self._operands[0].reverse_data({name: values[order] for name, values in arrays.data.items()})
        return RelationArrays(indptr, destinations(arrays.indptr)[order], data)


def _add_brackets(operand: Relation, name: str, parent: _SetOfEdges) -> str:
    """The operand's name, in brackets if it is a union inside an intersection."""
    return f"({name})" if isinstance(operand, Union) and isinstance(parent, Intersection) else name


def _count_nodes(relation: Relation, layout: Layout, node_type: str) -> int:
    counts = {TOKEN: layout.lengths, WORD: layout.word_counts}
    return int((counts[node_type] if node_type in counts else relation.nodes(layout)[node_type].per_sentence).sum())


def _edge_keys(arrays: RelationArrays, num_sources: int) -> Ints:
    """Unique ascending keys of edges: destination * num_sources + source."""
    keys = destinations(arrays.indptr) * num_sources + arrays.indices
    return keys if (np.diff(keys) > 0).all() else np.unique(keys)


COMPOSITIONS.update({"union": Union, "intersection": Intersection, "reverse": Reverse})
COMPOSITIONS["within words"] = lambda relation: relation & WordGroup()
