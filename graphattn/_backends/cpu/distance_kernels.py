"""Biases by distance in kernels: the numbers of two tables are added to scores, and gradients to those of the tables.

Letters: N nodes, H heads, R rows of a table, M the largest distance.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.records import Strided, as_strided, offset
from graphattn._distances import DistanceBias


class DistanceTerms(NamedTuple):
    """Tables of a :class:`~graphattn._distances.DistanceBias` and their gradients; those that lack have no memory."""

    destination: Strided
    source: Strided
    destination_gradient: Strided
    source_gradient: Strided
    rows: np.ndarray  # (2 M + 1,) int64
    destination_positions: np.ndarray  # (N_dst,) int64
    source_positions: np.ndarray  # (N_src,) int64


def make_terms(
    bias: DistanceBias | None, heads: slice, dtype: torch.dtype, gradients: DistanceBias | None = None
) -> DistanceTerms:
    """The tables of some heads for a kernel; those of ``gradients`` are what it adds to."""
    if bias is None:
        return _make_empty_terms(dtype)
    nothing = torch.zeros(0, heads.stop, 0, dtype=dtype)

    def read(table: Tensor | None) -> Strided:
        return as_strided((nothing if table is None else table)[:, heads])

    rows, destinations, sources = (each.numpy() for each in bias.distances)
    tables = read(bias.of_destinations), read(bias.of_sources)
    if gradients is None:
        return DistanceTerms(*tables, read(None), read(None), rows, destinations, sources)
    changed = read(gradients.of_destinations), read(gradients.of_sources)
    return DistanceTerms(*tables, *changed, rows, destinations, sources)


@cache
def _make_empty_terms(dtype: torch.dtype) -> DistanceTerms:
    nothing, empty = as_strided(torch.zeros(0, 0, 0, dtype=dtype)), np.zeros(0, np.int64)
    return DistanceTerms(nothing, nothing, nothing, nothing, empty, empty, empty)


@kernel
def add_biases(work, line, start, stop, edges, destination, head, terms):  # type: ignore[no-untyped-def]
    """Add the biases of the edges ``start`` to before ``stop`` of a destination to scores.

    ``edges`` are sources, the number of the first edge, and the first source: of consecutive sources, the first array
    is empty.
    """
    sources, first, base = edges
    by_destination, by_source = terms.destination, terms.source
    at = offset(by_destination, destination, head)
    shift = terms.destination_positions[destination] + len(terms.rows) // 2
    for t in range(start, stop):
        source = sources[first + t] if len(sources) > 0 else base + t
        row = terms.rows[shift - terms.source_positions[source]]
        bias = work.dtype.type(0)
        if len(by_destination.memory) > 0:
            bias += by_destination.memory[at + row]
        if len(by_source.memory) > 0:
            bias += by_source.memory[offset(by_source, source, head) + row]
        work[line + t] += bias


@kernel
def add_bias_gradients(work, line, start, stop, edges, destination, head, terms):  # type: ignore[no-untyped-def]
    """Add the gradients of scores to those of the tables; arguments as for :func:`add_biases`."""
    sources, first, base = edges
    by_destination, by_source = terms.destination_gradient, terms.source_gradient
    at = offset(by_destination, destination, head)
    shift = terms.destination_positions[destination] + len(terms.rows) // 2
    for t in range(start, stop):
        source = sources[first + t] if len(sources) > 0 else base + t
        row = terms.rows[shift - terms.source_positions[source]]
        if len(by_destination.memory) > 0:
            by_destination.memory[at + row] += work[line + t]
        if len(by_source.memory) > 0:
            by_source.memory[offset(by_source, source, head) + row] += work[line + t]
