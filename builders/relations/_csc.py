"""Arithmetic on compressed sparse columns (CSC), shared by all relations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphattn._ragged import Ints, concatenate_ranges
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import Nodes, check_edge_count
from graphattn.builders._layout import Layout


def indptr_from_degrees(degrees: Ints) -> Ints:
    """(N + 1,) first edge of each destination, from its (N,) number of edges.

    Examples
    --------
    >>> indptr_from_degrees(np.array([2, 0, 1])).tolist()
    [0, 2, 2, 3]
    """
    indptr = np.zeros(len(degrees) + 1, dtype=np.int64)
    np.cumsum(degrees, out=indptr[1:])
    return indptr


def destinations(indptr: Ints) -> Ints:
    """(E,) destination of each edge."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def edges_per_sentence(layout: Layout, target: str, indptr: Ints, nodes: Mapping[str, Nodes] | None = None) -> Ints:
    """(B,) number of incoming edges in each sentence.

    Parameters
    ----------
    layout : the batch
    target : node type of the destinations
    indptr : (N_dst + 1,) first edge of each destination
    nodes : the result of the relation's ``nodes``, if its destinations are neither tokens nor words
    """
    counts = {TOKEN: layout.lengths, WORD: layout.word_counts}.get(target)
    if counts is None:
        assert nodes is not None
        counts = nodes[target].per_sentence
    ends = np.cumsum(counts)
    per_sentence: Ints = indptr[ends] - indptr[ends - counts]
    return per_sentence


def expand_to_tokens(name: str, layout: Layout, indptr: Ints, sources: Ints) -> tuple[Ints, Ints, Ints]:
    """Expand edges between words to edges between all their tokens.

    Returns (N + 1,) first edge of each token, (E,) source of each edge, (E,) the edge between words that it comes from.

    ``indptr`` (W + 1,) and ``sources`` (A,) are edges between words; errors have the relation's name.
    """
    first, stop = layout.word_bounds
    words = layout.word_of_token
    degrees = (indptr[1:] - indptr[:-1])[words]
    arcs = concatenate_ranges(indptr[words], degrees)
    sizes = (stop - first)[sources[arcs]]
    check_edge_count(name, int(sizes.sum()))
    edge_ends = indptr_from_degrees(sizes)
    return (
        edge_ends[indptr_from_degrees(degrees)],
        concatenate_ranges(first[sources[arcs]], sizes),
        np.repeat(arcs, sizes),
    )
