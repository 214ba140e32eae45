"""Opaque calls for PyTorch's compiler, exporters and function transforms.

Kernels, and the plans that edges cache, read the memory of tensors. ``torch.compile`` runs an :func:`opaque` function
between the graphs that it compiles; ``torch.func`` differentiates an :func:`operator` as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from graphattn.exceptions import BackendError, DoubleBackwardError

P = ParamSpec("P")
R = TypeVar("R")

try:
    from torch._C._dynamo import eval_frame

    _SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT)
except (ImportError, AttributeError):  # not public: a later PyTorch may have another name for it
    eval_frame = None  # type: ignore[assignment]
_TRACERS = torch._C._TorchDispatchModeKey.PROXY, torch._C._TorchDispatchModeKey.FAKE
"""Modes of ``make_fx`` and of non-strict export, whose tensors have no memory."""
_REASON = "attention on graphs runs as it is, between compiled graphs; do not use fullgraph=True or torch.export"


def opaque(function: Callable[P, R]) -> Callable[P, R]:
    """Keep ``torch.compile`` out of a function, which then runs as without it; exporters get a BackendError.

    ``torch.compiler.disable`` does the same, but takes as long to import as PyTorch itself.
    """
    if eval_frame is None:
        return torch.compiler.disable(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        callback = eval_frame.set_eval_frame(None)
        try:
            if _is_recording():
                raise BackendError(
                    "torch.export, torch.jit.trace and make_fx cannot record attention on graphs: its kernels compute "
                    "with each batch's own edges. Save models with save(), and read them with graphattn.load()"
                )
            return function(*args, **kwargs)
        finally:
            eval_frame.set_eval_frame(callback)

    marked: Any = call
    marked._torchdynamo_disable, marked._torchdynamo_disable_msg = True, _REASON
    eval_frame.set_code_exec_strategy(marked.__code__, _SKIP)
    return call


def _is_recording() -> bool:
    is_traced = torch.compiler.is_compiling() or torch._C._is_tracing()
    return is_traced or any(torch._C._get_dispatch_mode(tracer) is not None for tracer in _TRACERS)


class OpaqueModule(nn.Module):
    """Base of modules whose ``forward`` is :func:`opaque`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls.forward = opaque(cls.forward)


def is_transformed() -> bool:
    """Whether PyTorch compiles, exports, transforms or counts what runs now: use its own operations then."""
    if torch.compiler.is_compiling():  # first: the compiler cannot look into the other two
        return True
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0


def operator(function: Callable[P, R]) -> Callable[P, R]:
    """An opaque function of tensors that ``torch.func`` differentiates once, and whose ``vmap`` is a loop.

    Tensors in arguments and results may be nested in tuples and lists.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch._C._are_functorch_transforms_active():
            return function(*args, **kwargs)
        result: Any = None

        def compute(inputs: Sequence[Tensor]) -> list[Tensor]:
            nonlocal result
            arguments, options = _replace_tensors((args, kwargs), inputs)
            result = function(*arguments, **options)
            return _tensors_in(result)

        apply: Any = _Operator.apply
        outputs = apply(_Tape(compute), *_tensors_in((args, kwargs)))
        return _replace_tensors(result, outputs)

    return opaque(call)


def _tensors_in(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def _replace_tensors(tree: Any, tensors: Sequence[Tensor]) -> Any:
    rest = iter(tensors)
    return pytree.tree_map_only(Tensor, lambda _: next(rest), tree)


class _Tape:
    """Inputs and outputs of an operator, with the graph of their gradients."""

    def __init__(self, compute: Callable[[Sequence[Tensor]], list[Tensor]]):
        self._compute = compute
        self.slices: list[_Tape] = []
        """A tape for each slice of a vmap."""

    def split(self, count: int) -> list[_Tape]:
        """Begin a tape for each slice."""
        self.slices = [_Tape(self._compute) for _ in range(count)]
        return self.slices

    def forward(self, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Compute and record."""
        with torch.enable_grad():
            self._inputs = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in inputs]
            self._outputs = self._compute(self._inputs)
        return tuple(output.detach() for output in self._outputs)

    def backward(self, gradients: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Gradients of the inputs, zeros for those without."""
        pairs = [pair for pair in zip(self._outputs, gradients, strict=True) if pair[0].requires_grad]
        if not pairs:
            return tuple(torch.zeros_like(tensor) for tensor in self._inputs)
        outputs, upstream = zip(*pairs, strict=True)
        inputs = [tensor for tensor in self._inputs if tensor.requires_grad]
        input_gradients = iter(
            torch.autograd.grad(outputs, inputs, upstream, retain_graph=True, materialize_grads=True)
        )
        return tuple(
            next(input_gradients) if tensor.requires_grad else torch.zeros_like(tensor) for tensor in self._inputs
        )


class _Operator(torch.autograd.Function):
    """The operator of a tape."""

    @staticmethod
    def forward(tape: _Tape, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tape.forward(inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.tape, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        apply: Any = _OperatorGradient.apply
        return None, *apply(ctx.tape, len(gradients), *gradients, *ctx.saved_tensors)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> None:
        raise BackendError("attention has no forward-mode derivatives; use torch.func.grad, vjp or jacrev")

    @staticmethod
    def vmap(info: Any, in_dims: Any, tape: _Tape, *inputs: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        apply: Any = _Operator.apply
        slices = zip(tape.split(info.batch_size), _unbind(inputs, in_dims[1:], info.batch_size), strict=True)
        return _stack(apply(tape_slice, *tensors) for tape_slice, tensors in slices)


class _OperatorGradient(torch.autograd.Function):
    """The gradient of :class:`_Operator`; the inputs only tell a vmap of the operator from one of its gradient."""

    @staticmethod
    def forward(tape: _Tape, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tape.backward(tensors[:count])

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        raise DoubleBackwardError("attention has first-order gradients only; do not differentiate its gradients again")

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, tape: _Tape, count: int, *tensors: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        apply: Any = _OperatorGradient.apply
        are_inputs_batched = any(dim is not None for dim in in_dims[2 + count :])
        tapes = tape.slices if are_inputs_batched else [tape] * info.batch_size
        slices = zip(tapes, _unbind(tensors, in_dims[2:], info.batch_size), strict=True)
        return _stack(apply(tape_slice, count, *inputs) for tape_slice, inputs in slices)


def _unbind(tensors: Sequence[Tensor], dims: Sequence[int | None], count: int) -> list[tuple[Tensor, ...]]:
    """The tensors of each slice of a vmap."""
    columns = [
        [tensor] * count if dim is None else list(tensor.unbind(dim)) for tensor, dim in zip(tensors, dims, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _stack(results: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The results of all slices, and the dimension of the slices in each."""
    stacked = tuple(torch.stack(tensors) for tensors in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)
