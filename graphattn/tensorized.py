"""The operator of MTSA: attention with a weight for each edge, head and feature, at the cost of one for each head."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor

from graphattn.backends.cpu.tensorized.blocks import attend_in_blocks
from graphattn.backends.cpu.tensorized.edges import (
    attach_mean_weights,
    attend_by_edges,
    attend_by_features,
    mean_weights,
    weights_by_feature,
)
from graphattn.backends.cpu.tensorized.plan import Plan, plan_of
from graphattn.backends.cpu.tensorized.scores import SCALE_FUNCTIONS
from graphattn.backends.registry import load_backend
from graphattn.edges import Edges, GraphBatch
from graphattn.exceptions import BackendError, ConfigError, GraphError
from graphattn.gradients import forbid_double_backward
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph

TENSORIZED_BACKENDS = ("blocks", "fused", "edges")
"""Ways to compute :func:`tensorized_attend`; ``auto`` chooses among them."""


@overload
def tensorized_attend(
    graph: DGLGraph | GraphBatch | Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    etype: str | CanonicalRelation | None = ...,
    scale: float | None = ...,
    scale_function: str = ...,
    bound: float = ...,
    bias: Tensor | None = ...,
    backend: str = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...


@overload
def tensorized_attend(
    graph: DGLGraph | GraphBatch | Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    etype: str | CanonicalRelation | None = ...,
    scale: float | None = ...,
    scale_function: str = ...,
    bound: float = ...,
    bias: Tensor | None = ...,
    backend: str = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def tensorized_attend(
    graph: DGLGraph | GraphBatch | Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    etype: str | CanonicalRelation | None = None,
    scale: float | None = None,
    scale_function: str = "identity",
    bound: float = 5.0,
    bias: Tensor | None = None,
    backend: str = "auto",
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Attend along the edges of one relation with a softmax for each feature (MTSA, Eq. 10-12, on any graph).

    .. math:: out_{il} = \sum_{j \to i} softmax_j(R_{ij} + S_{jl}) \, v_{jl}, \quad
              R_{ij} = \sigma_t(scale \cdot q_i^T k_j) + b_{ij}

    It is computed as two sums over edges of products of :math:`e^{R_{ij}}` and :math:`e^{S_{jl}}` (Algorithm 1), after
    subtracting the largest R of each destination and the largest S of each sentence and feature. Rows that underflow,
    because the largest source scores are outside their neighbourhood, are recomputed edge by edge.

    Parameters
    ----------
    graph : a DGL graph or a :class:`~graphattn.builders.batch.TextBatch`, or :class:`~graphattn.edges.Edges`
    query : (N_dst, H, D), one row for each destination node
    key : (N_src, H, D), one row for each source node
    value : (N_src, H, F)
    source_scores : (N_src, H, F), the scores S of source2token attention, already scaled (sigma_s)
    etype : the relation, by name or as a canonical triple; optional when the graph has only one
    scale : factor on the dot products, 1/sqrt(D) when None
    scale_function : sigma_t: ``"identity"``, ``"sigmoid"``, ``"log-sigmoid"`` or ``"tanh"``, c tanh(x / c)
    bound : c of ``"tanh"``
    bias : (E, H), added to R, in edge-id order; -inf masks an edge
    backend : ``"blocks"``, matrix products over whole sentences, for relations with contiguous keys; ``"fused"``,
        compiled loops over edges on a CPU; ``"edges"``, any device; ``"auto"`` takes the first of these that fits.
        A backend of :func:`~graphattn.register_backend` computes each feature as a head of its own
    return_weights : also return the weights of the edges, averaged over the features

    Returns
    -------
    (N_dst, H, F); zeros for a node without visible incoming edges. float16 and bfloat16 are computed in float32. With
    ``return_weights`` also the weights (E, H) in edge-id order, which sum to one over each node's incoming edges. No
    gradient flows from them to the inputs, but when autograd records, ``torch.autograd.grad(y, weights)`` is the change
    of ``y`` when all of an edge's weights grow in proportion.

    Raises
    ------
    GraphError
        when the relation is missing, or a tensor's shape, type or device does not fit it
    ConfigError
        when the scale function does not exist or its bound is not positive
    BackendError
        when the backend is unknown or cannot compute this
    DoubleBackwardError
        when a gradient is differentiated again

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), num_sources=2)  # 0->0, 0->1, 1->1
    >>> q = k = torch.zeros(2, 1, 4)
    >>> v = torch.tensor([[[1.0, 1.0]], [[3.0, 3.0]]])
    >>> tensorized_attend(edges, q, k, v, torch.tensor([[[0.0, 9.0]], [[0.0, 0.0]]]))[1]
    tensor([[2.0000, 1.0002]])
    """
    edges = graph if isinstance(graph, Edges) else Edges.of(graph, etype).to(query.device)
    edges.check(query, key, value, bias)
    if source_scores.shape != value.shape or (source_scores.dtype, source_scores.device) != (value.dtype, value.device):
        raise GraphError(
            f"source_scores are {tuple(source_scores.shape)}, {source_scores.dtype} on {source_scores.device}; "
            f"expected them as value is: {tuple(value.shape)}, {value.dtype} on {value.device}"
        )
    if scale_function not in SCALE_FUNCTIONS:
        raise ConfigError(f"scale_function is {scale_function!r}; choose one of: {', '.join(SCALE_FUNCTIONS)}")
    if not bound > 0:
        raise ConfigError(f"bound is {bound}; it must be positive")
    out, weights = attend_tensorized(
        edges,
        query,
        key,
        value,
        source_scores,
        scale=1.0 / math.sqrt(query.shape[-1]) if scale is None else scale,
        scale_function=scale_function,
        bound=bound,
        bias=bias,
        backend=backend,
        return_weights=return_weights,
    )
    return out if weights is None else (out, weights)


def attend_tensorized(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    scale: float,
    scale_function: str,
    bound: float,
    bias: Tensor | None = None,
    backend: str = "auto",
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """:func:`tensorized_attend` without validation, for layers; the weights are None unless requested."""
    slots = None if bias is None else edges.by_slot(bias)
    inputs = [forbid_double_backward(tensor) for tensor in (query, key, value, source_scores)]
    wide = [tensor.float() if tensor.element_size() < 4 else tensor for tensor in inputs]
    if slots is not None:
        slots = forbid_double_backward(slots)
        slots = slots.float() if slots.element_size() < 4 else slots
    rule: dict[str, Any] = {"scale": scale, "function": scale_function, "bound": bound}
    with torch.autocast(query.device.type, enabled=False):  # sums of exponentials need the digits
        out, means = _attend(edges, wide, slots, rule, backend, return_weights)
        out = out.to(value.dtype)
        if means is None:
            return out, None
        weights = edges.by_id(means.to(value.dtype))
    if out.requires_grad:
        means = edges.by_slot(weights.requires_grad_())
        out = attach_mean_weights(out, means, edges, *wide, bias=slots, **rule)
    return out, weights


def tensorized_weights(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    scale: float,
    scale_function: str = "identity",
    bound: float = 5.0,
) -> Tensor:
    """The weights of :func:`tensorized_attend` for each feature, which it never materializes itself.

    Parameters
    ----------
    edges, query, key, value, source_scores, scale, scale_function, bound : as there

    Returns
    -------
    (E, H, F) in edge-id order, without gradients; they sum to one over each node's incoming edges.

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), num_sources=2)
    >>> q = k = torch.zeros(2, 1, 4)
    >>> tensorized_weights(edges, q, k, torch.ones(2, 1, 1), torch.zeros(2, 1, 1), scale=1.0).flatten()
    tensor([1.0000, 0.5000, 0.5000])
    """
    edges.check(query, key, value, None)
    rule: dict[str, Any] = {"scale": scale, "function": scale_function, "bound": bound}
    return edges.by_id(weights_by_feature(edges, query, key, value, source_scores, **rule))


def _attend(
    edges: Edges, inputs: list[Tensor], bias: Tensor | None, rule: dict[str, Any], backend: str, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """(N_dst, H, F) outputs and, when wanted, the (E, H) weights averaged over the features, in slot order."""
    if backend not in (*TENSORIZED_BACKENDS, "auto"):
        attend = load_backend(backend, TENSORIZED_BACKENDS)
        out = attend_by_features(attend, edges, *inputs, bias=bias, **rule)
        return out, mean_weights(edges, *inputs, bias=bias, **rule) if wanted else None
    plan = plan_of(edges) if backend in ("auto", "blocks") and bias is None else None
    if plan is not None:
        return _attend_in_blocks(plan, edges, inputs, rule, wanted)
    if backend == "blocks":
        raise BackendError("backend 'blocks' takes relations with contiguous keys, densely, and no bias; use 'auto'")
    on_cpu = inputs[0].device.type == "cpu"
    if backend == "fused" and not on_cpu:
        raise BackendError(f"backend 'fused' computes on a CPU, not on {inputs[0].device}; use 'auto'")
    if backend == "edges" or not on_cpu:
        out = attend_by_edges(edges, *inputs, bias=bias, **rule)
    else:
        from graphattn.backends.cpu.tensorized.fused import attend_fused  # Numba loads slowly

        out, rows = attend_fused(edges, *inputs, bias=bias, **rule)
        out = _with_exact_rows(out, rows, edges, inputs, bias, rule)
    return out, mean_weights(edges, *inputs, bias=bias, **rule) if wanted else None


def _attend_in_blocks(
    plan: Plan, edges: Edges, inputs: list[Tensor], rule: dict[str, Any], wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """As :func:`_attend`, by matrix products, which make the weights in the same pass on a CPU."""
    if not wanted or inputs[0].device.type != "cpu":
        out, rows = attend_in_blocks(plan, *inputs, **rule)
        out = _with_exact_rows(out, rows, edges, inputs, None, rule)
        return out, mean_weights(edges, *inputs, **rule) if wanted else None
    from graphattn.backends.cpu.tensorized.means import MeanWeights  # Numba loads slowly

    means = MeanWeights(edges, inputs[0].shape[1], inputs[0].dtype)
    out, rows = attend_in_blocks(plan, *inputs, **rule, means=means)
    weights = means.weights.t()
    for head, some, slots, own in _rows_again(rows, edges, inputs):
        weights[slots, head] = mean_weights(some, *own, **rule).squeeze(1)
    return _with_exact_rows(out, rows, edges, inputs, None, rule), weights


def _with_exact_rows(
    out: Tensor, rows: Tensor, edges: Edges, inputs: list[Tensor], bias: Tensor | None, rule: dict[str, Any]
) -> Tensor:
    """The outputs with some rows (N_dst, H) computed again, edge by edge."""
    for head, some, slots, own in _rows_again(rows, edges, inputs):
        own_bias = None if bias is None else bias[slots, head : head + 1]
        exact = attend_by_edges(some, *own, bias=own_bias, **rule)
        nodes = rows[:, head].nonzero().squeeze(1)
        out = out.index_put((nodes, torch.full_like(nodes, head)), exact.squeeze(1))
    return out


def _rows_again(
    rows: Tensor, edges: Edges, inputs: list[Tensor]
) -> Iterator[tuple[int, Edges, Tensor, tuple[Tensor, ...]]]:
    """For each head that has rows to compute again: the edges into them, their slots, and its own inputs."""
    if not bool(rows.any()):
        return
    query, *of_sources = inputs
    for head in rows.any(0).nonzero().squeeze(1).tolist():
        nodes = rows[:, head].nonzero().squeeze(1)
        some, slots = _edges_into(edges, nodes)
        yield head, some, slots, (query[nodes, head : head + 1], *(own[:, head : head + 1] for own in of_sources))


def _edges_into(edges: Edges, nodes: Tensor) -> tuple[Edges, Tensor]:
    """The edges into some nodes, and the slots they had."""
    begin, degrees = edges.indptr.long()[nodes], edges.indptr.long().diff()[nodes]
    indptr = torch.nn.functional.pad(degrees.cumsum(0), (1, 0))
    slots = torch.repeat_interleave(begin - indptr[:-1], degrees) + torch.arange(int(indptr[-1]), device=nodes.device)
    return Edges(indptr, edges.indices.long()[slots], edges.num_sources, checked=True), slots
