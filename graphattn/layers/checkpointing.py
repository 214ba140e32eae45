"""Tensors that are cheap to make anew: the backward pass keeps what they are made of, which is there anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from graphattn.layers.linear import is_plain, linear, rows_times

Make = Callable[..., Tensor]


class Derived:
    """A tensor that is made of others by sums, means and norms, without anything random.

    A linear layer keeps its input for the backward pass. :meth:`linear` keeps the inputs of ``make`` in its place, and
    makes the layer's input anew. So several layers on things made of the same tensor keep that one only.

    Parameters
    ----------
    make : the tensors -> this one; whatever needs a gradient must be among them
    inputs : the tensors

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
        """A tensor as it is; a derived one stays what it is."""
        return tensor if isinstance(tensor, Derived) else cls(_same, tensor)

    def then(self, function: Make, *more: Tensor) -> Derived:
        """What a function makes of this one and of more tensors."""
        make, count = self._make, len(self._inputs)

        def together(*tensors: Tensor) -> Tensor:
            return function(make(*tensors[:count]), *tensors[count:])

        derived = Derived(together, *self._inputs, *more)
        with torch.no_grad():
            derived._made = function(self._known(), *more)
        return derived

    def normed(self, norm: nn.LayerNorm) -> Derived:
        """What a norm makes of it."""
        shape, epsilon = norm.normalized_shape, norm.eps
        return self.then(
            lambda own, weight, bias: F.layer_norm(own, shape, weight, bias, epsilon), norm.weight, norm.bias
        )

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """What a linear layer makes of it, with gradients.

        Parameters
        ----------
        weight : (D_out, D)
        bias : (D_out,)

        Returns
        -------
        (N, D_out) of (N, D)
        """
        if not torch.is_grad_enabled() or torch.is_autocast_enabled(weight.device.type):
            return linear(self.value(), weight, bias)
        out: Tensor = _Linear.apply(self._make, self._known(), weight, bias, *self._inputs)
        return out

    def through(self, module: nn.Linear) -> Tensor:
        """What a linear layer makes of it, with gradients; one with hooks, or of another class, is called as it is.

        Parameters
        ----------
        module : D -> D_out

        Returns
        -------
        (N, D_out) of (N, D)
        """
        return self.linear(module.weight, module.bias) if is_plain(module) else module(self.value())

    def value(self) -> Tensor:
        """The tensor, with gradients."""
        return self._make(*self._inputs) if torch.is_grad_enabled() else self._known()

    def _known(self) -> Tensor:
        """The tensor without gradients; made once."""
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
