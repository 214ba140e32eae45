"""Activation checkpointing for cheap tensors: the backward pass keeps their inputs and recomputes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from graphattn._gradients import Function, apply
from graphattn._transforms import is_transformed
from graphattn.layers._linear import is_plain, linear, rows_times, weight_gradient
from graphattn.layers._norm import layer_norm

Compute = Callable[..., Tensor]


class Derived:
    """A tensor computed from others by a cheap deterministic function such as a sum, a mean or a norm.

    A linear layer keeps its input for the backward pass. :meth:`linear` keeps the inputs of ``compute`` instead and
    recomputes the layer's input, so several layers on functions of the same tensor keep only that tensor. Every tensor
    that needs a gradient must be among ``inputs``.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    >>> double = Derived.of(x).then(lambda x: 2 * x)
    >>> double.linear(torch.tensor([[1.0, 1.0]])).item(), double.value().tolist()
    (6.0, [[2.0, 4.0]])
    """

    def __init__(self, compute: Compute, *inputs: Tensor):
        self._compute, self._inputs = compute, inputs
        self._detached_value: Tensor | None = None

    @classmethod
    def of(cls, tensor: Tensor | Derived) -> Derived:
        """Wrap a tensor; a derived one is returned as it is."""
        return tensor if isinstance(tensor, Derived) else cls(lambda tensor: tensor, tensor)

    def then(self, function: Compute, *more: Tensor) -> Derived:
        """A function of this tensor and others."""
        compute, count = self._compute, len(self._inputs)
        derived = Derived(lambda *tensors: function(compute(*tensors[:count]), *tensors[count:]), *self._inputs, *more)
        with torch.no_grad():
            derived._detached_value = function(self._compute_detached(), *more)
        return derived

    def normalize(self, norm: nn.LayerNorm) -> Derived:
        """The output of a norm."""
        epsilon = norm.eps
        return self.then(lambda tensor, weight, bias: layer_norm(tensor, weight, bias, epsilon), norm.weight, norm.bias)

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """The output (N, D_out) of a linear layer, with gradients."""
        is_simple = not torch.is_grad_enabled() or torch.is_autocast_enabled(weight.device.type) or is_transformed()
        if is_simple:
            return linear(self.value(), weight, bias)
        return apply(_RecomputedLinear, self._compute, self._compute_detached(), weight, bias, *self._inputs)

    def project(self, module: nn.Linear) -> Tensor:
        """The output of a linear layer (N, D_out), with gradients; a subclass or a layer with hooks is called."""
        return self.linear(module.weight, module.bias) if is_plain(module) else module(self.value())

    def value(self) -> Tensor:
        """The tensor, with gradients."""
        return self._compute(*self._inputs) if torch.is_grad_enabled() else self._compute_detached()

    def _compute_detached(self) -> Tensor:
        """The tensor without gradients, computed once."""
        if self._detached_value is None:
            with torch.no_grad():
                self._detached_value = self._compute(*self._inputs)
        return self._detached_value


class _RecomputedLinear(Function):
    @staticmethod
    def forward(
        ctx: Any, compute: Compute, value: Tensor, weight: Tensor, bias: Tensor | None, *inputs: Tensor
    ) -> Tensor:
        ctx.compute, ctx.has_bias = compute, bias is not None
        ctx.save_for_backward(weight, *inputs)
        return linear(value, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (upstream,) = gradients
        weight, *inputs = ctx.saved_tensors
        needed = ctx.needs_input_grad[4:]
        leaves = [tensor.detach().requires_grad_(needs) for tensor, needs in zip(inputs, needed, strict=True)]
        with torch.enable_grad():
            value = ctx.compute(*leaves)
        input_gradients = iter(
            torch.autograd.grad(value, [leaf for leaf in leaves if leaf.requires_grad], rows_times(upstream, weight))
            if any(needed)
            else ()
        )
        return (
            None,
            None,
            weight_gradient(upstream, value.detach(), weight) if ctx.needs_input_grad[2] else None,
            upstream.sum(0) if ctx.has_bias else None,
            *(next(input_gradients) if needs else None for needs in needed),
        )
