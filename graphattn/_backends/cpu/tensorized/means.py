"""Weights of tensorised attention averaged over the features, from the matrix products of the outputs.

With P = e^R and Z = P e^S the mean weight of an edge is P_ij / F times the sum over features of e^{S_jl} / Z_il: one
more product, and no array of edges times features.

Letters: H heads, F features; B sentences of T tokens in a chunk, I queries and J keys of a strip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphattn._backends.cpu.compiling import announce_compilation, kernel
from graphattn._backends.cpu.tensorized.plan import SentenceChunk, Strip
from graphattn._edges import Edges


class MeanWeights:
    """Mean weights of edges with contiguous keys on a CPU, filled strip by strip."""

    def __init__(self, edges: Edges, heads: int, dtype: torch.dtype):
        self.weights = torch.empty(heads, edges.num_edges, dtype=dtype)
        """(H, E), in slot order."""
        self._starts = edges.indptr.numpy().astype(np.int64)
        assert edges.first_sources is not None  # as it has a plan
        self._first = edges.first_sources.numpy().astype(np.int64)
        self._rows: dict[tuple[int, int], _StripQueries] = {}

    def add(
        self, head: int, chunk: SentenceChunk, strip: Strip, powers: Tensor, inverse: Tensor, sources: Tensor
    ) -> None:
        """Write the mean weights of the edges into a strip's queries.

        ``powers`` (B, I, J) are e^R, ``inverse`` (B, I, F) one divided by the denominators, ``sources`` (B, J, F) e^S
        of the strip's keys.
        """
        strip_key = (id(chunk), strip.queries.start)
        rows = self._rows.get(strip_key)
        if rows is None:
            rows = self._rows[strip_key] = self._find_rows(chunk, strip)
        sums = torch.bmm(inverse, sources.transpose(1, 2)).numpy()
        weights, factor = self.weights[head].numpy(), sums.dtype.type(1 / sources.shape[2])
        with announce_compilation((_write_means, weights.dtype)):
            _write_means(weights, sums, powers.numpy(), factor, rows.queries, rows.shifts, rows.slots, rows.counts)

    def _find_rows(self, chunk: SentenceChunk, strip: Strip) -> _StripQueries:
        """The slots of the edges of a strip's queries, without padding."""
        length, width = chunk.length, strip.queries.stop - strip.queries.start
        positions = np.arange(chunk.size * length) if chunk.positions is None else chunk.positions.numpy()
        positions = positions[(positions % length >= strip.queries.start) & (positions % length < strip.queries.stop)]
        tokens = chunk.first + positions if chunk.tokens is None else chunk.tokens.numpy()[positions]
        sentence_starts = tokens - positions % length
        queries = positions // length * width + positions % length - strip.queries.start
        slots = self._starts[tokens]
        shifts = self._first[tokens] - sentence_starts - strip.keys.start
        return _StripQueries(queries, shifts, slots, self._starts[tokens + 1] - slots)


@dataclass(frozen=True, eq=False)
class _StripQueries:
    """The queries of a strip without padding."""

    queries: np.ndarray  # (R,) indices in (B I)
    shifts: np.ndarray  # (R,) indices of their first keys in the strip
    slots: np.ndarray  # (R,) first slot of each query
    counts: np.ndarray  # (R,) number of edges of each query


@kernel
def _write_means(weights, sums, powers, factor, queries, shifts, slots, counts):  # type: ignore[no-untyped-def]
    """Write products of two (B, I, J) arrays and a factor to the slots of their edges."""
    per_text = sums.shape[1]
    for number in range(len(queries)):
        text, row = queries[number] // per_text, queries[number] % per_text
        for k in range(counts[number]):
            at = shifts[number] + k
            weights[slots[number] + k] = sums[text, row, at] * powers[text, row, at] * factor
