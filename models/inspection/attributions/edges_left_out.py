"""Copies of a text's graph, each without one edge: which edges to leave out, how many copies go together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from graphattn.builders.batch import TextBatch
from graphattn.builders.relations import Relation
from graphattn.exceptions import ConfigError
from graphattn.models.corpus import Corpus
from graphattn.models.estimators.prediction import MAX_EDGES, MAX_TOKENS
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.capture import Ends, kinds_of, part_name
from graphattn.schema import CanonicalRelation

EDGE = ["relation", "source_part", "target_part", "source", "target"]
"""Columns that name an edge of the graph."""


def edge_sums(table: pd.DataFrame, columns: Sequence[str] = ("weight",)) -> pd.DataFrame:
    """Sums over layers and heads: one row for each edge of the graph.

    Parameters
    ----------
    table : one row for each edge, layer and head
    columns : what to add up
    """
    named = [*EDGE, "source_token", "target_token"]
    if "source_part" not in table:
        table = table.assign(source_part="text", target_part="text")
    return table.groupby(named, sort=False)[list(columns)].sum().reset_index()


def chosen_edges(attention: Attention, edges: pd.DataFrame | None, k: int) -> pd.DataFrame:
    """Those that are named, or the ``k`` with the largest sums of weights; columns as :func:`edge_sums` gives them.

    Raises
    ------
    ConfigError
        when ``k`` is below 1, or an edge is not in the graph
    """
    sums = edge_sums(attention.table())
    if edges is None:
        if k < 1:
            raise ConfigError(f"k is {k}; it must be at least 1")
        degrees = sums.groupby(["relation", "target_part", "target"]).weight.transform("size")
        return sums[degrees > 1].nlargest(k, "weight").reset_index(drop=True)
    lacking = [name for name in ("relation", "source", "target") if name not in edges]
    if lacking:
        raise ConfigError(f"edges have no column {lacking[0]!r}; they have relation, source and target")
    if "source_part" not in edges:
        (part,) = attention.sentences if len(attention.sentences) == 1 else [None]
        edges = edges.assign(source_part=part, target_part=part)
    found = edges[EDGE].drop_duplicates().merge(sums, on=EDGE, how="left")
    missing = found[found.weight.isna()]
    if len(missing):
        edge = missing.iloc[0]
        raise ConfigError(f"the graph has no edge from {edge.source} to {edge.target} along {edge.relation!r}")
    return found


def copies_that_fit(corpus: Corpus) -> int:
    """How many copies of the first input fit into one batch."""
    return int(max(1, min(MAX_TOKENS // corpus.lengths[0], MAX_EDGES // max(1, corpus.num_edges()[0]))))


def without_edges(
    graph: TextBatch, relations: Iterable[Relation], texts: Sequence[str], edges: pd.DataFrame
) -> TextBatch:
    """A batch of copies of an input, each without its own edges.

    Parameters
    ----------
    graph : the batch: all copies of the first text, then all of the second
    relations : of the encoder
    texts : names of the input's texts
    edges : with the columns of :data:`EDGE` and ``copy``, the number of the copy that loses it
    """
    kinds = kinds_of(relations)
    copies = len(graph.batch_num_nodes("token")) // len(texts)
    gone: dict[CanonicalRelation, list[np.ndarray]] = {}
    for (relation, source_part, target_part), own in edges.groupby(EDGE[:3]):
        text, kind = _kind(kinds[relation], texts, source_part, target_part)
        gone.setdefault(kind, []).append(_ids(graph, kind, texts.index(text) * copies, own))
    for kind, ids in gone.items():
        graph = graph.without_edges(kind, np.concatenate(ids))
    return graph


def _kind(
    kinds: Sequence[CanonicalRelation], texts: Sequence[str], source_part: str, target_part: str
) -> tuple[str, CanonicalRelation]:
    """The text and the kind of edges that join two parts."""
    return next(
        (text, kind)
        for text in texts
        for kind in kinds
        if (part_name(text, kind[0]), part_name(text, kind[2])) == (source_part, target_part)
    )


def _ids(graph: TextBatch, kind: CanonicalRelation, first: int, edges: pd.DataFrame) -> np.ndarray:
    """Ids of edges, each in its copy: text ``first`` plus the copy's number; edges are sorted by target and source."""
    ends = Ends.of(graph, kind)
    begin, stop = ends.begins[first], ends.begins[first + 1]
    width = int(ends.sources.max(initial=0)) + 1
    codes = ends.targets[begin:stop].astype(np.int64) * width + ends.sources[begin:stop]
    within = np.searchsorted(codes, edges.target.to_numpy() * width + edges.source.to_numpy())
    return ends.begins[first + edges["copy"].to_numpy()] + within
