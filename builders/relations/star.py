"""Relation ``star``: neighbours in a ring, and one relay node that all tokens share (Star-Transformer, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphattn.builders.batch import RelationArrays
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import CompoundRelation, Nodes, RangeRelation, Relation, edges_per_sentence
from graphattn.builders.relations.csc import indptr_from_degrees
from graphattn.schema import RELAY

_NAME = "star"


class Star(CompoundRelation):
    """Tokens see themselves, the two beside them and the relay; the relay sees itself and all tokens.

    The tokens form a ring: the first and the last one are neighbours. Each text has one node of type ``relay``. The
    edges are those over which section 3.2 attends; its further key, a token's own embedding, is no edge.

    References
    ----------
    Guo, Qiu, Liu, Shao, Xue, Zhang: Star-Transformer. NAACL 2019. arXiv:1902.09113, section 3.

    Examples
    --------
    >>> [part.canonical for part in Star().parts()][:2]
    [('token', 'star', 'token'), ('relay', 'star', 'token')]
    """

    name = _NAME

    def parts(self) -> tuple[Relation, ...]:
        """The ring, relay to token, token to relay, and the relay itself."""
        return _Ring(), _FromRelay(), _ToRelay(), _RelayItself()


class _Ring(Relation):
    """Each token, the one before and the one after it, in a circle."""

    name = _NAME

    def edges(self, layout: Layout) -> RelationArrays:
        lengths = np.repeat(layout.lengths, layout.lengths)
        degrees = np.minimum(lengths, 3)
        beside = (layout.positions[:, None] + np.array([-1, 0, 1])) % np.maximum(lengths, 1)[:, None]
        beside.sort(axis=1)
        new = np.diff(beside, axis=1, prepend=-1) > 0  # in texts of one or two tokens some are the same
        sources = (beside + np.repeat(layout.token_starts, layout.lengths)[:, None])[new]
        indptr = indptr_from_degrees(degrees)
        return RelationArrays(indptr, sources, edges_per_sentence(layout, self.target, indptr))

    def num_edges(self, layout: Layout) -> Ints:
        return np.minimum(layout.lengths, 3) * layout.lengths


class _WithRelay(RangeRelation):
    name = _NAME

    def nodes(self, layout: Layout) -> Mapping[str, Nodes]:
        return {RELAY: Nodes(np.ones(len(layout), np.int64), {"position": np.zeros(len(layout), np.int32)})}


class _FromRelay(_WithRelay):
    source = RELAY

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.sentence_of_token, layout.sentence_of_token + 1


class _ToRelay(_WithRelay):
    target = RELAY

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return layout.token_starts, layout.token_starts + layout.lengths


class _RelayItself(_WithRelay):
    source = target = RELAY

    def bounds(self, layout: Layout) -> tuple[Ints, Ints]:
        return np.arange(len(layout)), np.arange(len(layout)) + 1
