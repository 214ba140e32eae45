"""Shards: Parquet files that are written atomically and detect damage when they are read."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graphattn._ragged import Ints
from graphattn.builders._atomic import atomic_file
from graphattn.builders._batching import cut_at_budgets
from graphattn.builders._regular_files import WEIGHTS, UnsuitableFileError, open_regular, read_bytes
from graphattn.builders.store._tables import FORMAT_VERSION, SCHEMA, STRING_PATHS
from graphattn.exceptions import DataError

CHUNK_TOKENS, CHUNK_SENTENCES = 1 << 19, 1 << 14
"""Maximum tokens (unless one sentence has more) and sentences of a row group, the unit of decoding."""

SHARDS = "sentences"
"""Folder of the shards in a store; it has no other files, so other programs can read it as one data set."""

_METADATA_KEY, _SHA256_KEY = b"graphattn", b"graphattn.sha256"
_NO_SHA256 = b"0" * 64
"""Stands for the checksum in the bytes that it is computed from."""
_COMPRESSION_LEVEL = 6
_REPAIR = "Run the same graphattn build again: it rebuilds damaged shards."


def shard_name(number: int) -> str:
    """Path of a shard in its store.

    Examples
    --------
    >>> shard_name(7)
    'sentences/part-000007.parquet'
    """
    return f"{SHARDS}/part-{number:06d}.parquet"


def write_shard(table: pa.Table, path: Path, notes: dict[str, Any]) -> None:
    """Write a shard atomically; the same table and notes always give the same bytes."""
    metadata = json.dumps({"format_version": FORMAT_VERSION, **notes}, ensure_ascii=False, sort_keys=True)
    notes_in_json = metadata.encode("utf-8", "backslashreplace")
    content = BytesIO()
    with pq.ParquetWriter(
        content,
        SCHEMA,
        compression="zstd",
        compression_level=_COMPRESSION_LEVEL,
        dictionary_pagesize_limit=1 << 30,
        write_page_checksum=True,
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata({_METADATA_KEY: notes_in_json, _SHA256_KEY: _NO_SHA256})
        for start, stop in chunk_bounds(table["length"].to_numpy()):
            writer.write_table(table.slice(start, stop - start), row_group_size=stop - start)
    unsealed = content.getvalue()
    checksum = hashlib.sha256(unsealed).hexdigest().encode()
    with atomic_file(path, sync=True) as temporary:
        temporary.write_bytes(_replace_last(unsealed, _NO_SHA256, checksum))


def _replace_last(content: bytes, old: bytes, new: bytes) -> bytes:
    start = content.rfind(old)
    return content[:start] + new + content[start + len(old) :]


def chunk_bounds(lengths: Ints) -> list[tuple[int, int]]:
    """Start and stop of each chunk of sentences with these lengths."""
    return cut_at_budgets([(lengths, CHUNK_TOKENS), (np.ones_like(lengths), CHUNK_SENTENCES)])


class Shard:
    """An open shard.

    It is read with system calls, not mapped into memory: who changes the file later would change tables that were read,
    and who truncates it would end the process. A change is an error of the next :meth:`chunk`.
    """

    def __init__(self, path: Path):
        self.path = path
        try:
            open_regular(path, WEIGHTS).close()  # Arrow would wait for a writer of a pipe
            self.stamp = self._read_stamp()
            self._file = pq.ParquetFile(
                pa.OSFile(os.fsencode(path)), read_dictionary=STRING_PATHS, page_checksum_verification=True
            )
            metadata = self._file.metadata.metadata
            self._sha256: bytes = metadata[_SHA256_KEY]
            self.notes: dict[str, Any] = json.loads(metadata[_METADATA_KEY])
            version = self.notes.get("format_version")
            schema = self._file.schema.to_arrow_schema()
        except FileNotFoundError:
            raise DataError("the shard is missing", path=path, hint=_REPAIR) from None
        except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise _read_error(path, error) from error
        if version != FORMAT_VERSION:
            raise DataError(
                f"the shard has version {version} of the store format, this GraphAttn reads version {FORMAT_VERSION}",
                path=path,
                hint="Build the store again, or use the GraphAttn that built it.",
            )
        if not schema.equals(SCHEMA):
            raise damage_error(path, "it has other columns")

    @property
    def chunk_sizes(self) -> list[int]:
        """Sentences of each chunk."""
        metadata = self._file.metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def is_intact(self) -> bool:
        """Read every byte; whether the shard is as it was written."""
        unsealed = _replace_last(read_bytes(self.path, WEIGHTS), self._sha256, _NO_SHA256)
        return hashlib.sha256(unsealed).hexdigest().encode() == self._sha256

    def _read_stamp(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_size, status.st_mtime_ns

    def chunk(self, number: int, columns: list[str] | None = None) -> pa.Table:
        """Read a chunk."""
        try:
            table = self._file.read_row_group(number, columns=columns, use_threads=False)
            if self._read_stamp() == self.stamp:
                return table
        except (OSError, pa.ArrowException, IndexError) as error:
            raise _read_error(self.path, error) from error
        raise damage_error(self.path, "it was changed after it was opened")

    def close(self) -> None:
        """Close the file; tables that were read stay valid."""
        self._file.close()


_FIXES = {
    errno.EACCES: "Make it readable for this user.",
    errno.EPERM: "Make it readable for this user.",
    errno.ENOMEM: "Free memory, or build the store with smaller shards (graphattn build --shard-size).",
    errno.EMFILE: "Close files, or raise the limit of open files (ulimit -n).",
    errno.ENFILE: "Close files, or raise the limit of open files (ulimit -n).",
}


def system_error(path: Path, error: Exception) -> DataError | None:
    """The error of a file that the system does not let us read, although it may be undamaged; None of other errors."""
    if isinstance(error, UnsuitableFileError):
        return DataError(f"cannot be read ({error.strerror})", path=path, hint="Copy the whole store again.")
    number = getattr(error, "errno", None)
    if number not in _FIXES:
        return None
    return DataError(f"cannot be read ({os.strerror(number)})", path=path, hint=_FIXES[number])


def _read_error(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return system_error(path, error) or damage_error(path, reason)


def damage_error(path: Path, reason: str) -> DataError:
    """The error of a damaged shard."""
    return DataError(f"the shard is damaged ({reason})", path=path, hint=_REPAIR)
