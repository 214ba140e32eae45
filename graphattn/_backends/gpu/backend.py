"""Backend ``triton``: attention of all heads of a layer in one launch, on an NVIDIA or AMD GPU.

Relations with rising ranges of keys (windows, complete graphs, order, sentences) share one launch of a kernel with
matrix products; relations with other edges share one that gathers. Sums are in float32. float64 runs in ``torch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from graphattn._backends.base import Backend, Rows
from graphattn._backends.gpu import kernels
from graphattn._backends.gpu.plan import EdgePlan, RangePlan, find_ranges, join_edges, join_ranges
from graphattn._backends.torch import TorchBackend
from graphattn._edges import Edges
from graphattn._gradients import Function, apply_pair

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_LOG2_E = 1.4426950408889634
_TILE = 32
"""Gathered keys of a tile."""


@dataclass(frozen=True)
class Launch:
    """Heads whose relations are of one kind; ``heads`` are (heads, 5), see :mod:`~graphattn._backends.gpu.kernels`."""

    plan: RangePlan | EdgePlan
    heads: Tensor


@dataclass(frozen=True)
class Layer:
    """All heads of a call.

    ``identities`` are pairs of a head and the place of its value, for heads that copy it.
    """

    launches: list[Launch]
    identities: list[tuple[int, int]]
    num_heads: int
    num_destinations: int
    scale: float
    dropout: float
    seeds: Tensor
    num_edges: int  # of the relation, if weights are returned


class TritonBackend(Backend):
    """Kernels in Triton."""

    def __init__(self) -> None:
        self._others = TorchBackend()

    @override
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
        options: dict[str, Any] = {
            "scale": scale, "biases": biases, "dropout": dropout, "return_weights": return_weights
        }  # fmt: skip
        if _type_of(rows) not in DTYPES:
            return self._others.attend(edges, heads, rows, **options)
        if not isinstance(rows, Tensor) or return_weights or any(bias is not None for bias in biases):
            return super().attend(edges, heads, rows, **options)
        rows = rows.contiguous()
        compact = rows.shape[1] != 3 * sum(heads)
        layer = _plan_layer(edges, heads, rows, scale, dropout, compact, self.skips_identities)
        out, _ = apply_pair(_Attention, rows, rows, rows, None, layer, False)
        return out, []

    @override
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
        query, key, value = (_with_dense_features(each) for each in (query, key, value))
        heads = query.shape[1]
        layer = _plan_relation(edges, heads, value, scale, dropout, return_weights)
        out, weights = apply_pair(_Attention, query, key, value, bias, layer, return_weights)
        return out, weights if return_weights else None


def _type_of(rows: Rows) -> torch.dtype:
    return rows.dtype if isinstance(rows, Tensor) else rows[0].dtype


def _with_dense_features(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(2) == 1 else tensor.contiguous()


def _draw_seeds(heads: int, dropout: float, device: torch.device) -> Tensor:
    if not dropout:
        return torch.zeros(heads, dtype=torch.int32, device=device)
    return torch.randint(0, 2**31 - 1, (heads,), dtype=torch.int32, device=device)


def _plan_relation(
    edges: Edges, heads: int, value: Tensor, scale: float, dropout: float, return_weights: bool
) -> Layer:
    """One relation, with a tensor of queries, of keys and of values."""
    entries = [(head, 0, head, head, head) for head in range(heads)]
    as_ranges = not return_weights and find_ranges(edges) is not None
    plan = join_ranges([edges]) if as_ranges else join_edges([edges])
    launch = Launch(plan, torch.tensor(entries, dtype=torch.int32, device=value.device))
    seeds = _draw_seeds(heads, dropout, value.device)
    return Layer([launch], [], heads, edges.num_destinations, scale, dropout, seeds, edges.num_edges)


def _plan_layer(
    edges: Sequence[Edges],
    heads: Sequence[int],
    rows: Tensor,
    scale: float,
    dropout: float,
    compact: bool,
    skips_identities: bool,
) -> Layer:
    """The relations of a layer, whose queries, keys and values are the rows (N, P, D) of one tensor."""
    total = sum(heads)
    scored = sum(count for each, count in zip(edges, heads, strict=True) if not (compact and each.is_identity))
    kinds: dict[bool, list[Edges]] = {True: [], False: []}
    entries: dict[bool, list[tuple[int, ...]]] = {True: [], False: []}
    identities = []
    head = place = 0
    for relation, count in zip(edges, heads, strict=True):
        copies = relation.is_identity and (compact or skips_identities)
        kind = find_ranges(relation) is not None
        for _ in range(count):
            if copies:
                identities.append((head, 2 * scored + head))
            else:
                entries[kind].append((head, len(kinds[kind]), place, scored + place, 2 * scored + head))
            head, place = head + 1, place + (not (copies and compact))
        if count and not copies:
            kinds[kind].append(relation)
    launches = [
        Launch(
            join_ranges(kinds[kind]) if kind else join_edges(kinds[kind]),
            torch.tensor(entries[kind], dtype=torch.int32).to(rows.device, non_blocking=True),
        )
        for kind in (True, False)
        if kinds[kind]
    ]
    seeds = _draw_seeds(total, dropout, rows.device)
    return Layer(launches, identities, total, edges[0].num_destinations, scale, dropout, seeds, 0)


class _Attention(Function):
    """Queries, keys and values (N, P, D) and a bias (E, H) give outputs (N_dst, H, F) and weights (E, H)."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, layer: Layer, return_weights: bool
    ) -> tuple[Tensor, Tensor]:
        heads, count = layer.num_heads, layer.num_destinations
        out = value.new_empty(count, heads, value.shape[2])
        lse = torch.empty(heads, count, dtype=torch.float32, device=value.device)
        weights = value.new_empty(layer.num_edges if return_weights else 0, heads)
        for launch in layer.launches:
            arguments = _Arguments(query, key, value, bias, layer)
            if isinstance(launch.plan, RangePlan):
                arguments.forward_ranges(launch, out, lse)
            else:
                arguments.forward_edges(launch, out, lse, weights, return_weights=return_weights)
        kept = None
        if layer.identities:
            copied, places = map(list, zip(*layer.identities, strict=True))
            rows = value[:count, places]
            if layer.dropout:
                kept = F.dropout(rows.new_ones(rows.shape[:2]), layer.dropout)[..., None]
                rows = rows * kept
            out[:, copied] = rows
        ctx.layer, ctx.has_bias, ctx.return_weights = layer, bias is not None, return_weights
        ctx.save_for_backward(query, key, value, bias, out, lse, kept)
        return out, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, out, lse, kept = ctx.saved_tensors
        layer: Layer = ctx.layer
        grad_out = gradients[0].contiguous()
        delta = (grad_out.float() * out.float()).sum(-1).t().contiguous()
        is_joint = query is key or query.data_ptr() == key.data_ptr()
        # rows that no head scores, such as queries of identities, have zero gradients
        grad_value = torch.zeros_like(value) if layer.identities else torch.empty_like(value)
        grads = (grad_value,) * 3 if is_joint else (torch.empty_like(query), torch.empty_like(key), grad_value)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        grad_weights = gradients[1].contiguous() if ctx.return_weights else None
        for launch in layer.launches:
            arguments = _Arguments(query, key, value, bias, layer)
            saved = (grad_out, lse, delta)
            if isinstance(launch.plan, RangePlan):
                arguments.backward_ranges(launch, saved, grads, grad_bias)
            else:
                arguments.backward_edges(launch, saved, grads, grad_bias, grad_weights)
        if layer.identities:
            copied, places = map(list, zip(*layer.identities, strict=True))
            rows = grad_out[:, copied]
            grad_value[: layer.num_destinations, places] = rows if kept is None else rows * kept
        return (grads[0], None, None, grad_bias, None, None) if is_joint else (*grads, grad_bias, None, None)


class _Arguments:
    """What all kernels of a call receive."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, layer: Layer):
        self.tensors = query, key, value
        self.bias, self.layer = bias, layer
        self.num_src = len(value)
        strides = [stride for each in self.tensors for stride in each.stride()[:2]]
        limit = min(int(layer.dropout * 2**32), 2**32 - 1)
        factors = layer.scale * _LOG2_E, limit, 1 / (1 - layer.dropout)
        self.numbers = (*strides, *((0, 0) if bias is None else bias.stride()), *factors)
        features, width = query.shape[2], value.shape[2]
        self.constants: dict[str, Any] = {
            "D": features,
            "F": width,
            "D_PAD": max(16, triton.next_power_of_2(features)),
            "F_PAD": max(16, triton.next_power_of_2(width)),
            "TOTAL_HEADS": layer.num_heads,
            "HAS_BIAS": bias is not None,
            "HAS_DROPOUT": layer.dropout > 0,
        }
        self.is_float32 = value.dtype == torch.float32

    @property
    def blocks(self) -> dict[str, Any]:
        """Sizes of blocks, and how float32 is multiplied: exactly, or in TF32 if PyTorch may."""
        size = 64 if max(self.constants["D_PAD"], self.constants["F_PAD"]) <= 64 else 32
        exact = self.is_float32 and not torch.backends.cuda.matmul.allow_tf32
        return {"ROWS": size, "KEYS": size, "PRECISION": "ieee" if exact else "tf32", "num_warps": 4}

    def forward_ranges(self, launch: Launch, out: Tensor, lse: Tensor) -> None:
        plan, blocks = launch.plan, self.blocks
        assert isinstance(plan, RangePlan)
        grid = triton.cdiv(self.layer.num_destinations, blocks["ROWS"]), len(launch.heads)
        kernels.range_forward[grid](
            *self.tensors, out, lse, self.bias, launch.heads, *plan[:3], self.layer.seeds,
            self.layer.num_destinations, self.num_src, *self.numbers, **self.constants, **blocks,
        )  # fmt: skip

    def forward_edges(self, launch: Launch, out: Tensor, lse: Tensor, weights: Tensor, *, return_weights: bool) -> None:
        plan = launch.plan
        assert isinstance(plan, EdgePlan)
        grid = self.layer.num_destinations, len(launch.heads)
        kernels.edge_forward[grid](
            *self.tensors, out, lse, weights, self.bias, launch.heads, *plan[:3], self.layer.seeds,
            self.layer.num_destinations, *self.numbers, **self.constants, HAS_WEIGHTS=return_weights, KEYS=_TILE,
            num_warps=1,
        )  # fmt: skip

    def backward_ranges(
        self, launch: Launch, saved: Sequence[Tensor], grads: Sequence[Tensor], grad_bias: Tensor | None
    ) -> None:
        plan, blocks, layer = launch.plan, self.blocks, self.layer
        assert isinstance(plan, RangePlan)
        grad_out, lse, delta = saved
        sizes = layer.num_destinations, self.num_src
        kernels.range_backward_query[triton.cdiv(sizes[0], blocks["ROWS"]), len(launch.heads)](
            *self.tensors, grad_out, grads[0], grad_bias, lse, delta, self.bias, launch.heads, *plan[:3], layer.seeds,
            *sizes, *self.numbers, layer.scale, **self.constants, **blocks,
        )  # fmt: skip
        kernels.range_backward_key[triton.cdiv(sizes[1], blocks["KEYS"]), len(launch.heads)](
            *self.tensors, grad_out, *grads[1:], lse, delta, self.bias, launch.heads, *plan, layer.seeds,
            *sizes, *self.numbers, layer.scale, **self.constants, **blocks,
        )  # fmt: skip

    def backward_edges(
        self,
        launch: Launch,
        saved: Sequence[Tensor],
        grads: Sequence[Tensor],
        grad_bias: Tensor | None,
        grad_weights: Tensor | None,
    ) -> None:
        plan, layer = launch.plan, self.layer
        assert isinstance(plan, EdgePlan)
        grad_out, lse, delta = saved
        options: dict[str, Any] = {**self.constants, "HAS_WEIGHTS": grad_weights is not None, "num_warps": 1}
        kernels.edge_backward_query[layer.num_destinations, len(launch.heads)](
            *self.tensors, grad_out, grads[0], grad_bias, grad_weights, lse, delta, self.bias, launch.heads, *plan[:3],
            layer.seeds, layer.num_destinations, *self.numbers, layer.scale, KEYS=_TILE, **options,
        )  # fmt: skip
        kernels.edge_backward_key[self.num_src, len(launch.heads)](
            *self.tensors, grad_out, *grads[1:], grad_weights, lse, delta, self.bias, launch.heads, *plan[3:],
            layer.seeds, layer.num_destinations, self.num_src, *self.numbers, layer.scale, ROWS=_TILE, **options,
        )  # fmt: skip
