"""Corpora larger than memory: texts that are read on demand, and layouts whose columns are memory-mapped files."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from graphattn._ragged import Ints, Ragged
from graphattn.builders._layout import Layout
from graphattn.builders._paths import write_error
from graphattn.builders._sentence import Sentence

if TYPE_CHECKING:
    from graphattn.builders._graph_builder import TextGraphBuilder

_SINGLE = ("word_ids", "heads", "deprels", "sentence_ids")


class LazyTexts(Sequence[Sentence]):
    """A sequence of texts that are read on demand; estimators accept it like a list."""

    @property
    @abstractmethod
    def tokenized_by(self) -> str | None:
        """The rule that tokenized raw texts, ``"another"`` for a foreign one; None for corpora of words."""

    @abstractmethod
    def take(self, numbers: Sequence[int]) -> LazyTexts:
        """Some of the texts."""

    @abstractmethod
    def column(self, field: str) -> Sequence[Any]:
        """The ``label`` or the ``tags`` of each text, or None."""

    @abstractmethod
    def words(self) -> Counter[str]:
        """Word -> number of its occurrences, in the order of first appearance."""

    @abstractmethod
    def deprels(self) -> Counter[str]:
        """Dependency relation -> number of its occurrences."""

    @abstractmethod
    def num_words(self) -> Ints:
        """(S,) words of each text."""

    @abstractmethod
    def parts(self) -> Iterator[list[Sentence]]:
        """All texts in parts that fit into memory."""

    @abstractmethod
    def layouts(self, builder: TextGraphBuilder) -> Iterator[Layout]:
        """The layout of each part."""


class LazyCorpus(ABC):
    """A corpus of single texts, of pairs, or of both."""

    @abstractmethod
    def texts(self) -> LazyTexts:
        """The texts; of a pair the first."""

    @abstractmethod
    def pairs(self) -> tuple[LazyTexts, LazyTexts]:
        """The first and the second texts of the pairs."""


@dataclass(frozen=True, eq=False)
class MappedLayout(Layout):
    """A layout of memory-mapped columns; a process that unpickles it maps the same files."""

    folder: str = ""  # folder of the files, which are deleted with the layout that :func:`memmap_layouts` returned

    def __reduce__(self) -> tuple[Any, ...]:
        small = {"lengths": self.lengths, "word_counts": self.word_counts, "vectors": self.vectors}
        offsets = None if self.links is None else self.links.offsets
        return _open_layout, (self.folder, small, offsets)


def memmap_layouts(layouts: Iterable[Layout]) -> MappedLayout:
    """Concatenate layouts without holding them in memory.

    The files are in the system's temporary folder (environment variable ``TMPDIR``); each token takes four bytes for
    each column.
    """
    folder = tempfile.mkdtemp(prefix="graphattn-")
    try:
        small, offsets = _write(layouts, Path(folder))
        layout = _open_layout(folder, small, offsets)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise write_error(folder, error) from error
        raise
    weakref.finalize(layout, _remove, folder, os.getpid())
    return layout


def _remove(folder: str, owner: int) -> None:
    """Remove the files, unless this process is a fork of their owner."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _write(layouts: Iterable[Layout], folder: Path) -> tuple[dict[str, Any], Ints | None]:
    """Write the large columns; return the small ones and the offsets of each text's links."""
    lengths, words, links, vectors = [], [], [], None
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for layout in layouts:
            lengths.append(layout.lengths)
            words.append(layout.word_counts)
            vectors = layout.vectors
            if layout.links is not None:
                links.append(layout.links.counts)
            for name, values in _large_columns(layout).items():
                values = values.astype(np.int32) if values.dtype.kind in "iu" else values
                file = f"{name}.{values.dtype.str[1:]}.{'x'.join(map(str, values.shape[1:]))}"
                if file not in files:
                    files[file] = stack.enter_context(open(folder / file, "wb"))
                files[file].write(values.tobytes())
    small = {"lengths": np.concatenate(lengths), "word_counts": np.concatenate(words), "vectors": vectors}
    return small, np.concatenate([[0], np.cumsum(np.concatenate(links))]) if links else None


def _large_columns(layout: Layout) -> dict[str, npt.NDArray[Any]]:
    """The columns with a row for each token, word or link."""
    columns = {name: values for name in _SINGLE if (values := getattr(layout, name)) is not None}
    if layout.links is not None:
        columns["links"] = layout.links.values
    return columns | {f"feature-{name}": values for name, values in layout.features.items()}


def _open_layout(folder: str, small: Mapping[str, Any], offsets: Ints | None) -> MappedLayout:
    columns = dict(_map_file(path) for path in sorted(Path(folder).iterdir()))
    links = None if offsets is None else Ragged(columns.pop("links"), offsets)
    features = {name.removeprefix("feature-"): columns[name] for name in columns if name.startswith("feature-")}
    single = {name: columns[name] for name in _SINGLE if name in columns}
    return MappedLayout(**small, **single, features=features, links=links, folder=folder)


def _map_file(path: Path) -> tuple[str, npt.NDArray[Any]]:
    name, kind, sizes = path.name.rsplit(".", 2)
    dtype, row = np.dtype(kind), tuple(map(int, sizes.split("x"))) if sizes else ()
    if not path.stat().st_size:
        return name, np.empty((0, *row), dtype)
    return name, np.memmap(path, dtype, "r").reshape(-1, *row)
