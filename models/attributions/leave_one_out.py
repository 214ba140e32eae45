"""Leaving one edge out of the graph: what the log-odds lose without it, for many edges in one batch of copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from graphattn.array_graph import ArrayGraph
from graphattn.exceptions import ConfigError
from graphattn.models.attributions.explained import Explained, explained
from graphattn.models.batches import Batch, Corpus
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.capture import Ends, in_evaluation, kinds_of, part_name
from graphattn.models.inspection.looking import encoded, look_at
from graphattn.models.prediction import MAX_EDGES, MAX_TOKENS
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from graphattn.models.estimators import TextEstimator

EDGE = ["relation", "source_part", "target_part", "source", "target"]
"""Columns that name an edge of the graph."""


def leave_one_edge_out(
    estimator: TextEstimator,
    x: Any,
    *,
    edges: pd.DataFrame | None = None,
    k: int = 20,
    label: Any = None,
    word: int | None = None,
) -> pd.DataFrame:
    """Take edges out of the graph, one at a time, and predict again.

    An edge is taken from its relation, so all heads that look along it, in all layers, miss it, and the others' weights
    grow. Copies of the graph, each without another edge, make one batch.

    Parameters
    ----------
    estimator : a fitted one, with attention
    x : one input
    edges : the edges to leave out, with the columns relation, source and target, and where there are several parts
        source_part and target_part; the ``k`` with the largest sums of weights over layers and heads when None
    k : how many, when ``edges`` is None; edges that are a target's only one do not count
    label, word : what to explain, as for :func:`gradient_times_weight`

    Returns
    -------
    One row for each edge: the columns that name it, source_token, target_token, weight (summed over layers and heads),
    log_odds without it, and effect: what the log-odds lose without it, largest first.

    Raises
    ------
    ConfigError
        when the encoder has no attention weights, there is no such class or word, or an edge is not in the graph
    """
    corpus, _ = encoded(estimator, x)
    attention = look_at(estimator, x)
    chosen = _chosen(attention, edges, k)
    model = estimator.model_
    with torch.inference_mode(), in_evaluation(model):
        scores = model(corpus[[0]])
        what = explained(estimator, scores, label, word)
        whole = float(what.log_odds(scores.unsqueeze(0)))
        without: list[float] = []
        for start in range(0, len(chosen), step := _copies(corpus)):
            without += _log_odds_without(estimator, corpus, attention, chosen.iloc[start : start + step], what)
    chosen["log_odds"] = without
    chosen["effect"] = whole - chosen["log_odds"]
    chosen = chosen.sort_values("effect", ascending=False, kind="stable", ignore_index=True)
    return chosen if len(attention.tokens) > 1 else chosen.drop(columns=["source_part", "target_part"])


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


def _chosen(attention: Attention, edges: pd.DataFrame | None, k: int) -> pd.DataFrame:
    sums = edge_sums(attention.table())
    if edges is None:
        if k < 1:
            raise ConfigError(f"k is {k}; it must be at least 1")
        degrees = sums.groupby(["relation", "target_part", "target"]).weight.transform("size")
        return sums[degrees > 1].nlargest(k, "weight").reset_index(drop=True)
    if "source_part" not in edges:
        (part,) = attention.sentences if len(attention.sentences) == 1 else [None]
        edges = edges.assign(source_part=part, target_part=part)
    found = edges[EDGE].drop_duplicates().merge(sums, on=EDGE, how="left")
    missing = found[found.weight.isna()]
    if len(missing):
        edge = missing.iloc[0]
        raise ConfigError(f"the graph has no edge from {edge.source} to {edge.target} along {edge.relation!r}")
    return found


def _copies(corpus: Corpus) -> int:
    """How many copies of the input fit into one batch."""
    return int(max(1, min(MAX_TOKENS // corpus.lengths[0], MAX_EDGES // max(1, corpus.num_edges()[0]))))


def _log_odds_without(
    estimator: TextEstimator, corpus: Corpus, attention: Attention, edges: pd.DataFrame, what: Explained
) -> list[float]:
    """The log-odds of copies of the input, each without one of the edges."""
    count, model = len(edges), estimator.model_
    batch = corpus[[0] * count]
    texts = list(attention.sentences)
    kinds = kinds_of(model.encoder.relations())
    gone: dict[CanonicalRelation, list[np.ndarray]] = {}
    for (relation, source_part, target_part), own in edges.assign(copy=np.arange(count)).groupby(EDGE[:3]):
        text, kind = _kind(kinds[relation], texts, source_part, target_part)
        gone.setdefault(kind, []).append(_ids(batch.graph, kind, texts.index(text) * count, own))
    graph = batch.graph
    for kind, ids in gone.items():
        graph = graph.without_edges(kind, np.concatenate(ids))
    scores = model(Batch(graph, count, batch.forms))
    return what.log_odds(scores.unflatten(0, (count, -1))).tolist()


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


def _ids(graph: ArrayGraph, kind: CanonicalRelation, first: int, edges: pd.DataFrame) -> np.ndarray:
    """Ids of edges, each in its copy: text ``first`` plus the copy's number; edges are sorted by target and source."""
    ends = Ends.of(graph, kind)
    begin, stop = ends.begins[first], ends.begins[first + 1]
    width = int(ends.sources.max(initial=0)) + 1
    codes = ends.targets[begin:stop].astype(np.int64) * width + ends.sources[begin:stop]
    within = np.searchsorted(codes, edges.target.to_numpy() * width + edges.source.to_numpy())
    return ends.begins[first + edges["copy"].to_numpy()] + within
