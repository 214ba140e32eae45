"""Weighted sums of values along edges, differentiable by each edge's weight.

Letters: E edges of a run, H heads, D features of a head.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphattn.backends.torch import iterate_runs
from graphattn.edges import Edges
from graphattn.gradients import raise_on_double_backward


def sum_by_weights(edges: Edges, weights: Tensor, value: Tensor) -> Tensor:
    """Sum the weighted values of each destination's sources.

    Parameters
    ----------
    edges : from sources to destinations
    weights : (E, H) in slot order
    value : (N_src, H, D)

    Returns
    -------
    (N_dst, H, D) of the type of ``value``

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), num_sources=2)  # 0->0, 0->1, 1->1
    >>> sum_by_weights(edges, torch.tensor([[1.0], [0.25], [0.75]]), torch.tensor([[[4.0]], [[8.0]]])).flatten()
    tensor([4., 7.])
    """
    return _SumByWeights.apply(weights, value, edges)


class _SumByWeights(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, edges: Edges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(weights, value)
        wide = torch.float32 if value.element_size() < 4 else value.dtype
        out = value.new_zeros(edges.num_destinations, *value.shape[1:], dtype=wide)
        for nodes, local, sources, slots in iterate_runs(edges, value.shape[1] * value.shape[2]):
            out[nodes].index_add_(0, local, weights[slots].unsqueeze(-1) * value[sources].to(wide))
        return out.to(value.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (upstream,) = gradients
        weights, value = ctx.saved_tensors
        with torch.no_grad():
            grad_weights, grad_value = torch.empty_like(weights), torch.zeros_like(value)
            for nodes, local, sources, slots in iterate_runs(ctx.edges, value.shape[1] * value.shape[2]):
                grad_out = upstream[nodes][local]  # (E, H, D)
                grad_weights[slots] = (grad_out * value[sources]).sum(-1)
                grad_value.index_add_(0, sources, weights[slots].unsqueeze(-1) * grad_out)
        return raise_on_double_backward(grad_weights, weights, value, upstream), grad_value, None
