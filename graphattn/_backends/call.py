"""The argument of a backend: the heads of all relations of a layer, and their queries, keys and values.

The softmax over a single edge is one, so heads on an identity copy their values. :func:`make_spans` decides which heads
do. A backend that computes one group after the other does not see them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._distances import DistanceBias
from graphattn._edges import Edges
from graphattn._gradients import with_zero_gradients
from graphattn.exceptions import BackendError

Rows: TypeAlias = Tensor | tuple[Tensor, Tensor, Tensor]
"""(N, P, D) queries, keys and values of all heads in one tensor; or three: (N_dst, H, D), (N_src, H, D), (N_src, H, F).

In one tensor, heads that copy their values may lack queries and keys.
"""
GroupResult: TypeAlias = tuple[Tensor, Tensor | None]
"""Outputs (N_dst, H, F) of a group, zeros for nodes without edges; and its weights (E, H) in CSC order if requested."""
GroupBackend: TypeAlias = "Callable[[AttentionCall], Iterable[GroupResult]]"
"""A backend that computes one group after the other; :func:`join_groups` joins its results."""
Backend: TypeAlias = "Callable[[AttentionCall], tuple[Tensor, list[Tensor]]]"
"""Outputs (N_dst, H, F) of all heads; and, on request, the weights (E, heads) of each relation in CSC order."""
Places: TypeAlias = tuple[slice, slice | None]
"""Numbers of heads, and their columns among the queries and the keys; None for heads that have none."""


class Span(NamedTuple):
    """The heads of one relation, and their columns among the queries and the keys; None if they have none."""

    edges: Edges
    heads: slice
    scored: slice | None
    bias: Tensor | DistanceBias | None = None  # (E, heads) in CSC order
    copies: bool = False  # whether the outputs are the values

    @property
    def num_heads(self) -> int:
        """Number of heads."""
        stop: int = self.heads.stop
        return stop - self.heads.start


class HeadGroup(NamedTuple):
    """The heads on one relation."""

    edges: Edges
    query: Tensor
    """(N_dst, H, D)"""
    key: Tensor
    """(N_src, H, D)"""
    value: Tensor
    """(N_src, H, F)"""
    bias: Tensor | None
    """(E, H) added to the scores, in CSC order."""


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """What a backend computes: attention with all heads of a layer.

    A backend is a function that takes a call and yields, for each of its ``groups``, the outputs (N_dst, H, F), with
    zeros for a node without edges, and the softmax weights (E, H) before dropout, in CSC order; weights may be None if
    ``return_weights`` is False. Both need gradients.
    """

    rows: Rows
    spans: Sequence[Span]
    """The heads of each relation."""
    scale: float
    """Factor on the dot products."""
    dropout: float = 0.0
    """Probability with which a weight is dropped, 0 outside training."""
    return_weights: bool = False

    @cached_property
    def groups(self) -> list[HeadGroup]:
        """Edges, queries, keys, values and bias of the heads on each relation, without those that copy their values."""
        return [
            group._replace(bias=span.bias.of_edges(span.edges) if isinstance(span.bias, DistanceBias) else span.bias)
            for span, group in self.computed
        ]

    @property
    def computed(self) -> list[tuple[Span, HeadGroup]]:
        """The heads on each relation, without those that copy their values; biases are only in the spans."""
        pairs = zip(self.spans, self.relations, strict=True)
        return [(span, group) for span, group in pairs if span.num_heads and not span.copies]

    @cached_property
    def relations(self) -> list[HeadGroup]:
        """The heads of all relations, without biases; values replace the queries and keys that copying heads lack."""
        if isinstance(self.rows, tuple) and len(self.spans) == 1:
            return [HeadGroup(self.spans[0].edges, *self.rows, None)]
        columns = zip(self.spans, *self._split(), strict=True)
        return [HeadGroup(span.edges, query, key, value, None) for span, query, key, value in columns]

    def _split(self) -> Sequence[Sequence[Tensor]]:
        """Queries, keys and values of each relation."""
        counts = [span.num_heads for span in self.spans]
        if not isinstance(self.rows, Tensor):
            return [each.split(counts, dim=1) for each in self.rows]
        scored = [0 if span.scored is None else span.num_heads for span in self.spans]
        # split, not slices: the gradient of a split is one concatenation, that of a slice a full array of zeros
        columns = iter(self.rows.split([*scored, *scored, *counts], dim=1))
        queries, keys, values = ([next(columns) for _ in counts] for _ in range(3))
        for number, span in enumerate(self.spans):
            if span.scored is None:
                queries[number] = keys[number] = values[number]
        return queries, keys, values


def make_spans(
    edges: Sequence[Edges],
    heads: Sequence[int],
    rows: Rows,
    biases: Sequence[Tensor | DistanceBias | None] | None = None,
) -> list[Span]:
    """The heads of each relation; heads on an identity copy their values, unless a bias may mask them."""
    identities = [relation.is_identity for relation in edges]
    places = place_heads(heads, identities, rows.shape[1] if isinstance(rows, Tensor) else 3 * sum(heads))
    return [
        Span(relation, *place, bias, bias is None and is_identity)
        for relation, place, bias, is_identity in zip(
            edges, places, biases or [None] * len(edges), identities, strict=True
        )
    ]


def place_heads(heads: Sequence[int], identities: Sequence[bool], num_columns: int) -> list[Places]:
    """Where the heads of each relation are, if queries, keys and values have so many columns together."""
    places, head, column = [], 0, 0
    for count, is_identity in zip(heads, identities, strict=True):
        lacks_scores = is_identity and num_columns < 3 * sum(heads)
        scored = None if lacks_scores else slice(column, column + count)
        places.append((slice(head, head + count), scored))
        head, column = head + count, column + (0 if lacks_scores else count)
    return places


def split_rows(rows: Sequence[Tensor], heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of all heads: three tensors, or columns of one."""
    if len(rows) == 1:
        scored = (rows[0].shape[1] - heads) // 2
        rows = rows[0].split_with_sizes([scored, scored, heads], dim=1)
    query, key, value = rows
    return query, key, value


def join_groups(call: AttentionCall, results: Iterable[GroupResult]) -> tuple[Tensor, list[Tensor]]:
    """The results of all heads, from those of each group."""
    computed, outs, weights = iter(results), [], []
    for span, group in zip(call.spans, call.relations, strict=True):
        out, group_weights = _find_result(span, group, call.dropout, computed)
        outs.append(out)
        weights += [] if group_weights is None else [group_weights]
    return torch.cat(outs, dim=1) if len(outs) > 1 else outs[0], weights if call.return_weights else []


def _find_result(span: Span, group: HeadGroup, dropout: float, computed: Iterator[GroupResult]) -> GroupResult:
    if not span.num_heads:
        return group.value, group.value.new_zeros(span.edges.num_edges, 0)
    if span.copies:
        return _copy_values(group, dropout)
    result = next(computed, None)
    if result is None:
        raise BackendError("the backend yielded fewer results than the call has groups")
    return result


def _copy_values(group: HeadGroup, dropout: float) -> tuple[Tensor, Tensor]:
    """The softmax over a single edge is one: the values, and weights of one."""
    value = group.value
    weights = value.new_ones(value.shape[:2])
    out = value * F.dropout(weights, dropout).unsqueeze(-1) if dropout else value.view_as(value)
    unused = [tensor for tensor in (group.query, group.key) if tensor.requires_grad]
    return (with_zero_gradients(out, unused), with_zero_gradients(weights, unused)) if unused else (out, weights)
