"""A word about files of word vectors that hardly fit the texts."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence

from graphattn.builders import WordVectors
from graphattn.exceptions import GraphAttnWarning

_FEW = 0.05


def warn_of_few_vectors(
    files: Sequence[str], sets: Sequence[WordVectors], counts: Counter[str], spelling: Callable[[str], str]
) -> None:
    """Say where hardly a word of the training set has a vector: the file is of another language, or spelt otherwise.

    Parameters
    ----------
    files : names of the files of the sets
    sets : the vectors
    counts : words of the training set
    spelling : how the vocabulary spells a word
    """
    spelt: Counter[str] = Counter()
    for word, count in counts.items():
        spelt[spelling(word)] += count
    for file, own in zip(files, sets, strict=True):
        _, share = own.coverage(spelt)
        if spelt and share < _FEW:
            warnings.warn(
                f"{file} has vectors for {share:.1%} of the words of the training set; check that its language and "
                "spelling are those of the texts",
                GraphAttnWarning,
                stacklevel=2,
            )
