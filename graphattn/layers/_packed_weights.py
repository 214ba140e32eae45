"""Weights of linear layers in the order in which a processor multiplies them fastest.

A product of few rows is as fast as its weight comes from memory. In this order it comes without a detour, and products
of many rows need not bring it into this order first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from graphattn._backends.cpu.buffer_pool import empty
from graphattn._transforms import is_transformed
from graphattn.layers._frozen import norm_arguments
from graphattn.layers._linear import (
    BLOCK,
    HAS_ONEDNN,
    has_bfloat16,
    linear,
    multiplies_in_bfloat16,
    split_rows,
)
from graphattn.layers._norm import LayerNorm

if TYPE_CHECKING:
    from graphattn._backends.cpu.products import Attention, Link, Product

HAS_ORDER = HAS_ONEDNN and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
"""Whether this build of PyTorch has oneDNN's order of weights."""
HAS_PANELS = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
"""Whether our kernels are as fast as oneDNN for many rows, and faster for few; see ``graphattn bench latency``."""
CAN_PACK = HAS_ORDER or HAS_PANELS


class PackedWeight(ABC):
    """An (O, I) weight, which cannot be changed."""

    dtype: torch.dtype

    @abstractmethod
    def unpack(self) -> Tensor:
        """(O, I) in the usual order."""

    @abstractmethod
    def multiplies(self, inputs: Tensor) -> bool:
        """Whether :meth:`multiply` takes inputs of this type, in this precision."""

    @abstractmethod
    def multiply(self, rows: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
        """(N, I), (O,) -> (N, O), or their GELU."""


def pack_weight(weight: Tensor, allocate: Callable[..., Tensor] = torch.empty) -> PackedWeight:
    """(O, I) in the fastest order; as it is where there is none for its type or device.

    ``allocate`` gives memory for a shape.
    """
    if weight.device.type == "cpu" and HAS_PANELS and weight.dtype == torch.float32:
        return Panels(weight, allocate)
    has_order = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and has_bfloat16())
    return OneDNNWeight(weight) if HAS_ORDER and has_order and weight.device.type == "cpu" else PlainWeight(weight)


class Block:
    """Memory for many weights in one piece.

    NumPy asks the system for huge pages. A processor reads ahead within a page only, and products of few rows are as
    fast as their weights come from memory.
    """

    def __init__(self, numbers: int):
        self._memory, self._used = torch.from_numpy(np.empty(numbers, np.float32)), 0

    def allocate(self, *shape: int) -> Tensor:
        """The next part of the memory, as a tensor of a shape; new memory when no part is left."""
        start, size = self._used, math.prod(shape)
        if start + size > len(self._memory):
            return torch.empty(shape)
        self._used += size
        return self._memory[start : start + size].view(shape)


class PlainWeight(PackedWeight):
    """A weight whose type or device has no other order."""

    def __init__(self, weight: Tensor):
        self.weight, self.dtype = weight, weight.dtype

    @override
    def unpack(self) -> Tensor:
        return self.weight

    @override
    def multiplies(self, inputs: Tensor) -> bool:
        return False

    @override
    def multiply(self, rows: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
        out = linear(rows, self.weight, bias)
        return F.gelu(out) if gelu else out


class Panels(PackedWeight):
    """A float32 weight in the panels of our kernels, whose result for a row does not depend on the other rows."""

    def __init__(self, weight: Tensor, allocate: Callable[..., Tensor] = torch.empty):
        from graphattn._backends.cpu.products import make_panels  # loads the compiler of kernels

        self.outputs, self.panels = len(weight), make_panels(weight, allocate)
        self.dtype = weight.dtype

    @override
    def unpack(self) -> Tensor:
        return self.panels.transpose(1, 2).flatten(0, 1)[: self.outputs].clone()

    @override
    def multiplies(self, inputs: Tensor) -> bool:
        return can_run_links(inputs)

    @override
    def multiply(self, rows: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
        return run_links(rows, [self.make_product(bias, gelu=gelu)])

    def make_product(self, bias: Tensor | None, *, gelu: bool = False, norm: LayerNorm | None = None) -> Product:
        """The product with this weight, as a link of a chain."""
        from graphattn._backends.cpu.products import make_product

        norms = None if norm is None else norm_arguments(norm)
        return make_product(self.panels, bias, self.outputs, gelu=gelu, norm=norms)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "panels": self.panels.clone()}  # its memory may be a part of a block


def can_run_links(rows: Tensor) -> bool:
    """Whether :func:`run_links` takes rows of this type, in this precision."""
    return rows.dtype == torch.float32 and not torch.is_autocast_enabled("cpu") and not is_transformed()


def run_links(
    rows: Tensor,
    links: Sequence[Link | Attention],
    residual: Tensor | None = None,
    texts: npt.NDArray[np.int64] | None = None,
) -> Tensor:
    """(N, I) -> (N, O) in float32, see :func:`graphattn._backends.cpu.products.run_chain`."""
    from graphattn._backends.cpu.products import run_chain

    out = empty((len(rows), cast("Link", links[-1]).outputs), torch.float32)
    added = None if residual is None else residual.detach().contiguous().numpy()
    run_chain(rows.detach().contiguous().numpy(), links, added, out.numpy(), texts)
    return out


class OneDNNWeight(PackedWeight):
    """A weight in oneDNN's order, in float32 or bfloat16."""

    def __init__(self, weight: Tensor):
        self.weight, self.dtype = self._reorder(weight), weight.dtype

    @staticmethod
    def _reorder(weight: Tensor) -> Tensor:
        reordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        return reordered

    @override
    def unpack(self) -> Tensor:
        return self.weight.to_dense()

    @override
    def multiplies(self, inputs: Tensor) -> bool:
        if is_transformed():
            return False
        if self.dtype == torch.bfloat16:
            return multiplies_in_bfloat16(inputs)
        return inputs.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")

    @override
    def multiply(self, rows: Tensor, bias: Tensor | None, *, gelu: bool = False) -> Tensor:
        """oneDNN compiles each new number of rows once, so only some numbers occur."""
        rows, count = rows.to(self.dtype), len(rows)
        bias = None if bias is None else bias.contiguous()  # oneDNN ignores its strides
        if count <= BLOCK:
            missing = count_missing_rows(count)
            padded = F.pad(rows, (0, 0, 0, missing)) if missing else rows
            out = self._multiply(padded, bias, gelu)
            return out[:count] if missing else out
        out = rows.new_empty(count, self.weight.shape[0])
        for part, size in split_rows(count):
            target = out[part]
            padded = F.pad(rows[part], (0, 0, 0, size - len(target)))
            target.copy_(self._multiply(padded, bias, gelu)[: len(target)])
        return out

    def _multiply(self, rows: Tensor, bias: Tensor | None, gelu: bool) -> Tensor:
        activation, algorithm = ("gelu", "none") if gelu else ("none", "")
        return torch.ops.mkldnn._linear_pointwise(rows, self.weight, bias, activation, [], algorithm)

    def __getstate__(self) -> Tensor:
        return self.unpack()

    def __setstate__(self, weight: Tensor) -> None:
        self.weight, self.dtype = self._reorder(weight), weight.dtype


def count_missing_rows(count: int) -> int:
    """Rows to the next multiple of 8, or from 64 on of 16.

    Examples
    --------
    >>> count_missing_rows(1), count_missing_rows(24), count_missing_rows(65)
    (7, 0, 15)
    """
    return -count % (8 if count <= 64 else 16)
