"""Gradient times weight: the first-order contribution of each edge's weight."""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch

from graphattn.models._estimators.inspectable import Inspectable, encode_input
from graphattn.models._text_model import in_evaluation, set_gradients
from graphattn.models.inspection._attention import attention_of


def gradient_times_weight(
    estimator: Inspectable,
    x: Any,
    *,
    label: Any = None,
    word: int | None = None,
    target: str | None = None,
) -> pd.DataFrame:
    r"""Multiply the weight of each edge by the gradient of the log-odds with respect to it.

    .. math:: a_{ij} \cdot \frac{\partial}{\partial a_{ij}} \log \frac{p}{1 - p}

    The gradient is exact: other weights of the same and lower layers are constant, those of higher layers may change.
    Positive products support the class. Weights by feature (MTSA) of an edge grow in proportion. Products do not add up
    to the log-odds, to which the linear branch contributes without edges; see :func:`integrated_gradients`.

    For a translator, the log-probability of a text is explained with teacher forcing. Its edges are the encoder's and,
    with the relation ``cross``, the decoder's to the source.

    Parameters
    ----------
    estimator : a fitted estimator with attention
    x : one input
    label : a class; the predicted one when None, for a tagger each word's
    word : a word of a tagger's input or a translator's output; all words when None
    target : the output text of a translator; its own output when None

    Returns
    -------
    The rows of ``estimator.attention(x).table()`` with two more columns: gradient, and attribution, its product with
    the weight.

    Raises
    ------
    ConfigError
        when the encoder has no attention weights, there is no such class or word, or the option does not apply to the
        task
    DataError
        when a translator's source has no words
    """
    inputs, explainer = encode_input(estimator, x, target=target), estimator.explainer_
    model = estimator.model_
    of_frozen_layers = set_gradients(model.parameters(), enabled=True)
    with torch.inference_mode(False), torch.enable_grad(), in_evaluation(model), of_frozen_layers:
        capture = explainer.capture(inputs.first_batch)
        attention = attention_of(estimator, inputs, capture)
        explained = explainer.choose_target(inputs, capture.scores.detach(), label=label, word=word)
        value = explained.value(capture.scores.unsqueeze(0)).sum()
        gradients = torch.autograd.grad(value, capture.weights, allow_unused=True, materialize_grads=True)
    table = attention.table()
    table["gradient"] = attention_of(estimator, inputs, capture.with_weights(gradients)).weights()
    table["attribution"] = table.weight * table.gradient
    return table


def by_token(table: pd.DataFrame, column: str = "attribution") -> pd.Series:
    """Sum absolute values over all edges between a node and others, incoming and outgoing, over layers and heads.

    A word matters as a source (others attend to it) and as a target (it attends to words that modify it).

    Parameters
    ----------
    table : one row per edge of one text
    column : the values

    Returns
    -------
    A series indexed by position.

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
    """Sum values over all edges from a node, over layers and heads.

    Parameters
    ----------
    table : one row per edge
    column : the values

    Returns
    -------
    A series indexed by source (with several parts also source_part) and source_token.
    """
    keys = [name for name in ("source_part", "source", "source_token") if name in table]
    return (
        table.groupby(keys, sort=False)[column]
        .sum()
        .sort_index(level=[name for name in keys if name != "source_token"])
    )
