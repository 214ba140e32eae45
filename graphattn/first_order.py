"""Gradients that refuse to be differentiated again: DGL's second derivatives are silently wrong, ours are missing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphattn.exceptions import DoubleBackwardError


def first_order(tensor: Tensor) -> Tensor:
    """The same tensor; to differentiate its gradient raises :class:`~graphattn.exceptions.DoubleBackwardError`."""
    return _FirstOrder.apply(tensor) if tensor.requires_grad and torch.is_grad_enabled() else tensor


class _FirstOrder(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        ctx.save_for_backward(tensor)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return raise_on_double_backward(gradients[0], *ctx.saved_tensors)


def raise_on_double_backward(gradient: Tensor, *made_of: Tensor) -> Tensor:
    """A gradient, tied to what it was made of, so that to differentiate it by any of these raises.

    Parameters
    ----------
    gradient : as a backward pass returns it
    made_of : tensors of which it is a function
    """
    return _Refuse.apply(gradient, *made_of) if torch.is_grad_enabled() else gradient


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, *made_of: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        raise DoubleBackwardError("attention has first-order gradients only; do not differentiate its gradients again")
