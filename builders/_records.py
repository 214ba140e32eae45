"""Parquet, Arrow and JSON arrays as the bytes of JSON Lines, so that one reader serves all records."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from typing_extensions import override

from graphattn.exceptions import DataError

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

_ROWS = 1024
"""Rows that are converted together."""
_PARQUET, _ARROW_FILE = b"PAR1", b"ARROW1"
"""First bytes; those of a stream of Arrow vary."""
_JSON_ARRAY = re.compile(rb'(\xef\xbb\xbf)?\s*\[\s*\{\s*["}]')


class _JsonLines(io.RawIOBase):
    """A stream of JSON Lines, made from groups of records as they are read."""

    def __init__(self, groups: Iterator[list[Any]]):
        self._groups = groups
        self._rest = memoryview(b"")

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            group = next(self._groups, None)
            if group is None:
                return 0
            self._rest = memoryview("".join(f"{json.dumps(record, default=_plain)}\n" for record in group).encode())
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _plain(value: object) -> str:
    """A value that JSON does not have; text without its type is bytes."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def open_table(packed: BinaryIO) -> io.RawIOBase:
    """The rows of a Parquet or Arrow (Feather) file as JSON Lines.

    Class numbers of Hugging Face data sets become the names in the file's metadata.
    """
    return _JsonLines(_read_table(packed if packed.seekable() else io.BytesIO(packed.read())))


def _read_table(source: BinaryIO) -> Iterator[list[Any]]:
    from pyarrow import ArrowException

    try:
        schema, batches = _open_batches(source)
        names = _class_names(schema)
        for batch in batches:
            rows = batch.to_pylist()
            for column, classes in names.items():
                for row in rows:
                    row[column] = name_classes(row[column], classes)
            yield rows
    except ArrowException as error:
        raise OSError(str(error)) from error


def _open_batches(source: BinaryIO) -> tuple[Schema, Iterator[RecordBatch]]:
    """The schema of a file, and its rows, some at a time."""
    from pyarrow import ipc
    from pyarrow.parquet import ParquetFile

    first = source.read(len(_ARROW_FILE))
    source.seek(0)
    if first.startswith(_PARQUET):
        file = ParquetFile(source)
        return file.schema_arrow, file.iter_batches(_ROWS)
    if first == _ARROW_FILE:
        reader = ipc.open_file(source)
        batches = map(reader.get_batch, range(reader.num_record_batches))
    else:
        reader = batches = ipc.open_stream(source)
    parts = (batch.slice(start, _ROWS) for batch in batches for start in range(0, batch.num_rows, _ROWS))
    return reader.schema, parts


def _class_names(schema: Schema) -> dict[str, list[str]]:
    """Column -> names of its classes, as the package ``datasets`` writes them."""
    notes = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    names = {}
    for column, feature in notes.get("info", {}).get("features", {}).items():
        while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):  # a list of them
            feature = feature["feature"]
        feature = feature[0] if isinstance(feature, list) else feature
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and column in schema.names:
            names[column] = feature["names"]
    return names


def name_classes(value: Any, names: list[str]) -> Any:
    """The name of a class number, or those of a list of them; other values unchanged."""
    if isinstance(value, list):
        return [name_classes(item, names) for item in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def is_json_array(head: bytes) -> bool:
    """Whether a text that begins so is one JSON array of objects."""
    return _JSON_ARRAY.match(head) is not None


def open_json_array(lines: Iterable[str], path: str) -> io.RawIOBase:
    """The items of a JSON array, which is read at once, as JSON Lines."""
    try:
        items = json.loads("".join(lines))
    except json.JSONDecodeError as error:
        problem = f"broken JSON: {error.msg} at column {error.colno}"
        raise DataError(problem, path=path, line=error.lineno, hint="A JSON array ends at its bracket.") from error
    except RecursionError as error:
        raise DataError("lists or objects are nested too deeply", path=path, hint="Write JSON Lines.") from error
    return _JsonLines(iter([items]))
