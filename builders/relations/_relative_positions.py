"""Relative positions as an edge feature, for any relation between tokens (Shaw et al., section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from graphattn._schema import TOKEN
from graphattn._validation import require_range
from graphattn.builders._batch import RelationArrays
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import Relation, as_relation, iterate_operands
from graphattn.builders.relations._composition import ComposedRelation
from graphattn.builders.relations._csc import destinations
from graphattn.exceptions import ConfigError

DISTANCE = "distance"
"""Name of the edge feature."""


class RelativePositions(ComposedRelation):
    r"""The edges of another relation, with the clipped distance as an edge feature.

    .. math:: distance_{ij} = clip(j - i, k) + k, \quad clip(x, k) = max(-k, min(k, x))

    for the edge from token j to token i, which attends: 0 means k or more tokens to the left, k the token itself, 2k
    k or more tokens to the right. It is the index into the paper's 2k + 1 learned vectors w.

    Parameters
    ----------
    relation : between tokens
    clip : k, the largest distance

    Raises
    ------
    ConfigError
        if the relation joins other nodes or has several kinds of edges, or k is below 1

    References
    ----------
    Shaw, Uszkoreit, Vaswani: Self-Attention with Relative Position Representations. NAACL 2018. arXiv:1803.02155,
    section 3.2.

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder, Window
    >>> relation = RelativePositions(Window(3), clip=2)
    >>> batch = TextGraphBuilder([relation], cls=False).text_batch([["a", "b"]])
    >>> relation.name, batch.edge_features[relation.canonical]["distance"].tolist()
    ('relative:2(window:3)', [2, 3, 1, 2])
    """

    def __init__(self, relation: Relation | str, clip: int):
        require_range("clip", clip, min=1)
        relation = as_relation(relation)
        super().__init__(relation)
        if (relation.source, relation.target) != (TOKEN, TOKEN):
            raise ConfigError(f"relation {relation.name!r} does not join tokens, so it has no distances")
        self.clip = clip
        self.name = f"relative:{clip}({relation.name})"

    @property
    @override
    def spec(self) -> str:
        return f"relative:{self.clip}({self._operands[0].spec})"

    @property
    @override
    def num_kinds(self) -> int:  # type: ignore[override]
        return self._operands[0].num_kinds

    @override
    def edge_kinds(self, features: Mapping[str, Tensor]) -> Tensor:
        return self._operands[0].edge_kinds(features)

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        arrays = self._operands[0].edges(layout)
        distance = arrays.indices.astype(np.int64) - destinations(arrays.indptr)
        ids = (np.clip(distance, -self.clip, self.clip) + self.clip).astype(np.int32)
        return RelationArrays(arrays.indptr, arrays.indices, {**arrays.data, DISTANCE: ids})

    @override
    def reverse_data(self, data: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        swapped = self._operands[0].reverse_data(data)
        return {**swapped, DISTANCE: 2 * self.clip - data[DISTANCE]} if DISTANCE in data else swapped

    def __repr__(self) -> str:
        return f"RelativePositions({self._operands[0]!r}, {self.clip})"


def find_inner_distances(relation: Relation) -> RelativePositions | None:
    """The relative positions of an operand, if any; attention along the composed relation ignores them.

    Examples
    --------
    >>> from graphattn.builders import Complete, Window
    >>> find_inner_distances(RelativePositions(Complete(), 2) & Window(3)).name
    'relative:2(all)'
    >>> find_inner_distances(RelativePositions(Complete() & Window(3), 2))
    """
    inner = islice(iterate_operands(relation), 1, None)
    return next((operand for operand in inner if isinstance(operand, RelativePositions)), None)
