"""Attention rollout: how much of each node reaches those of the last layer, if layers did nothing but mix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attention import Attention

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def attention_rollout(attention: Attention, *, target: int | None = None, residual: float = 0.5) -> pd.DataFrame:
    r"""Multiply the layers' matrices (Abnar & Zuidema 2020, section 3).

    .. math:: \tilde A_L \cdots \tilde A_1, \quad \tilde A_l = r I + (1 - r) \frac{1}{H} \sum_h A_{lh}

    A head that gives a node no edge leaves it as it is.

    Parameters
    ----------
    attention : of one prediction, with all its weights
    target : position of the token of the last layer that is explained, 0 for ``[CLS]``; the mean over all tokens when
        None. Of a translator, tokens are those written
    residual : share of a node that passes by the heads

    Returns
    -------
    Columns part, position, token and attribution; attributions are at least 0 and sum to one.

    Raises
    ------
    ConfigError
        when there is no such token, the share is none, or the heads of the last layer look from word to word
    """
    row = top_row(attention, target)
    for layer in reversed(layer_matrices(attention, residual)):
        row = row @ layer
    return node_table(attention, row)


def has_paths(attention: Attention) -> bool:
    """Whether the last layer has heads that look from tokens, so that there are paths to follow."""
    return bool(_parts_of_tokens(attention, max(one.layer for one in attention.maps)))


def _parts_of_tokens(attention: Attention, layer: int) -> set[str]:
    """Names of the parts whose nodes are tokens and look at others in a layer."""
    return {one.target_part for one in attention.maps if one.layer == layer} & set(attention.sentences)


def layer_matrices(attention: Attention, residual: float) -> list[csr_array]:
    """For each layer the mean of its heads with the residual connection: (nodes, nodes), rows are targets."""
    from scipy.sparse import csr_array, diags_array

    if not 0 <= residual < 1:
        raise ConfigError(f"residual is {residual}; it must be at least 0 and below 1")
    matrices = []
    for layer in sorted({one.layer for one in attention.maps}):
        heads = max(one.heads.stop for one in attention.maps if one.layer == layer)
        mean = sum(attention.matrix(layer, head) for head in range(heads)) * ((1 - residual) / heads)
        matrices.append(csr_array(mean + diags_array(1 - mean.sum(axis=1))))
    return matrices


def top_row(attention: Attention, target: int | None) -> np.ndarray:
    """(nodes,) how much each node of the last layer counts; those that are no tokens do not."""
    last = max(one.layer for one in attention.maps)
    looking = _parts_of_tokens(attention, last)
    if not looking:
        raise ConfigError(
            "the heads of the last layer look from word to word, from which no path leads back to tokens; rollout and "
            "flow are for layers on tokens"
        )
    texts = [len(nodes) if part in looking else 0 for part, nodes in attention.tokens.items()]
    longest = max(texts)
    if target is not None and not 0 <= target < longest:
        raise ConfigError(f"there is no token {target}; tokens count from 0 to {longest - 1}")
    counts = [
        np.arange(len(nodes)) < length if target is None else np.arange(len(nodes)) == (target if length else -1)
        for nodes, length in zip(attention.tokens.values(), texts, strict=True)
    ]
    row = np.concatenate(counts).astype(float)
    return row / row.sum()


def node_table(attention: Attention, values: np.ndarray) -> pd.DataFrame:
    """One row for each node, with what is attributed to it."""
    rows = [(part, place, text) for part, nodes in attention.tokens.items() for place, text in enumerate(nodes)]
    return pd.DataFrame(rows, columns=["part", "position", "token"]).assign(attribution=values)
