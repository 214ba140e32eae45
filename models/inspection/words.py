"""Which word each token of a text belongs to."""

from __future__ import annotations

from graphattn.builders.sentence import Sentence


def word_ids_of(sentence: Sentence) -> list[int]:
    """The word of each token, counted from 1; ``[CLS]``, which comes first, is word 0.

    Examples
    --------
    >>> word_ids_of(Sentence(["un", "known", "word"], word_ids=[0, 0, 1]))
    [0, 1, 1, 2]
    """
    own = range(len(sentence)) if sentence.word_ids is None else sentence.word_ids
    return [0, *(word + 1 for word in own)]
