"""Arithmetic on compressed sparse columns (CSC), shared by all relations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphattn._ragged import Ints, concatenate_ranges, offsets_from_counts
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import Nodes, indptr_from_degrees
from graphattn.builders._layout import Layout


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
    return indptr[ends] - indptr[ends - counts]


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
    edge_ends = indptr_from_degrees(name, sizes)
    return (
        edge_ends[offsets_from_counts(degrees)],
        concatenate_ranges(first[sources[arcs]], sizes),
        np.repeat(arcs, sizes),
    )
