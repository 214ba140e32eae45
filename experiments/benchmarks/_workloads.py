"""Workloads: batches of sentences of one length, or with the lengths of a real corpus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from graphattn._ragged import count_up
from graphattn.builders import TextGraphBuilder
from graphattn.builders._batch import TextBatch
from graphattn.builders._layout import Layout
from graphattn.builders.readers import read_labelled_lines
from graphattn.exceptions import ConfigError
from graphattn.experiments.papers._data_sets import DATA_VARIABLE, data_folder

Lengths = tuple[int, ...]

CORPORA: Mapping[str, tuple[str, tuple[str | None, ...]]] = {
    "mr": ("mr/all.tsv", ("label", "text")),
    "mtl16": ("mtl16/*.task.test", ("label", "text")),
    "imdb": ("imdb/test.tsv.xz", ("label", None, None, "text")),
}
"""Corpus -> its files in the data folder, and their columns."""
TEXTS: Mapping[str, tuple[int, int, float, float]] = {
    "questions": (256, 32, 12, 0.3),
    "sentences": (128, 32, 28, 0.45),
    "reviews": (64, 16, 160, 0.8),
}
"""Random lengths -> texts, texts of a batch, and median and sigma of the log-normal distribution of their tokens."""
LONGEST_TEXT = 512
"""Most tokens of texts with random lengths."""
USUAL_SENTENCES = {22: 128, 109: 128, 201: 128}
"""Length -> sentences of a batch; at other lengths a batch has about :data:`USUAL_TOKENS` tokens."""
USUAL_TOKENS = 16_384
SAMPLE_TOKENS, BATCH_TOKENS = 24_000, 8_192
"""Tokens drawn from a corpus, and the most tokens of a batch, padding included."""


@dataclass(frozen=True)
class Workload:
    """Batches to compute one after the other."""

    name: str  # ``8x2048`` (sentences x tokens), or a corpus
    batches: tuple[Lengths, ...]  # the tokens of each sentence, batch by batch

    @property
    def lengths(self) -> Lengths:
        """Tokens of each sentence of all batches."""
        return tuple(length for batch in self.batches for length in batch)

    @property
    def tokens(self) -> int:
        """Tokens of all batches."""
        return sum(self.lengths)

    @property
    def uniform_length(self) -> int | None:
        """The length of all sentences; None when they differ."""
        different = set(self.lengths)
        return different.pop() if len(different) == 1 else None

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The batches as columns, without ``[CLS]``."""
        arrays = (np.asarray(batch, dtype=np.int64) for batch in self.batches)
        return tuple(Layout(lengths, lengths, count_up(lengths)) for lengths in arrays)

    def graphs(self, builder: TextGraphBuilder) -> list[TextBatch]:
        """New graphs of the batches, without cached values, in the form that models take."""
        return [builder.text_batch(layout) for layout in self.layouts]


def is_uniform(lengths: Lengths) -> bool:
    """Whether all sentences of a batch have one length, so that there is no padding."""
    return len(set(lengths)) == 1


def uniform(sentences: int, length: int) -> Workload:
    """One batch of sentences of one length.

    Examples
    --------
    >>> uniform(2, 3)
    Workload(name='2x3', batches=((3, 3),))
    """
    return Workload(f"{sentences}x{length}", ((length,) * sentences,))


def parse_workloads(names: Iterable[str]) -> tuple[list[Workload], list[str]]:
    """Parse ``["22", "8x2048", "mr", "reviews"]``: a length, sentences x length, a corpus, or random lengths.

    Examples
    --------
    >>> [workload.name for workload in parse_workloads(["22", "2048", "3x5"])[0]]
    ['128x22', '8x2048', '3x5']
    """
    workloads, missing = [], []
    for name in names:
        match = re.fullmatch(r"(?:([1-9]\d{0,5})x)?([1-9]\d{0,6})", name)
        if match:
            length = int(match[2])
            usual = USUAL_SENTENCES.get(length, max(1, USUAL_TOKENS // length))
            workloads.append(uniform(int(match[1] or usual), length))
        elif name in CORPORA:
            try:
                workloads.append(draw_sample(name, [max(1, len(text.split())) for text in corpus_texts(name)]))
            except (ConfigError, FileNotFoundError):
                missing.append(f"{name}: there is no {CORPORA[name][0]} in the folder that {DATA_VARIABLE} names")
        elif name in TEXTS:
            workloads.append(draw_texts(name))
        else:
            raise ConfigError(
                f"--lengths has {name!r}; give lengths such as 109, sentences x length such as 8x2048, "
                f"corpora: {', '.join(CORPORA)}; or random lengths: {', '.join(TEXTS)}",
            )
    return workloads, missing


def draw_texts(name: str) -> Workload:
    """Random lengths of :data:`TEXTS`, the same in every call, in batches in the order of the draw.

    Examples
    --------
    >>> [len(batch) for batch in draw_texts("reviews").batches]
    [16, 16, 16, 16]
    """
    count, size, median, sigma = TEXTS[name]
    drawn = np.random.default_rng(0).lognormal(np.log(median), sigma, count)
    lengths = drawn.round().clip(4, LONGEST_TEXT).astype(int).tolist()
    return Workload(name, tuple(split_into_batches(lengths, size)))


def split_into_batches(lengths: Sequence[int], size: int) -> list[Lengths]:
    """Consecutive batches of at most ``size`` texts.

    Examples
    --------
    >>> split_into_batches([5, 7, 6], 2)
    [(5, 7), (6,)]
    """
    return [tuple(lengths[start : start + size]) for start in range(0, len(lengths), size)]


@lru_cache
def _read_texts(folder: Path, pattern: str, columns: tuple[str | None, ...]) -> tuple[str, ...]:
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise FileNotFoundError(pattern)
    return tuple(ex.text for path in paths for ex in read_labelled_lines(path, columns=columns))


def corpus_texts(name: str) -> tuple[str, ...]:
    """All texts of a corpus of :data:`CORPORA`."""
    return _read_texts(data_folder(), *CORPORA[name])


def draw_sample(name: str, population: Sequence[int], *, tokens: int = SAMPLE_TOKENS, seed: int = 0) -> Workload:
    """Draw sentences at random and batch them by length.

    A batch is as large as padding allows: sentences x longest sentence within :data:`BATCH_TOKENS`.
    """
    shuffled = np.random.default_rng(seed).permutation(np.asarray(population))
    count = int(np.searchsorted(np.cumsum(shuffled), tokens)) + 1
    lengths = sorted(shuffled[:count].tolist(), reverse=True)
    batches = []
    while lengths:
        size = max(1, BATCH_TOKENS // lengths[0])
        batches.append(tuple(lengths[:size]))
        lengths = lengths[size:]
    return Workload(name, tuple(batches))
