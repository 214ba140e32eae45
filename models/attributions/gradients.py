"""Gradient times weight: what each edge's weight contributes to the log-odds of a class, to first order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from graphattn.models.attributions.explained import explained
from graphattn.models.inspection.capture import Pass, in_evaluation, run_once
from graphattn.models.inspection.looking import attention_of, encoded

if TYPE_CHECKING:
    from graphattn.models.estimators import TextEstimator


def gradient_times_weight(
    estimator: TextEstimator, x: Any, *, label: Any = None, word: int | None = None
) -> pd.DataFrame:
    r"""Multiply the weight of each edge with the gradient of the log-odds with respect to it.

    .. math:: a_{ij} \cdot \frac{\partial}{\partial a_{ij}} \log \frac{p}{1 - p}

    The gradient is exact: all other weights are held, while what follows in higher layers may change. Positive
    products speak for the class. Where weights differ by feature (MTSA) those of an edge grow together in proportion.

    Parameters
    ----------
    estimator : a fitted one, with attention
    x : one input
    label : the class; the likeliest when None, for a tagger that of each word
    word : of a tagger, the word to explain; all words together when None

    Returns
    -------
    The rows of ``estimator.attention(x).table()`` with two more columns, gradient and attribution, their product with
    the weight.

    Raises
    ------
    ConfigError
        when the encoder has no attention weights, or there is no such class or word
    """
    corpus, sentences = encoded(estimator, x)
    batch = corpus[[0]]
    with torch.inference_mode(False), torch.enable_grad(), in_evaluation(estimator.model_):
        found = run_once(estimator.model_, batch)
        attention = attention_of(estimator, found, batch, sentences)
        chosen = explained(estimator, found.scores.detach(), label, word)
        weights = [own for layer in found.layers for own in layer.values()]
        log_odds = chosen.log_odds(found.scores.unsqueeze(0)).sum()
        gradients = iter(torch.autograd.grad(log_odds, weights, allow_unused=True, materialize_grads=True))
    layers = [{relation: next(gradients) for relation in layer} for layer in found.layers]
    slopes = attention_of(estimator, Pass(found.scores, layers, []), batch, sentences)
    table = attention.table()
    table["gradient"] = slopes.weights()
    table["attribution"] = table.weight * table.gradient
    return table


def by_token(table: pd.DataFrame, column: str = "attribution") -> pd.Series:
    """Sums of sizes over all edges between a node and others, in all layers and heads, whichever way they lead.

    What a word weighs shows at both ends: others look at it, and it looks at what turns it around.

    Parameters
    ----------
    table : one row for each edge of one text
    column : what to add up

    Returns
    -------
    Indexed by position.

    Examples
    --------
    >>> table = pd.DataFrame({"source": [1, 1, 2], "target": [0, 1, 1], "attribution": [2.0, 9.0, -1.0]})
    >>> by_token(table).to_dict()
    {0: 2.0, 1: 3.0, 2: 1.0}
    """
    others = table[table.source != table.target]
    sizes = others[column].abs()
    return sizes.groupby(others.source).sum().add(sizes.groupby(others.target).sum(), fill_value=0.0)


def by_source(table: pd.DataFrame, column: str = "attribution") -> pd.Series:
    """Sums over all edges from a node, in all layers and heads: what is attributed to it.

    Parameters
    ----------
    table : one row for each edge
    column : what to add up

    Returns
    -------
    Indexed by source (and source_part, where there are several) and source_token.
    """
    keys = [name for name in ("source_part", "source", "source_token") if name in table]
    return (
        table.groupby(keys, sort=False)[column]
        .sum()
        .sort_index(level=[name for name in keys if name != "source_token"])
    )
