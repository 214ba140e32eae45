"""The operator of MTSA: a weight for each edge, head and feature, at the cost of one for each edge and head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor

from graphattn._attention import scale_queries
from graphattn._backends.cpu.tensorized.dense_blocks import attend_in_blocks
from graphattn._backends.cpu.tensorized.edges import (
    attach_mean_weights,
    attend_by_edges,
    attend_by_features,
    mean_weights,
)
from graphattn._backends.cpu.tensorized.plan import BlockPlan, block_plan_of
from graphattn._backends.cpu.tensorized.scores import SCALE_FUNCTIONS, ScoredRows, ScoreRule
from graphattn._backends.registry import choose_backend, load_backend
from graphattn._edges import Edges, Graph, edges_for_rows
from graphattn._flops import report_products
from graphattn._gradients import forbid_double_backward
from graphattn._precision import at_least_float32
from graphattn._schema import CanonicalRelation
from graphattn._transforms import opaque, operator
from graphattn._validation import require_choice, require_range
from graphattn.exceptions import BackendError, GraphError

TENSORIZED_BACKENDS = ("blocks", "fused", "edges", "triton")
"""Ways to compute :func:`tensorized_attend`; ``auto`` chooses among them."""


@overload
def tensorized_attend(
    graph: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    etype: str | CanonicalRelation | None = ...,
    scale: float | Tensor | None = ...,
    scale_function: str = ...,
    bound: float = ...,
    bias: Tensor | None = ...,
    backend: str = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...


@overload
def tensorized_attend(
    graph: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    etype: str | CanonicalRelation | None = ...,
    scale: float | Tensor | None = ...,
    scale_function: str = ...,
    bound: float = ...,
    bias: Tensor | None = ...,
    backend: str = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@opaque
def tensorized_attend(
    graph: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    etype: str | CanonicalRelation | None = None,
    scale: float | Tensor | None = None,
    scale_function: str = "identity",
    bound: float = 5.0,
    bias: Tensor | None = None,
    backend: str = "auto",
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Attend along the edges of one relation with a softmax for each feature (MTSA, Eq. 10-12, on any graph).

    .. math:: out_{il} = \sum_{j \to i} softmax_j(R_{ij} + S_{jl}) \, v_{jl}, \quad
              R_{ij} = \sigma_t(scale \cdot q_i^T k_j) + b_{ij}

    Algorithm 1 computes two sums over edges of products of :math:`e^{R_{ij}}` and :math:`e^{S_{jl}}`, after subtracting
    the largest R of each destination and the largest S of each sentence and feature. Rows that underflow because the
    largest source scores are outside their neighbourhood are recomputed edge by edge.

    Parameters
    ----------
    graph : :class:`~graphattn._edges.Edges`, or any graph that :meth:`Edges.of <graphattn._edges.Edges.of>` takes: of
        DGL or PyTorch Geometric, a sparse matrix (N_dst, N_src), an ``edge_index`` (sources, destinations), ...
    query : (N_dst, H, D), one row for each destination node
    key : (N_src, H, D), one row for each source node
    value : (N_src, H, F)
    source_scores : (N_src, H, F), the scores S of source2token attention, already scaled (sigma_s)
    etype : the relation, by name or as a canonical triple; optional when the graph has only one
    scale : factor on the dot products, 1/sqrt(D) when None; a tensor of one number can be learned
    scale_function : sigma_t: ``"identity"``, ``"sigmoid"``, ``"log-sigmoid"`` or ``"tanh"``, c tanh(x / c)
    bound : c of ``"tanh"``
    bias : (E, H), added to R, in edge-id order; -inf masks an edge
    backend : ``"blocks"``, matrix products over whole sentences, for relations with contiguous keys; ``"fused"``,
        compiled loops over edges on a CPU; ``"edges"``, any device; ``"triton"``, kernels for a GPU; ``"auto"``, the
        fastest of these that fits. A backend from :func:`~graphattn.register_backend` computes each feature as a head
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
    edges = edges_for_rows(graph, etype, query, key)
    edges.check(query, key, value, bias)
    if source_scores.shape != value.shape or (source_scores.dtype, source_scores.device) != (value.dtype, value.device):
        raise GraphError(
            f"source_scores are {tuple(source_scores.shape)}, {source_scores.dtype} on {source_scores.device}; "
            f"expected the same as value: {tuple(value.shape)}, {value.dtype} on {value.device}"
        )
    require_choice("scale_function", scale_function, SCALE_FUNCTIONS)
    require_range("bound", bound, above=0)
    query, scale = scale_queries(query, scale)
    out, weights = attend_tensorized(
        edges,
        ScoredRows(query, key, value, source_scores),
        ScoreRule(scale, scale_function, bound),
        bias=bias,
        backend=backend,
        return_weights=return_weights,
    )
    return out if weights is None else (out, weights)


@operator
def attend_tensorized(
    edges: Edges,
    rows: ScoredRows,
    rule: ScoreRule,
    *,
    bias: Tensor | None = None,
    backend: str = "auto",
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """:func:`tensorized_attend` without validation, for layers; the weights are None unless requested."""
    slots = None if bias is None else edges.by_slot(bias)
    precise = ScoredRows(*(at_least_float32(forbid_double_backward(tensor)) for tensor in rows))
    dtype = rows.value.dtype
    if slots is not None:
        slots = at_least_float32(forbid_double_backward(slots))
    with torch.autocast(rows.value.device.type, enabled=False):  # sums of exponentials need float32
        out, means = _attend(edges, precise, rule, slots, backend, return_weights)
        out = out.to(dtype)
        if means is None:
            return out, None
        weights = edges.by_id(means.to(dtype))
    if out.requires_grad:
        means = edges.by_slot(weights.requires_grad_())
        out = attach_mean_weights(out, means, edges, precise, rule, slots)
    return out, weights


def _attend(
    edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None, backend: str, return_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """(N_dst, H, F) outputs and, on request, the (E, H) weights averaged over the features, in slot order."""
    if backend == "triton" or (backend == "auto" and choose_backend(rows.query) == "triton"):
        load_backend("triton", rows.query)  # raises if the package is missing
        from graphattn._backends.gpu.tensorized import attend_by_sums, can_attend

        if can_attend(edges, rows):
            out, inexact = attend_by_sums(edges, rows, rule, bias)
            out = _recompute(out, inexact, edges, rows, rule, bias)
            report_products(out, edges.num_edges * out.shape[1], rows.query.shape[2] + 2 * out.shape[2])
            return out, mean_weights(edges, rows, rule, bias) if return_weights else None
        backend = "auto"
    if backend in ("auto", "blocks") and bias is None and (plan := block_plan_of(edges)) is not None:
        return _attend_in_blocks(plan, edges, rows, rule, return_weights)
    if backend == "blocks":
        raise BackendError(
            "backend 'blocks' takes relations with contiguous keys that are dense, and no bias; use 'auto'"
        )
    device = rows.value.device
    if backend == "fused" and device.type != "cpu":
        raise BackendError(f"backend 'fused' computes on a CPU, not on {device}; use 'auto'")
    if backend not in (*TENSORIZED_BACKENDS, "auto"):
        chosen = load_backend(backend, rows.query, TENSORIZED_BACKENDS)
        out = attend_by_features(chosen, edges, rows, rule, bias)
    elif backend == "edges" or device.type != "cpu":
        out = attend_by_edges(edges, rows, rule, bias)
    else:
        from graphattn._backends.cpu.tensorized.fused import attend_fused  # Numba loads slowly

        out, inexact = attend_fused(edges, rows, rule, bias)
        out = _recompute(out, inexact, edges, rows, rule, bias)
    # a score, and two sums for each feature
    report_products(out, edges.num_edges * out.shape[1], rows.query.shape[2] + 2 * out.shape[2])
    return out, mean_weights(edges, rows, rule, bias) if return_weights else None


def _attend_in_blocks(
    plan: BlockPlan, edges: Edges, rows: ScoredRows, rule: ScoreRule, return_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """:func:`_attend` by matrix products, which compute the weights in the same pass on a CPU."""
    if not return_weights or rows.value.device.type != "cpu":
        out, inexact = attend_in_blocks(plan, rows, rule)
        out = _recompute(out, inexact, edges, rows, rule, None)
        return out, mean_weights(edges, rows, rule) if return_weights else None
    from graphattn._backends.cpu.tensorized.means import MeanWeights  # Numba loads slowly

    means = MeanWeights(edges, rows.value.shape[1], rows.value.dtype)
    out, inexact = attend_in_blocks(plan, rows, rule, means)
    weights = means.weights.t()
    for subset in _select_destinations(inexact, edges, rows):
        weights[subset.slots, subset.head] = mean_weights(subset.edges, subset.rows, rule).squeeze(1)
    return _recompute(out, inexact, edges, rows, rule, None), weights


def _recompute(
    out: Tensor, inexact: Tensor, edges: Edges, rows: ScoredRows, rule: ScoreRule, bias: Tensor | None
) -> Tensor:
    """The outputs with those of some destinations and heads, a mask (N_dst, H), recomputed edge by edge."""
    for subset in _select_destinations(inexact, edges, rows):
        head = subset.head
        subset_bias = None if bias is None else bias[subset.slots, head : head + 1]
        exact = attend_by_edges(subset.edges, subset.rows, rule, subset_bias)
        out = out.index_put((subset.nodes, torch.full_like(subset.nodes, head)), exact.squeeze(1))
    return out


class _Subset(NamedTuple):
    """Some destinations of one head, the edges into them and the slots of these edges, and the head's rows."""

    head: int
    nodes: Tensor
    edges: Edges
    slots: Tensor
    rows: ScoredRows


def _select_destinations(mask: Tensor, edges: Edges, rows: ScoredRows) -> Iterator[_Subset]:
    """The selected destinations (N_dst, H) of each head that has any."""
    if not bool(mask.any()):
        return
    query, *by_source = rows
    for head in mask.any(0).nonzero().squeeze(1).tolist():
        nodes = mask[:, head].nonzero().squeeze(1)
        subset_edges, slots = _edges_into(edges, nodes)
        selected = (query[nodes, head : head + 1], *(tensor[:, head : head + 1] for tensor in by_source))
        yield _Subset(head, nodes, subset_edges, slots, ScoredRows(*selected))


def _edges_into(edges: Edges, nodes: Tensor) -> tuple[Edges, Tensor]:
    """The edges into some nodes, and their slots."""
    begin, degrees = edges.indptr.long()[nodes], edges.indptr.long().diff()[nodes]
    indptr = torch.nn.functional.pad(degrees.cumsum(0), (1, 0))
    slots = torch.repeat_interleave(begin - indptr[:-1], degrees) + torch.arange(int(indptr[-1]), device=nodes.device)
    return Edges(indptr, edges.indices.long()[slots], edges.num_sources, checked=True), slots
