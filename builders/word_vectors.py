"""Pre-trained word vectors, and the embedding table they give a vocabulary."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from graphattn.builders.vocabulary import Vocabulary
from graphattn.builders.vocabulary_training import SPECIAL_TOKENS
from graphattn.builders.word_vector_files import VectorFile, read_through_cache
from graphattn.exceptions import ConfigError, DataError

_PADDING = SPECIAL_TOKENS.index("[PAD]")


class WordVectors:
    """Words and their vectors.

    A word is looked up as it is, then in lower case.

    Parameters
    ----------
    words : each word once
    matrix : one row for each word (V, D)

    Raises
    ------
    DataError
        when words and rows do not fit, or there are none

    Examples
    --------
    >>> vectors = WordVectors(["good", "bad"], np.array([[1.0, 0.0], [-1.0, 0.0]]))
    >>> "Good" in vectors, vectors.dim
    (True, 2)
    >>> vectors.coverage({"good": 3, "ugly": 1})
    (0.5, 0.75)
    """

    def __init__(self, words: Sequence[str], matrix: np.ndarray):
        self.words = list(words)
        self.matrix = np.ascontiguousarray(matrix, dtype=np.float32)
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words):
            raise DataError(
                f"{len(self.words)} words and a matrix of shape {self.matrix.shape}", hint="Give one row for each word."
            )
        if not self.matrix.size:
            raise DataError("there is not a single word vector", hint="Give at least one.")
        self._rows = {word: row for row, word in enumerate(self.words)}
        if len(self._rows) < len(self.words):
            raise DataError("a word has several vectors", hint="Keep one of them.")

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], *, only: Collection[str] | None = None, limit: int | None = None
    ) -> WordVectors:
        """Read a text file of GloVe, word2vec or fastText, plain or as ``.gz``, ``.xz``, ``.bz2``.

        Where the environment variable ``GRAPHATTN_CACHE`` names a folder, a parsed copy is kept there and the
        next reading takes a fraction of the time.

        Parameters
        ----------
        path : the file; of a repeated word the first vector counts, and words may hold spaces
        only : keep these words, and what they are in lower case
        limit : read the first so many vectors of the file (the most frequent words, as a rule)

        Raises
        ------
        DataError
            when a line is not a word with its numbers, the file is binary or ends too early, or holds none of
            the words in ``only``
        ConfigError
            when ``limit`` is below 1
        """
        if limit is not None and limit < 1:
            raise ConfigError(f"limit is {limit}. Read at least 1 vector, or leave it out to read all.")
        wanted = None if only is None else {*only, *(word.lower() for word in only)}
        whole = read_through_cache(path) if limit is None else None
        if whole is None:
            words, matrix = VectorFile(path, _everything if wanted is None else wanted.__contains__, limit).read()
        elif wanted is None:
            words, matrix = whole
        else:
            rows = [row for row, word in enumerate(whole[0]) if word in wanted]
            words, matrix = [whole[0][row] for row in rows], whole[1][rows]
        if not words:
            raise DataError(
                "none of the vectors is for a word that is asked for" if only is not None else "holds no vectors",
                path=path,
                hint="Check that language and spelling of corpus and vectors agree.",
            )
        return cls(words, matrix)

    @classmethod
    def concatenated(cls, parts: Sequence[WordVectors], *, normalize: bool = True) -> WordVectors:
        """Several sets side by side: each word that one of them has gets the vectors of all, one after another.

        Where a set lacks the word, the mean of the set's vectors stands.

        Parameters
        ----------
        parts : the sets, at least one
        normalize : divide each set by its standard deviation first, so that none outweighs the others

        Examples
        --------
        >>> small = WordVectors(["good", "bad"], np.array([[1.0], [3.0]]))
        >>> other = WordVectors(["bad", "ugly"], np.array([[7.0], [9.0]]))
        >>> both = WordVectors.concatenated([small, other], normalize=False)
        >>> both.words, both.matrix.tolist()
        (['good', 'bad', 'ugly'], [[1.0, 8.0], [3.0, 7.0], [2.0, 9.0]])
        """
        if len(parts) == 1:
            return parts[0]
        words = list(dict.fromkeys(word for part in parts for word in part.words))
        matrix = np.empty((len(words), sum(part.dim for part in parts)), dtype=np.float32)
        blocks = np.split(matrix, np.cumsum([part.dim for part in parts])[:-1], axis=1)
        for part, block in zip(parts, blocks, strict=True):
            rows = [part._row(word) for word in words]
            known = [row is not None for row in rows]
            block[:] = part.matrix.mean(axis=0, dtype=np.float64)
            block[known] = part.matrix[[row for row in rows if row is not None]]
            if normalize:
                block /= max(float(part.matrix.std(dtype=np.float64)), 1e-8)
        return cls(words, matrix)

    def with_spelling(self, rule: Callable[[str], str]) -> WordVectors:
        """The same vectors, whose words are also found by what a rule makes of them; of several the first is.

        Parameters
        ----------
        rule : such as the spelling of a vocabulary, which may be in lower case where the file has capitals

        Examples
        --------
        >>> vectors = WordVectors(["Paris"], np.array([[1.0]]))
        >>> "paris" in vectors, "paris" in vectors.with_spelling(str.lower)
        (False, True)
        """
        respelled = {rule(word): row for row, word in reversed(list(enumerate(self.words)))}
        other = copy.copy(self)
        other._rows = {**respelled, **self._rows}
        return other

    @property
    def dim(self) -> int:
        """Numbers in a vector, D."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._row(word) is not None

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.dim} dimensions)"

    def coverage(self, counts: Mapping[str, int]) -> tuple[float, float]:
        """The shares of types and of running tokens that have a vector.

        Parameters
        ----------
        counts : how often each word stands in the corpus
        """
        known = [count for word, count in counts.items() if word in self]
        return len(known) / max(1, len(counts)), sum(known) / max(1, sum(counts.values()))

    def table(self, vocabulary: Vocabulary, *, seed: int) -> np.ndarray:
        """The embedding table of a vocabulary, one row for each id.

        A word that is not found is looked for among the words as the vocabulary spells them: ``paris`` of a vocabulary
        in lower case has the vector of ``Paris`` where the file has no other.

        Words without a vector, ``[UNK]`` and ``[CLS]`` among them, are drawn from a normal distribution with
        the mean and the standard deviation that the vectors have in each dimension. What is drawn for a word
        depends on the seed and the word alone. ``[PAD]`` is zero.

        Parameters
        ----------
        vocabulary : gives the words in the order of their ids
        seed : of the drawn vectors

        Returns
        -------
        ``(len(vocabulary), D)``, float32

        Examples
        --------
        >>> vectors = WordVectors(["good"], np.array([[1.0, 2.0]]))
        >>> vectors.table(Vocabulary.train(["good"]), seed=1).tolist()
        [[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
        """
        mean, spread = self.matrix.mean(axis=0, dtype=np.float64), self.matrix.std(axis=0, dtype=np.float64)
        words = vocabulary.words
        table = np.empty((len(words), self.dim), dtype=np.float32)
        respelled = self.with_spelling(vocabulary.spelling)
        for index, word in enumerate(words):
            row = respelled._row(word)
            table[index] = self.matrix[row] if row is not None else mean + spread * _drawn(seed, word, self.dim)
        table[_PADDING] = 0
        return table

    def _row(self, word: str) -> int | None:
        row = self._rows.get(word)
        return self._rows.get(word.lower()) if row is None else row


def _everything(word: str) -> bool:
    return True


def _drawn(seed: int, word: str, dim: int) -> np.ndarray:
    digest = hashlib.blake2b(f"{seed} {word}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).standard_normal(dim)
