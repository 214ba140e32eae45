"""Products of many rows with a small matrix, computed in the fastest way PyTorch has for them on a CPU.

Its float32 linear layers give thousands of rows to one call of a routine that is slow on so many: oneDNN, which is
there too, is faster, and so is the same routine on blocks of rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAST_ROWS = 1024
"""Below, what oneDNN needs once for each new number of rows is more than it saves."""
BLOCK = 256
"""Rows of a block."""


class Linear(nn.Linear):
    """:class:`torch.nn.Linear`, faster on many rows; the same parameters, and equal results but for rounding.

    Examples
    --------
    >>> Linear(300, 600)(torch.zeros(2, 300)).shape
    torch.Size([2, 600])
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """(..., in_features) -> (..., out_features)."""
        return linear(inputs, self.weight, self.bias)


def is_plain(module: nn.Module) -> bool:
    """Whether calling it is nothing but a product with its weight: nobody has put hooks or another class in its place.

    Only then may a part of the weight, or a copy of what it is applied to, stand in for the call.
    """
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return type(module) is Linear and "forward" not in vars(module) and not any(hooks)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """What :func:`torch.nn.functional.linear` computes.

    Parameters
    ----------
    inputs : (..., I)
    weight : (O, I)
    bias : (O,)

    Returns
    -------
    (..., O)
    """
    if not _many(inputs, weight):
        return F.linear(inputs, weight, bias)
    # rows go in and come out: autograd lets nobody change in place what is a view made inside a function
    rows: Tensor = _Linear.apply(inputs.reshape(-1, inputs.shape[-1]), weight, bias)
    return rows if inputs.dim() == 2 else rows.view(*inputs.shape[:-1], weight.shape[0])


def by_head(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A linear map of its own for each head.

    Parameters
    ----------
    inputs : (H, N, I)
    weight : (H, I, O)
    bias : (H, 1, O), or (H, N, O), to which the products are added

    Returns
    -------
    (H, N, O)
    """
    if inputs.shape[1] < LEAST_ROWS or not _plain(inputs, weight):
        return torch.bmm(inputs, weight) if bias is None else torch.baddbmm(bias, inputs, weight)
    out: Tensor = _ByHead.apply(inputs, weight, bias)
    return out


def rows_times(rows: Tensor, weight: Tensor) -> Tensor:
    """(N, I), (I, O) -> (N, O), the gradient of a linear layer's input, without gradients of its own."""
    return _onednn(rows, weight.t(), None) if _many(rows, weight) else rows @ weight


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _onednn(rows, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        rows, weight = ctx.saved_tensors
        for_rows, for_weight, for_bias = ctx.needs_input_grad
        back = torch.mm if torch.is_grad_enabled() else rows_times
        return (
            back(gradient, weight) if for_rows else None,
            gradient.t() @ rows if for_weight else None,
            gradient.sum(0) if for_bias else None,
        )


class _ByHead(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.whole_bias = bias is not None and bias.shape[1] > 1
        return _in_blocks(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        inputs, weight = ctx.saved_tensors
        for_inputs, for_weight, for_bias = ctx.needs_input_grad
        of_bias = gradient if ctx.whole_bias else gradient.sum(1, keepdim=True) if for_bias else None
        back = torch.bmm if torch.is_grad_enabled() else _in_blocks
        return (
            back(gradient, weight.transpose(1, 2)) if for_inputs else None,
            torch.bmm(inputs.transpose(1, 2), gradient) if for_weight else None,
            of_bias,
        )


def _in_blocks(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(H, N, I), (H, I, O), (H, 1 or N, O) -> (H, N, O), a block of rows after the other."""
    out = inputs.new_empty(*inputs.shape[:2], weight.shape[2])
    whole = inputs.shape[1] // BLOCK * BLOCK
    for head, (own, matrix) in enumerate(zip(inputs, weight, strict=True)):
        for part, size in ((slice(0, whole), BLOCK), (slice(whole, None), len(own) - whole)):
            if size:
                blocks, into = (tensor[part].unflatten(0, (-1, size)) for tensor in (own, out[head]))
                factor = matrix.expand(len(blocks), -1, -1)
                if bias is None:
                    torch.bmm(blocks, factor, out=into)
                else:
                    own_bias = bias[head] if bias.shape[1] == 1 else bias[head, part].unflatten(0, (-1, size))
                    torch.baddbmm(own_bias, blocks, factor, out=into)
    return out


def _many(inputs: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN takes less time for these rows, and can take them."""
    return inputs.numel() >= LEAST_ROWS * inputs.shape[-1] > 0 and _HAS_ONEDNN and _plain(inputs, weight)


def _plain(inputs: Tensor, weight: Tensor) -> bool:
    """Whether both are float32 on a CPU, and stay so."""
    return (
        inputs.dtype == weight.dtype == torch.float32
        and inputs.device.type == weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


def _onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    whole = None if bias is None else bias.contiguous()  # its strides would be passed over
    out: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, whole, "none", [], "")
    return out


_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether this build of PyTorch offers oneDNN's linear layer, which its own compiler uses."""
