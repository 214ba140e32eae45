"""Weighted sums along edges with constant coefficients, for graph convolution and pooling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._edges import Edges
from graphattn._gradients import Function, apply
from graphattn._precision import at_least_float32
from graphattn._transforms import opaque, operator
from graphattn.exceptions import GraphError


@opaque
def aggregate(edges: Edges, values: Tensor, coefficients: Tensor | None = None) -> Tensor:
    r"""Sum the values of each destination's sources.

    .. math:: out_i = \sum_{j \to i} c_{ij} x_j

    Neither pass materializes a tensor of edges times features.

    ``values`` (N_src, D) and ``coefficients`` (E,), constants in CSC order or None for ones, give (N_dst, D), with
    zeros for a node without incoming edges. float16 and bfloat16 are summed and returned in float32.

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 2, 2]), torch.tensor([0, 1]), 2)  # 0->0, 1->0
    >>> aggregate(edges, torch.tensor([[1.0], [3.0]])).flatten()
    tensor([4., 0.])
    """
    if values.dim() != 2 or values.shape[0] != edges.num_sources:
        raise GraphError(f"values have shape {tuple(values.shape)}; expected ({edges.num_sources}, features)")
    precise = at_least_float32(values)
    return _aggregate(precise, edges, None if coefficients is None else coefficients.to(precise.dtype))


@operator
def _aggregate(values: Tensor, edges: Edges, coefficients: Tensor | None) -> Tensor:
    return apply(_Aggregate, values, edges, coefficients)


def mean_coefficients(edges: Edges) -> Tensor:
    r"""(E,) :math:`1 / |N(i)|` in CSC order, float64, with which :func:`aggregate` computes means; cached."""
    return edges.compute_once("mean", lambda edges: 1 / _degrees(edges)[edges.destinations])


def symmetric_coefficients(edges: Edges) -> Tensor:
    r"""(E,) entries of :math:`D^{-1/2} A D^{-1/2}` in CSC order, float64 (Kipf and Welling 2017, Eq. 2); cached.

    The edges must be symmetric.
    """

    def compute(edges: Edges) -> Tensor:
        roots = _degrees(edges).rsqrt()
        return roots[edges.destinations] * roots[edges.sources]

    return edges.compute_once("symmetric", compute)


def _degrees(edges: Edges) -> Tensor:
    """(N_dst,) float64."""
    return torch.diff(edges.indptr).double()


def _sum_sources(edges: Edges, values: Tensor, coefficients: Tensor | None) -> Tensor:
    if not edges.num_edges:
        return values.new_zeros(edges.num_destinations, values.shape[1])
    return F.embedding_bag(
        edges.indices, values, edges.indptr, mode="sum", per_sample_weights=coefficients, include_last_offset=True
    )


class _Aggregate(Function):
    """The gradient of a sum along edges is a sum along the reversed edges."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, edges: Edges, coefficients: Tensor | None) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(coefficients)
        return _sum_sources(edges, values, coefficients)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (coefficients,) = ctx.saved_tensors
        reverse, slots = ctx.edges.reverse
        back = None if coefficients is None else coefficients[slots]
        return apply(_Aggregate, gradients[0].contiguous(), reverse, back), None, None
