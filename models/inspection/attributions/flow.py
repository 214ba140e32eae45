"""Attention flow: the maximum flow from each token through the layers, with weights as capacities."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
from networkx.algorithms.flow import shortest_augmenting_path

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attributions.rollout import layer_matrices, node_table, top_row

MOST_EDGES = 20_000
"""Largest number of edges over all layers; each node takes one maximum-flow computation."""


def attention_flow(attention: Attention, *, target: int | None = None, residual: float = 0.5) -> pd.DataFrame:
    """Maximum flow from each node to the last layer (Abnar and Zuidema 2020, section 3).

    Parameters
    ----------
    attention, target, residual : as for :func:`attention_rollout`; without a target, each of n tokens can receive 1/n

    Returns
    -------
    Columns part, position, token and attribution, each between 0 and 1.

    Raises
    ------
    ConfigError
        as :func:`attention_rollout`, or when the layers have more than 20,000 edges
    """
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


def _max_flow(network: nx.DiGraph, source: tuple[int, int]) -> float:
    if source not in network:
        return 0.0
    return float(nx.maximum_flow_value(network, source, "end", flow_func=shortest_augmenting_path))
