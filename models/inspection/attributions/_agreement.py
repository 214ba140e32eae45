"""Agreement of attribution methods: rank correlation and overlap of the top edges or tokens, for every pair."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from graphattn._validation import require_range
from graphattn.models._estimators.inspectable import Inspectable
from graphattn.models.inspection._attention import predict_attention
from graphattn.models.inspection.attributions._gradient_times_weight import by_source, gradient_times_weight
from graphattn.models.inspection.attributions._integrated_gradients import integrated_gradients
from graphattn.models.inspection.attributions._leave_one_out import EDGE, ENDS, edge_sums, leave_one_edge_out
from graphattn.models.inspection.attributions._rollout import (
    MOST_EDGES,
    attention_flow,
    attention_rollout,
    has_paths,
    layer_matrices,
    node_table,
)


def agreement(values: pd.DataFrame, k: int = 5) -> pd.DataFrame:
    """Compare the absolute values of attributions for every pair of columns.

    Parameters
    ----------
    values : one row per edge or token, one column per method
    k : how many of the largest to compare

    Returns
    -------
    Columns one, other, rank_correlation (Spearman's; NaN if a column is constant) and overlap, the share of the k
    largest that both have in common.

    Raises
    ------
    ConfigError
        when ``k`` is below 1

    Examples
    --------
    >>> agreement(pd.DataFrame({"weight": [0.7, 0.2, 0.1], "effect": [2.0, -0.5, 1.0]}), k=2)
          one   other  rank_correlation  overlap
    0  weight  effect               0.5      0.5
    """
    require_range("k", k, min=1)
    sizes = values.abs()
    ranks = sizes.rank()
    count = max(1, min(k, len(values)))
    rows = []
    for one, other in combinations(sizes.columns, 2):
        common = set(sizes[one].nlargest(count).index) & set(sizes[other].nlargest(count).index)
        rows.append((one, other, ranks[one].corr(ranks[other]), len(common) / count))
    return pd.DataFrame(rows, columns=["one", "other", "rank_correlation", "overlap"])


def edge_agreement(
    estimator: Inspectable,
    x: Any,
    *,
    edges: int = 50,
    k: int = 5,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare weight, gradient times weight and leave-one-out on the edges with the largest weights.

    Parameters
    ----------
    estimator : a fitted estimator with attention
    x : one input
    edges : number of edges to leave out
    k : as for :func:`agreement`
    label, word, target : what to explain, as for :func:`gradient_times_weight`

    Returns
    -------
    The edges with the columns weight, gradient_times_weight and left_out, and their :func:`agreement`. Weights and
    products are sums over layers and heads.

    Raises
    ------
    ConfigError
        as :func:`leave_one_edge_out`
    """
    table = gradient_times_weight(estimator, x, label=label, word=word, target=target)
    left_out = leave_one_edge_out(estimator, x, k=edges, label=label, word=word, target=target)
    keys = [name for name in EDGE if name in left_out]
    products = edge_sums(table, ["attribution"])[[*keys, "attribution"]]
    merged = left_out.merge(products, on=keys).rename(
        columns={"effect": "left_out", "attribution": "gradient_times_weight"}
    )
    merged = merged[[*keys, *ENDS, "weight", "left_out", "gradient_times_weight"]]
    return merged, agreement(merged[["weight", "gradient_times_weight", "left_out"]], k)


def token_agreement(
    estimator: Inspectable,
    x: Any,
    *,
    k: int = 5,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare weights, rollout, flow, gradient times weight and integrated gradients by token.

    Parameters
    ----------
    estimator, x, k, label, word, target : as for :func:`edge_agreement`

    Returns
    -------
    The tokens (for a translator those of the source) with one column per method, and their :func:`agreement`.
    ``weight`` is the attention that a token receives, ``gradient_times_weight`` the sum over all its outgoing edges.
    Flow is omitted for long texts, flow and rollout if the last layer's heads are between words.

    Raises
    ------
    ConfigError
        as :func:`gradient_times_weight` and :func:`integrated_gradients`
    """
    attention = predict_attention(estimator, x, target=target)
    table = gradient_times_weight(estimator, x, label=label, word=word, target=target)
    if "source_part" not in table:
        table = table.assign(source_part="text")
    merged = node_table(attention, np.zeros(sum(map(len, attention.tokens.values())))).drop(columns="attribution")
    if has_paths(attention):
        merged["rollout"] = attention_rollout(attention).attribution
        if sum(matrix.nnz for matrix in layer_matrices(attention, 0.5)) <= MOST_EDGES:
            merged["flow"] = attention_flow(attention).attribution
    for name, column in (("weight", "weight"), ("gradient_times_weight", "attribution")):
        sums = by_source(table, column).droplevel("source_token").rename_axis(["part", "position"]).rename(name)
        merged = merged.merge(sums.reset_index(), on=["part", "position"], how="left")
    gradients = integrated_gradients(estimator, x, label=label, word=word, target=target)
    gradients = gradients.rename(columns={"attribution": "integrated_gradients"}).drop(columns=["token", "word"])
    merged = merged.merge(gradients, on=["part", "position"]).fillna(0.0)
    return merged, agreement(merged.drop(columns=["part", "position", "token", "word"]), k)
