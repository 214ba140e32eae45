"""Activation checkpointing for cheap tensors: the backward pass keeps their inputs and recomputes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from graphattn.gradients import apply
from graphattn.layers.linear import is_plain, linear, rows_times

Make = Callable[..., Tensor]


class Derived:
    """A tensor computed from others by a cheap deterministic function such as a sum, a mean or a norm.

    A linear layer keeps its input for the backward pass. :meth:`linear` keeps the inputs of ``make`` instead and
    recomputes the layer's input, so several layers on functions of the same tensor keep only that tensor.

    Parameters
    ----------
    make : computes this tensor; every tensor that needs a gradient must be an argument
    inputs : the arguments

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> double = Derived.of(x).then(lambda x: 2 * x)
    >>> double.linear(torch.tensor([[1.0, 1.0]])).item(), double.value().tolist()
    (6.0, [[2.0, 4.0]])
    """

    def __init__(self, make: Make, *inputs: Tensor):
        self._make, self._inputs = make, inputs
        self._made: Tensor | None = None

    @classmethod
    def of(cls, tensor: Tensor | Derived) -> Derived:
        """Wrap a tensor; a derived one is returned as it is."""
        return tensor if isinstance(tensor, Derived) else cls(_same, tensor)

    def then(self, function: Make, *more: Tensor) -> Derived:
        """A function of this tensor and others."""
        make, count = self._make, len(self._inputs)

        def together(*tensors: Tensor) -> Tensor:
            return function(make(*tensors[:count]), *tensors[count:])

        derived = Derived(together, *self._inputs, *more)
        with torch.no_grad():
            derived._made = function(self._value_without_gradients(), *more)
        return derived

    def normed(self, norm: nn.LayerNorm) -> Derived:
        """The output of a norm."""
        shape, epsilon = norm.normalized_shape, norm.eps
        return self.then(
            lambda own, weight, bias: F.layer_norm(own, shape, weight, bias, epsilon), norm.weight, norm.bias
        )

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The output of a linear layer, with gradients.

        Parameters
        ----------
        weight : (D_out, D)
        bias : (D_out,)

        Returns
        -------
        (N, D_out)
        """
        if not torch.is_grad_enabled() or torch.is_autocast_enabled(weight.device.type):
            return linear(self.value(), weight, bias)
        return apply(_Linear, self._make, self._value_without_gradients(), weight, bias, *self._inputs)

    def through(self, module: nn.Linear) -> Tensor:
        """The output of a linear layer, with gradients; a subclass or a layer with hooks is called normally.

        Parameters
        ----------
        module : D -> D_out

        Returns
        -------
        (N, D_out)
        """
        return self.linear(module.weight, module.bias) if is_plain(module) else module(self.value())

    def value(self) -> Tensor:
        """The tensor, with gradients."""
        return self._make(*self._inputs) if torch.is_grad_enabled() else self._value_without_gradients()

    def _value_without_gradients(self) -> Tensor:
        """The tensor without gradients, computed once."""
        if self._made is None:
            with torch.no_grad():
                self._made = self._make(*self._inputs)
        return self._made


def _same(tensor: Tensor) -> Tensor:
    return tensor


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, make: Make, made: Tensor, weight: Tensor, bias: Tensor | None, *inputs: Tensor) -> Tensor:
        ctx.make, ctx.has_bias = make, bias is not None
        ctx.save_for_backward(weight, *inputs)
        return linear(made, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = gradients
        weight, *inputs = ctx.saved_tensors
        wanted = ctx.needs_input_grad[4:]
        leaves = [tensor.detach().requires_grad_(own) for tensor, own in zip(inputs, wanted, strict=True)]
        with torch.enable_grad():
            made = ctx.make(*leaves)
        of_inputs = iter(
            torch.autograd.grad(made, [leaf for leaf in leaves if leaf.requires_grad], rows_times(upstream, weight))
            if any(wanted)
            else ()
        )
        return (
            None,
            None,
            upstream.t() @ made.detach() if ctx.needs_input_grad[2] else None,
            upstream.sum(0) if ctx.has_bias else None,
            *(next(of_inputs) if own else None for own in wanted),
        )
