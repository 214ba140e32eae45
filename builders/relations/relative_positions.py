"""Relative positions as a feature of edges, for any relation between tokens (Shaw et al., section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from graphattn.builders.batch import RelationArrays
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation
from graphattn.builders.relations.composition import ComposedRelation
from graphattn.builders.relations.csc import destinations
from graphattn.exceptions import ConfigError
from graphattn.schema import TOKEN

DISTANCE = "distance"
"""Name of the edge feature."""


class RelativePositions(ComposedRelation):
    r"""The edges of another relation, each with the id of its clipped distance.

    .. math:: distance_{ij} = clip(j - i, k) + k, \quad clip(x, k) = max(-k, min(k, x))

    for the edge from token j to token i, which attends: an id from 0 (k or more tokens to the left) over k (the token
    itself) to 2k. It is the index into the 2k + 1 learned vectors w of the paper.

    Parameters
    ----------
    relation : between tokens
    clip : k, the largest distance that is told apart

    Raises
    ------
    ConfigError
        when the relation joins other nodes or has several kinds of edges, or k is below 1

    References
    ----------
    Shaw, Uszkoreit, Vaswani: Self-Attention with Relative Position Representations. NAACL 2018. arXiv:1803.02155,
    section 3.2.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> relation = RelativePositions(Window(3), clip=2)
    >>> graph = TextGraphBuilder([relation], cls=False).build(["a", "b"])
    >>> relation.name, graph.edges["relative:2(window:3)"].data["distance"].tolist()
    ('relative:2(window:3)', [2, 3, 1, 2])
    """

    def __init__(self, relation: Relation, clip: int):
        if clip < 1:
            raise ConfigError(f"clip is {clip}; it must be at least 1")
        super().__init__(relation)
        if (relation.source, relation.target) != (TOKEN, TOKEN):
            raise ConfigError(f"relation {relation.name!r} does not join tokens with tokens, so it has no distances")
        self.clip = clip
        self.name = f"relative:{clip}({relation.name})"

    @property
    def spec(self) -> str:
        """``relative:`` of the relation's spelling."""
        return f"relative:{self.clip}({self._operands[0].spec})"

    def edges(self, layout: Layout) -> RelationArrays:
        """The relation's arrays with one more feature."""
        arrays = self._operands[0].edges(layout)
        distance = arrays.indices.astype(np.int64) - destinations(arrays.indptr)
        ids = (np.clip(distance, -self.clip, self.clip) + self.clip).astype(np.int32)
        return RelationArrays(arrays.indptr, arrays.indices, arrays.per_sentence, {**arrays.data, DISTANCE: ids})

    def reversed_data(self, data: Mapping[str, npt.NDArray]) -> dict[str, npt.NDArray]:
        """The relation's, and distances to the other side."""
        turned = self._operands[0].reversed_data(data)
        return {**turned, DISTANCE: 2 * self.clip - data[DISTANCE]} if DISTANCE in data else turned

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence."""
        return self._operands[0].num_edges(layout)

    def __repr__(self) -> str:
        return f"RelativePositions({self._operands[0]!r}, {self.clip})"


def inner_distances(relation: Relation) -> RelativePositions | None:
    """Relative positions among what a relation is composed of, which attention along the whole does not see; or None.

    Examples
    --------
    >>> from graphattn.builders import Complete, Window
    >>> inner_distances(RelativePositions(Complete(), 2) & Window(3)).name
    'relative:2(all)'
    >>> inner_distances(RelativePositions(Complete() & Window(3), 2))
    """
    for operand in relation.operands():
        found = operand if isinstance(operand, RelativePositions) else inner_distances(operand)
        if found is not None:
            return found
    return None
