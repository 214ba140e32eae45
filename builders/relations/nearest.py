"""Relation ``nearest``: the tokens whose vectors are most alike (the k-nearest-neighbour graph)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from graphattn.builders.batch import RelationArrays, check_edge_count
from graphattn.builders.layout import Ints, Layout
from graphattn.builders.relations.base import Relation, edges_per_sentence
from graphattn.builders.relations.csc import indptr_from_degrees, ragged_arange
from graphattn.exceptions import ConfigError, DataError

BLOCK = 1 << 22
"""Similarities that are held in memory at a time."""
_GRID = 10**6


class Nearest(Relation):
    """Every token sees the ``count`` other tokens of its text whose vectors have the largest cosine with its own.

    The search is exact. It takes n² products of vectors for a text of n tokens, in blocks of bounded memory. Cosines
    that agree to six decimals are equal; of equals the first in the text counts, so that the rest of the batch changes
    nothing. A vector of zeros has the cosine 0 with all.

    Parameters
    ----------
    count : how many tokens each token sees; all others in a text that has no more
    vectors : (V, D) the vector of each id, for tokens with ``id``; or the name of a token feature that holds (N, D)
        vectors; or None for the vectors that the builder was given

    Raises
    ------
    ConfigError
        when the count is below 1, or the vectors are no table

    Examples
    --------
    >>> from graphattn.builders import TextGraphBuilder
    >>> builder = TextGraphBuilder([Nearest(1, "place")], cls=False)
    >>> layout = builder.layout([["a", "b", "c"]], features={"place": ([np.array([[1., 0.], [0., 1.], [2., 1.]])], 0)})
    >>> builder.graph(layout).edges()[0].tolist()
    [2, 2, 0]
    """

    def __init__(self, count: int, vectors: npt.NDArray[np.floating] | str | None = None):
        if count < 1:
            raise ConfigError(f"nearest:{count} has no edges; give at least 1")
        if not (vectors is None or isinstance(vectors, str) or np.ndim(vectors) == 2):
            raise ConfigError(
                f"vectors have {np.ndim(vectors)} dimensions; give a table with a row for each id, or a feature's name"
            )
        self.count, self._vectors, self.needs_vectors = count, vectors, vectors is None
        self.name = f"nearest:{count}"

    def edges(self, layout: Layout) -> RelationArrays:
        """The nearest tokens, in the order of the text.

        Raises
        ------
        DataError
            when tokens have no ids or no such feature, the feature is no vector, or an id has none
        GraphError
            when there are more edges than one graph can number
        """
        degrees = np.repeat(self._degrees(layout), layout.lengths)
        indptr = indptr_from_degrees(degrees)
        check_edge_count(self.name, int(indptr[-1]))
        vectors = self._vectors_of(layout)
        indices = np.empty(int(indptr[-1]), np.int64)
        for texts, rows in _blocks(layout.lengths):
            length = int(layout.lengths[texts[0]])
            tokens = layout.token_starts[texts][:, None] + np.arange(length)  # (texts, n)
            asking = tokens[:, rows]
            own = vectors[tokens]
            nearest = _most_alike(own[:, rows], own, rows, min(self.count, length - 1))
            slots = ragged_arange(indptr[asking.ravel()], degrees[asking.ravel()])
            indices[slots] = (nearest + layout.token_starts[texts][:, None, None]).ravel()
        return RelationArrays(indptr, indices, edges_per_sentence(layout, self.target, indptr))

    def num_edges(self, layout: Layout) -> Ints:
        """(B,) edges of each sentence, without looking for them."""
        return self._degrees(layout) * layout.lengths

    def _degrees(self, layout: Layout) -> Ints:
        return np.clip(layout.lengths - 1, 0, self.count)

    def _vectors_of(self, layout: Layout) -> npt.NDArray[np.float64]:
        """(N, D) vectors of length 1, in double precision, so that equal vectors have equal cosines."""
        table = layout.vectors if self._vectors is None else self._vectors
        feature = table if isinstance(table, str) else "id"
        values = layout.features.get(feature)
        if values is None:
            raise DataError(
                f"relation {self.name!r} needs tokens with the feature {feature!r}",
                hint="Give TextGraphBuilder(vocabulary=...) for ids, or layout(..., features=...) for others.",
            )
        if isinstance(table, str):
            if values.ndim != 2:
                raise DataError(
                    f"{values.ndim} dimensions where relation {self.name!r} needs a vector for each token",
                    field=feature,
                    hint="Give (tokens, numbers) arrays.",
                )
            return _unit(values)
        assert table is not None
        if len(values) and values.max() >= len(table):
            raise DataError(
                f"id {values.max()} has no vector; relation {self.name!r} has {len(table)} of them",
                hint="Make the table with the builder's own vocabulary.",
            )
        return _unit(table[values])

    def __repr__(self) -> str:
        shown = "" if self._vectors is None else f", {self._vectors if isinstance(self._vectors, str) else '...'!r}"
        return f"Nearest({self.count}{shown})"


def _unit(vectors: npt.NDArray) -> npt.NDArray[np.float64]:
    """Vectors divided by their lengths; zeros stay zeros."""
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _blocks(lengths: Ints) -> Iterator[tuple[Ints, slice]]:
    """Texts of the same length that fit into a block together; of a text that is too long, rows of its tokens."""
    order = np.argsort(lengths, kind="stable")
    for length in np.unique(lengths[lengths > 1]).tolist():
        texts = order[np.searchsorted(lengths[order], length) : np.searchsorted(lengths[order], length, side="right")]
        together, rows = max(1, BLOCK // length**2), max(1, min(length, BLOCK // length))
        for first in range(0, len(texts), together):
            for row in range(0, length, rows):
                yield texts[first : first + together], slice(row, min(row + rows, length))


def _most_alike(asking: npt.NDArray, vectors: npt.NDArray, rows: slice, count: int) -> Ints:
    """(texts, rows, count) positions of the vectors with the largest products, ascending; never a row's own.

    Parameters
    ----------
    asking : (texts, rows, D)
    vectors : (texts, n, D)
    rows : which of the n are asking
    count : how many to find
    """
    length = vectors.shape[1]
    cosines = np.rint(asking @ vectors.transpose(0, 2, 1) * _GRID).astype(np.int64)
    ranks = cosines * -length + np.arange(length)  # of equals the first
    ranks[:, np.arange(rows.stop - rows.start), np.arange(rows.start, rows.stop)] = np.iinfo(np.int64).max
    found = np.argpartition(ranks, count - 1, axis=2)[:, :, :count]
    return np.sort(found, axis=2)
