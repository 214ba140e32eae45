"""Columns of a store as the layout of a batch, without a Python object for a sentence or a token.

Only where tokens are parts of stored words, or a relation needs sentences, links or vectors, objects are made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphattn.builders.graph_builder import CLS_ID, TextGraphBuilder
from graphattn.builders.layout import Ints, Layout, warn_of_missing_heads
from graphattn.builders.store.table import coded, counts_of, sentences_of
from graphattn.builders.vocabulary import Vocabulary
from graphattn.exceptions import DataError


def layout_of(table: pa.Table, builder: TextGraphBuilder) -> Layout:
    """What ``builder.layout(sentences_of(table))`` gives, at memory speed where tokens are words.

    Parameters
    ----------
    table : rows of a store
    builder : its vocabulary cuts words into tokens and gives them ids; its relations say what is needed

    Raises
    ------
    DataError
        when a relation needs heads and a sentence has none
    """
    if table["word_ids"].null_count < table.num_rows or any(
        relation.needs_sentences or relation.needs_links or relation.needs_vectors for relation in builder.relations
    ):
        return builder.layout(sentences_of(table))
    words = counts_of(table["tokens"])
    lengths, word_ids, features = _tokens(table["tokens"], words, builder.vocabulary)
    heads = deprels = None
    deprel_id = builder.deprel_id
    if deprel_id is not None:
        heads, deprels = _arcs(table, words, deprel_id, needs_heads=builder.needs_heads)
    if not builder.cls:
        return Layout(lengths, words, word_ids, heads, deprels, features, vectors=builder.vectors)
    after_tokens, after_words = _places_after_cls(lengths), _places_after_cls(words)
    return Layout(
        lengths + 1,
        words + 1,
        _spread(word_ids + 1, after_tokens, len(words), 0),
        None if heads is None else _spread(np.where(heads < 0, heads, heads + 1), after_words, len(words), -1),
        None if deprels is None else _spread(deprels, after_words, len(words), 0),
        {name: _spread(values, after_tokens, len(words), CLS_ID) for name, values in features.items()},
        vectors=builder.vectors,
    )


def _tokens(
    column: pa.ChunkedArray, words: Ints, vocabulary: Vocabulary | None
) -> tuple[Ints, Ints, Mapping[str, npt.NDArray]]:
    """Tokens of each sentence, word of each token within its sentence, and ids."""
    word_ids = _count_up(words)
    if vocabulary is None:
        return words, word_ids, {}
    codes, dictionary = coded(column)
    pieces, ids = vocabulary.ids_of_words(dictionary)
    if len(ids) == len(dictionary):
        return words, word_ids, {"id": ids[codes]}
    taken = pieces[codes]
    starts = (np.cumsum(pieces) - pieces)[codes]
    ends = np.concatenate([[0], np.cumsum(taken)])
    sentence_ends = np.cumsum(words)
    lengths = ends[sentence_ends] - ends[sentence_ends - words]
    return lengths, np.repeat(word_ids, taken), {"id": ids[np.repeat(starts, taken) + _count_up(taken)]}


def _arcs(table: pa.Table, words: Ints, deprel_id: Callable[[str], int], *, needs_heads: bool) -> tuple[Ints, Ints]:
    """0-based head of each word, -1 for a root, and the id of its relation."""
    heads, named = table["heads"].combine_chunks(), table["deprels"].combine_chunks()
    parsed = heads.is_valid().to_numpy(zero_copy_only=False)
    lacking = np.flatnonzero(~parsed & (words > 0))
    if len(lacking) and not needs_heads:
        warn_of_missing_heads()
    elif len(lacking):
        start = " ".join(table["tokens"][int(lacking[0])].as_py()[:5])
        raise DataError(
            f"sentence {lacking[0]} ({start!r} ...) has no heads, but the relation 'dependency' needs them",
            field="heads",
            hint="Build the store from a parsed corpus or with a parser, or leave out Dependency().",
        )
    codes, names = coded(table["deprels"])
    ids = np.fromiter(map(deprel_id, names), np.int32, len(names))[codes]
    given = named.is_valid().to_numpy(zero_copy_only=False)
    if not given.all():
        every = np.full(int(words.sum()), deprel_id(""), np.int32)
        every[np.repeat(given, words)] = ids
        ids = every
    places = np.zeros(int(words.sum()), np.int64)
    places[np.repeat(parsed, words)] = heads.flatten().to_numpy()
    return places - 1, ids


def _places_after_cls(counts: Ints) -> Ints:
    """Where values lie once each run has one more in front."""
    return np.arange(int(counts.sum())) + np.repeat(np.arange(1, len(counts) + 1), counts)


def _spread(values: npt.NDArray, places: Ints, runs: int, first: int) -> npt.NDArray:
    """Values with one more in front of each run."""
    out = np.full(len(values) + runs, first, values.dtype)
    out[places] = values
    return out


def _count_up(counts: Ints) -> Ints:
    """0, 1, ... within each run, int32."""
    ends = np.cumsum(counts)
    return (np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)).astype(np.int32)
