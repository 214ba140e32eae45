"""All heads of a layer as an operator of PyTorch, so that ``torch.compile`` keeps a model in one graph.

The compiler does not see edges, only the arrays of their plans, which have another length for each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphattn._backends.call import place_heads
from graphattn._backends.gpu.backend import Options, Results, compute, differentiate
from graphattn._backends.gpu.plan import Layer, Plan, join_plans
from graphattn._edges import Edges


def attend_heads_compiled(
    edges: Sequence[Edges], heads: Sequence[int], rows: Tensor, scale: float, dropout: float
) -> Tensor:
    """Outputs (N, H, D) of rows (N, P, D); the edges were planned when they were copied to the GPU."""
    plans: list[Any] = [relation.plans["triton"] for relation in edges]
    return torch.ops.graphattn.attend_heads(
        rows.contiguous(),
        [plan.array for plan in plans],
        [plan.by_source for plan in plans],
        [plan.is_range for plan in plans],
        list(heads),
        [relation.is_identity for relation in edges],
        scale,
        dropout,
    )[0]


@torch.library.custom_op("graphattn::attend_heads", mutates_args=())
def _attend_heads(
    rows: Tensor,
    plans: Sequence[Tensor],
    by_source: Sequence[int],
    are_ranges: Sequence[bool],
    heads: Sequence[int],
    copied: Sequence[bool],
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    layer = _join(rows, plans, by_source, are_ranges, heads, copied)
    results = compute(layer, (rows, rows, rows), None, sum(heads), Options(scale, dropout))
    return results.out, results.lse, results.seeds, rows.new_empty(0) if results.kept is None else results.kept


def _join(
    rows: Tensor,
    plans: Sequence[Tensor],
    by_source: Sequence[int],
    are_ranges: Sequence[bool],
    heads: Sequence[int],
    copied: Sequence[bool],
) -> Layer:
    own = [Plan(*each) for each in zip(plans, by_source, are_ranges, strict=True)]
    return join_plans(own, place_heads(heads, copied, rows.shape[1]), copied)


@_attend_heads.register_fake
def _(rows, plans, by_source, are_ranges, heads, copied, scale, dropout):  # type: ignore[no-untyped-def]
    count, total = rows.shape[0], sum(heads)  # not len(rows), which makes the number a constant
    has_kept = dropout > 0 and any(copied)
    return (
        rows.new_empty(count, total, rows.shape[2]),
        rows.new_empty(total, count, dtype=torch.float32),
        rows.new_empty(total, dtype=torch.int32),
        rows.new_empty((count, total, 1) if has_kept else 0),
    )


@torch.library.custom_op("graphattn::attend_heads_backward", mutates_args=())
def _attend_heads_backward(
    gradient: Tensor,
    rows: Tensor,
    saved: Sequence[Tensor],
    plans: Sequence[Tensor],
    by_source: Sequence[int],
    are_ranges: Sequence[bool],
    heads: Sequence[int],
    copied: Sequence[bool],
    scale: float,
    dropout: float,
) -> Tensor:
    layer = _join(rows, plans, by_source, are_ranges, heads, copied)
    out, lse, seeds, kept = saved
    results = Results(out, lse, seeds, kept if len(kept) else None, None)
    options = Options(scale, dropout)
    return differentiate(layer, (rows, rows, rows), None, sum(heads), options, results, gradient)[0][0]


@_attend_heads_backward.register_fake
def _(gradient, rows, *others):  # type: ignore[no-untyped-def]
    return torch.empty_like(rows)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    rows, plans, *ctx.options = inputs
    ctx.num_plans = len(plans)
    ctx.save_for_backward(rows, *output, *plans)


def _differentiate(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Any, ...]:
    rows, *tensors = ctx.saved_tensors
    gradient = torch.ops.graphattn.attend_heads_backward(gradient, rows, tensors[:4], tensors[4:], *ctx.options)
    return (gradient, [None] * ctx.num_plans, *(None for _ in ctx.options))


_attend_heads.register_autograd(_differentiate, setup_context=_save)
