"""Report products of our kernels to ``torch.utils.flop_counter``, which sees only PyTorch's operators."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def report_products(out: Tensor, edges: int, width: int) -> None:
    """Report what a kernel multiplied to make ``out``, and what its gradients will multiply, which is twice as much.

    ``edges`` is edges times heads, ``width`` the numbers of a query and of a value. On a GPU, attention consists of
    PyTorch's products.
    """
    if is_counting() and out.device.type == "cpu":
        _multiply(edges, width)
        if out.requires_grad:
            out.register_hook(lambda gradient: _multiply(2 * edges, width))


def is_counting() -> bool:
    """Whether a ``FlopCounterMode`` is active."""
    if not torch._C._len_torch_dispatch_stack():
        return False
    return any(type(mode).__module__ == "torch.utils.flop_counter" for mode in _get_current_dispatch_mode_stack())


def _multiply(rows: int, width: int) -> None:
    """Multiply tensors that have no memory."""
    torch.mm(torch.empty(rows, width, device="meta"), torch.empty(width, 1, device="meta"))
