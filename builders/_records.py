"""Parquet, Arrow and JSON arrays as the bytes of JSON Lines, so that one reader serves all records."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from typing_extensions import override

from graphattn.exceptions import DataError

if TYPE_CHECKING:
    from pyarrow import DataType, RecordBatch, Schema

_ROWS = 1024
"""Rows that are converted together."""
_SHOWN_BYTES = 1 << 12
"""Bytes of a value that is no text, such as an image, in its record."""
_PARQUET, _ARROW_FILE = b"PAR1", b"ARROW1"
"""First bytes; those of a stream of Arrow vary."""
_JSON_ARRAY = re.compile(rb'(\xef\xbb\xbf)?\s*\[\s*\{\s*["}]')


class ArrowRow(NamedTuple):
    """Columns of a row as Arrow has them: many of its types are not those of JSON."""

    schema: bytes
    record: bytes
    left_out: frozenset[str] = frozenset()  # columns with bytes that are no text, which only Arrow has


class RecordGroup(NamedTuple):
    """Records that are read together; ``batch`` has columns of them as Arrow has them, ``left_out`` are not text."""

    records: list[Any]
    batch: RecordBatch | None = None
    left_out: frozenset[str] = frozenset()

    def arrow_row(self, index: int) -> ArrowRow | None:
        """A record as Arrow has it."""
        if self.batch is None:
            return None
        record = self.batch.slice(index, 1).serialize().to_pybytes()
        return ArrowRow(self.batch.schema.serialize().to_pybytes(), record, self.left_out)


class JsonLines(io.RawIOBase):
    """A stream of JSON Lines, made from groups of records as they are read; each read is a part of one line.

    ``position`` is the group of the record that was read last, and its index in the group.
    """

    def __init__(self, groups: Iterator[RecordGroup]):
        self._numbered = ((group, index) for group in groups for index in range(len(group.records)))
        self._rest = memoryview(b"")
        self.position: tuple[RecordGroup, int] | None = None

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self.position = next(self._numbered, None)
            if self.position is None:
                return 0
            group, index = self.position
            self._rest = memoryview(f"{json.dumps(group.records[index], default=_plain)}\n".encode())
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _plain(value: object) -> str:
    """A value that JSON does not have; text without its type is bytes, and of others the first are enough."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return value[: max(error.start + 1, _SHOWN_BYTES)].decode("utf-8", "surrogateescape")


def _is_no_text(value: object) -> bool:
    """Whether a value has bytes that are not UTF-8."""
    if isinstance(value, bytes):
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            return True
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return any(map(_is_no_text, items))


def open_table(packed: BinaryIO) -> io.RawIOBase:
    """The rows of a Parquet or Arrow (Feather) file as JSON Lines.

    Class numbers of Hugging Face data sets become the names in the file's metadata.
    """
    return JsonLines(_read_table(packed if packed.seekable() else io.BytesIO(packed.read())))


def _read_table(source: BinaryIO) -> Iterator[RecordGroup]:
    import pyarrow as pa

    try:
        schema, batches = _open_batches(source)
        names = _class_names(schema)
        carried = [
            number
            for number, field in enumerate(schema)
            if field.name not in names and not _has_dictionary(field.type) and schema.names.count(field.name) == 1
        ]
        left_out: frozenset[str] = frozenset()
        for batch in batches:
            try:
                rows = batch.to_pylist()
            except UnicodeDecodeError:
                rows = batch.cast(pa.schema([field.with_type(_as_binary(field.type)) for field in schema])).to_pylist()
            left_out |= {name for name in {*schema.names} - left_out if any(_is_no_text(row[name]) for row in rows)}
            for column, classes in names.items():
                for row in rows:
                    row[column] = name_classes(row[column], classes)
            yield RecordGroup(rows, batch.select(carried), left_out)
    except pa.ArrowException as error:
        raise OSError(str(error)) from error


def _has_dictionary(kind: DataType) -> bool:
    """Whether values are numbers of an array that a row alone does not have."""
    from pyarrow import types

    return types.is_dictionary(kind) or any(map(_has_dictionary, _inner_types(kind)))


def _inner_types(kind: DataType) -> list[DataType]:
    return [kind.field(number).type for number in range(kind.num_fields)]


def _as_binary(kind: DataType) -> DataType:
    """A type with bytes in place of strings."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.binary() if pa.types.is_string(kind) else pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_binary(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return (pa.list_ if pa.types.is_list(kind) else pa.large_list)(_as_binary(kind.value_type))
    return kind


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
    return JsonLines(iter([RecordGroup(items)]))
