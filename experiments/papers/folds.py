"""Folds of a training set, to choose settings by: texts that copy from each other lie on one side."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse import bmat
from scipy.sparse.csgraph import connected_components
from sklearn.feature_extraction.text import CountVectorizer

from graphattn.builders import Example

FOLDS = 4
_SHARED_WORDS = 8


def held_out_fold(examples: Sequence[Example], number: int) -> tuple[list[Example], list[Example]]:
    """Cut a corpus in two: what is left for training, and one of four folds.

    Parameters
    ----------
    examples : the training set
    number : which fold, 0 to 3

    Returns
    -------
    The rest and the fold, each in the corpus' order
    """
    groups = copies([str(example.text) for example in examples])
    numbers = sorted(set(groups.tolist()))
    random.Random(17).shuffle(numbers)
    fold_of = {group: index % FOLDS for index, group in enumerate(numbers)}
    held = [fold_of[group] == number for group in groups.tolist()]
    rest = [example for example, out in zip(examples, held, strict=True) if not out]
    return rest, [example for example, out in zip(examples, held, strict=True) if out]


def copies(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """For each text the number of the first one that it copies from, itself if there is none.

    Two texts belong together when they share eight words in a row, case and punctuation left out, or are the same
    and shorter than that; and so do all that are linked by such pairs.

    Examples
    --------
    >>> copies(["Good film.", "a b c d e f g h", "good film", "x a B c d e f, g h y"]).tolist()
    [0, 1, 0, 1]
    """
    shared = CountVectorizer(analyzer=_word_runs, binary=True).fit_transform(texts)
    _, component = connected_components(bmat([[None, shared], [shared.T, None]]), directed=False)
    _, first, component = np.unique(component[: len(texts)], return_index=True, return_inverse=True)
    return first[component]


def _word_runs(text: str) -> list[str]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return [" ".join(words[start : start + _SHARED_WORDS]) for start in range(max(1, len(words) - _SHARED_WORDS + 1))]
