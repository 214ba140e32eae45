"""Numbers of any magnitude as data, with the digits that a model computes, and for readers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

EPSILON = 2.0**-23
"""The relative precision of float32."""


def shorten(value: float, scale: float = 0.0) -> float:
    """The shortest number that is as exact as float32: at the value, and at ``scale`` where the value is far larger.

    Examples
    --------
    >>> shorten(3.1234567891e-07), shorten(4.100000023841858), shorten(1600000037.25, scale=30.0)
    (3.123457e-07, 4.1, 1600000037.25)
    """
    with np.errstate(over="ignore"):
        shortest = float(str(np.float32(value)))
    if not 0 < scale * EPSILON < abs(shortest - value):
        return shortest if math.isfinite(shortest) else value
    return round(value, -math.floor(math.log10(scale * EPSILON)))


def name_numbers(values: Sequence[float]) -> list[str]:
    """Texts that differ as the numbers do: with six digits, or as many as it takes.

    Examples
    --------
    >>> name_numbers([0.5, 1 / 3]), name_numbers([1600000001.0, 1600000002.0])
    (['0.5', '0.333333'], ['1600000001', '1600000002'])
    """
    texts: list[str] = []
    for digits in (6, 12, 17):
        texts = [f"{value:.{digits}g}" for value in values]
        if len(set(texts)) == len(values):
            break
    return texts


def split_ranges(values: npt.NDArray[np.float64], count: int) -> dict[str, npt.NDArray[np.int64]]:
    """Name of a range -> the numbers of the values in it; ranges have about equally many values.

    A range of whole numbers is named by the least and the largest one that may be in it.

    Examples
    --------
    >>> {name: numbers.tolist() for name, numbers in split_ranges(np.array([5.5, 1.0, 2.0, 9.0]), 2).items()}
    {'1 to 3.75': [1, 2], '3.75 to 9': [0, 3]}
    >>> {name: numbers.tolist() for name, numbers in split_ranges(np.array([5.0, 1.0, 2.0, 9.0]), 2).items()}
    {'1 to 3': [1, 2], '4 to 9': [0, 3]}
    """
    edges = np.unique(np.quantile(values, np.linspace(0, 1, count + 1)))
    starts = edges[:-1] if len(edges) > 1 else edges
    ranges = np.searchsorted(starts, values, side="right") - 1
    lows, highs = starts, np.append(starts[1:], edges[-1])
    if (values == np.round(values)).all():
        lows, highs = np.ceil(lows), np.append(np.ceil(highs[:-1]) - 1, highs[-1])
    bounds = sorted({*lows.tolist(), *highs.tolist()})
    names = dict(zip(bounds, name_numbers(bounds), strict=True))
    pairs = [tuple(dict.fromkeys((names[low], names[high]))) for low, high in zip(lows, highs, strict=True)]
    return {" to ".join(pairs[each]): np.flatnonzero(ranges == each) for each in np.unique(ranges).tolist()}


def format_number(value: float, step: float | None = None, *, sign: str = "") -> str:
    """A number for a reader, with two decimals, or as many as it takes to see differences of a hundredth of ``step``.

    ``step`` is the number itself when None.

    Examples
    --------
    >>> format_number(1.668), format_number(0.01234), format_number(3.1e-07), format_number(1600000037.0, 30.0)
    ('1.67', '0.0123', '3.10e-07', '1600000037.00')
    """
    step = abs(value if step is None else step)
    if not (step and math.isfinite(step) and math.isfinite(value)):
        return f"{value:{sign}.2f}"
    decimals = 2 if step >= 0.1 else 2 - math.floor(math.log10(step))
    if decimals <= 6 and abs(value) < 1e15:
        return f"{value:{sign}.{decimals}f}"
    exact = 2 - math.floor(math.log10(step))
    digits = exact + math.floor(math.log10(abs(value))) if value else 2
    return f"{value:{sign}.{min(max(digits, 2), 16)}e}"


def choose_format(values: Iterable[float], decimals: int, sign: str = "") -> str:
    """A format for all numbers: with so many decimals, or with an exponent where those would be zeros.

    Examples
    --------
    >>> choose_format([0.5, -2.0], 3, "+"), choose_format([3e-7, -1e-7], 3, "+")
    ('+.3f', '+.3e')
    """
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return f"{sign}.{decimals}{'e' if 0 < largest < 10 ** (1 - decimals) else 'f'}"


def spread(values: Iterable[float]) -> float:
    """The difference of the largest and the smallest number; the largest magnitude if all are equal, or 0."""
    listed = list(values)
    if not listed:
        return 0.0
    return max(listed) - min(listed) or max(map(abs, listed))
