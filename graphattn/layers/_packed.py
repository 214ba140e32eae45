"""Linear layers for predictions whose weights are stored in the order in which they are multiplied fastest.

Results are equal up to rounding; the number of a weight's digits stays the same, so that a packed model can be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from graphattn.exceptions import ConfigError
from graphattn.layers._frozen import FrozenLinear, Step, replace_linear
from graphattn.layers._linear import Linear, has_bfloat16, has_hooks, linear
from graphattn.layers._packed_weights import (
    CAN_PACK,
    Block,
    PackedWeight,
    Panels,
    can_run_links,
    pack_weight,
    run_links,
)

if TYPE_CHECKING:
    from graphattn._backends.cpu.products import Link

MIN_WEIGHT = 1 << 12
"""Numbers in the smallest weight that is faster packed."""


class PackedLinear(FrozenLinear):
    """A linear layer whose weight is packed, in float32 or rounded to bfloat16."""

    def __init__(
        self, layer: nn.Linear, dtype: torch.dtype = torch.float32, allocate: Callable[..., Tensor] = torch.empty
    ):
        super().__init__(layer)
        self.stored: PackedWeight = pack_weight(layer.weight.detach().to(dtype), allocate)
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
            return self.stored.unpack()

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        if not self._can_multiply(inputs):
            return linear(inputs, self.stored.unpack().to(self.dtype), self.bias)
        out = self.stored.multiply(inputs.reshape(-1, self.in_features), self.bias)
        return out if inputs.dim() == 2 else out.view(*inputs.shape[:-1], self.out_features)

    def _can_multiply(self, inputs: Tensor) -> bool:
        return self.stored.multiplies(inputs) and not (inputs.requires_grad and torch.is_grad_enabled())

    @staticmethod
    @override
    def list_links(steps: Sequence[Step]) -> Sequence[Link]:
        links = []
        for layer, gelu, norm in steps:
            if not (type(layer) is PackedLinear and isinstance(layer.stored, Panels)):
                return []
            links.append(layer.stored.make_product(layer.bias, gelu=gelu, norm=norm))
        return links

    @staticmethod
    @override
    def run_chain(inputs: Tensor, steps: Sequence[Step], residual: Tensor | None = None) -> Tensor:
        can_run = can_run_links(inputs) and not (inputs.requires_grad and torch.is_grad_enabled())
        if can_run and (links := PackedLinear.list_links(steps)):
            return run_links(inputs, links, residual)
        rows = inputs
        for layer, gelu, norm in steps:
            assert isinstance(layer, PackedLinear)
            if layer._can_multiply(rows):
                rows = layer.stored.multiply(rows, layer.bias, gelu=gelu)
            else:
                rows = F.gelu(layer(rows)) if gelu else layer(rows)
            if norm is not None:
                rows = residual = norm(rows if residual is None else rows + residual)
        return rows

    def select(self, outputs: Sequence[slice]) -> PackedLinear:
        """The layer of some of the outputs; that of the last call is kept."""
        key = tuple(outputs)
        if self._selected is None or self._selected[0] != key:
            weight, bias = self.stored.unpack(), self.bias
            parts = [torch.cat([each[part] for part in key]) for each in (weight, bias) if each is not None]
            part = Linear(self.in_features, len(parts[0]), bias=bias is not None, device="meta")
            part.load_state_dict(dict(zip(("weight", "bias"), parts, strict=False)), assign=True)
            self._selected = key, PackedLinear(part, weight.dtype)
        return self._selected[1]

    @override
    def _apply(self, fn: Any, recurse: bool = True) -> PackedLinear:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.stored, self._selected = pack_weight(fn(self.stored.unpack())), None
        return self

    @override
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if self.stored.dtype == torch.bfloat16:
            raise ConfigError(
                "the model's weights were rounded to bfloat16; load it with {precision=32} to save or export it",
                options=("precision",),
            )
        destination[f"{prefix}weight"] = self.stored.unpack()
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
        return {**self.__dict__, "_selected": None}


def list_parts(module: nn.Module) -> list[object]:
    """What links of a module's layers are made of: as long as these are equal, so are the links.

    That is each module, whether it has hooks, its packed weight, and where its parameters and buffers lie.
    """
    parts: list[object] = []
    modules = [module]
    for each in modules:
        attributes = vars(each)
        parts += each, has_hooks(each), attributes.get("stored")
        parts += [tensor.data_ptr() for tensor in attributes["_parameters"].values() if tensor is not None]
        parts += [tensor.data_ptr() for tensor in attributes["_buffers"].values() if tensor is not None]
        modules += filter(None, attributes["_modules"].values())
    return parts


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

    memory = Block(sum(each.weight.numel() for each in model.modules() if isinstance(each, nn.Linear) and fits(each)))
    replace_linear(model, fits, lambda layer: PackedLinear(layer, dtype, memory.allocate))
