"""The operator: attention over the incoming edges of every node, per relation and per head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn.backends.registry import choose_backend, load_backend
from graphattn.backends.weighted_sums import sum_by_weights
from graphattn.edges import Edges
from graphattn.exceptions import ConfigError, GraphError
from graphattn.first_order import first_order
from graphattn.schema import CanonicalRelation

if TYPE_CHECKING:
    from dgl import DGLGraph


def attend(
    graph: DGLGraph | Edges,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    etype: str | CanonicalRelation | None = None,
    scale: float | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> Any:
    r"""Attend along the edges of one relation (MS-Trans, Eq. 6, on any graph).

    .. math:: out_i = \sum_{j \to i} softmax_j(scale \cdot q_i^T k_j + b_{ij}) \, v_j

    Parameters
    ----------
    graph : a DGL graph, or the :class:`~graphattn.edges.Edges` taken out of one (saves taking them again)
    query : (N_dst, H, D), one row for each destination node
    key : (N_src, H, D), one row for each source node
    value : (N_src, H, D_v)
    etype : the relation, by name or as a canonical triple; may be left out when the graph has only one
    scale : factor on the dot products, 1/sqrt(D) when None
    bias : (E, H), added to the scores, in edge-id order; -inf hides an edge
    dropout : probability with which a weight is dropped; callers pass 0 outside training
    backend : ``"dgl"``, ``"fused"``, ``"torch"`` or ``"auto"`` (:func:`graphattn.backends.registry.choose_backend`)
    return_weights : also return the softmax weights, before dropout; where gradients are recorded the result is made
        from them, so that ``torch.autograd.grad(y, weights)`` tells what each edge contributes to a ``y``

    Returns
    -------
    tensor (N_dst, H, D_v); zeros for a node without incoming edges, or whose edges are all hidden. It may share memory
    with ``value``: do not change it in place. With ``return_weights`` a pair of that and the weights (E, H) in edge-id
    order; they sum to one over each node's incoming edges.

    Raises
    ------
    GraphError
        when the relation is missing, or tensors do not fit it in shape, type or device
    ConfigError
        when dropout is out of range
    BackendError
        when the backend is unknown or cannot run on the tensors' device or type
    DoubleBackwardError
        when a second derivative is taken

    Examples
    --------
    >>> edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([0, 0, 1]), num_sources=2)  # 0->0, 0->1, 1->1
    >>> q = k = torch.zeros(2, 1, 4)
    >>> attend(edges, q, k, torch.tensor([[[1.0]], [[3.0]]])).flatten()
    tensor([1., 2.])
    """
    edges = graph if isinstance(graph, Edges) else Edges.of(graph, etype).to(query.device)
    edges.check(query, key, value, bias)
    _check_dropout(dropout)
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    recorded = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (query, key, value, bias))
    if recorded:
        query, key, value = first_order(query), first_order(key), first_order(value)
        bias = None if bias is None else first_order(bias)
    through_weights = return_weights and recorded
    values, lost = (value.new_zeros(*value.shape[:2], 1), 0.0) if through_weights else (value, dropout)
    weights: Tensor | None
    if backend == "auto" and bias is None and edges.is_identity:
        out, weights = _attend_to_oneself(query, key, values, lost)
    else:
        name = choose_backend(query) if backend == "auto" else backend
        slots = bias if bias is None or edges.edge_ids is None else bias[edges.edge_ids]
        out, weights = load_backend(name)(
            edges, query, key, values, scale=scale, bias=slots, dropout=lost, return_weights=return_weights
        )
    if not return_weights:
        return out
    assert weights is not None
    weights = edges.by_id(weights)
    if through_weights:
        if not weights.requires_grad:  # they depend on nothing that is trained, the result depends on them
            weights.requires_grad_()
        kept = F.dropout(weights, dropout)
        out = sum_by_weights(edges, kept if edges.edge_ids is None else kept[edges.edge_ids], value)
    return out, weights


def attend_heads(
    edges: Sequence[Edges],
    heads: Sequence[int],
    projected: Tensor,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    backend: str = "auto",
    return_weights: bool = False,
) -> Any:
    """Attend with all heads of a layer, each along its relation, in one call (MS-Trans, Eq. 9 before W_O).

    The same as :func:`attend` for each relation and its heads, without the overhead of several calls and without copies
    of queries, keys and values.

    Parameters
    ----------
    edges : each relation's edges
    heads : number of heads that see each relation
    projected : (N, 3, H, D) queries, keys and values of all heads, those of the first relation first; or (N, P, D)
        queries, then keys, of the heads whose relation is not the identity, then values of all: a softmax over one
        edge is one, whatever the score, so the others need neither
    scale, dropout, backend, return_weights : as in :func:`attend`

    Returns
    -------
    (N, H, D); with ``return_weights`` a pair of that and, for each relation, the weights (E, heads) in edge-id order

    Raises
    ------
    As :func:`attend`
    """
    rows = _checked_rows(edges, heads, projected)
    _check_dropout(dropout)
    name = choose_backend(projected) if backend == "auto" else backend
    # weights that gradients go through, or some of which are dropped, are made before the result
    apart = return_weights and bool(dropout or (torch.is_grad_enabled() and projected.requires_grad))
    if apart or name != "fused" or projected.device.type != "cpu" or projected.element_size() < 4:
        options: dict[str, Any] = {"scale": scale, "dropout": dropout, "backend": backend}
        parts = zip(edges, _by_relation(edges, heads, rows), strict=True)
        found = [attend(one, *part, **options, return_weights=return_weights) for one, part in parts]
        if not return_weights:
            return torch.cat(found, dim=1)
        outs, weights = zip(*found, strict=True)
        return torch.cat(outs, dim=1), list(weights)
    from graphattn.backends.cpu.fused import attend_heads as attend_together  # compiles: only when it is used

    scale = 1.0 / math.sqrt(projected.shape[-1]) if scale is None else scale
    out, seen = attend_together(
        edges, heads, first_order(rows), scale=scale, dropout=dropout, return_weights=return_weights
    )
    return (out, [one.by_id(own) for one, own in zip(edges, seen, strict=True)]) if return_weights else out


def _checked_rows(edges: Sequence[Edges], heads: Sequence[int], projected: Tensor) -> Tensor:
    """``projected`` as (N, P, D), when it fits the relations."""
    count = sum(heads)
    scored = sum(own for one, own in zip(edges, heads, strict=False) if not one.is_identity)
    shape = tuple(projected.shape)
    fits = shape[1:3] == (3, count) if len(shape) == 4 else len(shape) == 3 and shape[1] == 2 * scored + count
    if not fits or len(edges) != len(heads):
        raise GraphError(
            f"projected has shape {shape}; expected (N, 3, {count}, features), or (N, {2 * scored + count}, features) "
            f"without what identities do not need, for {len(edges)} relations with heads {tuple(heads)}"
        )
    rows = projected.flatten(1, 2) if len(shape) == 4 else projected
    for one in edges:
        one.check(rows, rows, rows, None)
    return rows


def _by_relation(edges: Sequence[Edges], heads: Sequence[int], rows: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Query, key and value of each relation's heads; values stand in for what identities do not have."""
    compact = rows.shape[1] != 3 * sum(heads)
    scored = [0 if compact and one.is_identity else own for one, own in zip(edges, heads, strict=True)]
    # splits, not slices: the gradient of a split is one concatenation, that of a slice a full array of zeros
    query, key, value = rows.split([sum(scored), sum(scored), sum(heads)], dim=1)
    parts = zip(query.split(scored, dim=1), key.split(scored, dim=1), value.split(list(heads), dim=1), strict=True)
    for count, (own_query, own_key, own_value) in zip(scored, parts, strict=True):
        yield (own_query, own_key, own_value) if count else (own_value, own_value, own_value)


def _check_dropout(dropout: float) -> None:
    if not 0.0 <= dropout < 1.0:
        raise ConfigError(f"dropout is {dropout}; it must be at least 0 and below 1")


def _attend_to_oneself(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """A softmax over one edge is one, whatever the score: the value passes through."""
    weights = value.new_ones(value.shape[:2])
    out = value * F.dropout(weights, dropout).unsqueeze(-1) if dropout else value.view_as(value)
    unused = [tensor for tensor in (query, key) if tensor.requires_grad]
    if unused:
        out, weights = _WithUnused.apply(out, *unused), _WithUnused.apply(weights, *unused)
    return out, weights


class _WithUnused(torch.autograd.Function):
    """Passes the first tensor through; the others get zero gradients, as the full computation would give them."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, *unused: Tensor) -> Tensor:
        ctx.shapes = [(tensor.shape, tensor.dtype, tensor.device) for tensor in unused]
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        zeros = (torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.shapes)
        return (gradients[0], *zeros)
