"""One shard: a Parquet file that appears when it is complete, and tells when it is damaged."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphattn.builders.files import atomic_file
from graphattn.builders.layout import Ints
from graphattn.builders.store.schema import CODED_PATHS, SCHEMA, VERSION
from graphattn.exceptions import DataError

CHUNK_TOKENS, CHUNK_SENTENCES = 1 << 19, 1 << 14
"""Most tokens (unless one sentence has more) and most sentences in a row group, the unit that is decoded at once."""

_NOTES = b"graphattn"
_LEVEL = 6
_REPAIR = "Run the same graphattn build again: it makes damaged shards anew."


SHARDS = "sentences"
"""Folder of the shards within a store; it holds nothing else, so that other readers can take it as a whole."""


def shard_name(number: int) -> str:
    """The file of a shard, from the store's folder on.

    Examples
    --------
    >>> shard_name(7)
    'sentences/part-000007.parquet'
    """
    return f"{SHARDS}/part-{number:06d}.parquet"


def write_shard(table: pa.Table, path: Path, notes: dict[str, Any]) -> None:
    """Write a shard beside its place and move it there; the same table and notes always give the same bytes.

    Parameters
    ----------
    table : sentences, in the store's columns
    path : the file
    notes : what to keep with it

    Raises
    ------
    OSError
        when it cannot be written
    """
    metadata = {_NOTES: json.dumps({"version": VERSION, **notes}, ensure_ascii=False, sort_keys=True).encode("utf-8")}
    with (
        atomic_file(path, sync=True) as temporary,
        open(temporary, "wb") as file,
        pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            compression_level=_LEVEL,
            dictionary_pagesize_limit=1 << 30,
            write_page_checksum=True,
            store_schema=False,
        ) as writer,
    ):
        writer.add_key_value_metadata(metadata)
        for start, stop in chunk_bounds(table["length"].to_numpy()):
            writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)


def chunk_bounds(lengths: Ints) -> list[tuple[int, int]]:
    """First sentence of each chunk and the one after its last."""
    ends = np.cumsum(lengths, dtype=np.int64)
    bounds, start = [], 0
    while start < len(lengths):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + CHUNK_TOKENS, side="right"))
        stop = min(max(stop, start + 1), start + CHUNK_SENTENCES)
        bounds.append((start, stop))
        start = stop
    return bounds


class Shard:
    """A shard that is there.

    Parameters
    ----------
    path : its file

    Raises
    ------
    DataError
        when it is missing, damaged, or of another version
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = pq.ParquetFile(
                path, memory_map=True, read_dictionary=CODED_PATHS, page_checksum_verification=True
            )
        except FileNotFoundError:
            raise DataError("there is no such shard", path=path, hint=_REPAIR) from None
        except (OSError, pa.ArrowException) as error:
            raise _damaged(path, error) from error
        self.notes = self._read_notes()

    def _read_notes(self) -> dict[str, Any]:
        try:
            notes = json.loads(self._file.metadata.metadata[_NOTES])
            version = notes["version"]
        except (KeyError, ValueError, TypeError) as error:
            raise _damaged(self.path, error) from error
        if version != VERSION:
            raise DataError(
                f"is of version {version} of the store's schema, this GraphAttn reads version {VERSION}",
                path=self.path,
                hint="Build the store again, or use the GraphAttn it was built with.",
            )
        return notes

    @property
    def chunk_sizes(self) -> list[int]:
        """Sentences in each chunk."""
        metadata = self._file.metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def close(self) -> None:
        """Give the file back; tables that were read stay as they are."""
        self._file.close()

    def chunk(self, number: int, columns: list[str] | None = None) -> pa.Table:
        """The sentences of a chunk.

        Raises
        ------
        DataError
            when the shard is damaged
        """
        try:
            return self._file.read_row_group(number, columns=columns, use_threads=False)
        except (OSError, pa.ArrowException, IndexError) as error:
            raise _damaged(self.path, error) from error


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


_OF_THE_SYSTEM = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM)


def refused_by_system(path: Path, error: Exception) -> DataError | None:
    """What to say of a file that may well be whole, but that the system does not let us read; None of others."""
    number = getattr(error, "errno", None)
    if number not in _OF_THE_SYSTEM:
        return None
    hints = {
        errno.EACCES: "Make it readable for this user.",
        errno.EPERM: "Make it readable for this user.",
        errno.ENOMEM: "Free memory, or build the store with smaller shards (--block-size).",
    }
    hint = hints.get(number, "Close files, or raise the limit of open files (ulimit -n).")
    return DataError(f"cannot be read ({os.strerror(number)})", path=path, hint=hint)


def _damaged(path: Path, error: Exception) -> DataError:
    refused = refused_by_system(path, error)
    if refused is not None:
        return refused
    reason = " ".join(str(error).split())
    return DataError(f"the shard is damaged ({reason[:200]})", path=path, hint=_REPAIR)
