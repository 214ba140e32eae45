"""PyTorch's dense attention, by kernels that need no plan for a new shape."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from graphattn._devices import to_device
from graphattn._edges import Edges

KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Without cuDNN's, for which each new shape costs more time than an epoch of its kernels saves."""


def attend_dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    """``F.scaled_dot_product_attention`` of (R, H, T, D) rows, by the first of :data:`KERNELS` that has the inputs."""

    def attend() -> Tensor:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale
        )

    if query.device.type == "cpu":
        return attend()
    with sdpa_kernel(KERNELS):
        return attend()


def attend_blocks(edges: Edges, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """Attention (N, H, D) within consecutive complete graphs, without padding; see :func:`has_block_kernel`."""
    ends, longest = edges.compute_once("block ends", _find_ends)
    if query.dtype not in _HALF:  # under autocast
        query, key, value = (rows.to(torch.get_autocast_dtype("cuda")) for rows in (query, key, value))
    default = 1 / math.sqrt(query.shape[2])
    scaled = query if math.isclose(scale, default) else query * (scale / default)  # not all versions have a scale
    return _block_kernel()(scaled, key, value, ends, ends, longest, longest)


def has_block_kernel(edges: Edges, query: Tensor, value: Tensor, dropout: float) -> bool:
    """Whether :func:`attend_blocks` computes these rows: in half precision, on an Ampere GPU or a newer one."""
    return bool(
        query.is_cuda
        and not dropout
        and edges.blocks is not None
        and len(edges.blocks)
        and query.shape[2] == value.shape[2]
        and query.shape[2] % 8 == 0
        and query.shape[2] <= 256
        and (query.dtype in _HALF or (torch.is_autocast_enabled("cuda") and query.dtype == torch.float32))
        and torch.version.cuda
        and torch.cuda.get_device_capability(query.device) >= (8, 0)
        and _block_kernel() is not None
    )


_HALF = (torch.bfloat16, torch.float16)


@cache
def _block_kernel() -> Any:
    """``varlen_attn``; None in a PyTorch before 2.10."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return None
    return varlen_attn


def _find_ends(edges: Edges) -> tuple[Tensor, int]:
    """(B + 1,) int32 where each complete graph begins, and the size of the largest."""
    assert edges.blocks is not None
    ends = F.pad(edges.blocks.cumsum(0), (1, 0)).int()
    return to_device(ends, edges.indptr.device), int(edges.blocks.max())
