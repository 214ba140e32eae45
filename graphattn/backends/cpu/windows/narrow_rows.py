"""Pieces of the kernels for narrow ranges: which keys a register of rows sees, their scores, what is read next."""

from __future__ import annotations

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import multiply_panel
from graphattn.backends.cpu.simd.registers import (
    broadcast,
    dropout_factors,
    dropout_threshold,
    fma,
    load,
    mask_key,
    mask_lanes,
    masked_load,
    masked_store,
    mul,
    prefetch,
    reduce_max,
    simd_width,
    store,
)


@kernel
def load_ranges(rows, low, high, starts, row, here):  # type: ignore[no-untyped-def]
    """Fill ``rows`` (see :func:`~graphattn.backends.cpu.simd.registers.mask_key`) for the rows from ``row`` on.

    Returns the first key that one of them sees and the one after the last; lanes without a row see none. ``starts`` are
    their first slots, which only dropout and weights need.
    """
    count = len(rows) // 3
    begin, end = high[row], low[row]
    empty = True
    for r in range(count):
        first = stop = 0
        if r < here:
            first, stop = low[row + r], high[row + r]
            if first < stop:
                begin = first if empty else min(begin, first)
                end = stop if empty else max(end, stop)
                empty = False
            if len(starts) > 0:
                rows[2 * count + r] = starts[row + r] - first
        rows[r], rows[count + r] = first, stop
    return (0, 0) if empty else (begin, end)


@kernel
def multiply_and_mask(  # type: ignore[no-untyped-def]
    work, target, rows, turned, width, array, place, node, keys, first, factor, other
):
    """Products of ``keys`` rows of an array with the turned rows, times a factor, ``other`` where a row does not see.

    Returns a register of zeros, or with something else in it when a product is not finite.
    """
    count = simd_width(work)
    multiply_panel(work, target, keys, array, place, node, 1, work, turned, width)
    zero, factors = broadcast(work.dtype.type(0)), broadcast(factor)
    odd = zero
    for j in range(keys):
        score = mul(load(work, target + j * count), factors)
        odd = fma(score, zero, odd)
        store(work, target + j * count, mask_key(score, rows, first + j, other))
    return odd


@kernel
def prefetch_rows(array, first, stop, node, head, heads, width):  # type: ignore[no-untyped-def]
    """Ask for the rows from first to before stop, from the first to the last of some heads."""
    begin, end = heads.max(), heads.max()
    for number in heads:
        begin = min(begin, number) if number >= 0 else begin
    if begin < 0:
        return
    for row in range(first, stop):
        for c in range(begin * head, end * head + width, simd_width(array)):
            prefetch(array, row * node + c)


@kernel
def copy_values(  # type: ignore[no-untyped-def]
    source, place, node, target, target_place, target_node, rows, width, first, dropout, seed
):
    """Give each row of values to its own node: a softmax over one edge is one, whatever the score.

    ``first`` is the number of the first row's edge. The same passes gradients back.
    """
    count = simd_width(source)
    one, nothing = source.dtype.type(1), source.dtype.type(0)
    limit, gain = dropout_threshold(dropout, source)
    for r in range(rows):
        factor = broadcast(one)
        if dropout > 0:
            factor = broadcast(
                reduce_max(mask_lanes(dropout_factors(factor, first + r, seed, limit, gain), 0, 1, nothing))
            )
        for c in range(0, width, count):
            part = mul(masked_load(source, place + r * node + c, 0, width - c), factor)
            masked_store(target, target_place + r * target_node + c, part, 0, width - c)


@kernel
def lowest_finite(work):  # type: ignore[no-untyped-def]
    """The smallest finite number."""
    return work.dtype.type(-3.4028234663852886e38 if work.itemsize == 4 else -1.7976931348623157e308)


@kernel
def copy_rows(source, place, node, target, target_place, target_node, rows, width):  # type: ignore[no-untyped-def]
    """Copy rows of ``width`` numbers into rows of whole registers, filled up with zeros."""
    for r in range(rows):
        for c in range(0, width, simd_width(source)):
            store(target, target_place + r * target_node + c, masked_load(source, place + r * node + c, 0, width - c))


@kernel
def zero_fill(target, place, width):  # type: ignore[no-untyped-def]
    """Zeros from ``place`` on."""
    for c in range(0, width, simd_width(target)):
        masked_store(target, place + c, broadcast(target.dtype.type(0)), 0, width - c)
