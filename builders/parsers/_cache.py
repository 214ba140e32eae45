"""A cache of parses, so that no sentence is parsed twice."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from graphattn.builders._atomic import seal, unseal
from graphattn.builders._paths import cache_folder
from graphattn.builders._sentence import Sentence
from graphattn.builders.parsers._parser import Parse, Parser
from graphattn.builders.parsers._spacy_pipeline import SpacyParser
from graphattn.builders.parsers._stanza_pipeline import StanzaParser
from graphattn.exceptions import ConfigError, DataError, verbatim
from graphattn.options import ParsingOptions

_BATCH = 500  # parses written together, and lost together when the process is killed
_TIMEOUT = 60.0  # seconds to wait while another process writes
_TABLE = "CREATE TABLE IF NOT EXISTS parses (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"

Input = TypeVar("Input", str, Sequence[str])
Result = TypeVar("Result")


@dataclass(frozen=True)
class CachedParser:
    """A parser with a cache: an SQLite file, keyed by the parser's name and the words.

    A parse that was damaged in the file is made again. Several processes of one machine may share the file. Use one
    file per machine.

    Parameters
    ----------
    parser : parses what is not in the file
    path : the file; created if it does not exist

    Raises
    ------
    DataError
        when the file cannot be used
    """

    parser: Parser
    path: str | os.PathLike[str]

    @property
    def name(self) -> str:
        """The parser's name."""
        return self.parser.name

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """The tree of each sentence, from the cache or the parser."""
        return self._compute(
            "words",
            sentences,
            self.parser.parse,
            lambda value: Parse(*map(tuple, json.loads(value))),
            lambda parse: json.dumps([parse.heads, parse.deprels]),
        )

    def read(self, texts: Sequence[str]) -> list[Sentence]:
        """Tokenize and parse raw texts, from the cache or with the parser."""
        return self._compute("text", texts, self.parser.read, _load_sentence, _dump_sentence)

    def _compute(
        self,
        unit: str,
        inputs: Sequence[Input],
        parse: Callable[[Sequence[Input]], list[Result]],
        load: Callable[[bytes], Result],
        dump: Callable[[Result], str],
    ) -> list[Result]:
        """The result for each text or list of words: loaded from the file, or parsed and written to it."""
        keys = [self._make_key(unit, each) for each in inputs]
        with self._open() as database:
            stored = dict(_look_up(database, keys))
            results = {key: load(value) for key in keys if (value := unseal(stored.get(key, b""))) is not None}
            missing = {key: each for key, each in zip(keys, inputs, strict=True) if key not in results}
            todo = list(missing)
            for start in range(0, len(todo), _BATCH):
                batch = todo[start : start + _BATCH]
                results.update(zip(batch, parse([missing[key] for key in batch]), strict=True))
                rows = [(key, seal(dump(results[key]).encode())) for key in batch]
                with database:
                    database.executemany("INSERT OR REPLACE INTO parses VALUES (?, ?)", rows)
        return [results[key] for key in keys]

    def _make_key(self, unit: str, text: str | Sequence[str]) -> bytes:
        text = json.dumps([unit, self.name, *([text] if isinstance(text, str) else text)])
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_TIMEOUT)) as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute(_TABLE)
                yield database
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter of the text of an SQLite error
            problem = f"cannot be used as a cache of parses ({error})"
            raise DataError(problem, path=self.path, hint="Name another file, or remove it.") from error


def make_parser(options: ParsingOptions) -> Parser | None:
    """The parser, which loads its models when it is used; None without one."""
    if options.parser == "none":
        return None
    parser: Parser
    if options.parser == "spacy":
        if options.parser_model is None:
            raise ConfigError(
                "{parser=spacy} needs the name or folder of a pipeline; set {parser_model}, such as en_core_web_sm",
                options=("parser", "parser_model"),
            )
        parser = SpacyParser(options.parser_model, options.parser_device)
    else:
        package, device = options.parser_package, options.parser_device
        parser = StanzaParser(options.parser_language, options.parser_model, package, device)
    if options.parse_cache is None:
        return parser
    return CachedParser(parser, _default_cache() if options.parse_cache == "auto" else Path(options.parse_cache))


def _default_cache() -> Path:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{verbatim(folder)} cannot be created ({reason}); set {{parse_cache}} to a file, or to none",
            options=("parse_cache",),
        ) from error
    return folder / "parses.sqlite"


def _look_up(database: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        blobs = f"SELECT key, value FROM parses WHERE typeof(value) = 'blob' AND key IN ({marks})"
        yield from database.execute(blobs, batch)


def _dump_sentence(sentence: Sentence) -> str:
    return json.dumps([sentence.tokens, sentence.heads or (), sentence.deprels or (), sentence.sentence_ids or ()])


def _load_sentence(value: bytes) -> Sentence:
    tokens, heads, deprels, ids = map(tuple, json.loads(value))
    return Sentence(tokens, heads=heads, deprels=deprels, sentence_ids=ids)
