"""Rows of a store as the layouts, labels and tags of batches, without a Python object for each sentence or token.

Python objects are needed only where tokens are parts of stored words, or a relation reads sentences, links or vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn._ragged import Ints, Ragged, concatenate_ranges, count_up, offsets_from_counts
from graphattn.builders._graph_builder import CLS_ID, TextGraphBuilder
from graphattn.builders._layout import Layout, check_parsed, concatenate, missing_heads_error
from graphattn.builders._vocabulary import Vocabulary
from graphattn.builders.store._tables import dictionary_codes, list_lengths, to_sentences
from graphattn.exceptions import DataError

NO_LABEL = -1


def _encode_names(column: pa.ChunkedArray, index: Mapping[str, int]) -> Ragged:
    """A column of lists of names as indices into all names of the store."""
    codes, names = dictionary_codes(column)
    indices = np.fromiter((index[name] for name in names), np.int64, len(names))
    return Ragged.from_counts(indices[codes], list_lengths(column))


@dataclass(frozen=True, eq=False)
class DecodedRows:
    """Decoded rows, from which batches are taken."""

    layout: Layout  # layout of S sentences
    labels: Ints  # (S,) index of each label among the store's; -1 without a label or with several
    label_sets: Ragged  # labels of texts that may have several
    tags: Ragged  # tags of the words

    @classmethod
    def from_table(
        cls, table: pa.Table, builder: TextGraphBuilder, labels: Mapping[str, int], tags: Mapping[str, int]
    ) -> DecodedRows:
        """Decode rows."""
        label = table["label"].combine_chunks()
        label = label if pa.types.is_dictionary(label.type) else label.dictionary_encode()
        known = np.array([*(labels[name] for name in label.dictionary.to_pylist()), NO_LABEL], np.int64)
        return cls(
            table_layout(table, builder),
            known[label.indices.fill_null(len(known) - 1).to_numpy()],
            _encode_names(table["labels"], labels),
            _encode_names(table["tags"], tags),
        )

    @classmethod
    def concatenate(cls, chunks: Sequence[DecodedRows]) -> DecodedRows:
        """The sentences of several chunks."""
        if len(chunks) == 1:
            return chunks[0]
        return cls(
            concatenate([chunk.layout for chunk in chunks]),
            np.concatenate([chunk.labels for chunk in chunks]),
            Ragged.concatenate([chunk.label_sets for chunk in chunks]),
            Ragged.concatenate([chunk.tags for chunk in chunks]),
        )

    def take(self, numbers: Ints) -> DecodedRows:
        """Some sentences, in the given order."""
        return DecodedRows(
            self.layout.take(numbers), self.labels[numbers], self.label_sets.take(numbers), self.tags.take(numbers)
        )


def table_layout(table: pa.Table, builder: TextGraphBuilder) -> Layout:
    """Equals ``builder.layout(to_sentences(table))``, but reads columns where tokens are words."""
    if table["word_ids"].null_count < table.num_rows or any(
        relation.needs_sentences or relation.needs_links or relation.needs_vectors for relation in builder.relations
    ):
        return builder.layout(to_sentences(table))
    words = list_lengths(table["tokens"])
    lengths, word_ids, features = _encode_tokens(table["tokens"], words, builder.vocabulary)
    heads = deprels = None
    deprel_id = builder.deprel_id
    if deprel_id is not None:
        heads, deprels = _encode_arcs(table, words, deprel_id, needs_heads=builder.needs_heads)
    layout = Layout(lengths, words, word_ids, heads, deprels, features, vectors=builder.vectors)
    return layout.with_cls({"id": CLS_ID}) if builder.cls else layout


def _encode_tokens(
    column: pa.ChunkedArray, words: Ints, vocabulary: Vocabulary | None
) -> tuple[Ints, Ints, Mapping[str, npt.NDArray[Any]]]:
    """Tokens of each sentence, 0-based word of each token, and ids."""
    word_ids = count_up(words).astype(np.int32)
    if vocabulary is None:
        return words, word_ids, {}
    codes, dictionary = dictionary_codes(column)
    pieces, ids = vocabulary.ids_of_words(dictionary)
    if len(ids) == len(dictionary):
        return words, word_ids, {"id": ids[codes]}
    counts = pieces[codes]
    lengths = np.diff(offsets_from_counts(counts)[offsets_from_counts(words)])
    slots = concatenate_ranges(offsets_from_counts(pieces)[codes], counts)
    return lengths, np.repeat(word_ids, counts), {"id": ids[slots]}


def _encode_arcs(
    table: pa.Table, words: Ints, deprel_id: Callable[[str], int], *, needs_heads: bool
) -> tuple[Ints, Ints]:
    """0-based head of each word, -1 for a root, and the id of its relation."""
    heads, deprels = table["heads"].combine_chunks(), table["deprels"].combine_chunks()
    is_parsed = heads.is_valid().to_numpy(zero_copy_only=False)

    def describe(row: int) -> DataError:
        return missing_heads_error(table["tokens"][row].as_py(), number=row, path=None, line=None)

    check_parsed(np.flatnonzero(~is_parsed & (words > 0)), describe, required=needs_heads)
    codes, names = dictionary_codes(table["deprels"])
    ids = np.fromiter(map(deprel_id, names), np.int32, len(names))[codes]
    has_deprels = deprels.is_valid().to_numpy(zero_copy_only=False)
    if not has_deprels.all():
        all_ids = np.full(int(words.sum()), deprel_id(""), np.int32)
        all_ids[np.repeat(has_deprels, words)] = ids
        ids = all_ids
    head_of = np.zeros(int(words.sum()), np.int64)
    head_of[np.repeat(is_parsed, words)] = heads.flatten().to_numpy()
    return head_of - 1, ids
