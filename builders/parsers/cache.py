"""Parses that were made before: a file that is asked first, so that no sentence is parsed twice."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from graphattn.builders.parsers.base import Parse, Parser
from graphattn.builders.sentence import Sentence
from graphattn.exceptions import DataError

_AT_ONCE = 500  # parses written together: what a kill can lose
_WAIT = 60.0  # seconds for another process to finish its writing
_TABLE = "CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


@dataclass(frozen=True)
class CachedParser:
    """A parser with a memory: an SQLite file, addressed by the parser's name and the words.

    Several processes of one machine may share the file. On several machines give each its own.

    Parameters
    ----------
    parser : parses what is not in the file
    path : the file; made when it is not there

    Raises
    ------
    DataError
        when the file cannot be used
    """

    parser: Parser
    path: str | os.PathLike[str]

    @property
    def name(self) -> str:
        """That of the parser."""
        return self.parser.name

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence, remembered or made."""
        keys = [self._key("words", words) for words in sentences]
        with self._open() as database:
            found = {key: Parse(*map(tuple, json.loads(value))) for key, value in _looked_up(database, keys)}
            lacking = {key: words for key, words in zip(keys, sentences, strict=True) if key not in found}
            todo = list(lacking)
            for start in range(0, len(todo), _AT_ONCE):
                own = todo[start : start + _AT_ONCE]
                parses = self.parser.parse([lacking[key] for key in own])
                found.update(zip(own, parses, strict=True))
                _write(database, [(key, json.dumps([found[key].heads, found[key].deprels])) for key in own])
        return [found[key] for key in keys]

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Raw texts cut into sentences and words, and parsed; remembered or made."""
        keys = [self._key("text", [text]) for text in texts]
        with self._open() as database:
            found = {key: _sentence(json.loads(value)) for key, value in _looked_up(database, keys)}
            lacking = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
            todo = list(lacking)
            for start in range(0, len(todo), _AT_ONCE):
                own = todo[start : start + _AT_ONCE]
                found.update(zip(own, self.parser.read([lacking[key] for key in own]), strict=True))
                _write(database, [(key, json.dumps(_fields(found[key]))) for key in own])
        return [found[key] for key in keys]

    def _key(self, kind: str, parts: Sequence[str]) -> bytes:
        text = json.dumps([kind, self.name, *parts])
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT)) as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute(_TABLE)
                yield database
        except sqlite3.Error as error:
            raise DataError(
                f"cannot be used as a cache of parses ({error})",
                path=self.path,
                hint="Name another file, or remove it.",
            ) from error


def _looked_up(database: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, str]]:
    for start in range(0, len(keys), _AT_ONCE):
        own = keys[start : start + _AT_ONCE]
        marks = ",".join("?" * len(own))
        yield from database.execute(f"SELECT key, value FROM parses WHERE key IN ({marks})", own)


def _write(database: sqlite3.Connection, rows: Sequence[tuple[bytes, str]]) -> None:
    with database:
        database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)


def _fields(sentence: Sentence) -> list[Sequence]:
    return [sentence.tokens, sentence.heads or (), sentence.deprels or (), sentence.sentence_ids or ()]


def _sentence(fields: list[list]) -> Sentence:
    tokens, heads, deprels, ids = map(tuple, fields)
    return Sentence(tokens, heads=heads, deprels=deprels, sentence_ids=ids)
