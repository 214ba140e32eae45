"""A layout whose columns lie in files: memory holds some numbers for each sentence, and what a batch takes."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from graphattn.builders.layout import Layout, Links

_PREFIX = "graphattn-"
_SINGLE = ("word_ids", "heads", "deprels", "sentence_ids")


@dataclass(frozen=True, eq=False)
class MappedLayout(Layout):
    """A :class:`~graphattn.builders.layout.Layout` of memory-mapped columns; another process maps the same files.

    Parameters
    ----------
    folder : of the files, which go away with the layout that :func:`memmap_layouts` made
    """

    folder: str = ""

    def __reduce__(self) -> tuple:
        small = {"lengths": self.lengths, "word_counts": self.word_counts, "vectors": self.vectors}
        counts = None if self.links is None else self.links.counts
        return _opened, (self.folder, small, counts)


def memmap_layouts(layouts: Iterable[Layout]) -> MappedLayout:
    """Several layouts as one, one after the other, without holding them.

    The files lie in the system's folder for temporary files, which the environment variable ``TMPDIR`` names; they take
    four bytes for each token and column.

    Parameters
    ----------
    layouts : at least one, all with the same columns

    Raises
    ------
    OSError
        when the files cannot be written
    """
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    try:
        small, counts = _write(layouts, Path(folder))
        layout = _opened(folder, small, counts)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(layout, _remove, folder, os.getpid())
    return layout


def _remove(folder: str, maker: int) -> None:
    """Remove the files, unless this is a fork of the process that made them."""
    if os.getpid() == maker:
        shutil.rmtree(folder, ignore_errors=True)


def _write(layouts: Iterable[Layout], folder: Path) -> tuple[dict[str, Any], npt.NDArray | None]:
    """Write the large columns; the small ones, and how many links each text has."""
    lengths, words, links, vectors = [], [], [], None
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        for layout in layouts:
            lengths.append(layout.lengths)
            words.append(layout.word_counts)
            vectors = layout.vectors
            if layout.links is not None:
                links.append(layout.links.counts)
            for name, values in _large(layout).items():
                values = values.astype(np.int32) if values.dtype.kind in "iu" else values
                file = f"{name}.{values.dtype.str[1:]}.{'x'.join(map(str, values.shape[1:]))}"
                if file not in files:
                    files[file] = stack.enter_context(open(folder / file, "wb"))
                files[file].write(values.tobytes())
    small = {"lengths": np.concatenate(lengths), "word_counts": np.concatenate(words), "vectors": vectors}
    return small, np.concatenate(links) if links else None


def _large(layout: Layout) -> dict[str, npt.NDArray]:
    """The columns that are as long as the tokens, words or links."""
    columns = {name: values for name in _SINGLE if (values := getattr(layout, name)) is not None}
    if layout.links is not None:
        columns |= {"links-sources": layout.links.sources, "links-targets": layout.links.targets}
    return columns | {f"feature-{name}": values for name, values in layout.features.items()}


def _opened(folder: str, small: Mapping[str, Any], counts: npt.NDArray | None) -> MappedLayout:
    columns = dict(_mapped_file(path) for path in sorted(Path(folder).iterdir()))
    links = None if counts is None else Links(counts, columns.pop("links-sources"), columns.pop("links-targets"))
    features = {name.removeprefix("feature-"): columns[name] for name in columns if name.startswith("feature-")}
    single = {name: columns[name] for name in _SINGLE if name in columns}
    return MappedLayout(**small, **single, features=features, links=links, folder=folder)


def _mapped_file(path: Path) -> tuple[str, npt.NDArray]:
    name, kind, sizes = path.name.rsplit(".", 2)
    dtype, row = np.dtype(kind), tuple(map(int, sizes.split("x"))) if sizes else ()
    if not path.stat().st_size:
        return name, np.empty((0, *row), dtype)
    return name, np.memmap(path, dtype, "r").reshape(-1, *row)
