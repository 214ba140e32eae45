"""Small corpora with every field of a sentence, and stores built from them."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from graphattn.builders import Dependency, Sentence, TextGraphBuilder, Window
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store

WORDS = ("dog", "cat", "house", "sees", "bark", "über", "naïve", "the", "of", "a")


def _conllu(sentence: Sentence) -> str:
    rows = []
    for number, word in enumerate(sentence.tokens):
        tag = "_" if sentence.tags is None else sentence.tags[number]
        head = "_" if sentence.heads is None else sentence.heads[number]
        name = "_" if sentence.deprels is None else sentence.deprels[number]
        rows.append(f"{number + 1}\t{word}\t_\t{tag}\t_\t_\t{head}\t{name}\t_\t_\n")
    return "".join(rows) + "\n"


@pytest.fixture(scope="session")
def as_conllu() -> Callable[[Sentence], str]:
    """A sentence as CoNLL-U."""
    return _conllu


@pytest.fixture(scope="session")
def trees() -> Callable[..., list[Sentence]]:
    """Make a number of sentences with random trees."""

    def make(count: int, seed: int = 0) -> list[Sentence]:
        random = Random(seed)
        sentences = []
        for _ in range(count):
            length = random.randint(1, 9)
            heads = [0, *(random.randint(1, word) for word in range(1, length))]
            sentences.append(
                Sentence(
                    random.choices(WORDS, k=length),
                    heads=heads,
                    deprels=["root", *random.choices(["nsubj", "obj", "x:y"], k=length - 1)],
                    tags=random.choices(["NOUN", "VERB"], k=length),
                )
            )
        return sentences

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write sentences as CoNLL-U or JSON Lines: ``write("a.conllu", sentences)``."""

    def to(name: str, sentences: list[Sentence]) -> Path:
        path = tmp_path / name
        if name.endswith(".conllu"):
            path.write_text("".join(map(_conllu, sentences)), encoding="utf-8")
        else:
            rows = [{f: getattr(s, f) for f in s.__dataclass_fields__} for s in sentences]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return to


@pytest.fixture(scope="session")
def builder() -> TextGraphBuilder:
    """Windows and dependencies."""
    return TextGraphBuilder([Window(3), Window("N/4"), Dependency()])


@pytest.fixture
def stored(tmp_path: Path, write: Callable[..., Path], builder: TextGraphBuilder) -> Callable[..., Store]:
    """Build a store of several shards from sentences."""

    def build(sentences: list[Sentence], name: str = "store", relations: TextGraphBuilder = builder) -> Store:
        path = write(f"{name}.jsonl", sentences)
        build_store([CorpusFile(path)], tmp_path / name, StoreSettings(relations, block_bytes=2000))
        return Store(tmp_path / name)

    return build
