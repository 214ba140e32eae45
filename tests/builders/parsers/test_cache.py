"""The cache of parses: no sentence is parsed twice, and parsers do not share parses."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing import get_context

import pytest

from graphattn.builders import Sentence
from graphattn.builders.parsers import CachedParser, Parse
from graphattn.exceptions import DataError


@dataclass
class Chain:
    """Each word depends on the one before; records its inputs."""

    name: str = "chain"
    inputs: list = field(default_factory=list)

    def parse(self, sentences):
        self.inputs += [tuple(words) for words in sentences]
        return [Parse(tuple(range(len(words))), ("x",) * len(words)) for words in sentences]

    def read(self, texts):
        self.inputs += texts
        return [
            Sentence(t.split(), heads=range(len(t.split())), deprels=["é"] * len(t.split()),
                     sentence_ids=[0] * len(t.split()))
            for t in texts
        ]  # fmt: skip


def test_no_sentence_is_parsed_twice(tmp_path):
    parser = Chain()
    cached = CachedParser(parser, tmp_path / "c.sqlite")
    first = cached.parse([["a", "b"], [], ["c"], ["a", "b"]])
    assert first == Chain().parse([["a", "b"], [], ["c"], ["a", "b"]])
    assert CachedParser(parser, tmp_path / "c.sqlite").parse([["c"], ["a b"], ["a", "b"]]) == Chain().parse(
        [["c"], ["a b"], ["a", "b"]]
    )
    assert parser.inputs == [("a", "b"), (), ("c",), ("a b",)]
    assert cached.name == "chain"


def test_raw_texts_and_word_lists_are_cached_separately(tmp_path):
    parser = Chain()
    cached = CachedParser(parser, tmp_path / "c.sqlite")
    assert cached.parse([["a"]]) == Chain().parse([["a"]])
    assert cached.read(["a", "x y", "a"]) == Chain().read(["a", "x y", "a"])
    assert cached.read(["x y"]) == Chain().read(["x y"])
    assert parser.inputs == [("a",), "a", "x y"]


def test_parsers_do_not_share_parses(tmp_path):
    for name in ("one", "two"):
        parser = Chain(name)
        CachedParser(parser, tmp_path / "c.sqlite").parse([["a"]])
        assert parser.inputs == [("a",)]


def test_parses_before_a_failure_are_cached(tmp_path):
    @dataclass
    class Failing(Chain):
        def parse(self, sentences):
            if ["w600"] in [list(words) for words in sentences]:
                raise RuntimeError("out of memory")
            return super().parse(sentences)

    sentences = [[f"w{n}"] for n in range(700)]
    with pytest.raises(RuntimeError):
        CachedParser(Failing(), tmp_path / "c.sqlite").parse(sentences)
    parser = Chain()
    CachedParser(parser, tmp_path / "c.sqlite").parse(sentences)
    assert parser.inputs == [(f"w{n}",) for n in range(500, 700)]


@pytest.mark.parametrize(
    "damage", [lambda value: value.replace(b"x", b"y"), lambda value: value[1:], lambda _: b"", lambda _: "text"]
)
def test_damaged_parses_are_made_again(tmp_path, damage):
    CachedParser(Chain(), tmp_path / "c.sqlite").parse([["a", "b"]])
    with closing(sqlite3.connect(tmp_path / "c.sqlite")) as database, database:
        (value,) = database.execute("SELECT value FROM parses").fetchone()
        database.execute("UPDATE parses SET value = ?", [damage(value)])
    parser = Chain()
    for _ in range(2):
        assert CachedParser(parser, tmp_path / "c.sqlite").parse([["a", "b"]]) == Chain().parse([["a", "b"]])
    assert parser.inputs == [("a", "b")]


def ask(path, start):
    CachedParser(Chain(), path).parse([[f"w{n}"] for n in range(start, start + 600)])


def test_processes_share_a_cache(tmp_path):
    context = get_context("fork")
    processes = [context.Process(target=ask, args=(tmp_path / "c.sqlite", start)) for start in (0, 300)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    parser = Chain()
    CachedParser(parser, tmp_path / "c.sqlite").parse([[f"w{n}"] for n in range(900)])
    assert parser.inputs == []


def test_a_file_of_another_format_is_not_changed(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine " * 100)
    with pytest.raises(DataError) as caught:
        CachedParser(Chain(), path).parse([["a"]])
    assert str(caught.value) == (
        f"{path}: cannot be used as a cache of parses (file is not a database). Name another file, or remove it."
    )
    assert path.read_text() == "mine " * 100
