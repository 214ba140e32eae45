"""Relation ``star``: a ring of tokens and a relay node that is joined to all of them (Star-Transformer)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints
from graphattn._schema import RELAY
from graphattn.builders._batch import Nodes, RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import CompoundRelation, RangeRelation, Relation
from graphattn.builders.relations._csc import edges_per_sentence, indptr_from_degrees

_NAME = "star"


class Star(CompoundRelation):
    """Tokens attend to themselves, their two neighbours and the relay; the relay attends to itself and all tokens.

    The tokens form a ring: the first and the last are neighbours. Each text has one node of type ``relay``. In section
    3.2 a token also attends to its own embedding, which is not an edge.

    References
    ----------
    Guo, Qiu, Liu, Shao, Xue, Zhang: Star-Transformer. NAACL 2019. arXiv:1902.09113, section 3.

    Examples
    --------
    >>> [part.canonical for part in Star().parts()][:2]
    [('token', 'star', 'token'), ('relay', 'star', 'token')]
    """

    name = _NAME

    @override
    def parts(self) -> tuple[Relation, ...]:
        return _Ring(), _RelayToToken(), _TokenToRelay(), _RelaySelfLoop()


class _Ring(Relation):
    """Each token, the one before and the one after it, in a circle."""

    name = _NAME

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        lengths = np.repeat(layout.lengths, layout.lengths)
        neighbours = (layout.positions[:, None] + np.array([-1, 0, 1])) % np.maximum(lengths, 1)[:, None]
        neighbours.sort(axis=1)
        is_new = np.diff(neighbours, axis=1, prepend=-1) > 0  # texts of one or two tokens have duplicates
        sources = (neighbours + np.repeat(layout.token_starts, layout.lengths)[:, None])[is_new]
        indptr = indptr_from_degrees(np.minimum(lengths, 3))
        return RelationArrays(indptr, sources, edges_per_sentence(layout, self.target, indptr))

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return np.minimum(layout.lengths, 3) * layout.lengths


class _WithRelay(RangeRelation):
    name = _NAME

    @override
    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        return {RELAY: Nodes(np.ones(len(layout), np.int64), {"position": np.zeros(len(layout), np.int32)})}


class _RelayToToken(_WithRelay):
    source = RELAY

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.sentence_of_token, layout.sentence_of_token + 1


class _TokenToRelay(_WithRelay):
    target = RELAY

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.token_starts, layout.token_starts + layout.lengths


class _RelaySelfLoop(_WithRelay):
    source = target = RELAY

    @override
    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return np.arange(len(layout)), np.arange(len(layout)) + 1
