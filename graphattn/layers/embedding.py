"""Rows of a table by number, whose gradient does not take the table's size of new memory in every step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn.backends.cpu.buffer_pool import MIN_BYTES, Pool

KEPT = 1 << 30
"""Bytes of gradients that are kept for later steps at most."""

_gradients = Pool(KEPT)


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """What :func:`torch.nn.functional.embedding` computes.

    The gradient of a table is a table, with zeros for all rows that were not asked for. PyTorch takes new memory for it
    in every step, which the system hands out a page at a time; here it is memory of an earlier step.
    :func:`forget_gradients` returns it to the system.

    Parameters
    ----------
    table : (V, D)
    ids : (...), whole numbers from 0 to V - 1

    Returns
    -------
    (..., D)
    """
    plain = table.device.type == "cpu" and table.dtype in (torch.float32, torch.float64)
    if not (plain and table.requires_grad and table.numel() * table.element_size() >= MIN_BYTES):
        return F.embedding(ids, table)
    rows: Tensor = _LookUp.apply(table, ids)
    return rows


def forget_gradients() -> None:
    """Return to the system the memory that gradients of tables had; training does so at its end."""
    _gradients.clear()


class _LookUp(torch.autograd.Function):
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
