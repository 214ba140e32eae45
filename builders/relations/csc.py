"""Arithmetic on the arrays of compressed sparse columns that relations share."""

from __future__ import annotations

import numpy as np

from graphattn.builders.batch import check_edge_count
from graphattn.builders.layout import Ints, Layout


def indptr_from_degrees(degrees: Ints) -> Ints:
    """(N + 1,) where the edges of each destination begin, from (N,) how many it has.

    Examples
    --------
    >>> pointers(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    indptr = np.zeros(len(degrees) + 1, dtype=np.int64)
    np.cumsum(degrees, out=indptr[1:])
    return indptr


def ragged_arange(first: Ints, counts: Ints, step: int = 1) -> Ints:
    """Runs of numbers, one after the other: ``counts[i]`` numbers from ``first[i]`` on, ``step`` apart.

    Examples
    --------
    >>> runs(np.array([5, 0]), np.array([2, 3]), step=10).tolist()
    [5, 15, 0, 10, 20]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    within = np.arange(total) - np.repeat(ends - counts, counts)
    return within * step + np.repeat(first, counts)


def destinations(indptr: Ints) -> Ints:
    """(E,) destination of each edge."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def expand_to_tokens(name: str, layout: Layout, indptr: Ints, sources: Ints) -> tuple[Ints, Ints, Ints]:
    """Edges between words written out between all tokens of the two words.

    Parameters
    ----------
    name : the relation's, for the error
    layout : the batch
    indptr, sources : (W + 1,) and (A,) edges between words

    Returns
    -------
    (N + 1,) where the edges of each token begin, (E,) their sources, (E,) the edge between words each comes from.

    Raises
    ------
    GraphError
        when there are more edges than one graph can number
    """
    first, stop = layout.word_bounds
    words = layout.word_of_token
    degrees = (indptr[1:] - indptr[:-1])[words]
    arcs = ragged_arange(indptr[words], degrees)
    sizes = (stop - first)[sources[arcs]]
    check_edge_count(name, int(sizes.sum()))
    edge_ends = indptr_from_degrees(sizes)
    return edge_ends[indptr_from_degrees(degrees)], ragged_arange(first[sources[arcs]], sizes), np.repeat(arcs, sizes)
