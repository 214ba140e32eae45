"""Exact search for the nearest vectors, by cosine, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import DataError

_QUERIES = 1024
"""Queries whose similarities to a part of the corpus are in memory together."""
_LEAST_NORM = 1e-12
Indices = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]


def find_nearest(
    queries: npt.NDArray[np.floating], corpus: Iterable[npt.NDArray[np.floating]], k: int
) -> tuple[Indices, Scores]:
    """The indices of the ``k`` vectors nearest to each query, and their cosines, most similar first.

    ``queries`` are (Q, D) vectors; those of the corpus come in (S, D) parts. A vector of zeros has the cosine 0. Among
    equals, the first come first.
    """
    normalized = _normalize(queries)
    indices, scores = np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
    first = 0
    for part in corpus:
        vectors = _normalize(part).T
        blocks = range(0, max(len(normalized), 1), _QUERIES)
        found = [_select(normalized[row : row + _QUERIES] @ vectors, k) for row in blocks]
        indices = np.hstack([indices, np.vstack([numbers for numbers, _ in found]) + first])
        scores = np.hstack([scores, np.vstack([cosines for _, cosines in found])])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        indices, scores = np.take_along_axis(indices, best, 1), np.take_along_axis(scores, best, 1)
        first += len(part)
    if not first:
        raise DataError("the corpus is empty", hint="Give at least one text.")
    return indices, scores


def _normalize(vectors: npt.NDArray[np.floating]) -> Scores:
    values = np.asarray(vectors, np.float32)
    scaled: Scores = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), _LEAST_NORM)
    return scaled


def _select(scores: Scores, k: int) -> tuple[Indices, Scores]:
    """The indices of the ``k`` largest scores of each row, in ascending order, and these scores."""
    width = scores.shape[1]
    if k >= width:
        return np.broadcast_to(np.arange(width), scores.shape), scores
    chosen = np.argpartition(scores, width - k, axis=1)[:, width - k :]
    least = np.take_along_axis(scores, chosen, 1).min(1, keepdims=True)
    for row in np.flatnonzero((scores >= least).sum(1) > k):  # equals, of which it has chosen any
        chosen[row] = np.argsort(-scores[row], kind="stable")[:k]
    chosen.sort(axis=1)
    return chosen, np.take_along_axis(scores, chosen, 1)
