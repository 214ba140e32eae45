"""Initial token vectors from the co-occurrences in a corpus (Levy, Goldberg and Dagan, 2015)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from graphattn.builders._vocabulary import SPECIAL_TOKENS

_WINDOW = 5
_SMOOTHING = 0.75
"""Exponent of the frequencies of contexts."""
_MOST_TOKENS = 50_000
"""The most frequent tokens have vectors; others stay random."""


def ppmi_vectors(
    texts: Iterable[npt.NDArray[np.integer]], num_tokens: int, width: int, seed: int
) -> npt.NDArray[np.float32]:
    """Truncated SVD of the positive pointwise mutual information of tokens within five positions.

    ``texts`` are token ids, in the order of frequency after the special tokens; the result is (num_tokens, width), with
    rows of unit variance on average. Tokens without co-occurrences have random vectors.
    """
    from scipy.sparse import csr_matrix
    from sklearn.utils.extmath import randomized_svd

    size = min(num_tokens, _MOST_TOKENS)
    vectors = np.random.default_rng(seed).standard_normal((num_tokens, width)).astype(np.float32)
    padding = np.zeros(_WINDOW, np.int64)
    ids = np.concatenate([part for text in texts for part in (text, padding)])
    ids = np.where((ids < size) & (ids >= len(SPECIAL_TOKENS)), ids, 0)
    counts = csr_matrix((size, size), dtype=np.float32)
    for distance in range(1, _WINDOW + 1):
        left, right = ids[:-distance], ids[distance:]
        both = (left > 0) & (right > 0)
        weights = np.full(int(both.sum()), 1 / distance, np.float32)
        counts += csr_matrix((weights, (left[both], right[both])), (size, size))
    counts = (counts + counts.T).tocsr()
    if not counts.nnz:
        return vectors
    totals = counts.sum(0, dtype=np.float64).A1
    contexts = totals**_SMOOTHING / (totals**_SMOOTHING).sum()
    pmi = counts.data  # in place: it is the largest array
    pmi /= contexts.astype(np.float32)[counts.indices]
    pmi /= np.repeat(totals.astype(np.float32), np.diff(counts.indptr))
    np.maximum(np.log(pmi, out=pmi), 0, out=pmi)
    counts.eliminate_zeros()
    rank = min(width, size - 1)
    left, values, _ = randomized_svd(counts, rank, random_state=seed)
    rows = left * np.sqrt(values)
    seen = totals > 0
    rows *= np.sqrt(width / max(rank, 1)) / max(rows[seen].std(), 1e-8)
    vectors[:size][seen, :rank] = rows[seen]
    vectors[:size][seen, rank:] = 0
    return vectors
