"""Linear layers whose products are those of int8: weights are quantized once, rows whenever they are multiplied.

A weight has one scale for each output. A row of inputs (a token) has a scale and a zero of its own, so it depends on no
other row. Sums are exact in int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._backends.cpu import int8_kernels as kernels
from graphattn._backends.cpu.buffer_pool import empty_array
from graphattn._transforms import opaque
from graphattn.exceptions import ConfigError
from graphattn.layers._frozen import FrozenLinear, Step, norm_arguments, replace_linear
from graphattn.layers._packed_weights import run_links

MAX_INPUTS = (2**31 - 1) // (kernels.LEVELS * kernels.LARGEST)
"""Most inputs of a layer whose sums cannot overflow."""

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


class Int8Linear(FrozenLinear):
    """A linear layer for inference with weights in int8."""

    is_quantized = True
    panels: Tensor
    scales: Tensor
    sums: Tensor

    def __init__(self, layer: nn.Linear):
        super().__init__(layer)
        weight = layer.weight.detach().float()
        scales = weight.abs().amax(1).clamp(min=float(kernels.TINY)) / kernels.LARGEST
        quantized = (weight / scales.unsqueeze(1)).round().to(torch.int8)
        bias = torch.zeros(self.out_features) if layer.bias is None else layer.bias.detach().float()
        self.register_buffer("panels", torch.from_numpy(kernels.make_panels(quantized.numpy())))
        self.register_buffer("scales", scales)
        self.register_buffer("sums", quantized.sum(1, dtype=torch.int32))
        self.register_buffer("bias", bias)

    @property
    @override
    def dtype(self) -> torch.dtype:
        return self.scales.dtype

    @property
    @override
    def weight(self) -> Tensor:  # type: ignore[override]
        """(O, I) the float32 weight that the int8 one stands for, for callers that need a part of it."""
        quantized = self.panels.transpose(1, 2).flatten(2).flatten(0, 1)[: self.out_features, : self.in_features]
        return quantized * self.scales.unsqueeze(1)

    @staticmethod
    @override
    def list_links(steps: Sequence[Step]) -> Sequence[Int8Link]:
        scales = [cast(Int8Linear, step.layer).scales for step in steps]
        can_run = all(each.dtype == torch.float32 and each.device.type == "cpu" for each in scales)
        return [Int8Link(steps)] if can_run else []

    @staticmethod
    @override
    def run_chain(inputs: Tensor, steps: Sequence[Step], residual: Tensor | None = None) -> Tensor:
        return run_chain(inputs, steps, residual)

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        rows = run_chain(inputs.reshape(-1, self.in_features), [Step(self)])
        return rows.view(*inputs.shape[:-1], self.out_features)

    @override
    def _save_to_state_dict(self, *arguments: Any, **options: Any) -> None:
        raise ConfigError(
            "the model's weights were rounded to int8; load it with {precision=32} to save, export or train it",
            options=("precision",),
        )


def quantize(model: nn.Module) -> None:
    """Replace all linear layers, whose float32 weights are freed; nothing in the model has gradients any more.

    ``Conv1D`` of ``transformers``, which GPT-2 is made of, is a linear layer with a transposed weight.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if (type(child).__module__, type(child).__name__) == ("transformers.pytorch_utils", "Conv1D"):
                setattr(parent, name, _transpose(child))
    replace_linear(model, lambda layer: layer.in_features <= MAX_INPUTS, Int8Linear)


def _transpose(layer: Any) -> nn.Linear:
    """The linear layer that a ``Conv1D`` is."""
    with torch.device("meta"):
        linear = nn.Linear(*layer.weight.shape)
    linear.load_state_dict({"weight": layer.weight.detach().t(), "bias": layer.bias.detach()}, assign=True)
    return linear


def multiplies_int8() -> bool:
    """Whether the processor multiplies int8 exactly and fast (VNNI)."""
    return kernels.MULTIPLIES_BYTES


class _Product(NamedTuple):
    """A layer's arrays, and what follows it."""

    panels: Integers  # as int32, one row
    scales: Floats  # (O,)
    sums: Integers  # (O,)
    bias: Floats  # (O,)
    groups: int  # of inputs
    outputs: int  # of all panels
    gelu: bool
    norm: tuple[Floats, Floats, np.float32] | None

    @classmethod
    def of(cls, step: Step) -> _Product:
        layer = cast(Int8Linear, step.layer)
        count, groups, width, _ = layer.panels.shape
        scales, sums, bias = (each.numpy() for each in (layer.scales, layer.sums, layer.bias))
        norm = None if step.norm is None else norm_arguments(step.norm)
        panels = layer.panels.view(-1).numpy().view(np.int32)
        return cls(panels, scales, sums, bias, groups, count * width, step.gelu, norm)


class Int8Link:
    """Steps of int8 layers, of which the last has no GELU; see :class:`graphattn._backends.cpu.products.Link`."""

    def __init__(self, steps: Sequence[Step]):
        self._products = [_Product.of(step) for step in steps]
        self.outputs = steps[-1].layer.out_features
        self._groups = max(product.groups for product in self._products)

    def run(self, rows: Floats, residual: Floats | None, out: Floats) -> Floats | None:
        """Write to ``out``, and return the next residual: after a layer norm its output."""
        count, is_quantized = len(rows), False
        memory = empty_array((count * self._groups,), np.int32)
        now, later = ((np.empty(count, np.float32), np.empty(count, np.int32)) for _ in range(2))
        for number, product in enumerate(self._products):
            quantized = memory[: count * product.groups]
            if not is_quantized:
                kernels.quantize(rows, rows.view(np.int32), _bytes_of(quantized, count), *now)
            sums = empty_array((count, product.outputs), np.int32)
            kernels.multiply(quantized, product.panels, count, sums.reshape(-1))
            arguments = sums, *now, product.scales, product.sums, product.bias
            width, is_last = len(product.bias), number == len(self._products) - 1
            if product.gelu:
                following = memory[: count * self._products[number + 1].groups]
                row = np.empty(width, np.float32)
                kernels.dequantize_gelu(*arguments, row, row.view(np.int32), _bytes_of(following, count), *later)
                now, later, is_quantized = later, now, True
                continue
            rows, is_quantized = out if is_last else empty_array((count, width), np.float32), False
            if product.norm is None:
                kernels.dequantize(*arguments, rows)
            else:
                kernels.dequantize_norm(*arguments, residual, *product.norm, rows)
                residual = rows
        return residual


def _bytes_of(numbers: Integers, rows: int) -> npt.NDArray[np.uint8]:
    """The int32 as so many rows of bytes."""
    return numbers.view(np.uint8).reshape(rows, -1)


@opaque
def run_chain(inputs: Tensor, steps: Sequence[Step], residual: Tensor | None = None) -> Tensor:
    """:meth:`FrozenLinear.run_chain` in float32."""
    if inputs.requires_grad and torch.is_grad_enabled():
        raise ConfigError("int8 has no gradients; load the model with {precision=32}", options=("precision",))
    if not inputs.device.type == "cpu" or not (links := Int8Linear.list_links(steps)):
        raise ConfigError(
            "int8 computes in float32 on a CPU; load the model with {precision=32} to move or convert it",
            options=("precision",),
        )
    return run_links(inputs.float(), links, None if residual is None else residual.float())
