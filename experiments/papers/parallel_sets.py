"""The corpora of texts and targets: where each lies below the data folder, and how it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from graphattn.builders.files import numbered_lines
from graphattn.builders.readers import read_parallel
from graphattn.experiments.papers.data_sets import data_folder


@dataclass(frozen=True)
class TextPair:
    """A source and what may be written for it.

    Parameters
    ----------
    sentences : of the source
    targets : one text, or several that are as good
    """

    sentences: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def source(self) -> str:
        """The whole source."""
        return " ".join(self.sentences)


@dataclass(frozen=True)
class ParallelSet:
    """One corpus.

    Parameters
    ----------
    train, dev, test : files below the data folder; of two files the one with the sources
    read : reader of one part
    metric : what chooses the epoch and what the tables report, in percent
    summary : whether targets sum sources up, so that a source's first sentence is a baseline
    """

    train: str
    dev: str
    test: str
    read: Callable[[Path], Iterator[TextPair]]
    metric: str
    summary: bool = False

    def load(self, part: str, folder: Path | None = None) -> list[TextPair]:
        """``train``, ``dev`` or ``test`` in memory.

        Raises
        ------
        ConfigError
            when no data folder is given
        """
        return list(self.read((folder or data_folder()) / getattr(self, part)))


def _german(english: Path) -> Iterator[TextPair]:
    """The lines of a file and of the one beside it that ends in ``.de``, plain or packed."""
    german = english.with_suffix(".de")
    other = german if german.exists() else german.with_name(german.name + ".xz")
    for source, target in read_parallel(english, other):
        yield TextPair((str(source),), (target,))


def _scitldr(path: Path) -> Iterator[TextPair]:
    """Abstracts as lists of sentences, with one summary or several."""
    for _, line in numbered_lines(path):
        row = json.loads(line)
        yield TextPair(tuple(row["source"]), tuple(row["target"]))


PARALLEL_SETS: dict[str, ParallelSet] = {
    "multi30k": ParallelSet(
        "multi30k_en_de/train.en",
        "multi30k_en_de/val.en",
        "multi30k_en_de/test_2016_flickr.en",
        _german,
        "bleu",
    ),
    "scitldr": ParallelSet(
        "scitldr_a/train.jsonl.xz", "scitldr_a/dev.jsonl", "scitldr_a/test.jsonl", _scitldr, "rouge_l", summary=True
    ),
}
"""Name -> corpus."""
