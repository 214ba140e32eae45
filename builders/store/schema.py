"""The columns of a store's Parquet files, which pandas and every other reader of Parquet understand.

One row is one sentence. Version 2:

================  ======================  ============================================================================
column            type                    what
================  ======================  ============================================================================
``length``        int32                   number of tokens
``tokens``        list of string          words, or sub-words where the corpus itself is cut into them
``word_ids``      list of int32           0-based word of each token; null when each token is a word of its own
``heads``         list of int32           for each word the 1-based word it depends on, 0 for a root; null: not parsed
``deprels``       list of string          name of each word's dependency relation, or null
``tags``          list of string          tag of each word, or null
``label``         string                  class, or null
``labels``        list of string          classes of a sentence that may have several, or null
``sentence_ids``  list of int32           0-based sentence of each word of a text that has several, or null
``links``         list of pairs of int32  source and target word of each edge of the user's, or null
``second``        bool                    in a corpus of pairs false for the first text of a pair and true for the
                                          second, which is the row behind it; null elsewhere
================  ======================  ============================================================================

Strings are dictionary-coded within a row group. What follows from these columns (windows, order, word groups, the
pieces of a word under a tokenizer) is not stored; batches make it anew.
"""

from __future__ import annotations

import pyarrow as pa

VERSION = 3

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

CODED_PATHS = [
    f"{field.name}.list.element" if field.type == pa.list_(pa.string()) else field.name
    for field in SCHEMA
    if field.type in (pa.string(), pa.list_(pa.string()))
]
"""Columns of strings as Parquet's readers name them, to be read as codes and a dictionary."""
