"""Kernels around products of int8: they quantize rows, and turn the int32 sums into float32.

Each function writes the rows of a block. A row depends on no other one, so its result is the same in every block.
"""

from __future__ import annotations

import numpy as np

from graphattn._backends.cpu.activations import gelu_of, norm_row
from graphattn._backends.cpu.compiling import loop_kernel

LARGEST, LEVELS = 127, 255
"""Largest absolute value of a quantized weight, and steps between the lowest and the highest number of a row."""
TINY = np.float32(1e-30)
"""Rows of a smaller range are quantized to zeros; a reciprocal of their step would overflow."""
_MAGNITUDE = np.int32(0x7FFFFFFF)
"""The bits of a float32 without its sign."""


@loop_kernel
def quantize(rows, bits, out, scales, zeros):  # type: ignore[no-untyped-def]
    """(R, I) float32 and the same memory as int32 -> (R, I) uint8; (R,) scales, and (R,) what stands for zero."""
    for r in range(len(rows)):
        low = high = np.int32(0)
        for c in range(rows.shape[1]):
            key = bits[r, c] ^ ((bits[r, c] >> 31) & _MAGNITUDE)
            low, high = min(low, key), max(high, key)
        scales[r], zeros[r] = _quantize_row(rows[r], out[r], low, high)


@loop_kernel
def dequantize(sums, scales, zeros, weight_scales, weight_sums, bias, out):  # type: ignore[no-untyped-def]
    """(R, O) int32 -> (R, O) float32, with scales of rows and columns, and a bias."""
    for r in range(len(sums)):
        for c in range(sums.shape[1]):
            product = np.float32(sums[r, c] - zeros[r] * weight_sums[c])
            out[r, c] = product * (scales[r] * weight_scales[c]) + bias[c]


@loop_kernel
def dequantize_gelu(  # type: ignore[no-untyped-def]
    sums, scales, zeros, weight_scales, weight_sums, bias, row, bits, out, out_scales, out_zeros
):
    """(R, O) int32 -> (R, O) uint8: :func:`dequantize`, GELU and :func:`quantize`, with an (O,) ``row`` as memory."""
    for r in range(len(sums)):
        for c in range(sums.shape[1]):
            product = np.float32(sums[r, c] - zeros[r] * weight_sums[c])
            x = product * (scales[r] * weight_scales[c]) + bias[c]
            row[c] = gelu_of(x)
        low = high = np.int32(0)
        for c in range(sums.shape[1]):
            key = bits[c] ^ ((bits[c] >> 31) & _MAGNITUDE)
            low, high = min(low, key), max(high, key)
        out_scales[r], out_zeros[r] = _quantize_row(row, out[r], low, high)


@loop_kernel
def dequantize_norm(  # type: ignore[no-untyped-def]
    sums, scales, zeros, weight_scales, weight_sums, bias, residual, gain, shift, epsilon, out
):
    """(R, O) int32 -> (R, O) float32: :func:`dequantize`, the sum with a residual, and a layer norm."""
    for r in range(len(sums)):
        for c in range(sums.shape[1]):
            product = np.float32(sums[r, c] - zeros[r] * weight_sums[c])
            out[r, c] = product * (scales[r] * weight_scales[c]) + bias[c] + residual[r, c]
        norm_row(out[r], gain, shift, epsilon)


@loop_kernel
def _quantize_row(row, out, low, high):  # type: ignore[no-untyped-def]
    """(I,) float32 -> (I,) uint8; ``low`` and ``high`` are bits of the range, ordered as int32, which includes zero."""
    ends = np.empty(2, np.int32)
    ends[0], ends[1] = low ^ ((low >> 31) & _MAGNITUDE), high
    values = ends.view(np.float32)
    size = values[1] - values[0]
    inverse = np.float32(LEVELS) / size if size > TINY else np.float32(0)
    zero = np.int32(np.rint(-values[0] * inverse))
    for c in range(len(row)):
        level = np.int32(np.rint(row[c] * inverse)) + zero
        out[c] = np.uint8(min(max(level, np.int32(0)), np.int32(LEVELS)))
    return size / np.float32(LEVELS), zero
