"""Attention rollout and flow: how much of each input node reaches the last layer if layers only mix their inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pandas as pd
from networkx.algorithms.flow import shortest_augmenting_path

from graphattn._validation import require_range
from graphattn.exceptions import ConfigError
from graphattn.models._estimators.inspectable import Inspectable
from graphattn.models.inspection._attention import Attention, predict_attention
from graphattn.models.inspection._attention_map import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_TOLERANCE = 1e-2
"""By how much the weights into a node may exceed one, in half precision."""
MOST_EDGES = 20_000
"""Largest number of edges over all layers; each node takes one maximum-flow computation."""


def attention_rollout(
    attention: Attention | Inspectable, x: Any = None, *, target: int | None = None, residual: float = 0.5
) -> pd.DataFrame:
    r"""Multiply the layers' attention matrices (Abnar and Zuidema 2020, section 3).

    .. math:: \tilde A_L \cdots \tilde A_1, \quad \tilde A_l = r I + (1 - r) \frac{1}{H} \sum_h A_{lh}

    A node without edges in a head stays unchanged in that head.

    Parameters
    ----------
    attention : all weights of one prediction, or a fitted estimator
    x : the input, for an estimator
    target : position of the token of the last layer to explain, 0 for ``[CLS]``, for a translator in the output text;
        the mean over all tokens when None
    residual : share of a node that bypasses the heads

    Returns
    -------
    Columns part, position, token, word and attribution; attributions are at least 0 and sum to one.

    Raises
    ------
    ConfigError
        when there is no such token, ``residual`` is out of range, the last layer's heads are between words, or ``x`` is
        given next to weights
    """
    attention = _weights_of(attention, x)
    row = top_row(attention, target)
    for layer in reversed(layer_matrices(attention, residual)):
        row = row @ layer
    return node_table(attention, row)


def attention_flow(
    attention: Attention | Inspectable, x: Any = None, *, target: int | None = None, residual: float = 0.5
) -> pd.DataFrame:
    """Maximum flow from each node to the last layer (Abnar and Zuidema 2020, section 3).

    Parameters
    ----------
    attention, x, target, residual : as for :func:`attention_rollout`; without a target, each of n tokens can receive
        1/n

    Returns
    -------
    Columns part, position, token, word and attribution, each between 0 and 1.

    Raises
    ------
    ConfigError
        as :func:`attention_rollout`, or when the layers have more than 20,000 edges
    """
    attention = _weights_of(attention, x)
    matrices = layer_matrices(attention, residual)
    count = sum(matrix.nnz for matrix in matrices)
    if count > MOST_EDGES:
        raise ConfigError(
            f"flow through {count:,} edges takes too long; the limit is {MOST_EDGES:,}. Use attention_rollout"
        )
    row = top_row(attention, target)
    network = nx.DiGraph()
    for layer, matrix in enumerate(matrices):
        entries = matrix.tocoo()
        for target_node, source, weight in zip(*entries.coords, entries.data, strict=True):
            network.add_edge((layer, int(source)), (layer + 1, int(target_node)), capacity=float(weight))
    top = len(matrices)
    network.add_edges_from(((top, int(node)), "end", {"capacity": row[node]}) for node in row.nonzero()[0])
    flows = [_max_flow(network, (0, node)) for node in range(len(row))]
    return node_table(attention, np.array(flows))


def _weights_of(attention: Attention | Inspectable, x: Any) -> Attention:
    if not isinstance(attention, Attention):
        return predict_attention(attention, x)
    if x is not None:
        raise ConfigError("{x} is for an estimator; these weights are of their own text", options=("x",))
    return attention


def _max_flow(network: nx.DiGraph, source: tuple[int, int]) -> float:
    if source not in network:
        return 0.0
    return float(nx.maximum_flow_value(network, source, "end", flow_func=shortest_augmenting_path))


def has_paths(attention: Attention) -> bool:
    """Whether the last layer has heads whose targets are tokens."""
    return bool(_attending_texts(attention, max(each.layer for each in attention.maps)))


def _attending_texts(attention: Attention, layer: int) -> set[str]:
    """Texts whose tokens attend in a layer."""
    return {each.target_part for each in attention.maps if each.layer == layer} & set(attention.sentences)


def layer_matrices(attention: Attention, residual: float) -> list[csr_array]:
    """For each layer, the mean of its heads with the residual connection, (nodes, nodes); rows are targets."""
    from scipy.sparse import csr_array, diags_array

    require_range("residual", residual, min=0, below=1)
    matrices = []
    for layer in sorted({each.layer for each in attention.maps}):
        present = {head for each in attention.maps if each.layer == layer for head in each.heads}
        heads = 1 + max(present)
        missing = sorted({*range(heads)} - present)
        if missing:
            raise ConfigError(
                f"layer {layer} has no head {missing[0]}; give all weights of a prediction, not a selection"
            )
        mean = sum(_rows_of_one(attention, layer, head) for head in range(heads)) * ((1 - residual) / heads)
        matrices.append(csr_array(mean + diags_array(1 - mean.sum(axis=1))))
    return matrices


def _rows_of_one(attention: Attention, layer: int, head: int) -> csr_array:
    """The matrix of a head; a ConfigError for weights of a hand-made result that no softmax gives."""
    matrix = attention.matrix(layer, head)
    sums = matrix.sum(axis=1)
    wrong = np.flatnonzero((sums > 1 + _TOLERANCE) | (matrix.min(axis=1).toarray().ravel() < 0))
    if len(wrong):
        raise ConfigError(
            f"layer {layer}, head {head}, node {wrong[0]}: weights sum to {sums[wrong[0]]:.4g} or are negative; those "
            "into a node must sum to at most one"
        )
    return matrix


def top_row(attention: Attention, target: int | None) -> Floats:
    """(nodes,) share of each node of the last layer; zero for nodes that are not tokens."""
    last = max(each.layer for each in attention.only().maps)
    texts_attending = _attending_texts(attention, last)
    if not attention.sentences:
        raise ConfigError("these weights have no {sentences}, so that no part is a text", options=("sentences",))
    if not texts_attending:
        raise ConfigError(
            "the last layer's heads are between words, so no path leads from there to tokens; rollout and flow need "
            "token attention in the last layer"
        )
    lengths = [len(nodes) if part in texts_attending else 0 for part, nodes in attention.tokens.items()]
    longest = max(lengths)
    if target is not None and not 0 <= target < longest:
        raise ConfigError(f"{{target}} is {target}; tokens count from 0 to {longest - 1}", options=("target",))
    counts = [
        np.arange(len(nodes)) < length if target is None else np.arange(len(nodes)) == (target if length else -1)
        for nodes, length in zip(attention.tokens.values(), lengths, strict=True)
    ]
    row: Floats = np.concatenate(counts).astype(float)
    row /= row.sum()
    return row


def node_table(attention: Attention, values: Floats) -> pd.DataFrame:
    """One row per node with its attribution."""
    rows = [
        (part, position, *texts)
        for part, nodes in attention.tokens.items()
        for position, texts in enumerate(zip(nodes, attention.words[part], strict=True))
    ]
    return pd.DataFrame(rows, columns=["part", "position", "token", "word"]).assign(attribution=values)
