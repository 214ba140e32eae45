"""Sub-words that keep blanks, so that text can be restored: for models that write text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from graphattn.builders._paths import FilePath
from graphattn.builders._sentence import Sentence
from graphattn.builders._spelling import restore_final_sigma
from graphattn.builders._vocabulary import UNKNOWN, Ids, Vocabulary
from graphattn.builders._word_boundaries import (
    DEFAULT_SPLIT,
    Source,
    WordSplitter,
    replace_surrogates,
    words_of,
)
from graphattn.builders._word_vectors import WordVectors

BLANK = "\u2581"
"""Marks a word that follows a blank, as in SentencePiece."""
_LITERAL = "\ufdd0"
"""Stands for the same character in a text; Unicode keeps this one for such uses, so texts do not have it."""


class Subwords:
    """Byte pair encoding of words, joint for sources and targets: a word after a blank begins with :data:`BLANK`.

    So the tokens of a text keep its words (for word groups and parsers) and its blanks (to restore it). A list of
    words or a :class:`Sentence` counts as a text with a blank between any two words.

    The vocabulary is of marked words; ``split`` is the rule for raw text, see
    :func:`~graphattn.builders._word_boundaries.make_pre_tokenizer`.

    Examples
    --------
    >>> subwords = Subwords.train(["Zwei Hunde, zwei Katzen.", "Zwei Katzen!"], size=60)
    >>> subwords.sources(["Zwei Hunde!"])[0].tokens
    ('▁Zwei', '▁Hunde', '!')
    >>> subwords.text(subwords.ids(["Zwei Hunde!"])[0])
    'Zwei Hunde!'
    """

    def __init__(self, vocabulary: Vocabulary, split: str = DEFAULT_SPLIT):
        self.vocabulary, self.splitter = vocabulary, WordSplitter.by_rule(split)
        self._lowercase = vocabulary.spelling("S") == "s"
        self._pieces = np.array(["" if word == UNKNOWN else word for word in vocabulary.words], dtype=object)

    @classmethod
    def train(
        cls, texts: Iterable[Source], *, size: int, split: str = DEFAULT_SPLIT, lowercase: bool = False
    ) -> Subwords:
        """Train the encoding; the result is deterministic."""
        words = mark_blanks(list(texts), WordSplitter.by_rule(split))
        return cls.learn(words, size=size, split=split, lowercase=lowercase)

    @classmethod
    def learn(cls, words: Iterable[Sequence[str]], *, size: int, split: str, lowercase: bool) -> Subwords:
        """Train the encoding on the marked words of texts."""
        return cls(Vocabulary.train(words, level="bpe", split="whitespace", lowercase=lowercase, size=size), split)

    def mark(self, texts: Sequence[Source]) -> list[list[str]]:
        """The marked words of each text."""
        return mark_blanks(texts, self.splitter)

    def sources(self, texts: Sequence[Source], words: Sequence[Sequence[str]] | None = None) -> list[Sentence]:
        """Sentences of marked words, those of :meth:`mark`; all other fields of a given sentence are kept."""
        return [
            replace(text, tokens=of_text, word_ids=None) if isinstance(text, Sentence) else Sentence(of_text)
            for text, of_text in zip(texts, self.mark(texts) if words is None else words, strict=True)
        ]

    def split(self, texts: Sequence[Source]) -> list[Sentence]:
        """The sub-words of each text, as sentences."""
        return self.vocabulary.sentences(self.sources(texts))

    def ids(self, texts: Sequence[Source]) -> list[Ids]:
        """The token ids of each text."""
        return self.number(self.mark(texts))

    def number(self, words: Sequence[Sequence[str]]) -> list[Ids]:
        """The token ids of the marked words of each text."""
        return self.vocabulary.encode_batch(words)[1]

    def look_up(self, path: FilePath, *, seed: int) -> npt.NDArray[np.float32]:
        """Vectors of sub-words that spell a word of a file, scaled to unit variance; random ones of the others.

        Returns (V, D).
        """
        words = {word.removeprefix(BLANK) for word in self.vocabulary.words}
        vectors = WordVectors.read(path, only=words)
        marked = [*vectors.words, *(BLANK + word for word in vectors.words)]
        table = WordVectors(marked, np.tile(vectors.matrix, (2, 1))).table(self.vocabulary, seed=seed)
        return table / max(float(vectors.matrix.std()), 1e-8)

    def text(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """The text of tokens; ids without text are skipped."""
        text = join_pieces(self._pieces[np.asarray(ids, dtype=np.int64)])
        return restore_final_sigma(text) if self._lowercase else text


def join_pieces(pieces: Iterable[str]) -> str:
    """Restore the text of marked words or parts of them.

    Examples
    --------
    >>> join_pieces(["▁It", "▁is", "n't", "."])
    "It isn't."
    """
    return "".join(pieces).replace(BLANK, " ").strip().replace(_LITERAL, BLANK)


def mark_blanks(texts: Sequence[Source], splitter: WordSplitter) -> list[list[str]]:
    """Split texts into words; :data:`BLANK` precedes the first word and every word after a blank.

    Examples
    --------
    >>> mark_blanks(["It isn't.", ["so", "it", "is"]], WordSplitter.by_rule("words"))
    [['▁It', '▁is', "n't", '.'], ['▁so', '▁it', '▁is']]
    """
    raw = splitter.split_with_offsets([replace_surrogates(text) for text in texts if isinstance(text, str)])

    def mark(text: Source) -> list[str]:
        if isinstance(text, str):
            return _mark_by_offset(next(raw))
        return [BLANK + _escape(word) for word in words_of(text)]

    return list(map(mark, texts))


def _mark_by_offset(words: Sequence[tuple[str, int]]) -> list[str]:
    """Mark each word that does not begin where the previous one ends."""
    marked, end = [], -1
    for word, begin in words:
        marked.append(_escape(word) if begin == end else BLANK + _escape(word))
        end = begin + len(word)
    return marked


def _escape(word: str) -> str:
    return BLANK.join(word.replace(BLANK, _LITERAL).split())
