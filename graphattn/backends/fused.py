"""Backend ``fused``: scores, softmax and weighted sum of a destination in one pass, by compiled kernels on a CPU.

Nothing of the edges' size is kept unless weights are asked for: the backward pass recomputes them from the largest
score and the sum of each softmax, and dropout draws its bits from the number of the edge. Where the keys of each
destination lie side by side (windows, order, complete graphs) blocks of destinations are multiplied with strips of keys
(:mod:`graphattn.backends.fused_ranges`); other edges are looked up one by one (:mod:`graphattn.backends.fused_edges`).

Kernels are compiled by Numba on first use and cached on disk. Threads are Python threads around kernels that release
the interpreter lock: as many as ``torch.get_num_threads()``, each taking the next task when it has done one, safe after
a fork and in several threads at once. The bits of the result do not depend on their number.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphattn.backends import fused_edges, fused_ranges
from graphattn.backends.fused_plan import EdgePlan, RangePlan, plan_of, shared_plan
from graphattn.backends.lanes import BYTES, lanes
from graphattn.edges import Edges
from graphattn.exceptions import BackendError

DTYPES = (torch.float32, torch.float64)
CACHE = 1 << 19
"""Bytes that one task should work on."""
SMALL = 1 << 16
"""Products of features below which a second thread costs more than it helps."""


def attend(
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
    """Attention along one relation; bfloat16 is computed in float32."""
    if query.device.type != "cpu" or query.dtype not in (*DTYPES, torch.bfloat16):
        raise BackendError(
            f"backend 'fused' takes float32, float64 and bfloat16 on a CPU, not {query.dtype} on {query.device}. "
            "Use backend='torch'"
        )
    if query.dtype == torch.bfloat16:
        query, key, value = query.float(), key.float(), value.float()
        bias = None if bias is None else bias.float()
        out, weights = attend(
            edges, query, key, value, scale=scale, bias=bias, dropout=dropout, return_weights=return_weights
        )
        return out.bfloat16(), None if weights is None else weights.bfloat16()
    call = _Call([edges], [query.shape[1]], scale, dropout, return_weights)
    out, weights = _Attention.apply(query, key, value, bias, call)
    return out, weights if return_weights else None


def attend_heads(
    edges: Sequence[Edges], heads: Sequence[int], projected: Tensor, *, scale: float, dropout: float
) -> Tensor:
    """Attention of all heads of a layer, each along its relation, in one call: (N, 3, H, D) -> (N, H, D)."""
    out: Tensor = _ProjectedAttention.apply(projected, _Call(edges, heads, scale, dropout, plain=True))
    return out


@dataclass
class _Call:
    """What attention computes with, and what its backward pass needs to know; plain: neither bias nor weights."""

    edges: Sequence[Edges]
    heads: Sequence[int]
    scale: float
    dropout: float
    return_weights: bool = False
    plain: bool = False

    def __post_init__(self) -> None:
        seeds = [int(torch.randint(1 << 31, ()).item()) if self.dropout else 0 for _ in self.edges]
        numbers = [(seed ^ (head + 1) * 0x85EBCA6B) & 0xFFFFFFFF for seed, count in zip(seeds, self.heads, strict=True)
                   for head in range(count)]  # fmt: skip
        self.seeds = np.array(numbers, np.uint32)

    @cached_property
    def parts(self) -> list[_Part]:
        """The heads, in runs that one kernel can take."""
        found: list[_Part] = []
        first = 0
        together = self._together()
        for bundle in together:
            count = sum(self.heads[number] for number in bundle)
            heads = slice(first, first + count)
            edges = [self.edges[number] for number in bundle]
            plan = plan_of(edges[0]) if len(bundle) == 1 else shared_plan(edges)
            assert plan is not None
            numbers, relation = [], 0
            for number, own in zip(bundle, edges, strict=True):
                identity = self.plain and own.is_identity
                numbers += [-1 if identity else relation] * self.heads[number]
                relation += not identity
            found.append(_Part(heads, plan, np.array(numbers)))
            first += count
        return found

    def _together(self) -> list[list[int]]:
        """Relations that share a plan: all of them when they look at short ranges, else each has its own."""
        alone = [[number] for number in range(len(self.edges))]
        if len(self.edges) == 1:
            return alone
        return [list(range(len(self.edges)))] if shared_plan(self.edges) is not None else alone


class _Part(NamedTuple):
    """Heads next to each other, their plan, and the relation of each within it."""

    heads: slice
    plan: RangePlan | EdgePlan
    which: np.ndarray


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, call: _Call
    ) -> tuple[Tensor, Tensor]:
        query, key, value = (_rows(tensor.detach()) for tensor in (query, key, value))
        heads = query.shape[1]
        out = _empty((query.shape[0], heads, value.shape[2]), value.dtype)
        added = query.new_zeros(heads, 0) if bias is None else bias.detach().t().contiguous()  # (H, E) or (H, 0)
        weights = query.new_zeros(heads, call.edges[0].num_edges if call.return_weights else 0)
        tops, sums = _forward(call, query, key, value, added, out, weights)
        ctx.call, ctx.has_bias = call, bias is not None
        ctx.save_for_backward(query, key, value, added, out, tops, sums)
        return out, weights.t()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, added, out, tops, sums = (tensor.detach() for tensor in ctx.saved_tensors)
        gradients = tuple(gradient.detach() for gradient in gradients)
        grad_weights = gradients[1].t().contiguous() if ctx.call.return_weights else added.new_zeros(len(added), 0)
        grads = [torch.zeros(tensor.shape, dtype=tensor.dtype) for tensor in (query, key, value)]
        grad_bias = torch.zeros_like(added)
        _backward(
            ctx.call, query, key, value, added, out, tops, sums, _rows(gradients[0]), grad_weights, grads, grad_bias
        )
        return (*grads, grad_bias.t() if ctx.has_bias else None, None)


class _ProjectedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, projected: Tensor, call: _Call) -> Tensor:
        projected = projected.detach().contiguous()
        query, key, value = projected.unbind(1)
        out = _empty(query.shape, query.dtype)
        nothing = query.new_zeros(query.shape[1], 0)
        tops, sums = _forward(call, query, key, value, nothing, out, nothing)
        ctx.call = call
        ctx.save_for_backward(projected, out, tops, sums)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        projected, out, tops, sums = (tensor.detach() for tensor in ctx.saved_tensors)
        query, key, value = projected.unbind(1)
        gradient = _empty(projected.shape, projected.dtype).zero_()
        nothing = out.new_zeros(out.shape[1], 0)
        _backward(
            ctx.call, query, key, value, nothing, out, tops, sums, _rows(gradients[0].detach()), nothing,
            gradient.unbind(1), nothing,
        )  # fmt: skip
        return gradient, None


class _Task(NamedTuple):
    """A kernel with its arguments, called with a counter before them and scratch memory of ``size`` numbers behind."""

    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    size: int


def _forward(
    call: _Call, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, out: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Fill ``out`` and ``weights``; largest scores and inverse sums, (H, N_dst) each."""
    kind = query.numpy().dtype.type
    tops = query.new_zeros(query.shape[1], query.shape[0])
    sums = torch.zeros_like(tops)
    width, value_width, count = query.shape[2], value.shape[2], lanes(tops.numpy())
    steps = (width, value_width, *_steps(query, key, value, out))
    tasks = []
    for part, plan, which in call.parts:
        flat = [_flat(tensor[:, part]) for tensor in (query, key, value)]
        arrays = (*flat, bias[part].flatten().numpy(), _flat(out[:, part]), tops[part].numpy(), sums[part].numpy())
        last = (weights[part].flatten().numpy(), steps, kind(call.scale), call.dropout, call.seeds[part])
        if isinstance(plan, RangePlan):
            group, size = _group(plan, len(which), width, value_width, count)
            tasks.append(_Task(fused_ranges.forward, (*_bounds(plan, which), *arrays, *last, group), size))
        else:
            size = fused_edges.work_size(plan.longest, count)
            tasks.append(_Task(fused_edges.forward, (plan.runs, plan.starts, plan.indices, *arrays, *last), size))
    _run(tasks, tops, call, width + value_width)
    return tops, sums


def _bounds(plan: RangePlan, which: np.ndarray) -> tuple[np.ndarray, ...]:
    return plan.chunks, which, plan.blocks, plan.lows, plan.highs, plan.slots


def _backward(
    call: _Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    out: Tensor,
    tops: Tensor,
    sums: Tensor,
    grad_out: Tensor,
    grad_weights: Tensor,
    grads: Sequence[Tensor],
    grad_bias: Tensor,
) -> None:
    """Fill the gradients of query, key, value and bias, which start at zero."""
    kind = query.numpy().dtype.type
    width, value_width, count = query.shape[2], value.shape[2], lanes(tops.numpy())
    steps = (width, value_width, *_steps(query, key, value, out, grad_out, *grads))
    tasks, merges = [], []
    for part, plan, which in call.parts:
        flat = [_flat(tensor[:, part]) for tensor in (query, key, value)]
        arrays = (*flat, bias[part].flatten().numpy(), _flat(out[:, part]), tops[part].numpy(), sums[part].numpy())
        given = (_flat(grad_out[:, part]), grad_weights[part].flatten().numpy())
        made = [_flat(tensor[:, part]) for tensor in grads]
        made.append(grad_bias[part].view(-1).numpy())
        last = (steps, kind(call.scale), call.dropout, call.seeds[part])
        if isinstance(plan, RangePlan):
            heads = len(which)
            group, size = _group(plan, heads, width, value_width, count)
            partial = np.empty(plan.shared * heads * (width + value_width), tops.numpy().dtype)
            arguments = (*_bounds(plan, which), *arrays, *given, *made, partial, *last, group)
            tasks.append(_Task(fused_ranges.backward, arguments, size))
            if plan.shared:
                merges.append(_Task(fused_ranges.merge, (plan.chunks, partial, made[1], made[2], heads, steps), 0))
        else:
            size = fused_edges.work_size(plan.longest, count)
            arguments = (plan.separate_runs, plan.starts, plan.indices, *arrays, *given, *made, *last)
            tasks.append(_Task(fused_edges.backward, arguments, size))
    for phase in (tasks, merges):
        _run(phase, tops, call, 3 * (width + value_width))


def _group(plan: RangePlan, heads: int, width: int, value_width: int, count: int) -> tuple[int, int]:
    """Heads that a task takes together, as many as the cache holds, and the scratch memory that it needs."""

    def size(group: int) -> int:
        return fused_ranges.work_size(plan.strip, plan.lines, int(plan.blocks.max()), group, width, value_width, count)

    group = max(1, min(heads, CACHE // ((size(2) - size(1)) * BYTES // count)))
    return group, size(group)


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Memory from NumPy, which asks for huge pages: touching new small ones takes longer than narrow windows do."""
    return torch.from_numpy(np.empty(tuple(shape), np.float32 if dtype == torch.float32 else np.float64))


def _rows(tensor: Tensor) -> Tensor:
    """The tensor with features side by side and no overlaps."""
    return tensor if tensor.stride(2) == 1 and 0 not in tensor.stride() else tensor.contiguous()


def _flat(tensor: Tensor) -> np.ndarray:
    """The memory from the first to the last number of a tensor."""
    span = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    flat: np.ndarray = tensor.as_strided((span if tensor.numel() else 0,), (1,)).numpy()
    return flat


def _steps(*tensors: Tensor) -> tuple[int, ...]:
    """Distances between nodes and between heads of each tensor."""
    return tuple(step for tensor in tensors for step in tensor.stride()[:2])


def _run(tasks: Sequence[_Task], like: Tensor, call: _Call, features: int) -> None:
    """Let as many threads as PyTorch uses work through the kernels' tasks together."""
    if not tasks:
        return
    shared = [(task, np.zeros(1, np.int64)) for task in tasks]
    size, dtype = max(task.size for task in tasks), like.numpy().dtype

    def work() -> None:
        scratch = _scratch(size, dtype)
        for task, counter in shared:
            task.kernel(counter, *task.arguments, *([scratch] if task.size else []))

    products = features * sum(edges.num_edges * heads for edges, heads in zip(call.edges, call.heads, strict=True))
    helpers = torch.get_num_threads() - 1 if products > SMALL else 0
    futures = [_pool(os.getpid(), helpers).submit(work) for _ in range(helpers)]
    try:
        work()
    finally:
        for future in futures:
            future.result()


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Worker threads of one process; a forked one makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="graphattn")


_LOCAL = threading.local()


def _scratch(size: int, dtype: Any) -> np.ndarray:
    """Memory that a thread keeps from call to call."""
    memory: np.ndarray | None = getattr(_LOCAL, "memory", None)
    if memory is None or memory.nbytes < size * dtype.itemsize:
        memory = _LOCAL.memory = np.zeros(size * dtype.itemsize, np.uint8)
    return memory[: memory.nbytes // dtype.itemsize * dtype.itemsize].view(dtype)
