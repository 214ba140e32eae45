"""Kinds of edges: to the same token, within a word, along a dependency, with ``[CLS]``, or other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from graphattn._edges import features_of
from graphattn._ragged import Ints
from graphattn._schema import TOKEN, WORD
from graphattn.builders._batch import TextBatch
from graphattn.builders._graph_builder import CLS_ID
from graphattn.builders._sentence import Sentence

ITSELF, CLS_TOKEN, SAME_WORD, OTHER = "itself", "[CLS]", "same word", "other"
_PLAIN = [ITSELF, CLS_TOKEN, SAME_WORD, OTHER]


def begins_with_cls(graph: TextBatch) -> bool:
    """Whether texts begin with our ``[CLS]``; a pretrained model has other ids, and its special tokens are words."""
    features = features_of(graph, TOKEN)
    return "special" not in features and bool((features["id"] == CLS_ID).any())


def word_ids_of(sentence: Sentence, *, cls: bool = True) -> list[int]:
    """The word of each token, counted from 1; ``[CLS]``, which comes first, is word 0. Without it, counted from 0.

    Examples
    --------
    >>> word_ids_of(Sentence(["un", "known", "word"], word_ids=[0, 0, 1]))
    [0, 1, 1, 2]
    """
    word_ids = range(len(sentence)) if sentence.word_ids is None else sentence.word_ids
    return [0, *(word + 1 for word in word_ids)] if cls else list(word_ids)


def is_dependency(kind: str) -> bool:
    """Whether a kind of edge is a dependency, such as ``nsubj>``."""
    return kind not in _PLAIN


class EdgeKinds:
    """Classify edges between tokens, or between words, of a batch.

    Kinds are ``itself``, ``[CLS]`` (one end is), ``same word``, dependencies (``nsubj>`` if the target is the head of
    the source, ``nsubj<`` if the source is the head of the target), and ``other``. The head of a token is that of its
    word.

    ``sentences`` are the batch's texts in order; without a parse they have no dependencies. With ``cls`` each begins
    with ``[CLS]``, which is a word.

    Attributes
    ----------
    words : (N,) word of each token, numbered over the batch
    heads : (W,) head of each word; -1 for roots, ``[CLS]`` and words without a parse
    labels : (W,) dependency of each word, an index into ``label_names``
    is_special : (W,) ``[CLS]``, and special tokens of a pretrained model in parsed texts
    """

    def __init__(self, sentences: Sequence[Sentence], *, cls: bool = True):
        counts = np.array([sentence.num_words + cls for sentence in sentences], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        ids = [
            np.array(word_ids_of(sentence, cls=cls), np.int64) + start
            for sentence, start in zip(sentences, starts, strict=True)
        ]
        self.words = np.concatenate(ids) if ids else np.empty(0, np.int64)
        self._is_cls = np.zeros(int(counts.sum()), dtype=bool)
        if cls:
            self._is_cls[starts] = True
        heads = chain.from_iterable((*(0,) * cls, *(s.heads or (0,) * s.num_words)) for s in sentences)
        local = np.fromiter(heads, np.int64, int(counts.sum()))  # 0 for roots and [CLS], else from 1
        self.heads = np.where(local > 0, local - 1 + cls + np.repeat(starts, counts), -1)
        labels = list(chain.from_iterable((*("",) * cls, *(s.deprels or ("dep",) * s.num_words)) for s in sentences))
        known, self.labels = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)
        self.names = [*_PLAIN, *(f"{name}>" for name in known), *(f"{name}<" for name in known)]
        self.label_names, self.is_parsed = known, any(sentence.heads is not None for sentence in sentences)
        self.is_special = self._is_cls | (known == "")[self.labels]
        self._known = len(known)

    def codes(self, sources: Ints, targets: Ints, ends: str = TOKEN) -> Ints:
        """(E,) indices into :attr:`names` of the edges between (E,) nodes of a batch, which are tokens or words."""
        source, target = (sources, targets) if ends == WORD else (self.words[sources], self.words[targets])
        first = len(_PLAIN)
        conditions = [
            sources == targets,
            self._is_cls[source] | self._is_cls[target],
            source == target,
            self.heads[source] == target,
            self.heads[target] == source,
        ]
        choices = [0, 1, 2, first + self.labels[source], first + self._known + self.labels[target]]
        return np.select(conditions, choices, default=_PLAIN.index(OTHER))
