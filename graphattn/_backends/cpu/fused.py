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

from graphattn._backends.call import AttentionCall, HeadGroup, Span, join_groups, split_rows
from graphattn._backends.cpu import tasks
from graphattn._backends.cpu.buffer_pool import empty
from graphattn._backends.cpu.dropout_kernel import drop_rows
from graphattn._backends.cpu.head_groups import KernelCall, OtherEdges
from graphattn._backends.cpu.tasks import Saved
from graphattn._distances import DistanceBias
from graphattn._gradients import Function, apply_pair
from graphattn.exceptions import BackendError

DTYPES = (torch.float32, torch.float64)


def attend(call: AttentionCall) -> tuple[Tensor, list[Tensor]]:
    """Compute all heads of a layer in one call if their rows are one tensor; bfloat16 is computed in float32."""
    rows = call.rows
    first = rows if isinstance(rows, Tensor) else rows[0]
    if first.device.type != "cpu" or first.dtype not in (*DTYPES, torch.bfloat16):
        raise BackendError(
            f"backend 'fused' takes float32, float64 and bfloat16 on a CPU, not {first.dtype} on {first.device}. "
            "Use backend='torch'"
        )
    # no biases, and no weights under dropout
    if (
        isinstance(rows, Tensor)
        and rows.dtype in DTYPES
        and not (call.return_weights and call.dropout)
        and all(span.bias is None for span in call.spans)
    ):
        return _attend_heads(call, rows)
    return join_groups(call, (_attend_group(call, *pair) for pair in call.computed))


def _attend_heads(call: AttentionCall, rows: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Attention with all heads, and the weights (E, heads) of each relation, which have no gradients.

    The rows (N, P, D) may be more than there are nodes; the result has zeros there.
    """
    kernel_call = KernelCall(call.spans, call.scale, call.dropout, plain=True, splits=not call.return_weights)
    out, weights = apply_pair(_Attention, None, kernel_call, call.return_weights, rows)
    if not call.return_weights:
        return out, []
    shapes = [(span.num_heads, 0 if span.copies else span.edges.num_edges) for span in call.spans]
    by_relation = weights.split([count * size for count, size in shapes])
    return out, [
        rows.new_ones(span.edges.num_edges, span.num_heads) if span.copies else each.view(shape).t()
        for span, each, shape in zip(call.spans, by_relation, shapes, strict=True)
    ]


def _attend_group(call: AttentionCall, span: Span, group: HeadGroup) -> tuple[Tensor, Tensor | None]:
    edges, query, key, value, _ = group
    dtype, bias = query.dtype, span.bias
    if dtype == torch.bfloat16:
        query, key, value = query.float(), key.float(), value.float()
    plain = bias is None and not (call.return_weights and (call.dropout or torch.is_grad_enabled()))
    heads = slice(0, query.shape[1])
    kernel_call = KernelCall([Span(edges, heads, heads)], call.scale, call.dropout, plain=plain)
    rows: tuple[Tensor | None, ...] = query, key, value
    if isinstance(bias, DistanceBias):
        of_destinations, of_sources, kernel_call.distances = bias.map(lambda table: table.to(query.dtype))
        rows, bias = (*rows, of_destinations, of_sources), None
    bias = None if bias is None else bias.to(query.dtype)
    out, weights = apply_pair(_Attention, bias, kernel_call, call.return_weights, *rows)
    return out.to(dtype), weights.view(heads.stop, -1).t().to(dtype) if call.return_weights else None


class _Attention(Function):
    """Outputs and weights, head after head, for rows as one tensor (N, P, D), or as queries, keys and values.

    The tables of biases by distance follow the rows.
    """

    @staticmethod
    def forward(
        ctx: Any, bias: Tensor | None, call: KernelCall, return_weights: bool, *inputs: Any
    ) -> tuple[Tensor, Tensor]:
        rows = tuple(_with_contiguous_features(tensor.detach()) for tensor in inputs[:3])
        tables = inputs[3:]
        distances = _detach_tables(tables, call)
        query, key, value = split_rows(rows, call.num_heads)
        out = empty((query.shape[0], *value.shape[1:]), value.dtype)
        # (H, E) or (H, 0)
        by_head = value.new_zeros(call.num_heads, 0) if bias is None else bias.detach().t().contiguous()
        # kernels skip weights of rows whose scores are all -inf
        weights = value.new_zeros(call.num_edges if return_weights else 0)
        row_max, inverse_sum = tasks.forward(call, query, key, value, by_head, out, weights, distances)
        saved = Saved(query, key, value, by_head, out, row_max, inverse_sum)
        for other in call.others:
            _merge_other_edges(other, saved.of_heads(other))
        _copy_heads(call, value, out)
        if out.shape[0] > call.num_nodes:
            out[call.num_nodes :] = 0  # padded rows
        ctx.call, ctx.has_bias, ctx.has_weights = call, bias is not None, return_weights
        ctx.num_rows = len(rows)
        ctx.save_for_backward(by_head, out, row_max, inverse_sum, *rows, *tables)
        return out, weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        call: KernelCall = ctx.call
        tensors, end = ctx.saved_tensors, 4 + ctx.num_rows
        by_head, out, row_max, inverse_sum, *rows = (tensor.detach() for tensor in tensors[:end])
        tables = tensors[end:]
        grad_tables = [None if table is None else torch.zeros(table.shape, dtype=table.dtype) for table in tables]
        grad_out, grad_weights = (gradient.detach() for gradient in gradients)
        distances = _detach_tables(tables, call)
        saved = Saved(*split_rows(rows, call.num_heads), by_head, out, row_max, inverse_sum, distances)
        weights_shape = (len(by_head), -1 if ctx.has_weights else 0)
        needed = (True, *ctx.needs_input_grad[4 : 3 + len(rows)])
        # kernels do not touch the placeholder for gradients of frozen keys or values
        row_gradients = [
            _empty_gradient(call, tensor.shape, tensor.dtype) if needs else tensor
            for tensor, needs in zip(rows, needed, strict=True)
        ]
        grads, grad_bias = split_rows(row_gradients, call.num_heads), torch.zeros_like(by_head)
        grad_out = _with_contiguous_features(grad_out)
        key_and_value = (needed[1], needed[2]) if len(rows) > 1 else (True, True)
        tasks.backward(
            call,
            saved,
            grad_out,
            grad_weights.reshape(weights_shape),
            grads,
            grad_bias,
            needed=key_and_value,
            grad_distances=_detach_tables(grad_tables, call),
        )
        for other in call.others:
            _add_other_gradients(other, saved.of_heads(other), grad_out[:, other.heads], grads)
        _copy_heads(call, grad_out, grads[2])
        for span in call.copied:
            if span.scored is not None:
                for grad in grads[:2]:
                    grad.narrow(1, span.scored.start, span.num_heads).zero_()
        input_gradients = (grad if needs else None for grad, needs in zip(row_gradients, needed, strict=True))
        return grad_bias.t() if ctx.has_bias else None, None, None, *input_gradients, *grad_tables


def _detach_tables(tables: Sequence[Tensor | None], call: KernelCall) -> DistanceBias | None:
    """Biases by distance, without their gradients; None without tables."""
    if call.distances is None:
        return None
    of_destinations, of_sources = tables
    return DistanceBias(of_destinations, of_sources, call.distances).map(Tensor.detach)


def _copy_heads(call: KernelCall, source: Tensor, target: Tensor) -> None:
    """Copy the heads whose outputs are their values, with dropout: values forward, gradients backward."""
    for span in call.copied:
        own = source.narrow(1, span.heads.start, span.num_heads), target.narrow(1, span.heads.start, span.num_heads)
        copied, copy = own if source.shape[0] == call.num_nodes else (each[: call.num_nodes] for each in own)
        if call.dropout:
            drop_rows(copied, copy, call.dropout, call.seeds[span.heads])
        else:
            copy.copy_(copied)


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


def _empty_gradient(call: KernelCall, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory for gradients: zeros where the kernels do not write, such as in padded rows."""
    memory = empty(shape, dtype)
    if not call.covers_everything:
        return memory.zero_()
    if memory.shape[0] > call.num_nodes:
        memory[call.num_nodes :] = 0
    return memory


def _with_contiguous_features(tensor: Tensor) -> Tensor:
    """The tensor, or a copy if its features are not contiguous or its memory overlaps."""
    return tensor if tensor.stride(2) == 1 and 0 not in tensor.stride() else tensor.contiguous()
