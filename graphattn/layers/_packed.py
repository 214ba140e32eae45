"""Linear layers for predictions whose weights are stored in the order in which oneDNN multiplies them.

A product of few rows is as fast as its weight comes from memory. In this order it comes without a detour, and products
of many rows need not bring it into this order first. Results are equal up to rounding; the number of a weight's digits
stays the same, so that a packed model can be saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn._transforms import is_transformed
from graphattn.exceptions import ConfigError
from graphattn.layers._frozen import FrozenLinear, Step, replace_linear
from graphattn.layers._linear import (
    BLOCK,
    HAS_ONEDNN,
    Linear,
    has_bfloat16,
    linear,
    multiplies_in_bfloat16,
    split_rows,
)

MIN_WEIGHT = 1 << 12
"""Numbers in the smallest weight that is faster packed."""
CAN_PACK = HAS_ONEDNN and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
"""Whether this build of PyTorch has oneDNN's packed weights."""


class PackedLinear(FrozenLinear):
    """A linear layer whose weight is kept in oneDNN's order, in float32 or rounded to bfloat16."""

    def __init__(self, layer: nn.Linear, dtype: torch.dtype = torch.float32):
        super().__init__(layer)
        self.stored = pack_weight(layer.weight.detach().to(dtype))
        """(O, I) in oneDNN's order; as it is after a conversion to a type or device that has no such order."""
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach())
        self._selected: tuple[tuple[slice, ...], PackedLinear] | None = None

    @property
    @override
    def dtype(self) -> torch.dtype:
        return self.stored.dtype if self.bias is None else self.bias.dtype  # of rounded weights float32

    @property
    @override
    def weight(self) -> Tensor:  # type: ignore[override]
        """(O, I) a copy of the weight; changing it in place is an error, since it would have no effect."""
        with torch.inference_mode():
            return unpack_weight(self.stored)

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        if not self._can_multiply(inputs):
            return linear(inputs, unpack_weight(self.stored).to(self.dtype), self.bias)
        rows = inputs.reshape(-1, self.in_features)
        out = multiply_rows(rows.to(self.stored.dtype), self.stored, self.bias)
        return out if inputs.dim() == 2 else out.view(*inputs.shape[:-1], self.out_features)

    def _can_multiply(self, inputs: Tensor) -> bool:
        if not self.stored.is_mkldnn or (inputs.requires_grad and torch.is_grad_enabled()) or is_transformed():
            return False
        if self.stored.dtype == torch.bfloat16:
            return multiplies_in_bfloat16(inputs)
        return inputs.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")

    @staticmethod
    @override
    def run_chain(inputs: Tensor, steps: Sequence[Step], residual: Tensor | None = None) -> Tensor:
        rows = inputs
        for layer, gelu, norm in steps:
            assert isinstance(layer, PackedLinear)
            if layer._can_multiply(rows):
                activation = "gelu" if gelu else "none"
                rows = multiply_rows(rows.to(layer.stored.dtype), layer.stored, layer.bias, activation)
            else:
                rows = F.gelu(layer(rows)) if gelu else layer(rows)
            if norm is not None:
                rows = residual = norm(rows if residual is None else rows + residual)
        return rows

    def select(self, outputs: Sequence[slice]) -> PackedLinear:
        """The layer of some of the outputs; that of the last call is kept."""
        key = tuple(outputs)
        if self._selected is None or self._selected[0] != key:
            weight, bias = unpack_weight(self.stored), self.bias
            parts = [torch.cat([each[part] for part in key]) for each in (weight, bias) if each is not None]
            part = Linear(self.in_features, len(parts[0]), bias=bias is not None, device="meta")
            part.load_state_dict(dict(zip(("weight", "bias"), parts, strict=False)), assign=True)
            self._selected = key, PackedLinear(part, weight.dtype)
        return self._selected[1]

    @override
    def _apply(self, fn: Any, recurse: bool = True) -> PackedLinear:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.stored, self._selected = pack_weight(fn(unpack_weight(self.stored))), None
        return self

    @override
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if self.stored.dtype == torch.bfloat16:
            raise ConfigError(
                "the model's weights were rounded to bfloat16; load it with {precision=32} to save or export it",
                options=("precision",),
            )
        destination[f"{prefix}weight"] = unpack_weight(self.stored)
        super()._save_to_state_dict(destination, prefix, keep_vars)

    @override
    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        name = f"{prefix}weight"
        weight = state_dict.get(name)
        if weight is None:
            missing_keys.append(name)
        elif weight.shape != (self.out_features, self.in_features):
            error_msgs.append(f"{name} has shape {tuple(weight.shape)}; expected {self.out_features, self.in_features}")
        else:
            self.stored, self._selected = pack_weight(weight.detach().to(self.stored.dtype)), None
        others = {key: tensor for key, tensor in state_dict.items() if key != name}
        super()._load_from_state_dict(others, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "stored": unpack_weight(self.stored), "_selected": None}

    @override
    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self.stored = pack_weight(self.stored)


def pack(model: nn.Module, precision: str = "32", *, min_weight: int = MIN_WEIGHT) -> None:
    """Replace the linear layers of a model on a CPU; nothing in the model has gradients any more.

    ``precision`` is that of its predictions: with ``"bf16"`` weights are rounded, if the processor has such products.
    Layers with fewer numbers than ``min_weight`` stay as they are.
    """
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    if not CAN_PACK or (precision == "bf16" and not has_bfloat16()):
        return
    read_in_parts = {
        part for module in model.modules() if getattr(module, "reads_weights", False) for part in module.children()
    }

    def fits(layer: nn.Linear) -> bool:
        weight = layer.weight
        is_float32 = weight.dtype == torch.float32 and weight.device.type == "cpu"
        return is_float32 and weight.numel() >= min_weight and layer not in read_in_parts

    replace_linear(model, fits, lambda layer: PackedLinear(layer, dtype))


def pack_weight(weight: Tensor) -> Tensor:
    """(O, I) in oneDNN's order; unchanged where there is none."""
    has_order = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and has_bfloat16())
    if not (CAN_PACK and has_order and weight.device.type == "cpu"):
        return weight
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)


def unpack_weight(weight: Tensor) -> Tensor:
    """(O, I) in the usual order."""
    return weight.to_dense() if weight.is_mkldnn else weight


def multiply_rows(rows: Tensor, weight: Tensor, bias: Tensor | None, activation: str = "none") -> Tensor:
    """(N, I), a packed (O, I), (O,) -> (N, O); ``activation`` is ``"none"``, or ``"gelu"`` of the sums.

    oneDNN compiles each new number of rows once, so only some numbers occur.
    """
    count = len(rows)
    algorithm = "none" if activation == "gelu" else ""
    bias = None if bias is None else bias.contiguous()  # oneDNN ignores its strides
    if count <= BLOCK:
        missing = count_missing_rows(count)
        padded = F.pad(rows, (0, 0, 0, missing)) if missing else rows
        out = torch.ops.mkldnn._linear_pointwise(padded, weight, bias, activation, [], algorithm)
        return out[:count] if missing else out
    out = rows.new_empty(count, weight.shape[0])
    for part, size in split_rows(count):
        target = out[part]
        padded = F.pad(rows[part], (0, 0, 0, size - len(target)))
        target.copy_(torch.ops.mkldnn._linear_pointwise(padded, weight, bias, activation, [], algorithm)[: len(target)])
    return out


def count_missing_rows(count: int) -> int:
    """Rows to the next multiple of 8, or from 64 on of 16.

    Examples
    --------
    >>> count_missing_rows(1), count_missing_rows(24), count_missing_rows(65)
    (7, 0, 15)
    """
    return -count % (8 if count <= 64 else 16)
