"""Relation ``star``: a ring of tokens and a relay node that is joined to all of them (Star-Transformer)."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from graphattn._ragged import Ints, offsets_from_counts
from graphattn._schema import RELAY
from graphattn.builders._batch import RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import CompoundRelation, Relation
from graphattn.builders.relations._sentence_nodes import FromChildren, FromItself, FromParent

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
        return _Ring(), FromParent(_NAME, RELAY), FromChildren(_NAME, RELAY), FromItself(_NAME, RELAY)


class _Ring(Relation):
    """Each token, the one before and the one after it, in a circle."""

    name = _NAME

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        lengths = np.repeat(layout.lengths, layout.lengths)
        neighbours = (layout.positions[:, None] + np.array([-1, 0, 1])) % np.maximum(lengths, 1)[:, None]
        neighbours.sort(axis=1)
        is_new = np.diff(neighbours, axis=1, prepend=-1) > 0  # texts of one or two tokens have duplicates
        sources = (neighbours + layout.bounds_of_token[0][:, None])[is_new]
        return RelationArrays(offsets_from_counts(np.minimum(lengths, 3)), sources)

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return np.minimum(layout.lengths, 3) * layout.lengths
