"""Pieces of the kernels for narrow ranges: which keys a register of rows sees, their scores, what is read next."""

from __future__ import annotations

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import products
from graphattn.backends.cpu.simd.registers import (
    draw_lots,
    fetch_early,
    fill,
    keep_between,
    keep_part,
    kept,
    lanes,
    largest,
    load,
    load_part,
    multiply_add,
    store,
    store_part,
    times,
)


@kernel
def look(rows, low, high, starts, row, here):  # type: ignore[no-untyped-def]
    """Fill ``rows`` (see :func:`~graphattn.backends.cpu.simd.registers.keep_between`) for the rows from ``row`` on.

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
def scores_of(  # type: ignore[no-untyped-def]
    work, target, rows, turned, width, array, place, node, keys, first, factor, other
):
    """Products of ``keys`` rows of an array with the turned rows, times a factor, ``other`` where a row does not see.

    Returns a register of zeros, or with something else in it when a product is not finite.
    """
    count = lanes(work)
    products(work, target, keys, array, place, node, 1, work, turned, width)
    zero, factors = fill(work.dtype.type(0)), fill(factor)
    odd = zero
    for j in range(keys):
        score = times(load(work, target + j * count), factors)
        odd = multiply_add(score, zero, odd)
        store(work, target + j * count, keep_between(score, rows, first + j, other))
    return odd


@kernel
def fetch_rows(array, first, stop, node, head, heads, width):  # type: ignore[no-untyped-def]
    """Ask for the rows from first to before stop, from the first to the last of some heads."""
    begin, end = heads.max(), heads.max()
    for number in heads:
        begin = min(begin, number) if number >= 0 else begin
    if begin < 0:
        return
    for row in range(first, stop):
        for c in range(begin * head, end * head + width, lanes(array)):
            fetch_early(array, row * node + c)


@kernel
def pass_on(  # type: ignore[no-untyped-def]
    source, place, node, target, target_place, target_node, rows, width, first, dropout, seed
):
    """Give each row of values to its own node: a softmax over one edge is one, whatever the score.

    ``first`` is the number of the first row's edge. The same passes gradients back.
    """
    count = lanes(source)
    one, nothing = source.dtype.type(1), source.dtype.type(0)
    limit, gain = draw_lots(dropout, source)
    for r in range(rows):
        factor = fill(one)
        if dropout > 0:
            factor = fill(largest(keep_part(kept(factor, first + r, seed, limit, gain), 0, 1, nothing)))
        for c in range(0, width, count):
            part = times(load_part(source, place + r * node + c, 0, width - c), factor)
            store_part(target, target_place + r * target_node + c, part, 0, width - c)


@kernel
def lowest(work):  # type: ignore[no-untyped-def]
    """The smallest finite number."""
    return work.dtype.type(-3.4028234663852886e38 if work.itemsize == 4 else -1.7976931348623157e308)


@kernel
def copy_rows(source, place, node, target, target_place, target_node, rows, width):  # type: ignore[no-untyped-def]
    """Copy rows of ``width`` numbers into rows of whole registers, filled up with zeros."""
    for r in range(rows):
        for c in range(0, width, lanes(source)):
            store(target, target_place + r * target_node + c, load_part(source, place + r * node + c, 0, width - c))


@kernel
def erase(target, place, width):  # type: ignore[no-untyped-def]
    """Zeros from ``place`` on."""
    for c in range(0, width, lanes(target)):
        store_part(target, place + c, fill(target.dtype.type(0)), 0, width - c)
