"""Biases of edges that depend on the distance of their ends, as two tables instead of a number for each edge.

Letters: N nodes, H heads, R rows of a table, M the largest distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

from graphattn._edges import Edges


class Distances(NamedTuple):
    """The row of a table for the distance of two nodes."""

    rows: Tensor
    """(2 M + 1,) int64: the row of each distance from -M to M."""
    destination_positions: Tensor
    """(N_dst,) int64; no two nodes of an edge are more than M apart."""
    source_positions: Tensor
    """(N_src,) int64."""


class DistanceBias(NamedTuple):
    """What a destination and a source add to the score of an edge, by their distance.

    An edge from source j to destination i gets ``of_destinations[i, :, r] + of_sources[j, :, r]``, where r is
    ``rows[position of i - position of j + M]``. A table may be None, and nodes may share its memory.
    """

    of_destinations: Tensor | None
    """(N_dst, H, R) with contiguous R."""
    of_sources: Tensor | None
    """(N_src, H, R) with contiguous R."""
    distances: Distances

    @property
    def tables(self) -> list[Tensor]:
        """The tables that there are."""
        return [table for table in self[:2] if table is not None]

    def map(self, function: Callable[[Tensor], Tensor]) -> DistanceBias:
        """The same distances with other tables."""
        of_destinations, of_sources = (None if table is None else function(table) for table in self[:2])
        return DistanceBias(of_destinations, of_sources, self.distances)

    def select_nodes(self, nodes: Tensor) -> DistanceBias:
        """The biases between some nodes."""
        rows, destinations, sources = self.distances
        return self.map(lambda table: table[nodes])._replace(
            distances=Distances(rows, destinations[nodes], sources[nodes])
        )

    def of_edges(self, edges: Edges) -> Tensor:
        """(E, H) the biases of edges, in CSC order."""
        rows, destination_positions, source_positions = self.distances
        distances = destination_positions[edges.destinations] - source_positions[edges.sources]
        numbers = rows[distances + len(rows) // 2]
        ends = (self.of_destinations, edges.destinations), (self.of_sources, edges.sources)
        first, *rest = [table[nodes, :, numbers] for table, nodes in ends if table is not None]
        return first + rest[0] if rest else first
