"""Relation ``nearest``: the tokens with the most similar vectors (the k-nearest-neighbour graph)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from graphattn._ragged import Ints, concatenate_ranges
from graphattn._validation import require_range
from graphattn.builders._batch import RelationArrays, indptr_from_degrees
from graphattn.builders._layout import Layout
from graphattn.builders.relations._base import Relation
from graphattn.exceptions import DataError

BLOCK = 1 << 22
"""Similarities in memory at a time."""
_GRID = 10**6  # cosines are rounded to six decimals


class Nearest(Relation):
    """Every token attends to the ``count`` other tokens of its text with the largest cosine similarity.

    The search is exact and takes n² products of vectors for n tokens, in blocks of bounded memory. Cosines that agree
    to six decimals are ties, won by the first in the text, so the result does not depend on the batch. A zero vector
    has the cosine 0 with all others.

    Parameters
    ----------
    count : sources of each token; all others in a text that has no more
    vectors : (V, D) the vector of each token id; or the name of a token feature of shape (N, D); by default the
        builder's vectors

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> builder = TextGraphBuilder([Nearest(1, "place")], cls=False)
    >>> layout = builder.layout([["a", "b", "c"]], features={"place": ([np.array([[1., 0.], [0., 1.], [2., 1.]])], 0)})
    >>> builder.text_batch(layout).edges["token", "nearest:1", "token"].sources.tolist()
    [2, 2, 0]
    """

    def __init__(self, count: int, vectors: npt.NDArray[np.floating] | str | None = None):
        require_range("count", count, min=1)
        self.count, self._vectors, self.needs_vectors = count, vectors, vectors is None
        self.name = f"nearest:{count}"

    @override
    def edges(self, layout: Layout) -> RelationArrays:
        degrees = np.repeat(self._degrees(layout), layout.lengths)
        indptr = indptr_from_degrees(self.name, degrees)
        vectors = self._vectors_of(layout)
        indices = np.empty(int(indptr[-1]), np.int64)
        for texts, rows in _iterate_blocks(layout.lengths):
            length = int(layout.lengths[texts[0]])
            tokens = layout.token_starts[texts][:, None] + np.arange(length)  # (texts, n)
            queries = tokens[:, rows].ravel()
            block = vectors[tokens]
            nearest = _find_nearest(block[:, rows], block, rows, min(self.count, length - 1))
            slots = concatenate_ranges(indptr[queries], degrees[queries])
            indices[slots] = (nearest + layout.token_starts[texts][:, None, None]).ravel()
        return RelationArrays(indptr, indices)

    @override
    def num_edges(self, layout: Layout) -> Ints:
        return self._degrees(layout) * layout.lengths

    def _degrees(self, layout: Layout) -> Ints:
        return np.clip(layout.lengths - 1, 0, self.count)

    def _vectors_of(self, layout: Layout) -> npt.NDArray[np.float64]:
        """(N, D) unit vectors, in float64 so that equal vectors have equal cosines."""
        table = layout.vectors if self._vectors is None else self._vectors
        feature = table if isinstance(table, str) else "id"
        values = layout.features.get(feature)
        if values is None:
            raise DataError(
                f"relation {self.name!r} needs the token feature {feature!r}",
                hint="Set TextGraphBuilder(vocabulary=...) for ids, or layout(..., features=...).",
            )
        if isinstance(table, str):
            return _normalize(values)
        assert table is not None
        if len(values) and values.max() >= len(table):
            raise DataError(
                f"id {values.max()} has no vector among the {len(table)} of relation {self.name!r}",
                hint="Make the table from the builder's vocabulary.",
            )
        return _normalize(table[values])

    def __repr__(self) -> str:
        shown = "" if self._vectors is None else f", {self._vectors if isinstance(self._vectors, str) else '...'!r}"
        return f"Nearest({self.count}{shown})"


def _normalize(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Unit vectors; zeros stay zeros."""
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _iterate_blocks(lengths: Ints) -> Iterator[tuple[Ints, slice]]:
    """Texts of the same length that fit into a block; or of one long text, rows of its tokens."""
    order = np.argsort(lengths, kind="stable")
    for length in np.unique(lengths[lengths > 1]).tolist():
        texts = order[np.searchsorted(lengths[order], length) : np.searchsorted(lengths[order], length, side="right")]
        num_texts, rows = max(1, BLOCK // length**2), max(1, min(length, BLOCK // length))
        for first in range(0, len(texts), num_texts):
            for row in range(0, length, rows):
                yield texts[first : first + num_texts], slice(row, min(row + rows, length))


def _find_nearest(queries: npt.NDArray[Any], vectors: npt.NDArray[Any], rows: slice, count: int) -> Ints:
    """(texts, rows, count) positions of the other vectors with the largest products, ascending."""
    length = vectors.shape[1]
    cosines = np.rint(queries @ vectors.transpose(0, 2, 1) * _GRID).astype(np.int64)
    ranks = cosines * -length + np.arange(length)  # the first of several ties
    ranks[:, np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.iinfo(np.int64).max
    return np.sort(np.argpartition(ranks, count - 1, axis=2)[:, :, :count], axis=2)
