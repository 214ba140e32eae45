"""Linear layers whose products are those of int8: weights are quantized once, rows whenever they are multiplied.

A weight has one scale for each output. A row of inputs (a token) has a scale and a zero of its own, so it depends on no
other row. Sums are exact in int32. Rows are computed in blocks that fit into a core's cache, which threads take as they
become free.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from graphattn._backends.cpu import int8_kernels as kernels
from graphattn._backends.cpu.buffer_pool import empty, empty_array
from graphattn._backends.cpu.compiling import announce_compilation
from graphattn._backends.cpu.threads import run_in_threads
from graphattn._transforms import opaque
from graphattn.exceptions import ConfigError
from graphattn.layers._frozen import FrozenLinear, Step, norm_arguments, replace_linear

MAX_INPUTS = (2**31 - 1) // (kernels.LEVELS * kernels.LARGEST)
"""Most inputs of a layer whose sums cannot overflow."""
BLOCK, MIN_BLOCK = 128, 16
"""Rows that are computed together, at most and at least."""


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
    def groups(self) -> int:
        """Groups of inputs that are multiplied at once."""
        return self.panels.shape[1]

    @property
    def padded_outputs(self) -> int:
        """Outputs of all panels."""
        return self.panels.shape[0] * self.panels.shape[2]

    @property
    @override
    def weight(self) -> Tensor:  # type: ignore[override]
        """(O, I) the float32 weight that the int8 one stands for, for callers that need a part of it."""
        quantized = self.panels.transpose(1, 2).flatten(2).flatten(0, 1)[: self.out_features, : self.in_features]
        return quantized * self.scales.unsqueeze(1)

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


@opaque
def run_chain(inputs: Tensor, steps: Sequence[Step], residual: Tensor | None = None) -> Tensor:
    """:meth:`FrozenLinear.run_chain` in float32."""
    if inputs.requires_grad and torch.is_grad_enabled():
        raise ConfigError("int8 has no gradients; load the model with {precision=32}", options=("precision",))
    scales = cast(Int8Linear, steps[0].layer).scales
    if scales.dtype != torch.float32 or not inputs.device.type == scales.device.type == "cpu":
        raise ConfigError(
            "int8 computes in float32 on a CPU; load the model with {precision=32} to move or convert it",
            options=("precision",),
        )
    rows = inputs.detach().float().contiguous().numpy()
    added = None if residual is None else residual.detach().float().contiguous().numpy()
    out = empty((len(rows), steps[-1].layer.out_features), torch.float32)
    target, count = out.numpy(), len(rows)
    size = _choose_block(count, torch.get_num_threads())
    starts = itertools.count(0, size)  # next() is atomic

    def work(_: int) -> None:
        block = None
        with torch.inference_mode():  # is a thread's own
            while (start := next(starts)) < count:
                block = block or _Block(steps, min(size, count))
                span = slice(start, min(start + size, count))
                block.run(rows[span], None if added is None else added[span], target[span])

    with announce_compilation(kernels.quantize):
        run_in_threads(work, alone=count <= size)
    return out


def _choose_block(rows: int, threads: int) -> int:
    """Rows of a block, with as many blocks for each thread.

    Examples
    --------
    >>> _choose_block(128, 1), _choose_block(1000, 2), _choose_block(130, 1)
    (128, 125, 65)
    """
    blocks = -(-rows // (BLOCK * threads)) * threads
    return max(MIN_BLOCK, -(-rows // blocks)) if rows else MIN_BLOCK


class _Block:
    """Steps, with the memory that one thread needs for a block of rows."""

    def __init__(self, steps: Sequence[Step], rows: int):
        self.steps = steps
        layers = [cast(Int8Linear, step.layer) for step in steps]
        widest = max(layer.out_features for layer in layers)
        self.quantized = np.empty(rows * max(layer.groups for layer in layers), np.int32)
        self.scales, self.zeros = np.empty((2, rows), np.float32), np.empty((2, rows), np.int32)
        self.sums = empty_array((rows * max(layer.padded_outputs for layer in layers),), np.int32)
        self.normed = empty_array((rows * widest,), np.float32)
        self.row = np.empty(widest, np.float32)

    def run(self, rows: np.ndarray, residual: np.ndarray | None, out: np.ndarray) -> None:
        """Fill ``out`` for a block of rows."""
        count, is_quantized = len(rows), False
        now, later = zip(self.scales[:, :count], self.zeros[:, :count], strict=True)
        for number, step in enumerate(self.steps):
            layer, width = cast(Int8Linear, step.layer), step.layer.out_features
            quantized = self.quantized[: count * layer.groups]
            if not is_quantized:
                kernels.quantize(rows, rows.view(np.int32), _bytes_of(quantized, count), *now)
            sums = self.sums[: count * layer.padded_outputs]
            kernels.multiply(quantized, layer.panels.view(-1).numpy().view(np.int32), count, sums)
            weight = (each.numpy() for each in (layer.scales, layer.sums, layer.bias))
            arguments = sums.reshape(count, -1), *now, *weight
            if step.gelu:
                following = cast(Int8Linear, self.steps[number + 1].layer)
                row, target = self.row[:width], _bytes_of(self.quantized[: count * following.groups], count)
                kernels.dequantize_gelu(*arguments, row, row.view(np.int32), target, *later)
                now, later, is_quantized = later, now, True
                continue
            rows = out if step is self.steps[-1] else self.normed[: count * width].reshape(count, width)
            if step.norm is None:
                kernels.dequantize(*arguments, rows)
            else:
                gain, shift, epsilon = norm_arguments(step.norm)
                kernels.dequantize_norm(*arguments, residual, gain, shift, epsilon, rows)
                residual = rows
            is_quantized = False


def _bytes_of(numbers: np.ndarray, rows: int) -> np.ndarray:
    """The int32 as so many rows of bytes."""
    return numbers.view(np.uint8).reshape(rows, -1)
