"""Kernels for products of int8: they quantize rows, multiply them, and turn the int32 sums into float32.

Each function writes the rows of a block. A row depends on no other one, so its result is the same in every block.
The panels of a weight (see :mod:`products`) have four inputs of each output side by side, as processors with VNNI
multiply them; a width that is no multiple of four is followed by zeros in the weight, and by anything in the rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from graphattn._backends.cpu.activations import gelu_of, norm_row
from graphattn._backends.cpu.compiling import kernel, loop_kernel
from graphattn._backends.cpu.products import PANEL, multiply_tile
from graphattn._backends.cpu.simd.blocks import Matrix
from graphattn._backends.cpu.simd.llvm import MULTIPLIES_BYTES as MULTIPLIES_BYTES
from graphattn._backends.cpu.simd.registers import simd_width

GROUP = 4
"""Bytes that are multiplied at once."""
LARGEST, LEVELS = 127, 255
"""Largest absolute value of a quantized weight, and steps between the lowest and the highest number of a row."""
TINY = np.float32(1e-30)
"""Rows of a smaller range are quantized to zeros; a reciprocal of their step would overflow."""
_MAGNITUDE = np.int32(0x7FFFFFFF)
"""The bits of a float32 without its sign."""


def make_panels(weight: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """(O, I) -> (P, I / 4, PANEL, 4), with zeros behind the last output and the last input."""
    outputs, inputs = weight.shape
    panels, groups = -(-outputs // PANEL), -(-inputs // GROUP)
    padded = np.zeros((panels * PANEL, groups * GROUP), np.int8)
    padded[:outputs, :inputs] = weight
    return np.ascontiguousarray(padded.reshape(panels, PANEL, groups, GROUP).swapaxes(1, 2))


@kernel
def multiply(rows, panels, length, sums):  # type: ignore[no-untyped-def]
    """``length`` rows of bytes times panels -> their sums, with the outputs of all panels in a row.

    All are flat, and bytes are seen as int32.
    """
    width, groups = 2 * simd_width(sums), len(rows) // length
    outputs = len(panels) // groups
    for column in range(0, outputs, width):
        right = Matrix(panels, column * groups, width, width // 2)
        multiply_tile(sums, column, outputs, rows, 0, groups, length, right, groups, True)


@loop_kernel
def quantize(rows, bits, out, scales, zeros):  # type: ignore[no-untyped-def]
    """(R, I) float32, also seen as int32 -> (R, I or more) uint8; (R,) scales, and (R,) what stands for zero."""
    for r in range(len(rows)):
        low = high = np.int32(0)
        for c in range(rows.shape[1]):
            key = bits[r, c] ^ ((bits[r, c] >> 31) & _MAGNITUDE)
            low, high = min(low, key), max(high, key)
        scales[r], zeros[r] = _quantize_row(rows[r], out[r], low, high)


@loop_kernel
def dequantize(sums, scales, zeros, weight_scales, weight_sums, bias, out):  # type: ignore[no-untyped-def]
    """(R, O or more) int32 -> (R, O) float32, with scales of rows and columns, and a bias."""
    for r in range(len(sums)):
        for c in range(len(bias)):
            product = np.float32(sums[r, c] - zeros[r] * weight_sums[c])
            out[r, c] = product * (scales[r] * weight_scales[c]) + bias[c]


@loop_kernel
def dequantize_gelu(  # type: ignore[no-untyped-def]
    sums, scales, zeros, weight_scales, weight_sums, bias, row, bits, out, out_scales, out_zeros
):
    """(R, O or more) int32 -> (R, O or more) uint8: :func:`dequantize`, GELU and :func:`quantize`.

    An (O,) ``row`` is memory to work in.
    """
    for r in range(len(sums)):
        for c in range(len(bias)):
            product = np.float32(sums[r, c] - zeros[r] * weight_sums[c])
            x = product * (scales[r] * weight_scales[c]) + bias[c]
            row[c] = gelu_of(x)
        low = high = np.int32(0)
        for c in range(len(bias)):
            key = bits[c] ^ ((bits[c] >> 31) & _MAGNITUDE)
            low, high = min(low, key), max(high, key)
        out_scales[r], out_zeros[r] = _quantize_row(row, out[r], low, high)


@loop_kernel
def dequantize_norm(  # type: ignore[no-untyped-def]
    sums, scales, zeros, weight_scales, weight_sums, bias, residual, gain, shift, epsilon, out
):
    """(R, O or more) int32 -> (R, O) float32: :func:`dequantize`, the sum with a residual, and a layer norm."""
    for r in range(len(sums)):
        for c in range(len(bias)):
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
