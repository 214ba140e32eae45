"""Records that group the arguments of kernels: Numba accepts named tuples of arrays and numbers.

Letters: N nodes, H heads, D features of a head.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from graphattn._backends.cpu.compiling import kernel


class Strided(NamedTuple):
    """A (N, H, D) tensor with contiguous features: flat memory, strides of nodes and heads, and D."""

    memory: np.ndarray
    node: int
    head: int
    width: int


class Inputs(NamedTuple):
    """Queries, keys and values."""

    query: Strided
    key: Strided
    value: Strided


class Outputs(NamedTuple):
    """Outputs, and what the backward pass needs: each row's max and the inverse of its sum (H, N)."""

    out: Strided
    row_max: np.ndarray
    inverse_sum: np.ndarray


class Rule(NamedTuple):
    """Factor on the scores, dropout probability, and dropout seeds (H,)."""

    scale: float
    dropout: float
    seeds: np.ndarray


class Gradients(NamedTuple):
    """Gradients to fill; ``partial`` holds those of keys that several chunks read, see ``merge_partial``.

    ``has_key`` and ``has_value`` say whether keys and values need gradients.
    """

    query: Strided
    key: Strided
    value: Strided
    partial: np.ndarray
    has_key: bool
    has_value: bool


def as_strided(tensor: Tensor) -> Strided:
    """The record of a tensor (N, H, D)."""
    (nodes, heads, width), (node, head, feature) = tensor.shape, tensor.stride()
    span = (nodes - 1) * node + (heads - 1) * head + (width - 1) * feature + 1 if nodes and heads and width else 0
    return Strided(tensor.as_strided((span,), (1,)).numpy(), node, head, width)


@kernel
def offset(tensor, node, head):  # type: ignore[no-untyped-def]
    """Where a row of features begins in the memory of a :class:`Strided` tensor."""
    return node * tensor.node + head * tensor.head
