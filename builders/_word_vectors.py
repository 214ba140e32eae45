"""Pre-trained word vectors, and the embedding table of a vocabulary."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from graphattn._validation import require_range
from graphattn.builders._paths import FilePath
from graphattn.builders._spelling import compose, restore_final_sigma, spell, zero_digits
from graphattn.builders._vocabulary import SPECIAL_TOKENS, Vocabulary
from graphattn.builders._word_vector_files import VectorFile, VectorRows, read_through_cache
from graphattn.exceptions import DataError

_NUMBER = re.compile(r"[-+]?\d[\d.,:/-]*")
_PADDING = SPECIAL_TOKENS.index("[PAD]")


class WordVectors:
    """Words and their vectors. A word is looked up as it is, then in lower case, in any Unicode form.

    Parameters
    ----------
    words : unique words
    matrix : one row for each word (V, D)

    Raises
    ------
    DataError
        if words and rows do not match, or there are none

    Examples
    --------
    >>> vectors = WordVectors(["good", "bad"], np.array([[1.0, 0.0], [-1.0, 0.0]]))
    >>> "Good" in vectors, vectors.dim
    (True, 2)
    >>> vectors.coverage({"good": 3, "ugly": 1})
    (0.5, 0.75)
    """

    def __init__(self, words: Sequence[str], matrix: npt.NDArray[np.floating]):
        self.words = list(words)
        self.matrix: VectorRows = np.ascontiguousarray(matrix, dtype=np.float32)
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words):
            raise DataError(
                f"{len(self.words)} words and a matrix of shape {self.matrix.shape}", hint="Give one row for each word."
            )
        if not self.matrix.size:
            raise DataError("there are no word vectors")
        if not np.isfinite(self.matrix.sum(dtype=np.float64)):
            infinite = int(np.argmin(np.isfinite(self.matrix).all(1)))
            raise DataError(f"the vector of {self.words[infinite]!r} is not finite", hint="Leave the word out.")
        self._rows = {word: row for row, word in enumerate(self.words)}
        if len(self._rows) < len(self.words):
            raise DataError("a word has several vectors", hint="Keep one of them.")
        for row, word in enumerate(self.words):
            if not word.isascii():
                self._rows.setdefault(compose(word), row)

    @classmethod
    def read(cls, path: FilePath, *, only: Collection[str] | None = None, limit: int | None = None) -> WordVectors:
        """Read a text file of GloVe, word2vec or fastText, plain or as ``.gz``, ``.xz``, ``.bz2``.

        If the environment variable ``GRAPHATTN_CACHE`` names a folder, a parsed copy is stored there, which loads much
        faster the next time.

        Parameters
        ----------
        path : the file; words may contain spaces, and of a repeated word the first vector counts
        only : keep only these words and their lower-case forms
        limit : read only so many vectors (usually those of the most frequent words)

        Raises
        ------
        DataError
            if a line is not a word with its numbers, the file is binary or ends early, or it has no word of ``only``
        ConfigError
            if ``limit`` is below 1
        """
        if limit is not None:
            require_range("limit", limit, min=1)
        requested = None if only is None else {*map(compose, only), *map(_lower_case, only)}
        words, matrix = _read_vectors(path, requested, limit)
        if not words:
            raise DataError(
                "holds no vectors" if only is None else "none of the requested words has a vector",
                path=path,
                hint="Check that language and spelling of corpus and vectors agree.",
            )
        return cls(words, matrix)

    @classmethod
    def concatenate(cls, parts: Sequence[WordVectors], *, normalize: bool = True) -> WordVectors:
        """Concatenate the vectors of several sets, for every word of any of them.

        A word that a set lacks gets the mean of the set's vectors.

        Parameters
        ----------
        parts : at least one set
        normalize : divide each set by its standard deviation, so that none outweighs the others

        Examples
        --------
        >>> small = WordVectors(["good", "bad"], np.array([[1.0], [3.0]]))
        >>> other = WordVectors(["bad", "ugly"], np.array([[7.0], [9.0]]))
        >>> both = WordVectors.concatenate([small, other], normalize=False)
        >>> both.words, both.matrix.tolist()
        (['good', 'bad', 'ugly'], [[1.0, 8.0], [3.0, 7.0], [2.0, 9.0]])
        """
        if len(parts) == 1:
            return parts[0]
        words = list(dict.fromkeys(word for part in parts for word in part.words))
        matrix = np.empty((len(words), sum(part.dim for part in parts)), dtype=np.float32)
        blocks = np.split(matrix, np.cumsum([part.dim for part in parts])[:-1], axis=1)
        for part, block in zip(parts, blocks, strict=True):
            rows = [part._find_row(word) for word in words]
            known = [row is not None for row in rows]
            block[:] = part.matrix.mean(axis=0, dtype=np.float64)
            block[known] = part.matrix[[row for row in rows if row is not None]]
            if normalize:
                block /= max(float(part.matrix.std(dtype=np.float64)), 1e-8)
        return cls(words, matrix)

    def with_spelling(self, rule: Callable[[str], str]) -> WordVectors:
        """The same vectors, whose words are also found by another spelling; the first of several words counts.

        Parameters
        ----------
        rule : word -> its spelling; such as that of a vocabulary, which may lower case

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

    def with_unit_length(self) -> WordVectors:
        """The same words, each vector divided by its length; vectors of zeros stay.

        Examples
        --------
        >>> vectors = WordVectors(["good"], np.array([[3.0, 4.0]])).with_unit_length()
        >>> [round(value, 3) for value in vectors.matrix[0].tolist()]
        [0.6, 0.8]
        """
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        return WordVectors(self.words, self.matrix / np.where(lengths > 0, lengths, 1))

    def with_zero_digits(self, words: Iterable[str] = ()) -> WordVectors:
        """The words with 0 for each digit; those that become equal have the mean of their vectors.

        Parameters
        ----------
        words : others; a number among them without a vector gets the mean of the vectors of all numbers, if any

        Examples
        --------
        >>> vectors = WordVectors(["1", "2", "a1", "b"], np.array([[1.0], [3.0], [5.0], [7.0]]))
        >>> merged = vectors.with_zero_digits(["0,000", "c"])
        >>> dict(zip(merged.words, merged.matrix[:, 0].tolist()))
        {'0': 2.0, 'a0': 5.0, 'b': 7.0, '0,000': 2.0}
        """
        respelled = list(map(zero_digits, self.words))
        rows = {word: row for row, word in enumerate(dict.fromkeys(respelled))}
        row_of = np.array([rows[word] for word in respelled])
        sums = np.zeros((len(rows), self.dim))
        np.add.at(sums, row_of, self.matrix)
        matrix = sums / np.bincount(row_of)[:, None]
        numbers = self.matrix[[_NUMBER.fullmatch(word) is not None for word in self.words]]
        others = dict.fromkeys(map(zero_digits, words))
        new = [word for word in others if len(numbers) and word not in rows and _NUMBER.fullmatch(word)]
        if new:
            matrix = np.concatenate([matrix, np.tile(numbers.mean(axis=0, dtype=np.float64), (len(new), 1))])
        return WordVectors([*rows, *new], matrix)

    @property
    def dim(self) -> int:
        """Dimension of the vectors, D."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self._find_row(word) is not None

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.dim} dimensions)"

    def coverage(self, counts: Mapping[str, int]) -> tuple[float, float]:
        """The fraction of word types and of word tokens that have a vector.

        Parameters
        ----------
        counts : frequency of each word in the corpus
        """
        known = [count for word, count in counts.items() if word in self]
        return len(known) / max(1, len(counts)), sum(known) / max(1, sum(counts.values()))

    def table(self, vocabulary: Vocabulary, *, seed: int) -> VectorRows:
        """The embedding table of a vocabulary, one row for each id.

        A word without an exact match is looked up as the vocabulary spells it: in a lower-case vocabulary ``paris``
        gets the vector of ``Paris`` if the file has no other.

        Words without a vector, including ``[UNK]`` and ``[CLS]``, are drawn from a normal distribution with the mean
        and standard deviation of the vectors in each dimension. The draw depends only on the seed and the word.
        ``[PAD]`` is zero.

        Parameters
        ----------
        vocabulary : the words by id
        seed : for words without a vector

        Returns
        -------
        ``(len(vocabulary), D)``

        Examples
        --------
        >>> vectors = WordVectors(["good"], np.array([[1.0, 2.0]]))
        >>> vectors.table(Vocabulary.train(["good"]), seed=1).tolist()
        [[0.0, 0.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
        """
        mean, deviation = self.matrix.mean(axis=0, dtype=np.float64), self.matrix.std(axis=0, dtype=np.float64)
        words = vocabulary.words
        table = np.empty((len(words), self.dim), dtype=np.float32)
        respelled = self.with_spelling(vocabulary.spelling)
        for index, word in enumerate(words):
            row = respelled._find_row(word)
            table[index] = self.matrix[row] if row is not None else mean + deviation * _draw(seed, word, self.dim)
        table[_PADDING] = 0
        return table

    def _find_row(self, word: str) -> int | None:
        row = self._rows.get(word)
        return self._rows.get(_lower_case(word)) if row is None else row


def _lower_case(word: str) -> str:
    """The spelling in lower case that files have: Greek sigmas at the ends of words differ from others."""
    return restore_final_sigma(spell(word, lowercase=True))


def _read_vectors(path: FilePath, requested: Collection[str] | None, limit: int | None) -> tuple[list[str], VectorRows]:
    def keep(word: str) -> bool:
        return requested is None or compose(word) in requested

    cached = read_through_cache(path) if limit is None else None
    if cached is None:
        return VectorFile(path, keep, limit).read()
    words, matrix = cached
    if requested is None:
        return words, matrix
    rows = [row for row, word in enumerate(words) if keep(word)]
    return [words[row] for row in rows], matrix[rows]


def _draw(seed: int, word: str, dim: int) -> npt.NDArray[np.float64]:
    digest = hashlib.blake2b(f"{seed} {word}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).standard_normal(dim)
