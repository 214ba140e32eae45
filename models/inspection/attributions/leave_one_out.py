"""Leaving one edge out of the graph: what the log-odds lose without it, for many edges in one batch of copies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from graphattn.models.corpus import Batch, Corpus
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attributions.edges_left_out import chosen_edges, copies_that_fit, without_edges
from graphattn.models.inspection.attributions.explained import Explained, explained, explains_text
from graphattn.models.inspection.attributions.left_out_of_writing import leave_out_of_writing
from graphattn.models.inspection.capture import in_evaluation
from graphattn.models.inspection.looking import encoded, look_at

if TYPE_CHECKING:
    from graphattn.models.estimators import Estimator


def leave_one_edge_out(
    estimator: Estimator,
    x: Any,
    *,
    edges: pd.DataFrame | None = None,
    k: int = 20,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
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
    label, word, target : what to explain, as for :func:`gradient_times_weight`

    Returns
    -------
    One row for each edge: the columns that name it, source_token, target_token, weight (summed over layers and heads),
    log_odds without it, or of a translator the log_probability, and effect: what they lose without it, largest first.

    Raises
    ------
    ConfigError
        as :func:`gradient_times_weight`, or when an edge is not in the graph
    """
    if explains_text(estimator, label=label, target=target):
        return leave_out_of_writing(estimator, x, target, edges, k, word)
    corpus, _ = encoded(estimator, x)
    attention = look_at(estimator, x)
    chosen = chosen_edges(attention, edges, k)
    model = estimator.model_
    with torch.inference_mode(), in_evaluation(model):
        scores = model(corpus[[0]])
        what = explained(estimator, scores, label, word)
        whole = float(what.log_odds(scores.unsqueeze(0)))
        without: list[float] = []
        for start in range(0, len(chosen), step := copies_that_fit(corpus)):
            without += _log_odds_without(estimator, corpus, attention, chosen.iloc[start : start + step], what)
    chosen["log_odds"] = without
    chosen["effect"] = whole - chosen["log_odds"]
    chosen = chosen.sort_values("effect", ascending=False, kind="stable", ignore_index=True)
    return chosen if len(attention.tokens) > 1 else chosen.drop(columns=["source_part", "target_part"])


def _log_odds_without(
    estimator: Any, corpus: Corpus, attention: Attention, edges: pd.DataFrame, what: Explained
) -> list[float]:
    """The log-odds of copies of the input, each without one of the edges."""
    count, model = len(edges), estimator.model_
    batch, relations = corpus[[0] * count], model.encoder.relations()
    graph = without_edges(batch.graph, relations, list(attention.sentences), edges.assign(copy=np.arange(count)))
    scores = model(Batch(graph, count, batch.forms))
    return what.log_odds(scores.unflatten(0, (count, -1))).tolist()
