"""Launch the kernels of backend ``fused``: arguments, scratch memory and threads. Kernels take tasks from a counter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphattn._backends.cpu.compiling import announce_compilation
from graphattn._backends.cpu.distance_kernels import make_terms
from graphattn._backends.cpu.edges import kernels as edge_kernels
from graphattn._backends.cpu.edges.kernels import EdgeArrays
from graphattn._backends.cpu.head_groups import KernelCall, KernelGroup, OtherEdges
from graphattn._backends.cpu.plan import NARROW_KEYS, EdgePlan, NarrowPlan, RangePlan
from graphattn._backends.cpu.records import Gradients, Inputs, Outputs, Rule, as_strided
from graphattn._backends.cpu.simd.llvm import BYTES
from graphattn._backends.cpu.simd.registers import simd_width
from graphattn._backends.cpu.threads import run_in_threads
from graphattn._backends.cpu.windows import narrow_backward, narrow_forward, wide_backward, wide_forward, wide_tiles
from graphattn._backends.cpu.windows.narrow_rows import Heads, NarrowRanges
from graphattn._backends.cpu.windows.packing import merge_partial
from graphattn._backends.cpu.windows.wide_backward import Upstream
from graphattn._backends.cpu.windows.wide_tiles import EdgeTerms, WideRanges
from graphattn._distances import DistanceBias

CACHE_BYTES = 1 << 19
"""Bytes of memory that one task should use."""
SMALL_WORK = 1 << 16
"""Number of multiplications below which one thread is faster than several."""


class Saved(NamedTuple):
    """Saved for the backward pass: inputs (bias is (H, E) or (H, 0)), outputs, row max and inverse row sum (H, N)."""

    query: Tensor
    key: Tensor
    value: Tensor
    bias: Tensor
    out: Tensor
    row_max: Tensor
    inverse_sum: Tensor
    distances: DistanceBias | None = None

    def of_heads(self, other: OtherEdges) -> Saved:
        """Those of some heads."""
        query, key = self.query[:, other.scored], self.key[:, other.scored]
        value, out = self.value[:, other.heads], self.out[:, other.heads]
        bias, row_max, inverse_sum = (tensor[other.heads] for tensor in (self.bias, self.row_max, self.inverse_sum))
        return Saved(query, key, value, bias, out, row_max, inverse_sum)


class _Launch(NamedTuple):
    """A kernel and its arguments; :func:`_run` adds a counter of tasks and scratch memory of ``size`` numbers."""

    kernel: Callable[..., None]
    arguments: tuple[Any, ...]
    size: int


def forward(
    call: KernelCall,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    out: Tensor,
    weights: Tensor,
    distances: DistanceBias | None = None,
) -> tuple[Tensor, Tensor]:
    """Fill ``out`` and, unless it is empty, ``weights``, head after head; return row max and inverse row sum (H, N)."""
    make = query.new_empty if call.covers_everything else query.new_zeros
    row_max, inverse_sum = (make(value.shape[1], query.shape[0]) for _ in range(2))
    saved = Saved(query, key, value, bias, out, row_max, inverse_sum, distances)
    launches = [_prepare_forward(call, group, saved, weights) for group in call.groups]
    _run(launches, row_max, call, query.shape[2] + value.shape[2])
    return row_max, inverse_sum


def _prepare_forward(call: KernelCall, group: KernelGroup, saved: Saved, weights: Tensor) -> _Launch:
    plan, row_max = group.plan, saved.row_max.numpy()
    count, scale = simd_width(row_max), row_max.dtype.type(call.scale)
    width, value_width = saved.query.shape[2], saved.value.shape[2]
    if isinstance(plan, NarrowPlan):
        assert group.relations is not None
        return_weights = len(weights) > 0
        starts = call.weight_starts[group.heads] if return_weights else np.zeros(0, np.int64)
        ranges = _narrow_ranges(plan, slots=call.dropout > 0 or return_weights)
        arguments = (
            ranges,
            Heads(group.heads, group.scored, group.relations),
            Inputs(as_strided(saved.query), as_strided(saved.key), as_strided(saved.value)),
            Outputs(as_strided(saved.out), row_max, saved.inverse_sum.numpy()),
            narrow_forward.Weights(weights.numpy(), starts),
            Rule(scale, call.dropout, call.seeds),
        )
        size = narrow_backward.work_size(0, count + NARROW_KEYS, 0, width, value_width, count)
        return _Launch(narrow_forward.forward, arguments, size)
    heads = _as_slice(group.heads)
    group_weights = weights[call.weight_starts[heads.start] : call.weight_starts[heads.stop]].numpy()
    distances = make_terms(saved.distances, heads, saved.value.dtype)
    terms = EdgeTerms(saved.bias[heads].flatten().numpy(), group_weights, group_weights[:0], distances)
    outputs = Outputs(as_strided(saved.out[:, heads]), saved.row_max[heads].numpy(), saved.inverse_sum[heads].numpy())
    rest = (_select_inputs(saved, group), terms, outputs, Rule(scale, call.dropout, call.seeds[heads]))
    if isinstance(plan, RangePlan):
        heads_per_task, size = _share_wide(plan, len(group.heads), width, value_width, count)
        return _Launch(wide_forward.forward, (_wide_ranges(plan, len(group.heads)), *rest, heads_per_task), size)
    size = edge_kernels.work_size(plan.longest, count)
    return _Launch(edge_kernels.forward, (EdgeArrays(plan.tasks, plan.starts, plan.indices), *rest), size)


def backward(
    call: KernelCall,
    saved: Saved,
    grad_out: Tensor,
    grad_weights: Tensor,
    grads: Sequence[Tensor],
    grad_bias: Tensor,
    *,
    needed: tuple[bool, bool] = (True, True),
    grad_distances: DistanceBias | None = None,
) -> None:
    """Fill the gradients of query, key and value (zeros before, unless the call covers everything) and of the biases.

    ``needed`` says whether keys and values need gradients; those that do not are left untouched.
    """
    features = 3 * (saved.query.shape[2] + saved.value.shape[2])
    launches, merges = [], []
    for group in call.groups:
        if isinstance(group.plan, NarrowPlan):
            launch, kernel_grads = _prepare_narrow_backward(call, group, saved, grad_out, grads, needed)
            heads, scored = group.heads, group.scored
        else:
            tensors = (grad_out, grad_weights, grad_bias)
            launch, kernel_grads = _prepare_backward(call, group, saved, tensors, grads, needed, grad_distances)
            heads = scored = np.arange(len(group.heads))
        launches.append(launch)
        if not isinstance(group.plan, EdgePlan) and group.plan.shared and any(needed):
            merges.append(_Launch(merge_partial, (group.plan.chunks, heads, scored, kernel_grads), 0))
    # tasks that share a key may share a number of its table
    alone = saved.distances is not None and bool(merges)
    for phase in (launches, merges):
        _run(phase, saved.row_max, call, features, alone=alone)


def _prepare_narrow_backward(
    call: KernelCall,
    group: KernelGroup,
    saved: Saved,
    grad_out: Tensor,
    grads: Sequence[Tensor],
    needed: tuple[bool, bool],
) -> tuple[_Launch, Gradients]:
    plan, row_max = group.plan, saved.row_max.numpy()
    assert isinstance(plan, NarrowPlan)
    assert group.relations is not None
    width, value_width, count = saved.query.shape[2], saved.value.shape[2], simd_width(row_max)
    heads_per_task, size = _share_narrow(plan, len(group.heads), width, value_width, count)
    partial = np.empty(plan.shared * len(group.heads) * (width + value_width), row_max.dtype)
    query, key, value = (as_strided(tensor) for tensor in grads)
    gradients = Gradients(query, key, value, partial, *needed)
    arguments = (
        _narrow_ranges(plan, slots=call.dropout > 0),
        Heads(group.heads, group.scored, group.relations),
        Inputs(as_strided(saved.query), as_strided(saved.key), as_strided(saved.value)),
        Outputs(as_strided(grad_out), row_max, saved.inverse_sum.numpy()),
        gradients,
        Rule(row_max.dtype.type(call.scale), call.dropout, call.seeds),
        heads_per_task,
    )
    return _Launch(narrow_backward.backward, arguments, size), gradients


def _prepare_backward(
    call: KernelCall,
    group: KernelGroup,
    saved: Saved,
    tensors: tuple[Tensor, Tensor, Tensor],
    grads: Sequence[Tensor],
    needed: tuple[bool, bool],
    grad_distances: DistanceBias | None,
) -> tuple[_Launch, Gradients]:
    """``tensors`` are the gradients of outputs, weights and bias."""
    plan, dtype = group.plan, saved.row_max.numpy().dtype
    width, value_width, count = saved.query.shape[2], saved.value.shape[2], simd_width(saved.row_max.numpy())
    heads, scored = _as_slice(group.heads), _as_slice(group.scored)
    grad_out, grad_weights, grad_bias = (tensor[:, heads] if tensor.dim() == 3 else tensor[heads] for tensor in tensors)
    selections = zip(grads, (scored, scored, heads), strict=True)
    query, key, value = (as_strided(tensor[:, selected]) for tensor, selected in selections)
    shared = 0 if isinstance(plan, EdgePlan) else plan.shared
    partial = np.empty(shared * len(group.heads) * (width + value_width), dtype)
    gradients = Gradients(query, key, value, partial, *needed)
    upstream = Upstream(
        as_strided(saved.out[:, heads]),
        saved.row_max[heads].numpy(),
        saved.inverse_sum[heads].numpy(),
        as_strided(grad_out),
    )
    distances = make_terms(saved.distances, heads, saved.value.dtype, grad_distances)
    terms = EdgeTerms(
        saved.bias[heads].flatten().numpy(), grad_weights.flatten().numpy(), grad_bias.view(-1).numpy(), distances
    )
    rule = Rule(dtype.type(call.scale), call.dropout, call.seeds[heads])
    arguments = (_select_inputs(saved, group), terms, upstream, gradients, rule)
    if isinstance(plan, RangePlan):
        heads_per_task, size = _share_wide(plan, len(group.heads), width, value_width, count)
        ranges = _wide_ranges(plan, len(group.heads))
        return _Launch(wide_backward.backward, (ranges, *arguments, heads_per_task), size), gradients
    assert isinstance(plan, EdgePlan)
    size = edge_kernels.work_size(plan.longest, count)
    edges = EdgeArrays(plan.separate_tasks, plan.starts, plan.indices)
    return _Launch(edge_kernels.backward, (edges, *arguments), size), gradients


def _narrow_ranges(plan: NarrowPlan, *, slots: bool) -> NarrowRanges:
    return NarrowRanges(
        plan.chunks, plan.lows, plan.highs, plan.slots if slots else np.zeros((len(plan.lows), 0), np.int64)
    )


def _wide_ranges(plan: RangePlan, heads: int) -> WideRanges:
    return WideRanges(np.arange(heads), plan.chunks, plan.block, plan.low, plan.high, plan.starts)


def _select_inputs(saved: Saved, group: KernelGroup) -> Inputs:
    """Queries, keys and values of one relation's heads."""
    heads, scored = _as_slice(group.heads), _as_slice(group.scored)
    return Inputs(
        as_strided(saved.query[:, scored]), as_strided(saved.key[:, scored]), as_strided(saved.value[:, heads])
    )


def _as_slice(heads: np.ndarray) -> slice:
    """The heads of one relation, which are consecutive, as a slice."""
    return slice(int(heads[0]), int(heads[-1]) + 1)


def _share_wide(plan: RangePlan, heads: int, width: int, value_width: int, count: int) -> tuple[int, int]:
    """Number of heads per task, so that they fit into the cache, and size of its scratch memory."""

    def size(heads_per_task: int) -> int:
        return wide_tiles.work_size(plan.max_keys, plan.max_rows, plan.block, heads_per_task, width, value_width, count)

    return _choose_share(size, heads, count)


def _share_narrow(plan: NarrowPlan, heads: int, width: int, value_width: int, count: int) -> tuple[int, int]:
    def size(heads_per_task: int) -> int:
        return narrow_backward.work_size(plan.max_keys, count + NARROW_KEYS, heads_per_task, width, value_width, count)

    return _choose_share(size, heads, count)


def _choose_share(size: Callable[[int], int], heads: int, count: int) -> tuple[int, int]:
    heads_per_task = max(1, min(heads, CACHE_BYTES // ((size(2) - size(1)) * BYTES // count)))
    return heads_per_task, size(heads_per_task)


def _run(launches: Sequence[_Launch], like: Tensor, call: KernelCall, features: int, *, alone: bool = False) -> None:
    """Run kernels, one after the other, each in as many threads as PyTorch uses, unless ``alone``."""
    if not launches:
        return
    counted = [(launch, np.zeros(1, np.int64)) for launch in launches]
    size, dtype = max(launch.size for launch in launches), like.numpy().dtype
    buffers = _scratch_memory(torch.get_num_threads(), size * dtype.itemsize)

    def work(number: int) -> None:
        scratch = buffers[number].view(dtype)
        for launch, counter in counted:
            launch.kernel(counter, *launch.arguments, *([scratch] if launch.size else []))

    with announce_compilation(*((launch.kernel, dtype) for launch in launches)):
        run_in_threads(work, alone=alone or features * call.num_edges <= SMALL_WORK)


_LOCAL = threading.local()


def _scratch_memory(count: int, size: int) -> list[np.ndarray]:
    """At least ``count`` arrays of at least ``size`` bytes, which the calling thread reuses."""
    buffers: list[np.ndarray] = _LOCAL.__dict__.setdefault("buffers", [])
    if len(buffers) < count or buffers[0].nbytes < size:
        buffers[:] = [np.zeros(-(-size // BYTES) * BYTES, np.uint8) for _ in range(max(count, len(buffers)))]
    return buffers
