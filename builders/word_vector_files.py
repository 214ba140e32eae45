"""Reading word vectors from text files, block by block, and keeping a parsed copy where the user wants one."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from graphattn.builders.files import atomic_file, display_name, is_standard_input, numbered_lines
from graphattn.exceptions import DataError, GraphAttnWarning

_BLOCK = 4096  # lines whose numbers are parsed together
_HEADER = re.compile(r"\s*(\d+)\s+(\d+)\s*")
_WHOLE = re.compile(r"[-+]?\d+")
_DECIMAL = re.compile(r"[-+]?(?:(?:\d*\.\d+|\d+\.)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)")
_SEPARATOR = re.compile(r"[ \t]+")
_HINT = "Each line is a word and its numbers, separated by spaces; a first line with two counts is allowed."
_BINARY_HINT = (
    "If these are binary word2vec vectors, convert them with gensim: "
    'KeyedVectors.load_word2vec_format(OLD, binary=True).save_word2vec_format("vectors.txt").'
)


class VectorFile:
    """The words and vectors of one text file, in its order; of a repeated word the first counts.

    Parameters
    ----------
    path : a file in the format of word2vec or fastText (first line ``N D``) or of GloVe (no such line),
        plain or compressed
    wanted : says which words to keep
    limit : read the first so many vectors only
    """

    def __init__(self, path: str | os.PathLike[str], wanted: Callable[[str], bool], limit: int | None):
        self._path = path
        self._wanted = wanted
        self._limit = limit
        self._lines = numbered_lines(path)
        self._promised: int | None = None  # how many vectors the header speaks of
        self._dim = 0

    def read(self) -> tuple[list[str], np.ndarray]:
        """The words and their matrix (V, D), float32.

        Raises
        ------
        DataError
            naming the line that is not a word and D numbers, or a file that ends before its header says
        """
        try:
            return self._read()
        except DataError as error:
            if "binary" not in error.message and not (error.line and os.fspath(self._path).lower().endswith(".bin")):
                raise
            raise DataError(error.message, path=error.path, line=error.line, hint=_BINARY_HINT) from error

    def _read(self) -> tuple[list[str], np.ndarray]:
        lines = self._without_header()
        count = 0
        words: dict[str, None] = {}
        blocks = []
        for block in iter(lambda: list(islice(lines, _BLOCK)), []):
            count += len(block)
            kept: list[tuple[int, str]] = []
            for number, line in block:
                word, values = self._cut(number, line)
                if word not in words and self._wanted(word):
                    words[word] = None
                    kept.append((number, values))
            if kept:
                blocks.append(self._numbers(kept))
        if self._promised is not None and self._limit is None and count < self._promised:
            raise self._error(
                f"ends after {count:,} of {self._promised:,} vectors", None, "Copy or download the file again."
            )
        if self._promised is not None and self._limit is None and count > self._promised:
            warnings.warn(
                f"{display_name(self._path)}: its first line speaks of {self._promised:,} vectors, and there are "
                f"{count:,}, which are all read",
                GraphAttnWarning,
                stacklevel=2,
            )
        return list(words), np.concatenate(blocks) if blocks else np.empty((0, self._dim), dtype=np.float32)

    def _without_header(self) -> Iterator[tuple[int, str]]:
        number, first = next(self._lines)
        header = _HEADER.fullmatch(first)
        if header:
            self._promised, self._dim = int(header[1]), int(header[2])
            lines: Iterator[tuple[int, str]] = self._lines
        else:
            self._dim = len(_SEPARATOR.split(first.strip(" \t"))) - 1
            lines = chain([(number, first)], self._lines)
        if self._dim < 1:
            raise self._error("no numbers behind the first word" if not header else "0 numbers a word", number, _HINT)
        return islice(lines, self._limit)

    def _cut(self, number: int, line: str) -> tuple[str, str]:
        """The word and its D numbers, still as text."""
        word, _, values = line.partition(" ")
        values = values.rstrip(" ")
        if values.count(" ") == self._dim - 1 and "\t" not in line:
            return word, values
        # tabs, several spaces, or a word with spaces in it: the last D fields are the numbers
        fields = _SEPARATOR.split(line.rstrip(" \t"))
        words, numbers = fields[: -self._dim], fields[-self._dim :]
        if len(words) > 1 and not words[0]:  # the line is indented
            fields, words = fields[1:], words[1:]
        whole = all(map(_WHOLE.fullmatch, [*words[1:], *numbers]))  # "World War 2" has its numbers behind it
        if not words or (len(words) > 1 and whole) or any(map(_DECIMAL.fullmatch, words[1:])):
            raise self._error(f"{len(fields) - 1} numbers behind {fields[0]!r}, expected {self._dim}", number, _HINT)
        return " ".join(words), " ".join(numbers)

    def _numbers(self, rows: list[tuple[int, str]]) -> np.ndarray:
        matrix = _parse(" ".join(values for _, values in rows))
        if matrix is None or matrix.size != len(rows) * self._dim or not np.isfinite(matrix).all():
            raise self._wrong_row(rows)
        return matrix.reshape(len(rows), self._dim)

    def _wrong_row(self, rows: list[tuple[int, str]]) -> DataError:
        for number, values in rows:
            for field in values.split(" "):
                value = _parse(field)
                if value is None or value.size != 1:
                    return self._error(f"{field!r} is not a number", number, _HINT)
                if not np.isfinite(value).all():
                    return self._error(f"{field!r} is not a finite float32", number, "Remove the line.")
        return self._error("numbers that cannot be told apart", rows[0][0], _HINT)

    def _error(self, message: str, line: int | None, hint: str) -> DataError:
        return DataError(message, path=display_name(self._path), line=line, hint=hint)


def _parse(text: str) -> np.ndarray | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # older numpy warns where newer numpy raises
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def read_through_cache(path: str | os.PathLike[str]) -> tuple[list[str], np.ndarray] | None:
    """The whole file by way of a parsed copy in the folder that ``GRAPHATTN_CACHE`` names; None without one.

    A copy belongs to one path, size and time of change. A folder that cannot be written and a copy that is
    damaged cost time only: the file itself is read then.
    """
    folder = os.environ.get("GRAPHATTN_CACHE")
    if not folder or is_standard_input(path) or not os.path.isfile(path):
        return None
    status = os.stat(path)
    key = f"1 {os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"
    copy = (
        Path(folder) / f"vectors-{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.safetensors"
    )
    with suppress(OSError, SafetensorError, KeyError, UnicodeDecodeError):
        parts = load_file(copy)
        return parts["words"].tobytes().decode("utf-8").split("\n"), parts["matrix"]
    words, matrix = VectorFile(path, lambda word: True, None).read()
    if not words:
        return words, matrix
    parts = {"words": np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8), "matrix": matrix}
    with suppress(OSError, SafetensorError):
        copy.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(copy) as temporary:
            save_file(parts, temporary)
    return words, matrix
