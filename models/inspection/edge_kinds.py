"""What joins the two ends of an edge: the same token, the same word, a dependency, ``[CLS]``, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from graphattn.builders.sentence import Sentence
from graphattn.models.inspection.attention_map import Ints
from graphattn.models.inspection.words import word_ids_of
from graphattn.schema import TOKEN, WORD

ITSELF, CLS_TOKEN, SAME_WORD, OTHER = "itself", "[CLS]", "same word", "other"
_PLAIN = [ITSELF, CLS_TOKEN, SAME_WORD, OTHER]


class EdgeKinds:
    """Tells the kinds of edges between the tokens of a batch, or between its words.

    Kinds are ``itself``, ``[CLS]`` (one of the two is), ``same word``, the names of dependencies, ``nsubj>`` where the
    target is the head of the source and ``nsubj<`` where the source is the head of the target, and ``other``. The head
    of a token is that of its word, so that edges between words are told apart as those between their tokens are.

    Parameters
    ----------
    sentences : of the batch, in its order; those that are not parsed have no dependencies
    """

    def __init__(self, sentences: Sequence[Sentence]):
        counts = np.array([sentence.num_words + 1 for sentence in sentences], dtype=np.int64)  # [CLS] is a word
        starts = np.cumsum(counts) - counts
        ids = [np.array(word_ids_of(sentence)) + start for sentence, start in zip(sentences, starts, strict=True)]
        self._words = np.concatenate(ids) if ids else np.empty(0, np.int64)
        self._is_cls = np.zeros(int(counts.sum()), dtype=bool)
        self._is_cls[starts] = True
        heads = chain.from_iterable((0, *(s.heads or (0,) * s.num_words)) for s in sentences)
        local = np.fromiter(heads, np.int64, int(counts.sum()))  # 0 for roots and [CLS]
        self._heads = np.where(local > 0, local + np.repeat(starts, counts), -1)
        labels = list(chain.from_iterable(("", *(s.deprels or ("dep",) * s.num_words)) for s in sentences))
        known, self._labels = np.unique(np.array(labels, dtype=object).astype(str), return_inverse=True)
        self.names = [*_PLAIN, *(f"{name}>" for name in known), *(f"{name}<" for name in known)]
        self._known = len(known)

    def codes(self, sources: Ints, targets: Ints, ends: str = TOKEN) -> Ints:
        """Kinds of edges.

        Parameters
        ----------
        sources, targets : (E,) nodes of the batch
        ends : type of these nodes, token or word

        Returns
        -------
        (E,) numbers of :attr:`names`
        """
        source, target = (sources, targets) if ends == WORD else (self._words[sources], self._words[targets])
        first = len(_PLAIN)
        conditions = [
            sources == targets,
            self._is_cls[source] | self._is_cls[target],
            source == target,
            self._heads[source] == target,
            self._heads[target] == source,
        ]
        choices = [0, 1, 2, first + self._labels[source], first + self._known + self._labels[target]]
        return np.select(conditions, choices, default=_PLAIN.index(OTHER))
