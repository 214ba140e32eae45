"""Sentences as tables and tables as sentences, and the codes and dictionaries of a table's strings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn.builders.layout import Ints
from graphattn.builders.sentence import Sentence
from graphattn.builders.store.schema import SCHEMA

_FIELDS = ("tokens", "word_ids", "heads", "deprels", "tags", "sentence_ids", "links")


def table_of(sentences: Sequence[Sentence], second: Sequence[bool | None] | None = None) -> pa.Table:
    """Sentences as rows.

    Parameters
    ----------
    sentences : what to store
    second : of each sentence, whether it is the second text of a pair, None outside of pairs; None: there are no pairs

    Examples
    --------
    >>> table_of([Sentence(["Dogs", "bark"], heads=[2, 0])])["heads"].to_pylist()
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


def with_all_columns(table: pa.Table) -> pa.Table:
    """A table with every column of the schema, in its order; those that lacked are null."""
    return pa.table(
        {
            field.name: table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows, field.type)
            for field in SCHEMA
        },
        schema=SCHEMA,
    )


def sentences_of(table: pa.Table) -> list[Sentence]:
    """The rows as sentences."""
    columns = [table[name].to_pylist() for name in (*_FIELDS, "label", "labels")]
    return [
        Sentence(**dict(zip(_FIELDS, fields, strict=True)), label=label if labels is None else tuple(labels))
        for *fields, label, labels in zip(*columns, strict=True)
    ]


def counts_of(column: pa.ChunkedArray) -> Ints:
    """(S,) number of values in each row of a column of lists, 0 for null."""
    return column.combine_chunks().value_lengths().fill_null(0).to_numpy().astype(np.int64)


def coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], list[str]]:
    """The values of a column of lists of strings, one row after the other, as codes and what they stand for."""
    values = column.combine_chunks().flatten()
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    return values.indices.to_numpy(), values.dictionary.to_pylist()


def words_of(table: pa.Table) -> dict[str, int]:
    """How often each word stands in a table, in the order of first appearance."""
    if table["word_ids"].null_count == table.num_rows:
        codes, words = coded(table["tokens"])
        found, first, counts = np.unique(codes, return_index=True, return_counts=True)
        order = np.argsort(first)
        return {words[code]: int(count) for code, count in zip(found[order], counts[order], strict=True)}
    rows = zip(table["tokens"].to_pylist(), table["word_ids"].to_pylist(), strict=True)
    return dict(Counter(word for tokens, word_ids in rows for word in Sentence(tokens, word_ids).words))
