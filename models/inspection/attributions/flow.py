"""Attention flow: the largest flow from each token through the layers, with weights as capacities."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
from networkx.algorithms.flow import shortest_augmenting_path

from graphattn.exceptions import ConfigError
from graphattn.models.inspection.attention import Attention
from graphattn.models.inspection.attributions.rollout import layer_matrices, node_table, top_row

MOST_EDGES = 20_000
"""Edges of all layers up to which flows are computed: one maximum flow for each node."""


def attention_flow(attention: Attention, *, target: int | None = None, residual: float = 0.5) -> pd.DataFrame:
    """How much could flow from each node to the last layer, if weights were pipes (Abnar & Zuidema 2020, section 3).

    Parameters
    ----------
    attention, target, residual : as for :func:`attention_rollout`; a flow to all tokens may bring each of n tokens 1/n

    Returns
    -------
    Columns part, position, token and attribution, each between 0 and 1.

    Raises
    ------
    ConfigError
        as :func:`attention_rollout`, or when the layers have more than 20,000 edges together: each node takes a
        maximum flow of its own
    """
    matrices = layer_matrices(attention, residual)
    count = sum(matrix.nnz for matrix in matrices)
    if count > MOST_EDGES:
        raise ConfigError(
            f"flows through {count:,} edges take too long; they are for up to {MOST_EDGES:,}, a short text. "
            "Use attention_rollout"
        )
    row = top_row(attention, target)
    pipes = nx.DiGraph()
    for layer, matrix in enumerate(matrices):
        entries = matrix.tocoo()
        for goal, source, weight in zip(*entries.coords, entries.data, strict=True):
            pipes.add_edge((layer, int(source)), (layer + 1, int(goal)), capacity=float(weight))
    top = len(matrices)
    pipes.add_edges_from(((top, int(node)), "end", {"capacity": row[node]}) for node in row.nonzero()[0])
    flows = [_flow(pipes, (0, node)) for node in range(len(row))]
    return node_table(attention, np.array(flows))


def _flow(pipes: nx.DiGraph, source: tuple[int, int]) -> float:
    if source not in pipes:
        return 0.0
    return float(nx.maximum_flow_value(pipes, source, "end", flow_func=shortest_augmenting_path))
