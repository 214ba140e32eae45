"""Tables of Arrow that are made and written a chunk at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from graphattn.builders._records import ArrowRow
from graphattn.exceptions import DataError, printable

_TABLES_PER_GROUP = 64
"""Chunks in a row group of a Parquet file."""
_HINT = "Give all values of the column one type, or write another format."


def serialize_arrow(columns: Mapping[str, Any]) -> bytes:
    """A stream of Arrow with one table; a value is a list or an array."""
    arrays = {
        name: values if isinstance(values, pa.Array) else _make_array(name, values) for name, values in columns.items()
    }
    sink, table = pa.BufferOutputStream(), pa.table(arrays)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _make_array(name: str, values: Sequence[Any]) -> pa.Array:
    """A column; lists and objects whose items have several types become JSON, as in CSV."""
    try:
        return pa.array(values)
    except UnicodeEncodeError:  # half a surrogate pair in a text
        return _make_array(name, [_make_printable(value) for value in values])
    except (pa.ArrowException, OverflowError) as error:
        if all(value is None or isinstance(value, int) for value in values):
            with suppress(pa.ArrowException, OverflowError):
                return pa.array(values, pa.uint64())
            problem = f"the column {name!r} has whole numbers that are too large for Parquet"
            raise DataError(problem, hint="Write them as strings, or write another format.") from error
        if all(value is None or isinstance(value, (list, dict)) for value in values):
            return pa.array([None if value is None else json.dumps(value, ensure_ascii=False) for value in values])
        problem = f"the column {name!r} has values of different types, which Parquet does not have"
        raise DataError(problem, hint=_HINT) from error


def read_rows(rows: Sequence[ArrowRow | None]) -> dict[str, pa.Array]:
    """Column -> its values in rows of one file of Arrow, null where there is no row."""
    first = next((row for row in rows if row is not None), None)
    if first is None:
        return {}
    schema = pa.ipc.read_schema(pa.py_buffer(first.schema))
    missing = pa.record_batch([pa.nulls(1, field.type) for field in schema], names=schema.names).cast(schema)
    batches = [missing if row is None else pa.ipc.read_record_batch(pa.py_buffer(row.record), schema) for row in rows]
    table = pa.Table.from_batches(batches, schema)
    return {name: pa.concat_arrays(table[name].chunks) for name in schema.names}


def _make_printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_make_printable(key): _make_printable(item) for key, item in value.items()}
    return [_make_printable(item) for item in value] if isinstance(value, (list, tuple)) else value


def read_arrow(contents: Iterable[bytes]) -> Iterator[pa.Table]:
    """The tables of :func:`serialize_arrow`."""
    return (pa.ipc.open_stream(content).read_all() for content in contents)


def write_parquet(file: Any, read_tables: Callable[[], Iterator[pa.Table]]) -> int:
    """Write tables, which are read twice, some at a time; return the number of rows.

    A column has the type that holds those of all tables, and null where a table lacks it; one without values has texts.
    Where some tables have lists, single values become lists.
    """
    schemas = [table.schema for table in read_tables()]
    if not schemas:
        raise DataError("there are no rows to write", hint="Give at least one text.")
    lists = {field.name for schema in schemas for field in schema if pa.types.is_list(field.type)}
    try:
        empty = [_make_lists(schema.empty_table(), lists) for schema in schemas]
        merged = _name_types(pa.concat_tables(empty, promote_options="permissive"))
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"rows do not fit into one table ({reason})", hint=_HINT) from error
    count, tables = 0, (_make_lists(table, lists) for table in read_tables())
    with pq.ParquetWriter(file, merged.schema) as writer:
        while group := list(islice(tables, _TABLES_PER_GROUP)):
            writer.write_table(pa.concat_tables([merged, *group], promote_options="permissive"))
            count += sum(table.num_rows for table in group)
    return count


def _name_types(table: pa.Table) -> pa.Table:
    """An empty table whose columns without a type, of values or lists, are those of texts."""
    types = {pa.null(): pa.string(), pa.list_(pa.null()): pa.list_(pa.string())}
    return pa.schema([field.with_type(types.get(field.type, field.type)) for field in table.schema]).empty_table()


def _make_lists(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """A table with lists in these columns."""
    for name in table.column_names:
        if name in names and not pa.types.is_list(table.schema.field(name).type):
            values = [None if value is None else [value] for value in table[name].to_pylist()]
            kind = pa.list_(table.schema.field(name).type)
            table = table.set_column(table.column_names.index(name), name, pa.array(values, kind))
    return table
