"""The scale of a head: how many tokens its window spans, and how the heads of a layer spread over the scales."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import total_ordering

import numpy as np
import numpy.typing as npt

from graphattn.exceptions import ConfigError

_RELATIVE = re.compile(r"[Nn](?:\s*/\s*([1-9]\d{0,8}))?")


@total_ordering
@dataclass(frozen=True, init=False)
class Scale:
    """The total width of a window in tokens, fixed or relative to the sentence (MS-Trans, Eq. 6-7 and 10).

    Parameters
    ----------
    spec : an odd number (``3`` or ``"3"``), or ``"N/16"`` for a sixteenth of the sentence's length

    Raises
    ------
    ConfigError
        for an even or non-positive width, or text that is neither

    Notes
    -----
    A relative width is ``max(1, floor(n / k))``, plus one if that is even: the paper forces odd widths, and its
    Figure 1 shows that a width is the total number of tokens, not a radius.

    Examples
    --------
    >>> Scale("N/16").width(100), Scale(3).width(100), Scale("N/4").width(3)
    (7, 3, 1)
    >>> str(Scale("n / 8"))
    'N/8'
    """

    tokens: int | None
    divisor: int | None

    def __init__(self, spec: int | str | Scale):
        tokens, divisor = _parse(spec)
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "divisor", divisor)

    def width(self, length: int) -> int:
        """Width in tokens, odd and at least 1, in a sentence of ``length`` tokens."""
        return int(self.widths(np.array([length]))[0])

    def widths(self, lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Widths for many sentence lengths at once, shape ``lengths.shape``."""
        if self.tokens is not None:
            return np.full(lengths.shape, self.tokens, dtype=np.int64)
        assert self.divisor is not None
        return np.maximum(lengths.astype(np.int64) // self.divisor, 1) | 1

    def __str__(self) -> str:
        if self.tokens is not None:
            return str(self.tokens)
        return "N" if self.divisor == 1 else f"N/{self.divisor}"

    def __repr__(self) -> str:
        return f"Scale({str(self)!r})"

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Scale):
            return NotImplemented
        return self._order() < other._order()

    def _order(self) -> tuple[int, int]:
        """Fixed widths come before relative ones, small before large."""
        return (0, self.tokens) if self.tokens is not None else (1, -(self.divisor or 1))


def _parse(spec: int | str | Scale) -> tuple[int | None, int | None]:
    if isinstance(spec, Scale):
        return spec.tokens, spec.divisor
    text = str(spec).strip()
    match = _RELATIVE.fullmatch(text)
    if match:
        return None, int(match.group(1) or 1)
    if re.fullmatch(r"\d{1,9}", text):
        width = int(text)
        if width % 2 == 0:
            raise ConfigError(f"scale {text} is even; a window has the same reach on both sides: use {width + 1}")
        return width, None
    raise ConfigError(f"scale {text!r} is neither an odd number of tokens such as 3 nor a share such as N/16")


def allocate_heads(num_heads: int, num_layers: int, num_scales: int, alpha: float) -> list[list[int]]:
    """Spread the heads of each layer over the scales (MS-Trans, Eq. 11-12).

    Parameters
    ----------
    num_heads : heads in every layer
    num_layers : depth L; layer L spreads its heads evenly
    num_scales : candidate scales, smallest first
    alpha : > 0 favours small scales in shallow layers, < 0 large ones, 0 none

    Returns
    -------
    One row per layer, shallowest first; each row sums to ``num_heads``.

    Notes
    -----
    The paper does not say how ``softmax(z) * num_heads`` becomes whole numbers. Taking the differences of the
    rounded-up running sum is the one simple rule that gives all three rows the paper prints.

    Examples
    --------
    >>> allocate_heads(10, 3, 5, alpha=0.5)
    [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    """
    for name, value in (("num_heads", num_heads), ("num_layers", num_layers), ("num_scales", num_scales)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; it must be at least 1")
    if not math.isfinite(alpha):
        raise ConfigError(f"alpha is {alpha}; it must be a finite number")
    return [_layer_heads(num_heads, layer, num_layers, num_scales, alpha) for layer in range(1, num_layers + 1)]


def _layer_heads(num_heads: int, layer: int, num_layers: int, num_scales: int, alpha: float) -> list[int]:
    slope = alpha / layer if layer < num_layers else 0.0
    logits = np.arange(num_scales, 0, -1) * slope
    shares = np.exp(logits - logits.max())
    running = np.cumsum(shares / shares.sum()) * num_heads
    # 1e-9 forgives the rounding of the running sum, so that an exact 2.0 is not rounded up to 3
    reached = np.ceil(running - 1e-9).astype(int)
    reached[-1] = num_heads
    return [int(count) for count in np.diff(reached, prepend=0)]
