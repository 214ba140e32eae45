"""A chunk of a store, decoded: its layout, its labels and its tags, from which batches are gathered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from graphattn.builders.graph_builder import TextGraphBuilder
from graphattn.builders.layout import Ints, Layout, joined
from graphattn.builders.store.layouts import layout_of
from graphattn.builders.store.table import coded, counts_of

UNKNOWN = -1
"""Id of a label or tag that is not there."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Sentences as columns.

    Parameters
    ----------
    layout : of S sentences
    labels : (S,) place of each label among the store's, -1 for none
    tag_counts : (S,) tags of each sentence, 0 for none
    tags : (T,) place of each tag among the store's
    """

    layout: Layout
    labels: Ints
    tag_counts: Ints
    tags: Ints

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
        codes, names = coded(table["tags"])
        places = np.fromiter((tags[name] for name in names), np.int64, len(names))
        label = table["label"].combine_chunks()
        label = label if pa.types.is_dictionary(label.type) else label.dictionary_encode()
        known = np.array([*(labels[name] for name in label.dictionary.to_pylist()), UNKNOWN], np.int64)
        return cls(
            layout_of(table, builder),
            known[label.indices.fill_null(len(known) - 1).to_numpy()],
            counts_of(table["tags"]),
            places[codes],
        )

    @classmethod
    def joined(cls, chunks: Sequence[Chunk]) -> Chunk:
        """Several chunks as one."""
        if len(chunks) == 1:
            return chunks[0]
        columns = ((chunk.labels, chunk.tag_counts, chunk.tags) for chunk in chunks)
        return cls(joined([chunk.layout for chunk in chunks]), *map(np.concatenate, zip(*columns, strict=True)))

    def take(self, numbers: Ints) -> Chunk:
        """A choice of sentences, in the order given."""
        counts = self.tag_counts[numbers]
        starts = (np.cumsum(self.tag_counts) - self.tag_counts)[numbers]
        places = np.arange(int(counts.sum())) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return Chunk(self.layout.take(numbers), self.labels[numbers], counts, self.tags[places])
