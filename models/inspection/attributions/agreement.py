"""How well ways to attribute agree: rank correlation and common top edges or tokens, for every pair of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attributions.edges_left_out import EDGE, edge_sums
from graphattn.models.inspection.attributions.flow import MOST_EDGES, attention_flow
from graphattn.models.inspection.attributions.gradients import by_source, gradient_times_weight
from graphattn.models.inspection.attributions.integrated_gradients import integrated_gradients
from graphattn.models.inspection.attributions.leave_one_out import leave_one_edge_out
from graphattn.models.inspection.attributions.rollout import attention_rollout, has_paths, layer_matrices, node_table
from graphattn.models.inspection.looking import look_at
from graphattn.models.inspection.passes import writes
from graphattn.models.inspection.written import look_at_writing

if TYPE_CHECKING:
    from graphattn.models.estimators import Estimator


def agreement(values: pd.DataFrame, k: int = 5) -> pd.DataFrame:
    """Compare the sizes of attributions, whatever their sign, for every pair of columns.

    Parameters
    ----------
    values : one row for each edge or token, one column for each way
    k : how many of the largest to compare; all when there are fewer

    Returns
    -------
    Columns one, other, rank_correlation (Spearman's; NaN where a way says the same of all) and overlap, the share of
    the k largest that both name.

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
    if k < 1:
        raise ConfigError(f"k is {k}; it must be at least 1")
    sizes = values.abs()
    ranks = sizes.rank()
    count = max(1, min(k, len(values)))
    rows = []
    for one, other in combinations(sizes.columns, 2):
        common = set(sizes[one].nlargest(count).index) & set(sizes[other].nlargest(count).index)
        rows.append((one, other, ranks[one].corr(ranks[other]), len(common) / count))
    return pd.DataFrame(rows, columns=["one", "other", "rank_correlation", "overlap"])


def edge_agreement(
    estimator: Estimator,
    x: Any,
    *,
    edges: int = 50,
    k: int = 5,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare weight, gradient times weight and the effect of leaving out, on the edges with the largest weights.

    Parameters
    ----------
    estimator : a fitted one, with attention
    x : one input
    edges : how many to leave out, one at a time
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
    named = [name for name in EDGE if name in left_out]
    products = edge_sums(table, ["attribution"])[[*named, "attribution"]]
    found = left_out.merge(products, on=named).rename(
        columns={"effect": "left_out", "attribution": "gradient_times_weight"}
    )
    found = found[[*named, "source_token", "target_token", "weight", "left_out", "gradient_times_weight"]]
    return found, agreement(found[["weight", "gradient_times_weight", "left_out"]], k)


def token_agreement(
    estimator: Estimator,
    x: Any,
    *,
    k: int = 5,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare what weights, rollout, flow, gradient times weight and integrated gradients attribute to tokens.

    Parameters
    ----------
    estimator, x, k, label, word, target : as for :func:`edge_agreement`

    Returns
    -------
    The tokens with one column for each way, and their :func:`agreement`; of a translator those of the source.
    ``weight`` is all the attention that a token gets, ``gradient_times_weight`` the sum over its edges to others and
    itself. Flow is left out for a text that is too long for it, and flow and rollout where the heads of the last layer
    look from word to word.

    Raises
    ------
    ConfigError
        as :func:`gradient_times_weight` and :func:`integrated_gradients`
    """
    attention = look_at_writing(estimator, x, target) if writes(estimator) else look_at(estimator, x)
    table = gradient_times_weight(estimator, x, label=label, word=word, target=target)
    if "source_part" not in table:
        table = table.assign(source_part="text")
    nodes = node_table(attention, np.zeros(sum(map(len, attention.tokens.values())))).drop(columns="attribution")
    paths = has_paths(attention)
    found = nodes.assign(rollout=attention_rollout(attention).attribution) if paths else nodes
    if paths and sum(matrix.nnz for matrix in layer_matrices(attention, 0.5)) <= MOST_EDGES:
        found["flow"] = attention_flow(attention).attribution
    for name, column in (("weight", "weight"), ("gradient_times_weight", "attribution")):
        sums = by_source(table, column).droplevel("source_token").rename_axis(["part", "position"]).rename(name)
        found = found.merge(sums.reset_index(), on=["part", "position"], how="left")
    gradients = integrated_gradients(estimator, x, label=label, word=word, target=target)
    gradients = gradients.rename(columns={"attribution": "integrated_gradients"}).drop(columns="token")
    found = found.merge(gradients, on=["part", "position"]).fillna(0.0)
    return found, agreement(found.drop(columns=["part", "position", "token"]), k)
