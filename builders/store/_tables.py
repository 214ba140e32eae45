"""Sentences as Arrow tables and back, with the columns of a store's Parquet files.

One row is one sentence. In format version 1:

================  ======================  ============================================================================
column            type                    content
================  ======================  ============================================================================
``length``        int32                   number of tokens
``tokens``        list of string          words, or subwords where the corpus itself consists of subwords
``word_ids``      list of int32           0-based word of each token; null when each token is a word
``heads``         list of int32           for each word the 1-based word it depends on, 0 for a root; null: not parsed
``deprels``       list of string          dependency relation of each word, or null
``tags``          list of string          tag of each word, or null
``label``         string                  class, or null
``labels``        list of string          classes of a text that may have several, or null
``sentence_ids``  list of int32           0-based sentence of each word of a text of several sentences, or null
``links``         list of pairs of int32  source and target word of each of the user's edges, or null
``second``        bool                    in a corpus of pairs, false for the first text of a pair and true for the
                                          second, which is the next row; null elsewhere
================  ======================  ============================================================================

Strings are dictionary-encoded within a row group. Windows, order, word groups and subwords follow from these columns
and are recomputed per batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn._ragged import Ints
from graphattn.builders._sentence import Sentence

FORMAT_VERSION = 1

SCHEMA = pa.schema(
    {
        "length": pa.int32(),
        "tokens": pa.list_(pa.string()),
        "word_ids": pa.list_(pa.int32()),
        "heads": pa.list_(pa.int32()),
        "deprels": pa.list_(pa.string()),
        "tags": pa.list_(pa.string()),
        "label": pa.string(),
        "labels": pa.list_(pa.string()),
        "sentence_ids": pa.list_(pa.int32()),
        "links": pa.list_(pa.list_(pa.int32())),
        "second": pa.bool_(),
    }
)

STRING_PATHS = [
    f"{field.name}.list.element" if field.type == pa.list_(pa.string()) else field.name
    for field in SCHEMA
    if field.type in (pa.string(), pa.list_(pa.string()))
]
"""Parquet paths of the string columns, which are read as dictionary codes."""

_FIELDS = ("tokens", "word_ids", "heads", "deprels", "tags", "sentence_ids", "links")


def to_table(sentences: Sequence[Sentence], second: Sequence[bool | None] | None = None) -> pa.Table:
    """Convert sentences to rows.

    Examples
    --------
    >>> to_table([Sentence(["Dogs", "bark"], heads=[2, 0])])["heads"].to_pylist()
    [[2, 0]]
    """
    columns = {
        "length": list(map(len, sentences)),
        "second": [None] * len(sentences) if second is None else second,
        "label": [sentence.label if isinstance(sentence.label, str) else None for sentence in sentences],
        "labels": [sentence.label if isinstance(sentence.label, tuple) else None for sentence in sentences],
        **{name: [getattr(sentence, name) for sentence in sentences] for name in _FIELDS},
    }
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in SCHEMA})


def to_sentences(table: pa.Table) -> list[Sentence]:
    """Convert rows to sentences."""
    columns = [table[name].to_pylist() for name in (*_FIELDS, "label", "labels")]
    return [
        Sentence(**dict(zip(_FIELDS, fields, strict=True)), label=label if labels is None else tuple(labels))
        for *fields, label, labels in zip(*columns, strict=True)
    ]


def add_null_columns(table: pa.Table) -> pa.Table:
    """Complete a table to the schema."""
    return pa.table(
        {
            field.name: table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
            for field in SCHEMA
        },
        schema=SCHEMA,
    )


def list_lengths(column: pa.ChunkedArray) -> Ints:
    """(S,) length of each list of a column, 0 for null."""
    lengths: Ints = column.combine_chunks().value_lengths().fill_null(0).to_numpy()
    return lengths.astype(np.int64)


def dictionary_codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[str]]:
    """The strings of a column, or of its lists, without nulls: as codes and the strings that they stand for."""
    values = column.combine_chunks()
    if pa.types.is_list(values.type):
        values = values.flatten()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return values.indices.drop_null().to_numpy(), values.dictionary.to_pylist()


def count_names(column: pa.ChunkedArray) -> dict[str, int]:
    """Count the strings of a column, or of its lists."""
    codes, names = dictionary_codes(column)
    counts = np.bincount(codes, minlength=len(names)).tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def count_words(table: pa.Table) -> dict[str, int]:
    """Count the words of a table, in the order of first occurrence."""
    if table["word_ids"].null_count == table.num_rows:
        codes, words = dictionary_codes(table["tokens"])
        distinct, first, counts = np.unique(codes, return_index=True, return_counts=True)
        order = np.argsort(first)
        return {words[code]: int(count) for code, count in zip(distinct[order], counts[order], strict=True)}
    rows = zip(table["tokens"].to_pylist(), table["word_ids"].to_pylist(), strict=True)
    return dict(Counter(word for tokens, word_ids in rows for word in Sentence(tokens, word_ids).words))
