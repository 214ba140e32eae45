"""Text to sub-words and back without loss of blanks, for models that write text; sources and targets share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from graphattn.builders.sentence import Sentence
from graphattn.builders.vocabulary import Vocabulary
from graphattn.builders.vocabulary_training import UNKNOWN
from graphattn.builders.word_boundaries import Source, WordSplitter, clean

BLANK = "\u2581"
"""Stands for the blank before a word, as SentencePiece writes it; in a text it becomes an underscore."""


class Subwords:
    """A joint byte pair encoding of marked words: each word begins with :data:`BLANK` where a blank stood before it.

    So the tokens of a text tell its words (for word groups and parsers) and its blanks (for writing it again). A list
    of words and a :class:`Sentence` count as a text with a blank between any two words.

    Parameters
    ----------
    vocabulary : of marked words
    split : rule that cuts raw text into words, see :func:`~graphattn.builders.word_boundaries.pre_tokenizer`

    Examples
    --------
    >>> subwords = Subwords.train(["Zwei Hunde, zwei Katzen.", "Zwei Katzen!"], size=60)
    >>> subwords.sources(["Zwei Hunde!"])[0].tokens
    ('▁Zwei', '▁Hunde', '!')
    >>> subwords.text(subwords.ids(["Zwei Hunde!"])[0])
    'Zwei Hunde!'
    """

    def __init__(self, vocabulary: Vocabulary, split: str = "words"):
        self.vocabulary, self.splitter = vocabulary, WordSplitter.by_rule(split)
        self._pieces = np.array(["" if word == UNKNOWN else word for word in vocabulary.words], dtype=object)

    @classmethod
    def train(cls, texts: Iterable[Source], *, size: int, split: str = "words", lowercase: bool = False) -> Subwords:
        """Learn the encoding; the same texts and options always give the same one.

        Parameters
        ----------
        texts : sources and targets
        size : most entries, special tokens included
        split, lowercase : as for :meth:`Vocabulary.train`
        """
        marked = marked_words(list(texts), WordSplitter.by_rule(split))
        return cls(Vocabulary.train(marked, level="bpe", split="whitespace", lowercase=lowercase, size=size), split)

    def sources(self, texts: Sequence[Source]) -> list[Sentence]:
        """Texts as sentences of marked words; heads and all else that a given sentence has are kept."""
        marked = marked_words(texts, self.splitter)
        return [
            replace(text, tokens=tuple(words), word_ids=None) if isinstance(text, Sentence) else Sentence(tuple(words))
            for text, words in zip(texts, marked, strict=True)
        ]

    def ids(self, texts: Sequence[Source]) -> list[npt.NDArray[np.int32]]:
        """The ids of each text's tokens."""
        return self.vocabulary.encode_batch(marked_words(texts, self.splitter))[1]

    def text(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """The text of tokens; what no entry stands for is left out."""
        return plain(self._pieces[np.asarray(ids, dtype=np.int64)])


def plain(pieces: Iterable[str]) -> str:
    """The text of marked words, or of parts of them.

    Examples
    --------
    >>> plain(["▁It", "▁is", "n't", "."])
    "It isn't."
    """
    return "".join(pieces).replace(BLANK, " ").strip()


def marked_words(texts: Sequence[Source], splitter: WordSplitter) -> list[list[str]]:
    """The words of each text, with :data:`BLANK` before those that a blank stands before, the first one included.

    Examples
    --------
    >>> marked_words(["It isn't.", ["so", "it", "is"]], WordSplitter.by_rule("words"))
    [['▁It', '▁is', "n't", '.'], ['▁so', '▁it', '▁is']]
    """
    placed = splitter.placed_batch([clean(text) for text in texts if isinstance(text, str)])
    given = iter(splitter.words_of([text for text in texts if not isinstance(text, str)]))
    return [_after_blanks(next(placed)) if isinstance(text, str) else _apart(next(given)) for text in texts]


def _apart(words: Sequence[str]) -> list[str]:
    return [BLANK + _without_mark(word) for word in words]


def _after_blanks(placed: Sequence[tuple[str, int]]) -> list[str]:
    """Words in the order of the text, between which there are only white space and marks that stand for it."""
    marked, end = [], -1
    for word, begin in placed:
        marked.append(_without_mark(word) if begin == end else BLANK + _without_mark(word))
        end = begin + len(word)
    return marked


def _without_mark(word: str) -> str:
    return BLANK.join(word.replace(BLANK, "_").split())
