"""Backend ``triton``: attention of all heads of a layer in one launch, on an NVIDIA or AMD GPU.

Relations with rising ranges of keys (windows, complete graphs, order, sentences) share one launch, those with other
edges another. Products are of the inputs' type, sums in float32. What the kernels lack runs in backend ``torch``:
float64, and several edges between the same nodes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.nn import functional as F

from graphattn._backends import torch as torch_backend
from graphattn._backends.call import AttentionCall, HeadGroup, join_groups
from graphattn._backends.gpu import kernels
from graphattn._backends.gpu.plan import Launch, Layer, plan_layer, plan_relation
from graphattn._edges import Edges
from graphattn._gradients import Function, apply_pair
from graphattn.exceptions import BackendError

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


def attend(call: AttentionCall) -> tuple[Tensor, list[Tensor]]:
    """Compute all heads of a layer in one call if their rows are one tensor, without biases and weights."""
    rows = call.rows
    require_gpu(rows if isinstance(rows, Tensor) else rows[0])
    if (
        isinstance(rows, Tensor)
        and not call.return_weights
        and all(span.bias is None for span in call.spans)
        and fits(rows)
        and (layer := plan_layer(call.spans)) is not None
    ):
        heads = call.spans[-1].heads.stop
        return attend_planned(layer, (rows, rows, rows), None, heads, Options(call.scale, call.dropout))[0], []
    return join_groups(call, (_attend_group(call, group) for group in call.groups))


def _attend_group(call: AttentionCall, group: HeadGroup) -> tuple[Tensor, Tensor | None]:
    edges, query, key, value, bias = group
    heads = query.shape[1]
    layer = plan_relation(edges, heads) if fits(query) and fits(value) else None
    if layer is None:
        return torch_backend.attend_group(call, group)
    weighed = edges if call.return_weights else None
    out, weights = attend_planned(layer, (query, key, value), bias, heads, Options(call.scale, call.dropout), weighed)
    return out, weights if call.return_weights else None


def attend_planned(
    layer: Layer,
    rows: Sequence[Tensor],
    bias: Tensor | None,
    heads: int,
    options: Options,
    weighed: Edges | None = None,
) -> tuple[Tensor, Tensor]:
    """Outputs (N_dst, H, F) of queries, keys and values, and the weights (E, H) of ``weighed`` edges.

    If the layer's rows are joint, all three are the same tensor.
    """
    query, key, value = (each if each.stride(2) == 1 else each.contiguous() for each in rows)
    return apply_pair(_Attention, query, key, value, bias, layer, heads, options, weighed)


def require_gpu(rows: Tensor) -> None:
    """Raise a BackendError for rows on another device."""
    is_interpreted = not isinstance(kernels.forward, triton.JITFunction)
    if rows.device.type != "cuda" and not is_interpreted:
        raise BackendError(f"backend 'triton' computes on a GPU, not on {rows.device}; use backend='auto'")


def fits(rows: Tensor) -> bool:
    """Whether the kernels take this type and width."""
    return rows.dtype in DTYPES and rows.shape[2] <= WIDEST


class Results(NamedTuple):
    """What the forward pass computes, and the backward pass reads."""

    out: Tensor  # (N_dst, H, F)
    lse: Tensor  # (H, N_dst)
    seeds: Tensor  # (H,) of dropout
    kept: Tensor | None  # (N_dst, H, 1) dropout of values that heads copy
    weights: Tensor | None  # (E, H) on request


def compute(
    layer: Layer,
    rows: Sequence[Tensor],
    bias: Tensor | None,
    heads: int,
    options: Options,
    num_weights: int | None = None,
) -> Results:
    """Run the kernels on queries, keys and values, whose features are contiguous."""
    query, _, value = rows
    call = _Call(rows, bias, _draw_seeds(heads, options.dropout, value.device), heads, options)
    out = value.new_empty(len(query), heads, value.shape[2])
    lse = torch.empty(heads, len(query), dtype=torch.float32, device=value.device)
    weights = None if num_weights is None else value.new_empty(num_weights, heads)
    for launch in layer.launches:
        call.forward(launch, out, lse)
        if weights is not None:
            call.weigh(launch, lse, weights)
    kept = None
    if layer.copies and options.dropout:
        kept = F.dropout(value.new_ones(len(query), heads, 1), options.dropout)
    for head, place, count in layer.copies:
        copied = value[:, place : place + count]
        out[:, head : head + count] = copied if kept is None else copied * kept[:, head : head + count]
    return Results(out, lse, call.seeds, kept, weights)


def differentiate(
    layer: Layer,
    rows: Sequence[Tensor],
    bias: Tensor | None,
    heads: int,
    options: Options,
    results: Results,
    grad_out: Tensor,
    grad_weights: tuple[Tensor, Edges] | None = None,
) -> tuple[list[Tensor], Tensor | None]:
    """Gradients of queries, keys and values, the same tensor if these are in one; and of the bias."""
    query, key, value = rows
    call = _Call(rows, bias, results.seeds, heads, options)
    grad_out = grad_out.contiguous()
    delta = (grad_out.float() * results.out.float()).sum(-1).t().contiguous()
    saved = kernels.Saved(grad_out, results.lse, delta, None)
    if grad_weights is not None:
        assert results.weights is not None
        upstream, edges = grad_weights[0].contiguous(), grad_weights[1]
        products = results.weights.float() * upstream.float()
        delta += torch.segment_reduce(products, "sum", offsets=edges.indptr.long(), axis=0).t()
        saved = saved._replace(grad_weights=upstream)
    # nobody writes gradients of the queries and keys of heads that copy their value
    has_gaps = bool(layer.copies) and value.shape[1] == 3 * heads
    grads = [torch.zeros_like(value) if has_gaps else torch.empty_like(value)]  # of other strides, if not dense
    grads = grads * 3 if layer.is_joint else [torch.empty_like(query), torch.empty_like(key), *grads]
    grad_bias = None if bias is None else torch.zeros_like(bias)
    for launch in layer.launches:
        call.backward(launch, saved, grads, grad_bias)
    for head, place, count in layer.copies:
        copied, kept = grad_out[:, head : head + count], results.kept
        grads[2][:, place : place + count] = copied if kept is None else copied * kept[:, head : head + count]
    return grads, grad_bias


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
        rows = (query,) * 3 if layer.is_joint else (query, key, value)
        bias = None if bias is None else bias.contiguous()
        results = compute(layer, rows, bias, heads, options, None if weighed is None else weighed.num_edges)
        ctx.arguments = layer, heads, options, weighed
        ctx.save_for_backward(*rows, bias, *results)
        return results.out, value.new_empty(0) if results.weights is None else results.weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, bias, *saved = ctx.saved_tensors
        layer, heads, options, weighed = ctx.arguments
        grad_weights = None if weighed is None else (gradients[1], weighed)
        grads, grad_bias = differentiate(
            layer, (query, key, value), bias, heads, options, Results(*saved), gradients[0], grad_weights
        )
        rows = (grads[0], None, None) if layer.is_joint else tuple(grads)
        return (*rows, grad_bias, None, None, None, None)


def _draw_seeds(heads: int, dropout: float, device: torch.device) -> Tensor:
    if not dropout:
        return torch.empty(heads, dtype=torch.int32, device=device)
    return torch.randint(0, 2**31 - 1, (heads,), dtype=torch.int32, device=device)


class _Call:
    """Arguments of the kernels of a call."""

    def __init__(self, rows: Sequence[Tensor], bias: Tensor | None, seeds: Tensor, heads: int, options: Options):
        query, key, value = rows
        self.query, self.key, self.value, self.bias, self.seeds = query, key, value, bias, seeds
        self.heads, self.options = heads, options
        self.constants: dict[str, Any] = {
            "D": query.shape[2],
            "D_PAD": pad_width(query.shape[2]),
            "HEADS": heads,
            "ALIGN": _find_alignment(query, key, value),
            "HAS_BIAS": bias is not None,
            "FUNCTION": options.function,
            "PRECISION": "tf32" if value.dtype != torch.float32 or _allows_tf32() else "ieee",
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

    def backward(self, launch: Launch, saved: kernels.Saved, grads: Sequence[Tensor], grad_bias: Tensor | None) -> None:
        """Fill the gradients of the heads of a launch."""
        inputs, nothing = self._inputs(launch), self.query
        has_weights = saved.grad_weights is not None
        saved = saved if has_weights else saved._replace(grad_weights=nothing)
        grad_bias = nothing if grad_bias is None else grad_bias
        more = {**self.value_constants, "HAS_WEIGHTS": has_weights}
        grid, constants = self._cut(launch, len(self.query))
        kernels.backward_query[grid](inputs, saved, grads[0], _strides(grads[0]), grad_bias, **constants, **more)
        grid, constants = self._cut(launch, len(self.key), by_key=True)
        constants |= more
        kernels.backward_key[grid](
            inputs, saved, grads[1], _strides(grads[1]), grads[2], _strides(grads[2]), **constants
        )

    def _inputs(self, launch: Launch) -> kernels.Inputs:
        return kernels.Inputs(
            query=self.query,
            key=self.key,
            value=self.value,
            bias=self.query if self.bias is None else self.bias,
            plan=launch.plan,
            heads=launch.heads,
            seeds=self.seeds,
            num_dst=len(self.query),
            num_src=len(self.key),
            query_strides=_strides(self.query),
            key_strides=_strides(self.key),
            value_strides=_strides(self.value),
            scale=self.options.scale,
            bound=self.options.bound,
            limit=min(int(self.options.dropout * 2**32), 2**32 - 1),
            gain=1 / (1 - self.options.dropout),
        )

    def _cut(self, launch: Launch, nodes: int, *, by_key: bool = False) -> tuple[tuple[int, int], dict[str, Any]]:
        """Grid and constants of a kernel."""
        is_exact = self.constants["PRECISION"] == "ieee"
        blocks = choose_blocks(self.width, is_range=launch.is_range, is_exact=is_exact, by_key=by_key)
        grid = -(-nodes // blocks["SIZE"]), len(launch.heads)
        return grid, {**self.constants, "IS_RANGE": launch.is_range, **blocks}


def _allows_tf32() -> bool:
    """Whether products of float32 may be rounded, by any of PyTorch's settings."""
    matmul = torch.backends.cuda.matmul
    # from PyTorch 2.9 on, this has all settings, and allow_tf32 raises an error after some of them
    return bool(matmul.fp32_precision == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32)


def _strides(rows: Tensor) -> tuple[int, int]:
    """From a node to the next, and from a head to the next."""
    return rows.stride(0), rows.stride(1)


def _find_alignment(query: Tensor, key: Tensor, value: Tensor) -> int:
    """What all strides are a multiple of, at most 16: kernels copy as many numbers at once."""
    strides = [stride for each in (query, key, value) for stride in _strides(each)]
    return math.gcd(16, query.shape[2], value.shape[2], *strides)


def pad_width(features: int) -> int:
    """Features of a head that kernels compute: a power of two."""
    return max(16, 1 << (features - 1).bit_length())


class Blocks(NamedTuple):
    """Nodes of a block, of a tile of keys and of one of destinations; warps, and tiles that are loaded ahead."""

    size: int
    keys: int
    destinations: int
    warps: int
    stages: int


# By processor, and padded width of a head. `graphattn bench kernels` shows that nothing spills and two blocks fit a
# multiprocessor. AMD's compiler loads tiles ahead into registers, which are better left to a second block.
_BLOCKS = {
    "cuda": {64: Blocks(64, 64, 32, 4, 3), 128: Blocks(32, 32, 32, 4, 3), 256: Blocks(32, 32, 32, 8, 2)},
    "hip": {64: Blocks(32, 32, 32, 4, 1), 128: Blocks(16, 32, 16, 4, 1), 256: Blocks(16, 16, 16, 8, 1)},
}
_EXACT_BLOCKS = {
    "cuda": {64: Blocks(32, 32, 32, 4, 3), 128: Blocks(16, 16, 16, 4, 2), 256: Blocks(16, 16, 16, 8, 1)},
    "hip": {64: Blocks(16, 32, 16, 4, 1), 128: Blocks(16, 16, 16, 4, 1), 256: Blocks(16, 16, 16, 8, 1)},
}
"""For exact products of float32, without matrix units."""


def choose_blocks(
    width: int, *, is_range: bool, is_exact: bool, by_key: bool, processor: str = "hip" if torch.version.hip else "cuda"
) -> dict[str, int]:
    """The constants of a kernel, for the largest padded width of a head."""
    blocks = (_EXACT_BLOCKS if is_exact else _BLOCKS)[processor][max(64, width)]
    tile = blocks.destinations if by_key else blocks.keys
    tile = tile if is_range else kernels.WORD.value
    return {"SIZE": blocks.size, "TILE": tile, "num_warps": blocks.warps, "num_stages": blocks.stages}
