"""Autograd functions: typed ``apply``, errors on double backward, zero gradients for unused inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphattn._transforms import opaque
from graphattn.exceptions import DoubleBackwardError


class Function(torch.autograd.Function):
    """Base of our functions: ``torch.compile`` does not look into their ``backward`` either."""

    def __init_subclass__(cls) -> None:
        cls.backward = staticmethod(opaque(cls.backward))  # type: ignore[method-assign]


def apply(function: type[Function], *inputs: Any) -> Tensor:
    """``function.apply``, which PyTorch leaves untyped, for functions with one output."""
    call: Any = function.apply
    return call(*inputs)


def apply_pair(function: type[Function], *inputs: Any) -> tuple[Tensor, Tensor]:
    """:func:`apply` for functions with two outputs."""
    call: Any = function.apply
    return call(*inputs)


def forbid_double_backward(tensor: Tensor) -> Tensor:
    """The same tensor; differentiating its gradient raises :class:`~graphattn.exceptions.DoubleBackwardError`.

    DGL's second derivatives are silently wrong, and our kernels have none.
    """
    return apply(_FirstOrder, tensor) if tensor.requires_grad and torch.is_grad_enabled() else tensor


class _FirstOrder(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        ctx.save_for_backward(tensor)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return raise_on_double_backward(gradients[0], *ctx.saved_tensors)


def raise_on_double_backward(gradient: Tensor, *inputs: Tensor) -> Tensor:
    """A gradient that raises when it is differentiated with respect to the inputs it was computed from."""
    return apply(_RaiseOnBackward, gradient, *inputs) if torch.is_grad_enabled() else gradient


class _RaiseOnBackward(Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *inputs: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        raise DoubleBackwardError("attention has first-order gradients only; do not differentiate its gradients again")


def with_zero_gradients(out: Tensor, unused: Sequence[Tensor]) -> Tensor:
    """The same tensor; ``unused`` tensors get zero gradients, as in the full computation."""
    return apply(_ZeroGradients, out, *unused)


class _ZeroGradients(Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, *unused: Tensor) -> Tensor:
        ctx.shapes = [(tensor.shape, tensor.dtype, tensor.device) for tensor in unused]
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        zeros = (torch.zeros(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.shapes)
        return (gradients[0], *zeros)
