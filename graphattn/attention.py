"""The operator: attention over the incoming edges of each node, per relation and head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn.backends.registry import choose_backend, load_backend
from graphattn.backends.torch import sum_by_weights
from graphattn.edges import Edges
from graphattn.exceptions import GraphError
from graphattn.flops import report_products
from graphattn.gradients import forbid_double_backward, with_zero_gradients
from graphattn.schema import CanonicalRelation
from graphattn.transforms import opaque, operator
from graphattn.validation import require_range

if TYPE_CHECKING:
    from graphattn.edges import Graph


@overload
def attend(
    graph: Graph | Edges,
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
    graph: Graph | Edges,
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
    graph: Graph | Edges,
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
    graph : a :class:`~graphattn.builders.batch.TextBatch`, a graph of DGL or PyTorch Geometric, or
        :class:`~graphattn.edges.Edges`
    query : (N_dst, H, D), one row for each destination node
    key : (N_src, H, D), one row for each source node
    value : (N_src, H, D_v)
    etype : the relation, by name or as a canonical triple; optional when the graph has only one
    scale : factor on the dot products, 1/sqrt(D) when None; a tensor of one number can be learned
    bias : (E, H), added to the scores, in edge-id order; -inf masks an edge
    dropout : probability with which a weight is dropped; callers pass 0 outside training
    backend : ``"dgl"``, ``"fused"``, ``"torch"`` or ``"auto"`` (:func:`graphattn.backends.registry.choose_backend`)
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
    edges = graph if isinstance(graph, Edges) else Edges.of(graph, etype).to(query.device)
    edges.check(query, key, value, bias)
    require_range("dropout", dropout, min=0, below=1)
    out, weights = attend_edges(
        edges,
        query,
        key,
        value,
        scale=scale,
        bias=bias,
        dropout=dropout,
        backend=backend,
        return_weights=return_weights,
    )
    return out if weights is None else (out, weights)


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


@opaque
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
    rows = _check_projected(edges, heads, projected)
    require_range("dropout", dropout, min=0, below=1)
    out, weights = attend_layer(
        edges, heads, rows, scale=scale, dropout=dropout, backend=backend, return_weights=return_weights
    )
    return out if weights is None else (out, weights)


@operator
def attend_edges(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float | Tensor | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """:func:`attend` without validation, for layers; the weights are None unless requested."""
    query, scale = scale_queries(query, scale)
    query, key, value = (forbid_double_backward(tensor) for tensor in (query, key, value))
    bias = None if bias is None else forbid_double_backward(bias)
    pairs = 0 if edges.is_identity and bias is None else edges.num_edges * value.shape[1]
    width = query.shape[2] + value.shape[2]
    if not (return_weights and _is_recorded(query, key, value, bias)):
        out, slots = _run_backend(edges, query, key, value, scale, bias, dropout, backend, return_weights)
        report_products(out, pairs, width)
        return out, None if slots is None else edges.by_id(slots)
    # gradients must pass through the weights: compute them first, then the result from them
    no_values = value.new_zeros(*value.shape[:2], 1)
    _, slots = _run_backend(edges, query, key, no_values, scale, bias, 0.0, backend, True)
    assert slots is not None
    weights = edges.by_id(slots)
    if not weights.requires_grad:  # only the values are trained
        weights.requires_grad_()
    out = sum_by_weights(edges, edges.by_slot(F.dropout(weights, dropout)), value)
    report_products(out, pairs, width)
    return out, weights


@operator
def attend_layer(
    edges: Sequence[Edges],
    heads: Sequence[int],
    rows: Tensor,
    *,
    scale: float | Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> tuple[Tensor, list[Tensor] | None]:
    """:func:`attend_heads` without validation, for layers; ``rows`` is (N, P, D), the weights None unless requested."""
    if isinstance(scale, Tensor):
        scored = (rows.shape[1] - sum(heads)) // 2
        queries, scale = scale_queries(rows[:, :scored], scale)
        rows = torch.cat([queries, rows[:, scored:]], dim=1)
    name = choose_backend(rows) if backend == "auto" else backend
    # weights with gradients or under dropout are computed before the result, which one call cannot do
    weights_first = return_weights and (dropout > 0 or _is_recorded(rows))
    if weights_first or name != "fused" or rows.device.type != "cpu" or rows.element_size() < 4:
        return _attend_by_relation(edges, heads, rows, scale, dropout, backend, return_weights)
    from graphattn.backends.cpu import fused  # compiles: import it only where it runs

    scale = 1.0 / math.sqrt(rows.shape[-1]) if scale is None else scale
    out, slots = fused.attend_heads(
        edges, heads, forbid_double_backward(rows), scale=scale, dropout=dropout, return_weights=return_weights
    )
    pairs = sum(part.num_edges * count for part, count in zip(edges, heads, strict=True) if not part.is_identity)
    report_products(out, pairs, 2 * rows.shape[2])
    if not return_weights:
        return out, None
    return out, [relation.by_id(weights) for relation, weights in zip(edges, slots, strict=True)]


def _attend_by_relation(
    edges: Sequence[Edges],
    heads: Sequence[int],
    rows: Tensor,
    scale: float | None,
    dropout: float,
    backend: str,
    return_weights: bool,
) -> tuple[Tensor, list[Tensor] | None]:
    """:func:`attend_layer` by one call for each relation."""
    options: dict[str, Any] = {"scale": scale, "dropout": dropout, "backend": backend, "return_weights": return_weights}
    results = [
        attend_edges(relation, *part, **options) if count else (part[2], rows.new_zeros(relation.num_edges, 0))
        for relation, count, part in zip(edges, heads, _split_by_relation(edges, heads, rows), strict=True)
    ]
    out = torch.cat([result for result, _ in results], dim=1)
    return out, [weights for _, weights in results if weights is not None] if return_weights else None


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


def _split_by_relation(
    edges: Sequence[Edges], heads: Sequence[int], rows: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Query, key and value of each relation's heads; values replace the queries and keys that identities lack."""
    compact = rows.shape[1] != 3 * sum(heads)
    scored = [0 if compact and relation.is_identity else count for relation, count in zip(edges, heads, strict=True)]
    # split, not slices: the gradient of a split is one concatenation, that of a slice a full array of zeros
    queries, keys, values = rows.split([sum(scored), sum(scored), sum(heads)], dim=1)
    parts = zip(queries.split(scored, dim=1), keys.split(scored, dim=1), values.split(list(heads), dim=1), strict=True)
    for count, (query, key, value) in zip(scored, parts, strict=True):
        yield (query, key, value) if count else (value, value, value)


def _run_backend(
    edges: Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scale: float,
    bias: Tensor | None,
    dropout: float,
    backend: str,
    return_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The result and, on request, the weights in slot order."""
    if backend == "auto" and bias is None and edges.is_identity:
        out, weights = _identity_attention(query, key, value, dropout)
        return out, weights if return_weights else None
    name = choose_backend(query) if backend == "auto" else backend
    slots = None if bias is None else edges.by_slot(bias)
    return load_backend(name)(
        edges, query, key, value, scale=scale, bias=slots, dropout=dropout, return_weights=return_weights
    )


def _identity_attention(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """The softmax over a single edge is one: return the values, and weights of one."""
    weights = value.new_ones(value.shape[:2])
    out = value * F.dropout(weights, dropout).unsqueeze(-1) if dropout else value.view_as(value)
    unused = [tensor for tensor in (query, key) if tensor.requires_grad]
    return (with_zero_gradients(out, unused), with_zero_gradients(weights, unused)) if unused else (out, weights)
