"""Features of a word's spelling, for linear models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from graphattn.builders._spelling import spell, split_clusters

FEATURES = 1
"""Version of these features and those of :mod:`~graphattn.models._features.lexicon`; increase it when one changes."""
_LETTERS = ((re.compile(r"[^\W\d_]"), lambda match: "X" if match[0].isupper() else "x"), (re.compile(r"\d"), "d"))
_RUN = re.compile(r"(.)\1{2,}")


@lru_cache(1 << 17)
def hash_word_features(token: str) -> tuple[int, ...]:
    """64-bit hashes of a token's features: lower case, shape, suffix of 3, spelling, affixes, kinds of characters.

    Affixes are of grapheme clusters, and the shape is that of their first characters.

    Examples
    --------
    >>> first, second = hash_word_features("Dogs"), hash_word_features("dogs")
    >>> [a == b for a, b in zip(first, second)][:4]
    [True, False, True, False]
    """
    token, lower = spell(token, lowercase=False), spell(token, lowercase=True)
    letters = "".join(cluster[0] for cluster in split_clusters(token))
    clusters = split_clusters(lower)
    values = [lower, word_shape(letters), "".join(clusters[-3:]), token]
    values += ["".join(clusters[:size]) for size in (1, 2, 3, 4)] + ["".join(clusters[-size:]) for size in (1, 2, 4)]
    values += [str(letters.istitle()), str(letters.isupper()), str(any(map(str.isdigit, letters))), "bias"]
    digests = (hashlib.blake2b(f"{kind}{value}".encode(), digest_size=8) for kind, value in enumerate(values))
    return tuple(int.from_bytes(digest.digest(), "little", signed=True) for digest in digests)


def word_shape(token: str) -> str:
    """Letters as X or x and digits as d, runs of at most two.

    Examples
    --------
    >>> word_shape("McDonald's"), word_shape("3,000")
    ("XxXxx'x", 'd,dd')
    """
    shape = token
    for pattern, replacement in _LETTERS:
        shape = pattern.sub(replacement, shape)
    return _RUN.sub(r"\1\1", shape)


def hash_tokens(tokens: Sequence[str]) -> npt.NDArray[np.int64]:
    """(U + 1, T) features of distinct tokens; the first row is that of the boundary of a text."""
    return np.array([hash_word_features(token) for token in ("", *tokens)], dtype=np.int64)
