"""The protocol of attention backends: edges of all relations of a layer, their heads, and rows of nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._edges import Edges
from graphattn._gradients import with_zero_gradients

Rows: TypeAlias = Tensor | tuple[Tensor, Tensor, Tensor]
"""(N, P, D) queries, keys and values of all heads in one tensor; or three: (N_dst, H, D), (N_src, H, D), (N_src, H, F).

In one tensor, heads whose relation is the identity may lack queries and keys: the softmax over a single edge is one.
"""


class Backend(ABC):
    """Computes attention for :func:`graphattn.attend`, :func:`graphattn.attend_heads` and the attention layers.

    All of them call :meth:`attend`, once for all heads. A subclass implements :meth:`attend_relation`, or overrides
    :meth:`attend` to compute the heads together. Both support autograd.
    """

    skips_identities = False
    """Whether :meth:`attend` copies the values where each node's only edge comes from itself; ``auto`` sets it."""

    def attend(
        self,
        edges: Sequence[Edges],
        heads: Sequence[int],
        rows: Rows,
        *,
        scale: float,
        biases: Sequence[Tensor | None],
        dropout: float,
        return_weights: bool,
    ) -> tuple[Tensor, list[Tensor]]:
        """Attend with all heads: by default one relation after the other, by :meth:`attend_relation`.

        Parameters
        ----------
        edges : of each relation
        heads : number of heads of each relation
        rows : (N, P, D) queries, keys and values in the order of the relations, or one tensor for each;
            :func:`~graphattn._backends.base.split_rows` returns those of each relation
        scale : factor on the dot products
        biases : (E, heads) of each relation, added to its scores, in CSC order; None for those without
        dropout : probability with which a weight is dropped, 0 outside training
        return_weights : also return the softmax weights before dropout, with gradients

        Returns
        -------
        (N_dst, H, F), and the weights (E, heads) of each relation in CSC order; none unless requested
        """
        options: dict[str, Any] = {"scale": scale, "dropout": dropout, "return_weights": return_weights}
        results: list[tuple[Tensor, Tensor | None]] = []
        for relation, bias, (query, key, value) in zip(edges, biases, split_rows(edges, heads, rows), strict=True):
            if not value.shape[1]:
                results.append((value, value.new_zeros(relation.num_edges, 0)))
            elif self.skips_identities and bias is None and relation.is_identity:
                results.append(attend_identity(query, key, value, dropout))
            else:
                results.append(self.attend_relation(relation, query, key, value, bias=bias, **options))
        out = torch.cat([out for out, _ in results], dim=1) if len(results) > 1 else results[0][0]
        return out, [weights for _, weights in results if weights is not None] if return_weights else []

    @abstractmethod
    def attend_relation(
        self,
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
        """Attend along one relation.

        Parameters
        ----------
        edges : from N_src to N_dst nodes
        query, key, value : (N_dst, H, D), (N_src, H, D) and (N_src, H, F)
        scale, dropout, return_weights : as for :meth:`attend`
        bias : (E, H) added to the scores, in CSC order

        Returns
        -------
        (N_dst, H, F), zeros for a node without edges; and the weights (E, H) in CSC order, None unless requested
        """


def split_rows(edges: Sequence[Edges], heads: Sequence[int], rows: Rows) -> Iterable[tuple[Tensor, Tensor, Tensor]]:
    """Query, key and value of each relation's heads; values replace the queries and keys that identities lack."""
    if not isinstance(rows, Tensor):
        return [rows] if len(heads) == 1 else zip(*(each.split(list(heads), dim=1) for each in rows), strict=True)
    is_compact = rows.shape[1] != 3 * sum(heads)
    scored = [0 if is_compact and each.is_identity else count for each, count in zip(edges, heads, strict=True)]
    # split, not slices: the gradient of a split is one concatenation, that of a slice a full array of zeros
    queries, keys, values = rows.split([sum(scored), sum(scored), sum(heads)], dim=1)
    by_relation = queries.split(scored, dim=1), keys.split(scored, dim=1), values.split(list(heads), dim=1)
    return [
        (query, key, value) if count else (value, value, value)
        for count, query, key, value in zip(scored, *by_relation, strict=True)
    ]


def attend_identity(query: Tensor, key: Tensor, value: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """The softmax over a single edge is one: return the values, and weights of one."""
    weights = value.new_ones(value.shape[:2])
    out = value * F.dropout(weights, dropout).unsqueeze(-1) if dropout else value.view_as(value)
    unused = [tensor for tensor in (query, key) if tensor.requires_grad]
    return (with_zero_gradients(out, unused), with_zero_gradients(weights, unused)) if unused else (out, weights)
