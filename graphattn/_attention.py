"""The operator: attention over the incoming edges of each node, per relation and head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._backends.call import AttentionCall, Backend, Rows, make_spans
from graphattn._backends.registry import load_backend
from graphattn._backends.torch import sum_by_weights
from graphattn._distances import DistanceBias
from graphattn._edges import Edges, Graph, edges_for_rows
from graphattn._flops import is_counting, report_products
from graphattn._gradients import forbid_double_backward
from graphattn._schema import CanonicalRelation
from graphattn._transforms import opaque, operator
from graphattn._validation import require_range
from graphattn.exceptions import GraphError


@overload
def attend(
    graph: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    etype: str | CanonicalRelation | None = ...,
    scale: float | Tensor | None = ...,
    bias: Tensor | None = ...,
    dropout: float = ...,
    backend: str = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...


@overload
def attend(
    graph: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    etype: str | CanonicalRelation | None = ...,
    scale: float | Tensor | None = ...,
    bias: Tensor | None = ...,
    dropout: float = ...,
    backend: str = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


@opaque
def attend(
    graph: Graph,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    etype: str | CanonicalRelation | None = None,
    scale: float | Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""Attend along the edges of one relation (MS-Trans, Eq. 6, on any graph).

    .. math:: out_i = \sum_{j \to i} softmax_j(scale \cdot q_i^T k_j + b_{ij}) \, v_j

    Parameters
    ----------
    graph : :class:`~graphattn._edges.Edges`, or any graph that :meth:`Edges.of <graphattn._edges.Edges.of>` takes: of
        DGL or PyTorch Geometric, a sparse matrix (N_dst, N_src), an ``edge_index`` (sources, destinations), ...
    query : (N_dst, H, D), one row for each destination node
    key : (N_src, H, D), one row for each source node
    value : (N_src, H, D_v)
    etype : the relation, by name or as a canonical triple; optional when the graph has only one
    scale : factor on the dot products, 1/sqrt(D) when None; a tensor of one number can be learned
    bias : (E, H), added to the scores, in edge-id order; -inf masks an edge
    dropout : probability with which a weight is dropped; callers pass 0 outside training
    backend : ``"dgl"``, ``"fused"``, ``"torch"``, ``"triton"`` or ``"auto"``: ``fused`` on a CPU, but for float16,
        ``triton`` on a GPU, but for float64, else ``torch``
    return_weights : also return the softmax weights, before dropout. When autograd records, the result is a function of
        them: ``torch.autograd.grad(y, weights)`` is the contribution of each edge to ``y``

    Returns
    -------
    (N_dst, H, D_v); zeros for a node without visible incoming edges. It may share memory with ``value``, so do not
    change it in place. With ``return_weights`` also the weights (E, H) in edge-id order, which sum to one over each
    node's incoming edges.

    Raises
    ------
    GraphError
        when the relation is missing, or a tensor's shape, type or device does not fit it
    ConfigError
        when dropout is out of range
    BackendError
        when the backend is unknown or cannot run on the tensors' device or type
    DoubleBackwardError
        when a gradient is differentiated again

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), num_sources=2)  # 0->0, 0->1, 1->1
    >>> q = k = torch.zeros(2, 1, 4)
    >>> attend(edges, q, k, torch.tensor([[[1.0]], [[3.0]]])).flatten()
    tensor([1., 2.])
    """
    edges = edges_for_rows(graph, etype, query, key)
    edges.check(query, key, value, bias)
    require_range("dropout", dropout, min=0, below=1)
    out, weights = attend_layer(
        [edges],
        [query.shape[1]],
        (query, key, value),
        scale=scale,
        biases=None if bias is None else [bias],
        dropout=dropout,
        backend=backend,
        return_weights=return_weights,
    )
    return out if weights is None else (out, weights[0])


@overload
def attend_heads(
    edges: Sequence[Edges],
    heads: Sequence[int],
    projected: Tensor,
    *,
    scale: float | Tensor | None = ...,
    dropout: float = ...,
    backend: str = ...,
    return_weights: Literal[False] = ...,
) -> Tensor: ...


@overload
def attend_heads(
    edges: Sequence[Edges],
    heads: Sequence[int],
    projected: Tensor,
    *,
    scale: float | Tensor | None = ...,
    dropout: float = ...,
    backend: str = ...,
    return_weights: Literal[True],
) -> tuple[Tensor, list[Tensor]]: ...


def attend_heads(
    edges: Sequence[Edges],
    heads: Sequence[int],
    projected: Tensor,
    *,
    scale: float | Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, list[Tensor]]:
    """Attend with all heads of a layer, each along its relation, in one call (MS-Trans, Eq. 9 before W_O).

    It equals :func:`attend` for each relation and its heads, without the overhead of several calls and without copies
    of queries, keys and values.

    Parameters
    ----------
    edges : of each relation
    heads : number of heads of each relation
    projected : (N, 3, H, D) queries, keys and values of all heads in the order of the relations; or (N, P, D): queries,
        then keys, of the heads whose relation is not the identity, then values of all heads. The softmax over a single
        edge is one, so heads on an identity need no queries and keys
    scale, dropout, backend, return_weights : as in :func:`attend`

    Returns
    -------
    (N, H, D); with ``return_weights`` also the weights (E, heads) of each relation, in edge-id order

    Raises
    ------
    As :func:`attend`
    """
    is_triton = torch.compiler.is_compiling() and backend == "triton" and 0 <= dropout < 1
    if is_triton and not (return_weights or isinstance(scale, Tensor)) and _have_plans(edges):
        from graphattn._backends.gpu.backend import fits
        from graphattn._backends.gpu.compiled import attend_heads_compiled

        rows = _check_projected(edges, heads, projected)
        if fits(rows):
            scale = 1.0 / math.sqrt(rows.shape[2]) if scale is None else scale
            return attend_heads_compiled(edges, heads, rows, scale, dropout)
    rows = _check_projected(edges, heads, projected)
    require_range("dropout", dropout, min=0, below=1)
    out, weights = attend_layer(
        edges, heads, rows, scale=scale, dropout=dropout, backend=backend, return_weights=return_weights
    )
    return out if weights is None else (out, weights)


def _have_plans(edges: Sequence[Edges]) -> bool:
    """Whether all edges were planned for backend ``triton``, as most are when they are copied to a GPU."""
    return all(relation.plans.get("triton") is not None for relation in edges)


@operator
def attend_layer(
    edges: Sequence[Edges],
    heads: Sequence[int],
    rows: Rows,
    *,
    scale: float | Tensor | None = None,
    biases: Sequence[Tensor | DistanceBias | None] | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> tuple[Tensor, list[Tensor] | None]:
    """:func:`attend` and :func:`attend_heads` without validation, for layers; the weights are None unless requested.

    Biases and weights are (E, heads) of each relation, in edge-id order; biases may also depend on distances.
    """
    if isinstance(scale, Tensor):
        rows, scale = _scale_rows(heads, rows, scale)
    if isinstance(rows, Tensor):
        rows = forbid_double_backward(rows)
    else:
        query, key, value = map(forbid_double_backward, rows)
        rows = query, key, value
    tensors = (rows,) if isinstance(rows, Tensor) else rows
    scale = 1.0 / math.sqrt(tensors[0].shape[-1]) if scale is None else scale
    slots = [_prepare_bias(relation, bias) for relation, bias in zip(edges, biases or [None] * len(edges), strict=True)]
    call = AttentionCall(rows, make_spans(edges, heads, rows, slots), scale, dropout, return_weights)
    chosen = load_backend(backend, tensors[0])
    weights: list[Tensor] | None
    if return_weights and _is_recorded(*tensors, *_tensors_of(slots)):
        out, weights = _attend_by_weights(chosen, call)
    else:
        out, by_slot = chosen(call)
        weights = None
        if return_weights:
            weights = [relation.by_id(each) for relation, each in zip(edges, by_slot, strict=True)]
    if is_counting():
        pairs = sum(span.edges.num_edges * span.num_heads for span in call.spans if not span.copies)
        report_products(out, pairs, tensors[0].shape[2] + tensors[-1].shape[2])
    return out, weights


def _prepare_bias(edges: Edges, bias: Tensor | DistanceBias | None) -> Tensor | DistanceBias | None:
    """The bias in CSC order, whose gradients are not differentiated again."""
    if isinstance(bias, DistanceBias):
        return bias.map(forbid_double_backward)
    return None if bias is None else edges.by_slot(forbid_double_backward(bias))


def _tensors_of(biases: Sequence[Tensor | DistanceBias | None]) -> list[Tensor]:
    """The tensors of biases that may need gradients."""
    by_relation = (bias.tables if isinstance(bias, DistanceBias) else [bias] for bias in biases)
    return [tensor for tensors in by_relation for tensor in tensors if tensor is not None]


def _attend_by_weights(backend: Backend, call: AttentionCall) -> tuple[Tensor, list[Tensor]]:
    """Compute the weights of each relation, then the result from them, so that gradients pass through the weights."""
    results, weights = [], []
    for span, (edges, query, key, value, _) in zip(call.spans, call.relations, strict=True):
        rows = query, key, value.new_zeros(*value.shape[:2], 1)
        spans = make_spans([edges], [value.shape[1]], rows, [span.bias])
        _, (slots,) = backend(AttentionCall(rows, spans, call.scale, return_weights=True))
        by_id = edges.by_id(slots)
        if not by_id.requires_grad:  # only the values are trained
            by_id.requires_grad_()
        weights.append(by_id)
        results.append(sum_by_weights(edges, edges.by_slot(F.dropout(by_id, call.dropout)), value))
    return torch.cat(results, dim=1) if len(results) > 1 else results[0], weights


def _scale_rows(heads: Sequence[int], rows: Rows, scale: Tensor) -> tuple[Rows, float]:
    """:func:`scale_queries` for rows of a layer."""
    if not isinstance(rows, Tensor):
        query, factor = scale_queries(rows[0], scale)
        return (query, *rows[1:]), factor
    scored = (rows.shape[1] - sum(heads)) // 2
    queries, factor = scale_queries(rows[:, :scored], scale)
    return torch.cat([queries, rows[:, scored:]], dim=1), factor


def scale_queries(query: Tensor, scale: float | Tensor | None) -> tuple[Tensor, float]:
    """Queries, and the factor on their products with keys; a tensor is multiplied here, so that it gets a gradient."""
    if isinstance(scale, Tensor):
        if scale.numel() != 1:
            raise GraphError(f"scale has shape {tuple(scale.shape)}; give one number, and multiply queries by more")
        return query * scale.to(query.dtype).reshape(()), 1.0
    return query, 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale


def _is_recorded(*inputs: Tensor | None) -> bool:
    """Whether autograd records operations on the inputs."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs)


def _check_projected(edges: Sequence[Edges], heads: Sequence[int], projected: Tensor) -> Tensor:
    """``projected`` as (N, P, D)."""
    total = sum(heads)
    scored = sum(count for relation, count in zip(edges, heads, strict=False) if not relation.is_identity)
    shape = tuple(projected.shape)
    fits = shape[1:3] == (3, total) if len(shape) == 4 else len(shape) == 3 and shape[1] == 2 * scored + total
    if not fits or len(edges) != len(heads):
        raise GraphError(
            f"projected has shape {shape}; expected (N, 3, {total}, features), or (N, {2 * scored + total}, features) "
            f"without queries and keys of identities, for {len(edges)} relations with heads {tuple(heads)}"
        )
    rows = projected.flatten(1, 2) if len(shape) == 4 else projected
    for relation in edges:
        relation.check(rows, rows, rows, None)
    return rows
