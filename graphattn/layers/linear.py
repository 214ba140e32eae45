"""Linear layers and embeddings that are faster on a CPU than PyTorch's, with equal results but for rounding.

PyTorch's float32 linear layers pass thousands of rows to one BLAS call, which is slow at that size. PyTorch's oneDNN
operator is faster, and so is BLAS on blocks of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.backends.cpu.buffer_pool import MIN_BYTES, Pool
from graphattn.gradients import apply

LEAST_ROWS = 1024
"""With fewer rows, oneDNN's set-up for each new number of rows costs more than it saves."""
BLOCK = 256
"""Rows of a block."""


class Linear(nn.Linear):
    """:class:`torch.nn.Linear`, faster on many rows; the same parameters, and equal results but for rounding.

    Examples
    --------
    >>> Linear(300, 600)(torch.zeros(2, 300)).shape
    torch.Size([2, 600])
    """

    if TYPE_CHECKING:

        @override
        def __call__(self, inputs: Tensor) -> Tensor: ...

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        return linear(inputs, self.weight, self.bias)


def is_plain(module: nn.Module) -> bool:
    """Whether a call is only a product with the weight: no hooks, no subclass.

    Only then may a caller use slices of the weight instead of calling the module.
    """
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return type(module) is Linear and "forward" not in vars(module) and not any(hooks)


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """:func:`torch.nn.functional.linear`.

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
    # reshape outside: autograd forbids in-place changes of views made inside a function
    rows = apply(_Linear, inputs.reshape(-1, inputs.shape[-1]), weight, bias)
    return rows if inputs.dim() == 2 else rows.view(*inputs.shape[:-1], weight.shape[0])


def by_head(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A separate linear map for each head.

    Parameters
    ----------
    inputs : (H, N, I)
    weight : (H, I, O)
    bias : (H, 1, O) or (H, N, O)

    Returns
    -------
    (H, N, O)
    """
    if inputs.shape[1] < LEAST_ROWS or not _plain(inputs, weight):
        return torch.bmm(inputs, weight) if bias is None else torch.baddbmm(bias, inputs, weight)
    return apply(_ByHead, inputs, weight, bias)


def rows_times(rows: Tensor, weight: Tensor) -> Tensor:
    """(N, I), (I, O) -> (N, O), the gradient of a linear layer's input, not differentiable."""
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
    """(H, N, I), (H, I, O), (H, 1 or N, O) -> (H, N, O), in blocks of rows."""
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
    """Whether oneDNN supports these rows and is faster."""
    return inputs.numel() >= LEAST_ROWS * inputs.shape[-1] > 0 and _HAS_ONEDNN and _plain(inputs, weight)


def _plain(inputs: Tensor, weight: Tensor) -> bool:
    """Whether both are float32 on a CPU and autocast does not change that."""
    return (
        inputs.dtype == weight.dtype == torch.float32
        and inputs.device.type == weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


def _onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    whole = None if bias is None else bias.contiguous()  # oneDNN ignores its strides
    out: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, whole, "none", [], "")
    return out


_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether this build of PyTorch has oneDNN's linear operator, which ``torch.compile`` uses."""


KEPT = 1 << 30
"""Largest number of bytes of gradients kept for later steps."""

_gradients = Pool(KEPT)


def embedding(table: Tensor, ids: Tensor) -> Tensor:
    """:func:`torch.nn.functional.embedding`, whose gradient reuses the memory of an earlier step.

    The gradient of a table has the table's size. PyTorch allocates it anew in every step, which costs page faults;
    :func:`forget_gradients` returns the reused memory to the system.

    Parameters
    ----------
    table : (V, D)
    ids : (...), from 0 to V - 1

    Returns
    -------
    (..., D)
    """
    plain = table.device.type == "cpu" and table.dtype in (torch.float32, torch.float64)
    if not (plain and table.requires_grad and table.numel() * table.element_size() >= MIN_BYTES):
        return F.embedding(ids, table)
    return apply(_Embedding, table, ids)


def forget_gradients() -> None:
    """Return the memory of embedding gradients to the system; training calls this at its end."""
    _gradients.clear()


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        return F.embedding(ids, table)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (ids,), (of_rows,) = ctx.saved_tensors, gradients
        numbers, rows = ids.reshape(-1), of_rows.reshape(-1, ctx.shape[1])
        if torch.is_grad_enabled():
            return rows.new_zeros(ctx.shape).index_add(0, numbers, rows), None
        return _gradients.empty(ctx.shape, rows.dtype).zero_().index_add_(0, numbers, rows), None
