"""Backend ``dgl``, the reference: DGL's u_dot_v, edge_softmax and u_mul_e_sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import functional as F

from graphattn._backends.call import AttentionCall, HeadGroup, join_groups
from graphattn._dgl_graphs import import_dgl
from graphattn._edges import Edges
from graphattn.exceptions import BackendError

if TYPE_CHECKING:
    from dgl import DGLGraph


def attend(call: AttentionCall) -> tuple[Tensor, list[Tensor]]:
    """Compute one group of heads after the other, with three operators of DGL over a block built from its edges."""
    return join_groups(call, (_attend_group(call, group) for group in call.groups))


def _attend_group(call: AttentionCall, group: HeadGroup) -> tuple[Tensor, Tensor]:
    edges, query, key, value, bias = group
    if query.device.type != "cpu":
        raise BackendError("backend 'dgl' runs on CPUs only: DGL's wheels have no CUDA. Use backend='torch'")
    dgl = import_dgl()
    dtype = query.dtype
    if query.element_size() < 4:  # DGL has no float16, and sums bfloat16 in bfloat16
        query, key, value = query.float(), key.float(), value.float()
    no_ids = edges.indptr.new_empty(0)
    graph = dgl.heterograph(
        {("source", "edge", "destination"): ("csc", (edges.indptr, edges.indices, no_ids))},
        num_nodes_dict={"source": edges.num_sources, "destination": edges.num_destinations},
    )
    scores = dgl.ops.u_dot_v(graph, key, query * call.scale).squeeze(-1)  # (E, H)
    weights = dgl.ops.edge_softmax(graph, scores) if bias is None else _softmax_with_mask(edges, graph, scores + bias)
    dropped = F.dropout(weights, call.dropout) if call.dropout else weights
    out = dgl.ops.u_mul_e_sum(graph, value.contiguous(), dropped.unsqueeze(-1))
    return out.to(dtype), weights.to(dtype)


def _softmax_with_mask(edges: Edges, graph: DGLGraph, scores: Tensor) -> Tensor:
    """Softmax of (E, H) scores; where all scores of a destination are -inf its weights are 0, not DGL's NaN."""
    dgl = import_dgl()
    maximum = dgl.ops.copy_e_max(graph, scores.detach())  # (N_dst, H)
    masked = (maximum == float("-inf"))[edges.destinations]
    weights: Tensor = dgl.ops.edge_softmax(graph, scores.masked_fill(masked, 0.0))
    return weights.masked_fill(masked, 0.0)
