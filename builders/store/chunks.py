"""A chunk of a store, decoded: its layout, its labels and its tags, from which batches are gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.layout import Ints, Layout, concatenate
from graphattn.builders.relations.csc import ragged_arange
from graphattn.builders.store.layouts import layout_of
from graphattn.builders.store.table import coded, counts_of

UNKNOWN = -1
"""Id of a label or tag that is not there."""


@dataclass(frozen=True, eq=False)
class Lists:
    """A column of lists of names, as places.

    Parameters
    ----------
    counts : (S,) names of each sentence, 0 for none
    places : (T,) place of each name among the store's, one sentence after the other
    """

    counts: Ints
    places: Ints

    @classmethod
    def of(cls, column: pa.ChunkedArray, places: Mapping[str, int]) -> Lists:
        """Decode a column of lists of strings by the place of each name."""
        codes, names = coded(column)
        return cls(counts_of(column), np.fromiter((places[name] for name in names), np.int64, len(names))[codes])

    @classmethod
    def joined(cls, lists: Sequence[Lists]) -> Lists:
        """Several as one."""
        return cls(np.concatenate([one.counts for one in lists]), np.concatenate([one.places for one in lists]))

    def take(self, numbers: Ints) -> Lists:
        """Those of a choice of sentences, in the order given."""
        counts = self.counts[numbers]
        starts = (np.cumsum(self.counts) - self.counts)[numbers]
        return Lists(counts, self.places[ragged_arange(starts, counts)])


@dataclass(frozen=True, eq=False)
class Chunk:
    """Sentences as columns.

    Parameters
    ----------
    layout : of S sentences
    labels : (S,) place of each label among the store's, -1 for none and where a sentence may have several
    label_sets : the labels of sentences that may have several
    tags : one for each word
    """

    layout: Layout
    labels: Ints
    label_sets: Lists
    tags: Lists

    @classmethod
    def of(
        cls, table: pa.Table, builder: TextGraphBuilder, labels: Mapping[str, int], tags: Mapping[str, int]
    ) -> Chunk:
        """Decode rows of a store.

        Parameters
        ----------
        table : the rows
        builder : what the layout is for
        labels, tags : name -> place
        """
        label = table["label"].combine_chunks()
        label = label if pa.types.is_dictionary(label.type) else label.dictionary_encode()
        known = np.array([*(labels[name] for name in label.dictionary.to_pylist()), UNKNOWN], np.int64)
        return cls(
            layout_of(table, builder),
            known[label.indices.fill_null(len(known) - 1).to_numpy()],
            Lists.of(table["labels"], labels),
            Lists.of(table["tags"], tags),
        )

    @classmethod
    def joined(cls, chunks: Sequence[Chunk]) -> Chunk:
        """Several chunks as one."""
        if len(chunks) == 1:
            return chunks[0]
        return cls(
            concatenate([chunk.layout for chunk in chunks]),
            np.concatenate([chunk.labels for chunk in chunks]),
            Lists.joined([chunk.label_sets for chunk in chunks]),
            Lists.joined([chunk.tags for chunk in chunks]),
        )

    def take(self, numbers: Ints) -> Chunk:
        """A choice of sentences, in the order given."""
        return Chunk(
            self.layout.take(numbers), self.labels[numbers], self.label_sets.take(numbers), self.tags.take(numbers)
        )
