"""Leave one edge out of the graph and predict again, for many edges in one batch of copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from graphattn._ragged import Ints
from graphattn._schema import TOKEN, CanonicalRelation
from graphattn._validation import require_range
from graphattn.builders._batch import TextBatch
from graphattn.builders.relations import Relation
from graphattn.exceptions import ConfigError
from graphattn.models._corpus import Corpus
from graphattn.models._estimators.inspectable import Inspectable, encode_input
from graphattn.models._prediction import MAX_EDGES, MAX_TOKENS
from graphattn.models._text_model import in_evaluation
from graphattn.models.inspection._attention import Attention, attention_of
from graphattn.models.inspection._capture import CROSS, EdgePositions, edge_types, part_name

EDGE = ["relation", "source_part", "target_part", "source", "target"]
"""Columns that identify an edge of the graph."""
ENDS = ["source_token", "target_token", "source_word", "target_word", "source_word_index", "target_word_index"]
"""Columns with the texts of an edge's ends, and the numbers of their words."""


def leave_one_edge_out(
    estimator: Inspectable,
    x: Any,
    *,
    edges: pd.DataFrame | None = None,
    k: int = 20,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> pd.DataFrame:
    """Remove edges from the graph, one at a time, and predict again.

    An edge is removed from its relation, so it is missing in all heads and layers that use the relation, and the
    weights of other edges grow. Copies of the graph, each without another edge, form one batch.

    Parameters
    ----------
    estimator : a fitted estimator with attention
    x : one input
    edges : the edges, with the columns relation, source and target, and with several parts also source_part and
        target_part; the ``k`` edges with the largest weights, summed over layers and heads, when None
    k : number of edges when ``edges`` is None; a target's only edge is never chosen
    label, word, target : what to explain, as for :func:`gradient_times_weight`

    Returns
    -------
    One row per edge: its columns, tokens, words and numbers of words of source and target, weight (summed over layers
    and heads), log_odds (for a translator log_probability) without it, and effect, the decrease that its removal
    causes; largest effect first.

    Raises
    ------
    ConfigError
        as :func:`gradient_times_weight`, or when an edge is not in the graph
    """
    inputs, explainer = encode_input(estimator, x, target=target), estimator.explainer_
    with torch.inference_mode(), in_evaluation(estimator.model_):
        capture = explainer.capture(inputs.first_batch)
        attention = attention_of(estimator, inputs, capture)
        selected = select_edges(attention, edges, k)
        explained = explainer.choose_target(inputs, capture.scores, label=label, word=word)
        before = float(explained.value(capture.scores.unsqueeze(0)))
        after: list[float] = []
        for start in range(0, len(selected), step := _num_copies(inputs)):
            chunk = selected.iloc[start : start + step]
            chunk = chunk.assign(copy=np.arange(len(chunk)))
            batch, is_cross = inputs.batch([0] * len(chunk)), chunk.relation == CROSS
            relations = estimator.model_.encoder.relations()
            graph = remove_edges(batch.graph, relations, inputs.graph_texts, chunk[~is_cross])
            scores = explainer.score_copies(replace(batch, graph=graph), hidden=chunk[is_cross])
            after += explained.value(scores).tolist()
    selected[explained.quantity] = after
    selected["effect"] = before - selected[explained.quantity]
    selected = selected.sort_values("effect", ascending=False, kind="stable", ignore_index=True)
    return selected if len(attention.tokens) > 1 else selected.drop(columns=["source_part", "target_part"])


def edge_sums(table: pd.DataFrame, columns: Sequence[str] = ("weight",)) -> pd.DataFrame:
    """Sum over layers and heads: one row per edge of the graph."""
    keys = [*EDGE, *ENDS]
    if "source_part" not in table:
        table = table.assign(source_part="text", target_part="text")
    return table.groupby(keys, sort=False)[list(columns)].sum().reset_index()


def select_edges(attention: Attention, edges: pd.DataFrame | None, k: int) -> pd.DataFrame:
    """The given edges, or the ``k`` with the largest weights, with the columns of :func:`edge_sums`."""
    sums = edge_sums(attention.table())
    if edges is None:
        require_range("k", k, min=1)
        degrees = sums.groupby(["relation", "target_part", "target"]).weight.transform("size")
        return sums[degrees > 1].nlargest(k, "weight").reset_index(drop=True)
    missing_columns = [name for name in ("relation", "source", "target") if name not in edges]
    if missing_columns:
        raise ConfigError(f"edges have no column {missing_columns[0]!r}; they need relation, source and target")
    if "source_part" not in edges:
        (part,) = attention.sentences if len(attention.sentences) == 1 else [None]
        edges = edges.assign(source_part=part, target_part=part)
    selected = edges[EDGE].drop_duplicates().merge(sums, on=EDGE, how="left")
    missing = selected[selected.weight.isna()]
    if len(missing):
        edge = missing.iloc[0]
        raise ConfigError(f"the graph has no edge from {edge.source} to {edge.target} along {edge.relation!r}")
    return selected


def _num_copies(corpus: Corpus) -> int:
    """Number of copies of the first input that fit into one batch."""
    return int(max(1, min(MAX_TOKENS // corpus.lengths[0], MAX_EDGES // max(1, corpus.num_edges()[0]))))


def remove_edges(
    graph: TextBatch, relations: Iterable[Relation], texts: Sequence[str], edges: pd.DataFrame
) -> TextBatch:
    """Remove edges from copies of an input.

    The graph has all copies of the first text, then all of the second. ``edges`` has the columns of :data:`EDGE` and
    ``copy``, the copy that loses the edge.
    """
    types = edge_types(relations)
    copies = len(graph.batch_num_nodes(TOKEN)) // len(texts)
    removed: dict[CanonicalRelation, list[Ints]] = {}
    for (relation, source_part, target_part), group in edges.groupby(EDGE[:3]):
        text, edge_type = _find_edge_type(types[relation], texts, source_part, target_part)
        ids = _edge_ids(EdgePositions.of(graph, edge_type), texts.index(text) * copies, group)
        removed.setdefault(edge_type, []).append(ids)
    for edge_type, groups in removed.items():
        graph = graph.remove_edges(edge_type, np.concatenate(groups))
    return graph


def _find_edge_type(
    types: Sequence[CanonicalRelation], texts: Sequence[str], source_part: str, target_part: str
) -> tuple[str, CanonicalRelation]:
    """The text, and the edge type between two of its parts."""
    return next(
        (text, edge_type)
        for text in texts
        for edge_type in types
        if (part_name(text, edge_type[0]), part_name(text, edge_type[2])) == (source_part, target_part)
    )


def _edge_ids(positions: EdgePositions, first_copy: int, edges: pd.DataFrame) -> Ints:
    """Ids of edges, each in its copy of the text; edges are sorted by target, then by source."""
    begin, stop = positions.starts[first_copy], positions.starts[first_copy + 1]
    width = int(positions.sources.max(initial=0)) + 1
    codes = positions.targets[begin:stop].astype(np.int64) * width + positions.sources[begin:stop]
    offsets = np.searchsorted(codes, edges.target.to_numpy() * width + edges.source.to_numpy())
    ids: Ints = positions.starts[first_copy + edges["copy"].to_numpy()] + offsets
    return ids
