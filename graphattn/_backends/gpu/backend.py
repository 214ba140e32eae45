"""Backend ``triton``: attention of all heads of a layer in one launch, on an NVIDIA or AMD GPU.

Relations with rising ranges of keys (windows, complete graphs, order, sentences) share one launch, those with other
edges another. Products are of the inputs' type, sums in float32. What the kernels lack runs in backend ``torch``:
float64, and several edges between the same nodes.
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
from graphattn._backends.gpu.plan import Launch, Layer, plan_layer, plan_relation
from graphattn._backends.torch import TorchBackend
from graphattn._edges import Edges
from graphattn._gradients import Function, apply_pair

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
WIDEST = 256
"""Most features of a head."""


@dataclass(frozen=True)
class Options:
    """Numbers of a call; ``function`` and ``bound`` are those of tensorized attention."""

    scale: float
    dropout: float = 0.0
    function: str = "identity"
    bound: float = 1.0


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
        if isinstance(rows, Tensor) and not return_weights and all(bias is None for bias in biases) and _fits(rows):
            compact = rows.shape[1] != 3 * sum(heads)
            layer = plan_layer(edges, heads, compact=compact, copies=self.skips_identities)
            if layer is not None:
                return attend_planned(layer, (rows, rows, rows), None, sum(heads), Options(scale, dropout)), []
        return super().attend(
            edges, heads, rows, scale=scale, biases=biases, dropout=dropout, return_weights=return_weights
        )

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
        heads = query.shape[1]
        layer = plan_relation(edges, heads) if _fits(query) and _fits(value) else None
        if layer is None:
            return self._others.attend_relation(
                edges, query, key, value, scale=scale, bias=bias, dropout=dropout, return_weights=return_weights
            )
        options = Options(scale, dropout)
        if not return_weights:
            return attend_planned(layer, (query, key, value), bias, heads, options), None
        return apply_pair(_Attention, query, key, value, bias, layer, heads, options, edges)


def attend_planned(
    layer: Layer, rows: tuple[Tensor, Tensor, Tensor], bias: Tensor | None, heads: int, options: Options
) -> Tensor:
    """Outputs (N_dst, H, F) of queries, keys and values; three times the same tensor if their rows are in one."""
    return apply_pair(_Attention, *rows, bias, layer, heads, options, None)[0]


def _fits(rows: Tensor) -> bool:
    return rows.dtype in DTYPES and rows.shape[2] <= WIDEST


class _Attention(Function):
    """Rows (N, P, D) and a bias (E, H) give outputs (N_dst, H, F), and weights (E, H) of ``weighed`` edges."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        layer: Layer,
        heads: int,
        options: Options,
        weighed: Edges | None,
    ) -> tuple[Tensor, Tensor]:
        query, key, value = (each if each.stride(2) == 1 else each.contiguous() for each in (query, key, value))
        bias = None if bias is None else bias.contiguous()
        seeds = _draw_seeds(heads, options.dropout, value.device)
        call = _Call(query, key, value, bias, seeds, heads, options)
        out = value.new_empty(len(query), heads, value.shape[2])
        lse = torch.empty(heads, len(query), dtype=torch.float32, device=value.device)
        weights = value.new_empty(0 if weighed is None else weighed.num_edges, heads)
        for launch in layer.launches:
            call.forward(launch, out, lse)
            if weighed is not None:
                call.weigh(launch, lse, weights)
        kept = None
        if layer.copies and options.dropout:
            kept = F.dropout(value.new_ones(len(query), heads, 1), options.dropout)
        for head, place, count in layer.copies:
            copied = value[:, place : place + count]
            out[:, head : head + count] = copied if kept is None else copied * kept[:, head : head + count]
        ctx.arguments = layer, heads, options, weighed
        ctx.save_for_backward(query, key, value, bias, seeds, out, lse, kept, None if weighed is None else weights)
        return out, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, seeds, out, lse, kept, weights = ctx.saved_tensors
        layer, heads, options, weighed = ctx.arguments
        call = _Call(query, key, value, bias, seeds, heads, options)
        grad_out = gradients[0].contiguous()
        delta = (grad_out.float() * out.float()).sum(-1).t().contiguous()
        grad_weights = None
        if weights is not None:
            grad_weights = gradients[1].contiguous()
            products = weights.float() * grad_weights.float()
            delta += torch.segment_reduce(products, "sum", offsets=weighed.indptr.long(), axis=0).t()
        # nobody writes gradients of the queries and keys of heads that copy their value
        has_gaps = bool(layer.copies) and value.shape[1] == 3 * heads
        grads = [torch.zeros_like(value) if has_gaps else torch.empty_like(value)]
        is_joint = query is key
        grads = grads * 3 if is_joint else [torch.empty_like(query), torch.empty_like(key), *grads]
        grad_bias = None if bias is None else torch.zeros_like(bias)
        for launch in layer.launches:
            call.backward(launch, kernels.Saved(grad_out, lse, delta, grad_weights), grads, grad_bias)
        for head, place, count in layer.copies:
            copied = grad_out[:, head : head + count]
            grads[2][:, place : place + count] = copied if kept is None else copied * kept[:, head : head + count]
        rows = (grads[0], None, None) if is_joint else tuple(grads)
        return (*rows, grad_bias, None, None, None, None)


def _draw_seeds(heads: int, dropout: float, device: torch.device) -> Tensor:
    if not dropout:
        return torch.empty(heads, dtype=torch.int32, device=device)
    return torch.randint(0, 2**31 - 1, (heads,), dtype=torch.int32, device=device)


class _Call:
    """Arguments of the kernels of a call."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor | None,
        seeds: Tensor,
        heads: int,
        options: Options,
    ):
        self.query, self.key, self.value, self.bias, self.seeds = query, key, value, bias, seeds
        self.heads, self.options = heads, options
        self.constants: dict[str, Any] = {
            "D": query.shape[2],
            "D_PAD": pad_width(query.shape[2]),
            "HEADS": heads,
            "HAS_BIAS": bias is not None,
            "FUNCTION": options.function,
            "PRECISION": "tf32" if value.dtype != torch.float32 or torch.backends.cuda.matmul.allow_tf32 else "ieee",
        }
        self.value_constants = {
            "F": value.shape[2],
            "F_PAD": pad_width(value.shape[2]),
            "HAS_DROPOUT": options.dropout > 0,
        }
        self.width = max(pad_width(query.shape[2]), pad_width(value.shape[2]))

    def forward(self, launch: Launch, out: Tensor, lse: Tensor) -> None:
        """Fill the outputs and LSE of the heads of a launch."""
        grid, constants = self._cut(launch, len(self.query))
        kernels.forward[grid](self._inputs(launch), out, lse, **constants, **self.value_constants)

    def weigh(self, launch: Launch, lse: Tensor, weights: Tensor) -> None:
        """Fill the weights."""
        grid, constants = self._cut(launch, len(self.query))
        kernels.edge_weights[grid](self._inputs(launch), lse, weights, **constants)

    def backward(
        self, launch: Launch, saved: kernels.Saved, grads: Sequence[Tensor], grad_bias: Tensor | None
    ) -> None:
        """Fill the gradients of the heads of a launch."""
        inputs, nothing = self._inputs(launch), self.query
        has_weights = saved.grad_weights is not None
        saved = saved if has_weights else saved._replace(grad_weights=nothing)
        grad_bias = nothing if grad_bias is None else grad_bias
        grid, constants = self._cut(launch, len(self.query))
        constants |= {**self.value_constants, "HAS_WEIGHTS": has_weights}
        kernels.backward_query[grid](inputs, saved, grads[0], grad_bias, **constants)
        grid = triton.cdiv(len(self.key), constants["SIZE"]), grid[1]
        kernels.backward_key[grid](inputs, saved, grads[1], grads[2], **constants)

    def _inputs(self, launch: Launch) -> kernels.Inputs:
        options, rows = self.options, (self.query, self.key, self.value)
        strides = [stride for each in rows for stride in each.stride()[:2]]
        limit = min(int(options.dropout * 2**32), 2**32 - 1)
        return kernels.Inputs(
            *rows,
            self.query if self.bias is None else self.bias,
            launch.plan,
            launch.heads,
            self.seeds,
            len(self.query),
            len(self.key),
            *strides,
            options.scale,
            options.bound,
            limit,
            1 / (1 - options.dropout),
        )

    def _cut(self, launch: Launch, nodes: int) -> tuple[tuple[int, int], dict[str, Any]]:
        """Grid, and sizes of blocks and tiles."""
        blocks = choose_blocks(self.width, is_range=launch.is_range)
        grid = triton.cdiv(nodes, blocks["SIZE"]), len(launch.heads)
        return grid, {**self.constants, "IS_RANGE": launch.is_range, **blocks}


def pad_width(features: int) -> int:
    """Features of a head that kernels compute: a power of two."""
    return max(16, 1 << (features - 1).bit_length())


def choose_blocks(width: int, *, is_range: bool) -> dict[str, int]:
    """Nodes of a block and of a tile, and warps, for a padded width: what fits the registers of a multiprocessor."""
    size = 64 if width <= 64 else 32
    return {"SIZE": size, "TILE": size if is_range else kernels.WORD.value, "num_warps": 4}
