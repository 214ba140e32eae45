"""Read word vectors from text files, and cache a parsed copy on request."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import save_file

from graphattn.builders._atomic import atomic_file
from graphattn.builders._paths import FilePath, display_name, is_standard_input
from graphattn.builders._tensor_files import TensorFile
from graphattn.builders._text_lines import open_text
from graphattn.exceptions import DataError, GraphAttnWarning, warn_caller

VectorRows = npt.NDArray[np.float32]

BLOCK = 4096  # lines parsed at once
_HEADER = re.compile(r"[ \t]*(\d+)[ \t]+(\d+)[ \t]*", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:(?:\d*\.\d+|\d+\.)(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)", re.ASCII)
_SEPARATOR = re.compile(r"[ \t]+")
_HINT = "Each line is a word and its numbers, separated by spaces; a first line with two counts is allowed."
_BINARY_HINT = (
    "If these are binary word2vec vectors, convert them with gensim: "
    'KeyedVectors.load_word2vec_format(OLD, binary=True).save_word2vec_format("vectors.txt").'
)


class VectorFile:
    """The words and vectors of one text file; of a repeated word the first vector counts.

    The file, perhaps compressed, has the format of word2vec and fastText (first line ``N D``) or of GloVe (no such
    line). ``keep`` selects words; ``limit`` is the largest number of vectors.
    """

    def __init__(self, path: FilePath, keep: Callable[[str], bool], limit: int | None):
        self._path = path
        self._keep = keep
        self._limit = limit
        self._lines = self._iterate_lines()
        self._is_last_complete = True
        self._declared: int | None = None  # number of vectors according to the header
        self._dim = 0

    def read(self) -> tuple[list[str], VectorRows]:
        """The words and their matrix (V, D)."""
        try:
            return self._read()
        except DataError as error:
            if "binary" not in error.message and not (error.line and os.fspath(self._path).lower().endswith(".bin")):
                raise
            raise DataError(error.message, path=error.path, line=error.line, hint=_BINARY_HINT) from error

    def _read(self) -> tuple[list[str], VectorRows]:
        lines = self._skip_header()
        count = 0
        words: dict[str, None] = {}
        blocks = []
        for block in iter(lambda: list(islice(lines, BLOCK)), []):
            count += len(block)
            kept: list[tuple[int, str]] = []
            for number, line in block:
                word, values = self._split_line(number, line)
                if word not in words and self._keep(word):
                    words[word] = None
                    kept.append((number, values))
            if kept:
                blocks.append(self._parse_rows(kept))
        if self._declared is not None and self._limit is None:
            self._check_count(count, self._declared)
        return list(words), np.concatenate(blocks) if blocks else np.empty((0, self._dim), dtype=np.float32)

    def _iterate_lines(self) -> Iterator[tuple[int, str]]:
        """The numbered lines without their line ends; blank ones at the end of the file are left out."""
        with open_text(self._path) as lines:
            blank: list[tuple[int, str]] = []
            for line in lines:
                self._is_last_complete = line.endswith("\n")
                numbered = lines.line, line.removesuffix("\n")
                if lines.line > 1 and not line.strip():
                    blank.append(numbered)
                    continue
                yield from blank
                blank.clear()
                yield numbered

    def _check_count(self, count: int, declared: int) -> None:
        if count < declared and not self._is_last_complete:
            raise self._error(f"ends after {count:,} of {declared:,} vectors", None, "Copy or download the file again.")
        if count != declared:  # gensim also counts the repeated words that it leaves out
            cause = "; if it was copied or downloaded, compare its size" if count < declared else ""
            warn_caller(
                GraphAttnWarning(
                    f"{display_name(self._path)}: the header declares {declared:,} vectors; read all {count:,}{cause}"
                )
            )

    def _skip_header(self) -> Iterator[tuple[int, str]]:
        number, first = next(self._lines)
        header = _HEADER.fullmatch(first)
        if header:
            self._declared, self._dim = int(header[1]), int(header[2])
            lines: Iterator[tuple[int, str]] = self._lines
        else:
            self._dim = len(_SEPARATOR.split(first.strip(" \t"))) - 1
            lines = chain([(number, first)], self._lines)
        if self._dim < 1:
            raise self._error("no numbers after the first word" if not header else "0 numbers per word", number, _HINT)
        return islice(lines, self._limit)

    def _split_line(self, number: int, line: str) -> tuple[str, str]:
        """The word and the text of its D numbers."""
        word, _, values = line.partition(" ")
        values = values.rstrip(" ")
        if values.count(" ") == self._dim - 1 and "\t" not in line:
            return word, values
        # tabs, several spaces, or a word with spaces in it: the last D fields are the numbers
        fields = _SEPARATOR.split(line.rstrip(" \t"))
        words, numbers = fields[: -self._dim], fields[-self._dim :]
        if len(words) > 1 and not words[0]:  # the line is indented
            fields, words = fields[1:], words[1:]
        integers = all(map(_INTEGER.fullmatch, [*words[1:], *numbers]))  # "World War 2 1 0.5" is fine
        if not words or (len(words) > 1 and integers) or any(map(_DECIMAL.fullmatch, words[1:])):
            raise self._error(f"{len(fields) - 1} numbers after {fields[0]!r}, expected {self._dim}", number, _HINT)
        return " ".join(words), " ".join(numbers)

    def _parse_rows(self, rows: list[tuple[int, str]]) -> VectorRows:
        matrix = _parse(" ".join(values for _, values in rows))
        if matrix is None or matrix.size != len(rows) * self._dim or not np.isfinite(matrix).all():
            raise self._row_error(rows)
        return matrix.reshape(len(rows), self._dim)

    def _row_error(self, rows: list[tuple[int, str]]) -> DataError:
        for number, values in rows:
            for field in values.split(" "):
                value = _parse(field)
                if value is None or value.size != 1:
                    return self._error(f"{field!r} is not a number", number, _HINT)
                if not np.isfinite(value).all():
                    return self._error(f"{field!r} is not a finite float32", number, "Remove the line.")
        return self._error("numbers that cannot be separated", rows[0][0], _HINT)

    def _error(self, message: str, line: int | None, hint: str) -> DataError:
        return DataError(message, path=display_name(self._path), line=line, hint=hint)


def _parse(text: str) -> VectorRows | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns or raises, depending on its version
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return None


def read_through_cache(path: FilePath) -> tuple[list[str], VectorRows] | None:
    """Read a whole file through a parsed copy in the folder ``GRAPHATTN_CACHE``; None if that is not set.

    The copy is keyed by path, size and time of change, and has a checksum. If it is damaged, or the folder cannot be
    written, the file itself is read.
    """
    folder = os.environ.get("GRAPHATTN_CACHE")
    if not folder or is_standard_input(path) or not os.path.isfile(path):
        return None
    status = os.stat(path)
    key = f"1 {os.path.realpath(path)} {status.st_size} {status.st_mtime_ns}"
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    copy = Path(folder) / f"vectors-{digest}.safetensors"
    with suppress(OSError, ValueError, KeyError), TensorFile(copy) as file:
        parts = {name: tensor.numpy() for name, tensor in file.read_all()[0].items()}
        if parts.pop("checksum").tobytes() == _checksum(parts):
            return parts["words"].tobytes().decode("utf-8").split("\n"), parts["matrix"]
    words, matrix = VectorFile(path, lambda word: True, None).read()
    if not words:
        return words, matrix
    parts = {"words": np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8), "matrix": matrix}
    with suppress(OSError, SafetensorError):
        copy.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(copy, sync=True) as temporary:
            save_file({**parts, "checksum": np.frombuffer(_checksum(parts), dtype=np.uint8)}, temporary)
    return words, matrix


def _checksum(parts: dict[str, npt.NDArray[Any]]) -> bytes:
    digest = hashlib.sha256()
    for name in ("words", "matrix"):
        digest.update(repr(parts[name].shape).encode())
        digest.update(np.ascontiguousarray(parts[name]).data)
    return digest.digest()
