"""Layouts of corpora larger than memory: their columns are memory-mapped files."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from graphattn._ragged import Ints, Ragged
from graphattn.builders._layout import Layout
from graphattn.builders._paths import write_error

_SINGLE = ("word_ids", "heads", "deprels", "sentence_ids")


def memmap_layouts(layouts: Iterable[Layout]) -> Layout:
    """Concatenate layouts without holding them in memory; a process that unpickles the result maps the same files.

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


def _open_layout(folder: str, small: Mapping[str, Any], offsets: Ints | None) -> Layout:
    columns = dict(_map_file(path) for path in sorted(Path(folder).iterdir()))
    links = None if offsets is None else Ragged(columns.pop("links"), offsets)
    features = {name.removeprefix("feature-"): columns[name] for name in columns if name.startswith("feature-")}
    single = {name: columns[name] for name in _SINGLE if name in columns}
    return Layout(
        **small, **single, features=features, links=links, reopen=partial(_open_layout, folder, small, offsets)
    )


def _map_file(path: Path) -> tuple[str, npt.NDArray[Any]]:
    name, kind, sizes = path.name.rsplit(".", 2)
    dtype, row = np.dtype(kind), tuple(map(int, sizes.split("x"))) if sizes else ()
    if not path.stat().st_size:
        return name, np.empty((0, *row), dtype)
    return name, np.memmap(path, dtype, "r").reshape(-1, *row)
