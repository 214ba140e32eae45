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
        return _Refuse.apply(gradients[0], *ctx.saved_tensors)


class _Refuse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: Tensor, tensor: Tensor) -> Tensor:
        return gradient.view_as(gradient)  # ``tensor`` ties the gradient to what it was taken for

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        raise DoubleBackwardError("attention has first-order gradients only; do not differentiate its gradients again")
