"""Kernels around products of int8: they quantize rows, and turn the int32 sums into float32.

Each function writes the rows of a block. A row depends on no other one, so its result is the same in every block.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from graphattn._backends.cpu.compiling import loop_kernel

LARGEST = 127
"""Largest absolute value of a quantized number; the range is symmetric."""
TINY = np.float32(1e-30)
"""Rows without a larger number are quantized to zeros; a reciprocal of their scale would overflow."""
_MAGNITUDE = np.int32(0x7FFFFFFF)
"""The bits of a float32 without its sign, which are ordered as the absolute values are."""
_FAR = 5.5
"""Beyond this, the normal distribution is 0 or 1 to seven digits."""


def _fit_normal() -> tuple[float, ...]:
    """Coefficients of P in (Phi(x) - 1/2) / x = P(t), t = 2 (x / FAR)^2 - 1, highest first; the error is 2e-7."""

    def ratio(t: np.ndarray) -> np.ndarray:
        x = _FAR * np.sqrt((t + 1) / 2)
        return np.array([math.erf(each / math.sqrt(2)) / (2 * each) for each in x])

    coefficients = Chebyshev.interpolate(ratio, 14).convert(kind=Polynomial).coef
    return tuple(np.float32(each) for each in coefficients[::-1])


_NORMAL = _fit_normal()
_STEEPNESS, _HALF, _ONE, _LIMIT = np.float32(2 / _FAR**2), np.float32(0.5), np.float32(1), np.float32(_FAR)


@loop_kernel
def quantize(rows, bits, out, scales):  # type: ignore[no-untyped-def]
    """(R, I) float32 and the same memory as int32 -> (R, I) int8, and the (R,) factors that restore them."""
    for r in range(len(rows)):
        largest = np.int32(0)
        for c in range(rows.shape[1]):
            largest = max(largest, bits[r, c] & _MAGNITUDE)
        scales[r] = _quantize_row(rows[r], out[r], largest)


@loop_kernel
def dequantize(sums, scales, weight_scales, bias, out):  # type: ignore[no-untyped-def]
    """(R, O) int32 -> (R, O) float32, with scales of rows and columns, and a bias."""
    for r in range(len(sums)):
        for c in range(sums.shape[1]):
            out[r, c] = np.float32(sums[r, c]) * (scales[r] * weight_scales[c]) + bias[c]


@loop_kernel
def dequantize_gelu(sums, scales, weight_scales, bias, row, bits, out, out_scales):  # type: ignore[no-untyped-def]
    """(R, O) int32 -> (R, O) int8: :func:`dequantize`, GELU and :func:`quantize`, with an (O,) ``row`` as memory."""
    for r in range(len(sums)):
        for c in range(sums.shape[1]):
            x = np.float32(sums[r, c]) * (scales[r] * weight_scales[c]) + bias[c]
            near = min(max(x, -_LIMIT), _LIMIT)
            t = near * near * _STEEPNESS - _ONE
            ratio = _NORMAL[0]
            for k in range(1, len(_NORMAL)):
                ratio = ratio * t + _NORMAL[k]
            row[c] = x * (_HALF + near * ratio)
        largest = np.int32(0)
        for c in range(sums.shape[1]):
            largest = max(largest, bits[c] & _MAGNITUDE)
        out_scales[r] = _quantize_row(row, out[r], largest)


@loop_kernel
def dequantize_norm(sums, scales, weight_scales, bias, residual, gain, shift, epsilon, out):  # type: ignore[no-untyped-def]
    """(R, O) int32 -> (R, O) float32: :func:`dequantize`, the sum with a residual, and a layer norm."""
    width = np.float32(sums.shape[1])
    for r in range(len(sums)):
        row, total = out[r], np.float32(0)
        for c in range(sums.shape[1]):
            x = np.float32(sums[r, c]) * (scales[r] * weight_scales[c]) + bias[c] + residual[r, c]
            row[c] = x
            total += x
        mean, squares = total / width, np.float32(0)
        for c in range(sums.shape[1]):
            squares += (row[c] - mean) * (row[c] - mean)
        inverse = np.float32(1) / np.sqrt(squares / width + epsilon)
        for c in range(sums.shape[1]):
            row[c] = (row[c] - mean) * inverse * gain[c] + shift[c]


@loop_kernel
def _quantize_row(row, out, largest):  # type: ignore[no-untyped-def]
    """(I,) float32 -> (I,) int8; ``largest`` are the bits of the largest absolute value."""
    as_bits = np.empty(1, np.int32)
    as_bits[0] = largest
    magnitude = as_bits.view(np.float32)[0]
    inverse = np.float32(LARGEST) / magnitude if magnitude > TINY else np.float32(0)
    for c in range(len(row)):
        out[c] = np.int8(np.int32(np.rint(row[c] * inverse)))
    return magnitude / np.float32(LARGEST)
