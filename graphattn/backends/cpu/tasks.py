"""The kernels of backend ``fused`` with their arguments, and the threads that work through them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphattn.backends.cpu.call import Call, Part
from graphattn.backends.cpu.compiling import announce_compilation
from graphattn.backends.cpu.edges import kernels as fused_edges
from graphattn.backends.cpu.plan import NARROW_KEYS, NarrowPlan, RangePlan
from graphattn.backends.cpu.simd.llvm import BYTES
from graphattn.backends.cpu.simd.registers import simd_width
from graphattn.backends.cpu.threads import run_in_threads
from graphattn.backends.cpu.windows import narrow_backward, narrow_forward, wide_backward, wide_forward, wide_tiles
from graphattn.backends.cpu.windows.shared_keys import merge_partial

CACHE_BYTES = 1 << 19
"""Bytes that one task should work on."""
SMALL_WORK = 1 << 16
"""Products of features below which a second thread costs more than it helps."""


class Saved(NamedTuple):
    """What the backward pass needs: inputs (bias is (H, E) or (H, 0)), output, largest scores and inverse sums."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor
    out: Tensor
    tops: Tensor
    sums: Tensor


class _Task(NamedTuple):
    """A kernel with its arguments, called with a counter before them and scratch memory of ``size`` numbers behind."""

    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    size: int


def forward(
    call: Call, query: Tensor, key: Tensor, value: Tensor, bias: Tensor, out: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Fill ``out`` and, if they have room, ``weights``: head after head; largest scores and inverse sums (H, N_dst)."""
    make = query.new_empty if call.covers_everything else query.new_zeros
    tops, sums = make(2, value.shape[1], query.shape[0])
    saved = Saved(query, key, value, bias, out, tops, sums)
    steps = (query.shape[2], value.shape[2], *_steps(query, key, value, out))
    tasks = [_forward_task(call, part, saved, weights, steps) for part in call.parts]
    _run_tasks(tasks, tops, call, sum(steps[:2]))
    return tops, sums


def _forward_task(call: Call, part: Part, saved: Saved, weights: Tensor, steps: tuple[int, ...]) -> _Task:
    plan, width, value_width, count = part.plan, steps[0], steps[1], simd_width(saved.tops.numpy())
    scale = saved.tops.numpy().dtype.type(call.scale)
    if isinstance(plan, NarrowPlan):
        flat = [_flat_memory(tensor) for tensor in (*saved[:3], saved.out)]
        asked = len(weights) > 0
        places = call.places[part.heads] if asked else np.zeros(0, np.int64)
        given = (*flat, saved.tops.numpy(), saved.sums.numpy(), weights.numpy(), places, steps)
        size = narrow_backward.work_size(0, count + NARROW_KEYS, 0, width, value_width, count)
        bounds = _bounds(part, plan, slots=call.dropout > 0 or asked)
        return _Task(narrow_forward.forward, (*bounds, *given, scale, call.dropout, call.seeds), size)
    own = _as_slice(part.heads)
    arrays = _saved_arrays(saved, part)
    wanted = weights[call.places[own.start] : call.places[own.stop]].numpy()
    last = (wanted, steps, scale, call.dropout, call.seeds[own])
    if isinstance(plan, RangePlan):
        group, size = _group(plan, len(part.heads), width, value_width, count)
        return _Task(wide_forward.forward, (*_ends(plan), *arrays, *last, group), size)
    size = fused_edges.work_size(plan.longest, count)
    return _Task(fused_edges.forward, (plan.runs, plan.starts, plan.indices, *arrays, *last), size)


def backward(
    call: Call,
    saved: Saved,
    grad_out: Tensor,
    grad_weights: Tensor,
    grads: Sequence[Tensor],
    grad_bias: Tensor,
    *,
    wanted: tuple[bool, bool] = (True, True),
) -> None:
    """Fill the gradients of query, key and value (zeros before, unless the call covers everything) and of the bias.

    ``wanted`` tells whether key and whether value have any; the tensor of one that has none is not touched.
    """
    width, value_width = saved.query.shape[2], saved.value.shape[2]
    tasks, merges = [], []
    for part in call.parts:
        task, merging = _backward_task(call, part, saved, grad_out, grad_weights, grads, grad_bias, wanted)
        tasks.append(task)
        merges += merging
    for phase in (tasks, merges):
        _run_tasks(phase, saved.tops, call, 3 * (width + value_width))


def _backward_task(
    call: Call,
    part: Part,
    saved: Saved,
    grad_out: Tensor,
    grad_weights: Tensor,
    grads: Sequence[Tensor],
    grad_bias: Tensor,
    wanted: tuple[bool, bool],
) -> tuple[_Task, list[_Task]]:
    plan, heads, count = part.plan, len(part.heads), simd_width(saved.tops.numpy())
    widths = width, value_width = saved.query.shape[2], saved.value.shape[2]
    kind = saved.tops.numpy().dtype
    options = (kind.type(call.scale), call.dropout)
    if isinstance(plan, NarrowPlan):
        steps = (*widths, *_steps(*saved[:3], grad_out, *grads))
        group, size = _narrow_group(plan, heads, width, value_width, count)
        flat = [_flat_memory(tensor) for tensor in saved[:3]]
        made = [_flat_memory(tensor) for tensor in grads]
        partial = np.empty(plan.shared * heads * (width + value_width), kind)
        given = (*flat, saved.tops.numpy(), saved.sums.numpy(), _flat_memory(grad_out), *made, partial, steps, *options)
        bounds = _bounds(part, plan, slots=call.dropout > 0)
        task = _Task(narrow_backward.backward, (*bounds, *given, call.seeds, wanted, group), size)
        return task, _merge_tasks(plan, part.heads, part.lines, partial, made, steps, wanted)
    own, lines = _as_slice(part.heads), _as_slice(part.lines)
    steps = (*widths, *_steps(*saved[:3], saved.out, grad_out, *grads))
    made = [_flat_memory(tensor[:, run]) for tensor, run in zip(grads, (lines, lines, own), strict=True)]
    given = (
        _flat_memory(grad_out[:, own]),
        grad_weights[own].flatten().numpy(),
        *made,
        grad_bias[own].view(-1).numpy(),
    )
    arrays, last = _saved_arrays(saved, part), (steps, *options, call.seeds[own], wanted)
    if isinstance(plan, RangePlan):
        group, size = _group(plan, heads, width, value_width, count)
        partial = np.empty(plan.shared * heads * (width + value_width), kind)
        task = _Task(wide_backward.backward, (*_ends(plan), *arrays, *given, partial, *last, group), size)
        return task, _merge_tasks(plan, np.arange(heads), np.arange(heads), partial, made, steps, wanted)
    size = fused_edges.work_size(plan.longest, count)
    arguments = (plan.separate_runs, plan.starts, plan.indices, *arrays, *given, *last)
    return _Task(fused_edges.backward, arguments, size), []


def _bounds(part: Part, plan: NarrowPlan, *, slots: bool) -> tuple[Any, ...]:
    first = plan.slots if slots else np.zeros((len(plan.lows), 0), np.int64)
    return plan.chunks, part.heads, part.lines, part.which, plan.lows, plan.highs, first


def _ends(plan: RangePlan) -> tuple[Any, ...]:
    return plan.chunks, plan.block, plan.low, plan.high, plan.starts


def _as_slice(heads: np.ndarray) -> slice:
    """Heads of one relation, which stand side by side, as a slice."""
    return slice(int(heads[0]), int(heads[-1]) + 1)


def _saved_arrays(saved: Saved, part: Part) -> tuple[np.ndarray, ...]:
    """What is saved, of the heads of one relation, as the kernels take it."""
    own, lines = _as_slice(part.heads), _as_slice(part.lines)
    query, key, value, out = saved.query[:, lines], saved.key[:, lines], saved.value[:, own], saved.out[:, own]
    bias = saved.bias[own].flatten().numpy()
    return (
        _flat_memory(query),
        _flat_memory(key),
        _flat_memory(value),
        bias,
        _flat_memory(out),
        saved.tops[own].numpy(),
        saved.sums[own].numpy(),
    )


def _merge_tasks(
    plan: NarrowPlan | RangePlan,
    heads: np.ndarray,
    lines: np.ndarray,
    partial: np.ndarray,
    made: list[np.ndarray],
    steps: tuple[int, ...],
    wanted: tuple[bool, bool],
) -> list[_Task]:
    arguments = (plan.chunks, heads, lines, partial, made[1], made[2], steps, wanted)
    return [_Task(merge_partial, arguments, 0)] if plan.shared and any(wanted) else []


def _group(plan: RangePlan, heads: int, width: int, value_width: int, count: int) -> tuple[int, int]:
    """Heads that a task takes together, as many as the cache holds, and the scratch memory that it needs."""

    def size(group: int) -> int:
        return wide_tiles.work_size(plan.strip, plan.lines, plan.block, group, width, value_width, count)

    return _largest_group(size, heads, count)


def _narrow_group(plan: NarrowPlan, heads: int, width: int, value_width: int, count: int) -> tuple[int, int]:
    def size(group: int) -> int:
        return narrow_backward.work_size(plan.strip, count + NARROW_KEYS, group, width, value_width, count)

    return _largest_group(size, heads, count)


def _largest_group(size: Callable[[int], int], heads: int, count: int) -> tuple[int, int]:
    group = max(1, min(heads, CACHE_BYTES // ((size(2) - size(1)) * BYTES // count)))
    return group, size(group)


def _flat_memory(tensor: Tensor) -> np.ndarray:
    """The memory from the first to the last number of a tensor."""
    span = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    flat: np.ndarray = tensor.as_strided((span if tensor.numel() else 0,), (1,)).numpy()
    return flat


def _steps(*tensors: Tensor) -> tuple[int, ...]:
    """Distances between nodes and between heads of each tensor."""
    return tuple(step for tensor in tensors for step in tensor.stride()[:2])


def _run_tasks(tasks: Sequence[_Task], like: Tensor, call: Call, features: int) -> None:
    """Let as many threads as PyTorch uses work through the kernels' tasks together."""
    if not tasks:
        return
    shared = [(task, np.zeros(1, np.int64)) for task in tasks]
    size, dtype = max(task.size for task in tasks), like.numpy().dtype

    kept = _scratch(torch.get_num_threads(), size * dtype.itemsize)

    def work(number: int) -> None:
        scratch = kept[number].view(dtype)
        for task, counter in shared:
            task.kernel(counter, *task.arguments, *([scratch] if task.size else []))

    products = features * sum(edges.num_edges * heads for edges, heads in zip(call.edges, call.heads, strict=True))
    with announce_compilation(*((task.kernel, dtype) for task in tasks)):
        run_in_threads(work, alone=products <= SMALL_WORK)


_LOCAL = threading.local()


def _scratch(count: int, size: int) -> list[np.ndarray]:
    """At least so many arrays of at least so many bytes, which the calling thread keeps from call to call."""
    kept: list[np.ndarray] = _LOCAL.__dict__.setdefault("kept", [])
    if len(kept) < count or kept[0].nbytes < size:
        kept[:] = [np.zeros(-(-size // BYTES) * BYTES, np.uint8) for _ in range(max(count, len(kept)))]
    return kept
