"""GELU and layer norm of float32 rows, as kernels of predictions."""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from graphattn._backends.cpu.compiling import loop_kernel

_FAR = 5.5
"""Beyond this, the normal distribution is 0 or 1 to seven digits."""


def _fit_normal() -> tuple[np.float32, ...]:
    """Coefficients of P in (Phi(x) - 1/2) / x = P(t), t = 2 (x / FAR)^2 - 1, highest first; the error is 2e-7."""

    def ratio(t: np.ndarray) -> np.ndarray:
        x = _FAR * np.sqrt((t + 1) / 2)
        return np.array([math.erf(each / math.sqrt(2)) / (2 * each) for each in x])

    coefficients = Chebyshev.interpolate(ratio, 14).convert(kind=Polynomial).coef
    return tuple(np.float32(each) for each in coefficients[::-1])


_NORMAL = _fit_normal()
_STEEPNESS, _HALF, _ONE, _LIMIT = np.float32(2 / _FAR**2), np.float32(0.5), np.float32(1), np.float32(_FAR)


@loop_kernel
def gelu_of(x):  # type: ignore[no-untyped-def]
    """GELU of one number."""
    near = min(max(x, -_LIMIT), _LIMIT)
    t = near * near * _STEEPNESS - _ONE
    ratio = _NORMAL[0]
    for k in range(1, len(_NORMAL)):
        ratio = ratio * t + _NORMAL[k]
    return x * (_HALF + near * ratio)


@loop_kernel
def gelu(values):  # type: ignore[no-untyped-def]
    """Replace (N,) numbers by their GELU."""
    for k in range(len(values)):
        values[k] = gelu_of(values[k])


@loop_kernel
def add_norm(rows, residual, gain, shift, epsilon):  # type: ignore[no-untyped-def]
    """Replace (R, C) rows by the layer norm of their sums with (R, C) ``residual``."""
    for r in range(len(rows)):
        for c in range(rows.shape[1]):
            rows[r, c] += residual[r, c]
        norm_row(rows[r], gain, shift, epsilon)


@loop_kernel
def norm_row(row, gain, shift, epsilon):  # type: ignore[no-untyped-def]
    """Replace a (C,) row by its layer norm, with a (C,) gain and shift."""
    width, total, squares = np.float32(len(row)), np.float32(0), np.float32(0)
    for c in range(len(row)):
        total += row[c]
    mean = total / width
    for c in range(len(row)):
        squares += (row[c] - mean) * (row[c] - mean)
    inverse = np.float32(1) / np.sqrt(squares / width + epsilon)
    for c in range(len(row)):
        row[c] = (row[c] - mean) * inverse * gain[c] + shift[c]
