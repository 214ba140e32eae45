"""Backend ``dgl``, the reference: DGL's own u_dot_v, edge_softmax and u_mul_e_sum."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn.dgl_import import dgl
from graphattn.edges import Edges
from graphattn.exceptions import BackendError


def attend(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    bias: Tensor | None,
    dropout: float,
    return_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """Attention by three DGL operators over a block built from the edges."""
    if query.device.type != "cpu":
        raise BackendError("backend 'dgl' runs on CPUs only: DGL 1.1.3 has no CUDA wheel. Use backend='torch'")
    if edges.num_edges == 0:
        nothing = torch.zeros(edges.num_destinations, *value.shape[1:], dtype=value.dtype)
        # keeps the inputs in the autograd graph, with zero gradients
        out = nothing + 0 * (query.sum() + key.sum() + value.sum())
        return out, value.new_zeros(0, query.shape[1]) if return_weights else None
    no_ids = edges.indptr.new_empty(0)
    graph = dgl.heterograph(
        {("source", "edge", "destination"): ("csc", (edges.indptr, edges.indices, no_ids))},
        num_nodes_dict={"source": edges.num_sources, "destination": edges.num_destinations},
    )
    scores = dgl.ops.u_dot_v(graph, key, query * scale).squeeze(-1)  # (E, H)
    if bias is not None:
        scores = scores + bias
    weights = dgl.ops.edge_softmax(graph, scores)  # (E, H)
    dropped = F.dropout(weights, dropout) if dropout else weights
    out = dgl.ops.u_mul_e_sum(graph, value.contiguous(), dropped.unsqueeze(-1))
    return out, weights if return_weights else None
