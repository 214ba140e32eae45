"""The scale of a head, which sets the width of its window, and how the heads of a layer are allocated to scales."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

import numpy as np
import numpy.typing as npt

from graphattn._validation import require_range
from graphattn.exceptions import ConfigError

_RELATIVE = re.compile(r"[Nn](?:\s*/\s*([1-9]\d{0,8}))?")


@total_ordering
@dataclass(frozen=True, init=False)
class Scale:
    """The total width of a window in tokens, fixed or relative to the sentence length (MS-Trans, Eq. 6-7 and 10).

    Parameters
    ----------
    spec : an odd number (``3`` or ``"3"``), or ``"N/16"`` for a sixteenth of the sentence's length

    Raises
    ------
    ConfigError
        for an even or non-positive width, or other text

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
        return self._sort_key() < other._sort_key()

    def _sort_key(self) -> tuple[int, int]:
        """Sort key: fixed widths before relative ones, small before large."""
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
    """Distribute the heads of each layer over the scales (MS-Trans, Eq. 11-12).

    Parameters
    ----------
    num_heads : heads per layer
    num_layers : depth L; layer L distributes its heads evenly
    num_scales : candidate scales, smallest first
    alpha : > 0 favours small scales in shallow layers, < 0 large ones, 0 neither

    Returns
    -------
    One row per layer, shallowest first; each row sums to ``num_heads``.

    Notes
    -----
    The paper does not say how it rounds ``softmax(z) * num_heads``. Differences of the rounded-up cumulative sum are
    the only simple rule that reproduces all three rows in the paper.

    Examples
    --------
    >>> allocate_heads(10, 3, 5, alpha=0.5)
    [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    """
    for name, value in (("num_heads", num_heads), ("num_layers", num_layers), ("num_scales", num_scales)):
        require_range(name, value, min=1)
    require_range("alpha", alpha)
    return [_allocate_layer(num_heads, layer, num_layers, num_scales, alpha) for layer in range(1, num_layers + 1)]


def _allocate_layer(num_heads: int, layer: int, num_layers: int, num_scales: int, alpha: float) -> list[int]:
    slope = alpha / layer if layer < num_layers else 0.0
    logits = np.arange(num_scales, 0, -1) * slope
    shares = np.exp(logits - logits.max())
    cumulative = np.cumsum(shares / shares.sum()) * num_heads
    # subtract 1e-9 so that floating-point error does not round an exact 2.0 up to 3
    rounded = np.ceil(cumulative - 1e-9).astype(int)
    rounded[-1] = num_heads
    return [int(count) for count in np.diff(rounded, prepend=0)]
