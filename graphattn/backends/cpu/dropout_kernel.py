"""Kernel of :mod:`graphattn.layers.dropout`: zeros in places that a seed tells, so that nobody needs to keep which."""

from __future__ import annotations

import itertools

import numpy as np
from torch import Tensor

from graphattn.backends.cpu.buffer_pool import empty
from graphattn.backends.cpu.compiling import announced, kernel
from graphattn.backends.cpu.simd.registers import draw_lots, kept, lanes, load, load_part, store, store_part, times
from graphattn.backends.cpu.threads import together

PIECE = 1 << 16
"""Numbers that a thread takes at once."""


def with_zeros(inputs: Tensor, probability: float, seed: int) -> Tensor:
    """Some numbers zero, the others divided by one minus their share; the same places for the same seed.

    Parameters
    ----------
    inputs : float32 or float64 on the CPU, of any shape
    probability : share of zeros, below 1
    seed : below 2**32
    """
    inputs = inputs.detach().contiguous()
    out = empty(inputs.shape, inputs.dtype)
    source, target = inputs.view(-1).numpy(), out.view(-1).numpy()
    starts = itertools.count(0, PIECE)  # its next number is one indivisible step

    def work(_: int) -> None:
        while (start := next(starts)) < len(source):
            _drop(source, target, start, min(start + PIECE, len(source)), probability, np.uint32(seed))

    with announced((_drop, source.dtype)):
        together(work, alone=len(source) <= PIECE)
    return out


@kernel
def _drop(source, target, start, stop, probability, seed):  # type: ignore[no-untyped-def]
    """Fill ``target`` from start to before stop; a number's place draws its lot."""
    count = lanes(target)
    limit, gain = draw_lots(probability, target)
    whole = start + (stop - start) // count * count
    for c in range(start, whole, count):
        part = load(source, c)
        store(target, c, times(part, kept(part, c, seed, limit, gain)))
    if whole < stop:
        part = load_part(source, whole, 0, stop - whole)
        store_part(target, whole, times(part, kept(part, whole, seed, limit, gain)), 0, stop - whole)
