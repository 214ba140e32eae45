"""Backend ``fused``: scores, softmax and weighted sum of a destination in one pass, by compiled kernels on a CPU.

No per-edge tensor is kept unless weights are requested: the backward pass recomputes them from the row max and row sum
of each softmax, and dropout draws its bits from the number of the edge. Kernels for contiguous keys read no index: one
call computes all narrow relations of a layer (``windows/narrow_forward``), and wide relations
are computed by blocks of destinations and tiles of keys (``windows/wide_forward``). For other
edges a kernel looks up each source.

Numba compiles the kernels on first use and caches them on disk. They run in ``torch.get_num_threads()`` threads, also
after a fork of a process that had imported ``graphattn``, and in several Python threads at once. Results do not depend
on the number of threads, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from graphattn._backends.base import Backend, Rows
from graphattn._backends.cpu import tasks
from graphattn._backends.cpu.buffer_pool import empty
from graphattn._backends.cpu.call import Call, OtherEdges
from graphattn._backends.cpu.tasks import Saved
from graphattn._edges import Edges
from graphattn._gradients import Function, apply_pair
from graphattn.exceptions import BackendError

DTYPES = (torch.float32, torch.float64)


class FusedBackend(Backend):
    """Compiled kernels for the CPU; bfloat16 is computed in float32."""

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
        # one call for all heads, which has no biases, and no weights under dropout
        if (
            isinstance(rows, Tensor)
            and rows.dtype in DTYPES
            and rows.device.type == "cpu"
            and not (return_weights and dropout)
            and all(bias is None for bias in biases)
        ):
            return _attend_projected(edges, heads, rows, scale, dropout, return_weights)
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
        if query.device.type != "cpu" or query.dtype not in (*DTYPES, torch.bfloat16):
            raise BackendError(
                f"backend 'fused' takes float32, float64 and bfloat16 on a CPU, not {query.dtype} on {query.device}. "
                "Use backend='torch'"
            )
        dtype = query.dtype
        if dtype == torch.bfloat16:
            query, key, value = query.float(), key.float(), value.float()
            bias = None if bias is None else bias.float()
        plain = bias is None and not (return_weights and (dropout or torch.is_grad_enabled()))
        heads = query.shape[1]
        call = Call([edges], [heads], scale, dropout, plain=plain)
        out, weights = apply_pair(_Attention, bias, call, return_weights, query, key, value)
        return out.to(dtype), weights.view(heads, -1).t().to(dtype) if return_weights else None


def _attend_projected(
    edges: Sequence[Edges], heads: Sequence[int], rows: Tensor, scale: float, dropout: float, return_weights: bool
) -> tuple[Tensor, list[Tensor]]:
    """Attention of all heads of a layer, and the weights (E, heads) of each relation, which have no gradients.

    The rows (N, P, D) may be more than there are nodes; the result has zeros there.
    """
    compact = rows.shape[1] != 3 * sum(heads)
    call = Call(edges, heads, scale, dropout, plain=True, compact=compact, splits=not return_weights)
    out, weights = apply_pair(_Attention, None, call, return_weights, rows)
    if not return_weights:
        return out, []
    shapes = [(count, relation.num_edges) for relation, count in zip(edges, heads, strict=True)]
    by_relation = weights.split([count * size for count, size in shapes])
    return out, [each.view(shape).t() for each, shape in zip(by_relation, shapes, strict=True)]


class _Attention(Function):
    """Outputs and weights, head after head, for rows as one tensor (N, P, D), or as queries, keys and values."""

    @staticmethod
    def forward(
        ctx: Any, bias: Tensor | None, call: Call, return_weights: bool, *rows: Tensor
    ) -> tuple[Tensor, Tensor]:
        rows = tuple(_with_contiguous_features(tensor.detach()) for tensor in rows)
        query, key, value = _split(rows, call)
        heads = value.shape[1]
        out = empty((len(query), *value.shape[1:]), value.dtype)
        by_head = value.new_zeros(heads, 0) if bias is None else bias.detach().t().contiguous()  # (H, E) or (H, 0)
        # kernels skip weights of rows whose scores are all -inf
        weights = value.new_zeros(int(call.weight_starts[-1]) if return_weights else 0)
        row_max, inverse_sum = tasks.forward(call, query, key, value, by_head, out, weights)
        saved = Saved(query, key, value, by_head, out, row_max, inverse_sum)
        for other in call.others:
            _merge_other_edges(other, saved.of_heads(other))
        out[call.edges[0].num_destinations :] = 0  # padded rows
        ctx.call, ctx.has_bias, ctx.has_weights = call, bias is not None, return_weights
        ctx.save_for_backward(by_head, out, row_max, inverse_sum, *rows)
        return out, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        by_head, out, row_max, inverse_sum, *rows = (tensor.detach() for tensor in ctx.saved_tensors)
        grad_out, grad_weights = (gradient.detach() for gradient in gradients)
        call: Call = ctx.call
        saved = Saved(*_split(rows, call), by_head, out, row_max, inverse_sum)
        weights_shape = (len(by_head), -1 if ctx.has_weights else 0)
        needed = (True, *ctx.needs_input_grad[4:])
        # kernels do not touch the placeholder for gradients of frozen keys or values
        row_gradients = [
            _empty_gradient(call, tensor.shape, tensor.dtype) if needs else tensor
            for tensor, needs in zip(rows, needed, strict=True)
        ]
        grads, grad_bias = _split(row_gradients, call), torch.zeros_like(by_head)
        grad_out = _with_contiguous_features(grad_out)
        key_and_value = (needed[1], needed[2]) if len(rows) > 1 else (True, True)
        tasks.backward(
            call, saved, grad_out, grad_weights.reshape(weights_shape), grads, grad_bias, needed=key_and_value
        )
        for other in call.others:
            _add_other_gradients(other, saved.of_heads(other), grad_out[:, other.heads], grads)
        input_gradients = (grad if needs else None for grad, needs in zip(row_gradients, needed, strict=True))
        return grad_bias.t() if ctx.has_bias else None, None, None, *input_gradients


def _merge_other_edges(other: OtherEdges, saved: Saved) -> None:
    """Attend along more edges of some heads, and merge the outputs into those in ``saved``.

    Each output is rescaled to the common maximum and sum, as in online softmax (Milakov and Gimelshein 2018).
    """
    out = empty(saved.out.shape, saved.out.dtype)
    row_max, inverse_sum = tasks.forward(other.call, *saved[:4], out, saved.out.new_zeros(0))
    exists, other_exists = saved.inverse_sum != 0, inverse_sum != 0
    nothing = row_max.new_tensor(-math.inf)
    top = torch.maximum(torch.where(exists, saved.row_max, nothing), torch.where(other_exists, row_max, nothing))
    total = torch.where(exists, torch.exp(saved.row_max - top) / saved.inverse_sum, 0)
    other_total = torch.where(other_exists, torch.exp(row_max - top) / inverse_sum, 0)
    inverse = torch.where(exists | other_exists, 1 / (total + other_total), 0)
    saved.out.mul_((total * inverse).t().unsqueeze(2)).addcmul_(out, (other_total * inverse).t().unsqueeze(2))
    saved.row_max.copy_(top)
    saved.inverse_sum.copy_(inverse)


def _add_other_gradients(other: OtherEdges, saved: Saved, grad_out: Tensor, grads: Sequence[Tensor]) -> None:
    """Add the gradients along more edges of some heads."""
    more = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in saved[:3]]
    tasks.backward(other.call, saved, grad_out, saved.bias, more, saved.bias)
    for grad, addend, heads in zip(grads, more, (other.scored, other.scored, other.heads), strict=True):
        grad[:, heads] += addend


def _split(rows: Sequence[Tensor], call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values."""
    parts = rows[0].split([call.scored, call.scored, sum(call.heads)], dim=1) if len(rows) == 1 else rows
    query, key, value = parts
    return query, key, value


def _empty_gradient(call: Call, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory for gradients: zeros where the kernels do not write, such as in padded rows."""
    memory = empty(shape, dtype)
    if not call.covers_everything:
        return memory.zero_()
    memory[call.edges[0].num_destinations :] = 0
    return memory


def _with_contiguous_features(tensor: Tensor) -> Tensor:
    """The tensor, or a copy if its features are not contiguous or its memory overlaps."""
    return tensor if tensor.stride(2) == 1 and 0 not in tensor.stride() else tensor.contiguous()
