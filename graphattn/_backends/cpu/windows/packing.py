"""Copies between strided tensors and scratch memory, and the gradients of keys that several chunks read.

Scratch memory ``work`` has rows padded with zeros to whole registers.
"""

from __future__ import annotations

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.records import Strided
from graphattn._backends.cpu.simd.blocks import Matrix, transpose
from graphattn._backends.cpu.simd.registers import (
    broadcast,
    fetch_add,
    fma,
    load,
    load_masked,
    mul,
    prefetch,
    reduce_add,
    simd_width,
    store,
    store_masked,
)

PREFETCH_ROWS = 16
"""Rows to prefetch: the rows of one head may be a page apart, which processors do not predict."""


@kernel
def round_up(number, step):  # type: ignore[no-untyped-def]
    """The next multiple of step."""
    return (number + step - 1) // step * step


@kernel
def first_aligned(work):  # type: ignore[no-untyped-def]
    """The first position in ``work`` from which registers do not cross cache lines."""
    return (-(work.ctypes.data // work.itemsize)) % simd_width(work)


@kernel
def clear(work, start, stop):  # type: ignore[no-untyped-def]
    """Write zeros from start to before stop."""
    zero = broadcast(work.dtype.type(0))
    for c in range(start, stop, simd_width(work)):
        store(work, c, zero)


@kernel
def pack_rows(source, start, rows, heads, factor, work, target, padded_rows):  # type: ignore[no-untyped-def]
    """Copy rows of a :class:`Strided` tensor times a factor; return whether all numbers are finite.

    The target has ``padded_rows`` rows for each head, of whole registers. The loop reads all heads of a row before the
    next row, so that memory is read in order.
    """
    count = simd_width(work)
    wide = round_up(source.width, count)
    zero, scale = broadcast(work.dtype.type(0)), broadcast(factor)
    nonfinite = zero
    for r in range(round_up(rows, count)):
        for h in range(heads):
            for c in range(0, wide, count):
                part = zero
                if r < rows:
                    prefetch(source.memory, start + (r + PREFETCH_ROWS) * source.node + h * source.head + c)
                    position = start + r * source.node + h * source.head + c
                    part = mul(load_masked(source.memory, position, 0, source.width - c), scale)
                store(work, target + (h * padded_rows + r) * wide + c, part)
                nonfinite = fma(part, zero, nonfinite)
    return reduce_add(nonfinite) == 0


@kernel
def pack_panels(source, start, rows, heads, work, staging, target):  # type: ignore[no-untyped-def]
    """Copy rows as transposed panels: a register's numbers of rows at a time, one feature after the other."""
    count = simd_width(work)
    wide, padded_rows = round_up(source.width, count), round_up(rows, count)
    clean = True
    for r in range(0, rows, count):
        here = min(count, rows - r)
        clean &= pack_rows(source, start + r * source.node, here, heads, work.dtype.type(1), work, staging, count)
        for h in range(heads):
            transpose_panels(work, staging + h * count * wide, target + (h * padded_rows + r) * wide, count, wide)
    return clean


@kernel
def transpose_panels(work, source, target, rows, wide):  # type: ignore[no-untyped-def]
    """Transpose rows panel by panel."""
    count = simd_width(work)
    for r in range(0, rows, count):
        for c in range(0, wide, count):
            panel = Matrix(work, target + r * wide + c * count, count, 1)
            transpose(panel, count, count, Matrix(work, source + r * wide + c, wide, 1), count, count)


@kernel
def unpack_rows(work, source, padded_rows, target, start, rows, heads):  # type: ignore[no-untyped-def]
    """Copy padded rows to the first ``heads`` heads of a :class:`Strided` tensor, in the order of its memory."""
    wide = round_up(target.width, simd_width(work))
    for r in range(rows):
        for head in range(heads):
            position = start + r * target.node + head * target.head
            unpack_row(work, source + (head * padded_rows + r) * wide, target, position, work.dtype.type(1))


@kernel
def scatter_rows(work, source, padded_rows, target, start, rows, heads, factor):  # type: ignore[no-untyped-def]
    """Copy padded rows times a factor to some heads of a :class:`Strided` tensor."""
    wide = round_up(target.width, simd_width(work))
    for r in range(rows):
        for member in range(len(heads)):
            position = start + r * target.node + heads[member] * target.head
            unpack_row(work, source + (member * padded_rows + r) * wide, target, position, factor)


@kernel
def unpack_row(work, source, target, position, factor):  # type: ignore[no-untyped-def]
    """Copy one padded row times a factor."""
    scale = broadcast(factor)
    for c in range(0, target.width, simd_width(work)):
        store_masked(target.memory, position + c, mul(load(work, source + c), scale), 0, target.width - c)


@kernel
def accumulate_partial(work, source, padded_rows, chunk, heads, first, target, partial):  # type: ignore[no-untyped-def]
    """Copy a chunk's gradients of keys or values, ``padded_rows`` rows for each head, out of scratch memory.

    Gradients of keys that no other chunk reads go to ``target``, others to ``partial`` (shared keys, all heads,
    features), in which the chunk's heads begin with ``first``.
    """
    begin, end, own_begin, own_end, shared = chunk[2], chunk[3], chunk[4], chunk[5], chunk[6]
    wide, one = round_up(target.width, simd_width(work)), work.dtype.type(1)
    inner = source + (own_begin - begin) * wide
    scatter_rows(work, inner, padded_rows, target, own_begin * target.node, own_end - own_begin, heads, one)
    out = shared * partial.node + first * partial.head
    unpack_rows(work, source, padded_rows, partial, out, own_begin - begin, len(heads))
    out += (own_begin - begin) * partial.node
    unpack_rows(work, source + (own_end - begin) * wide, padded_rows, partial, out, end - own_end, len(heads))


@kernel
def partial_of_keys(grads, heads):  # type: ignore[no-untyped-def]
    """The keys' part of ``grads.partial``, whose rows hold the gradients of a key and of its value side by side."""
    both = grads.key.width + grads.value.width
    return Strided(grads.partial, heads * both, both, grads.key.width)


@kernel
def partial_of_values(grads, heads):  # type: ignore[no-untyped-def]
    """The values' part of ``grads.partial``."""
    both = grads.key.width + grads.value.width
    return Strided(grads.partial[grads.key.width :], heads * both, both, grads.value.width)


@kernel
def merge_partial(counter, chunks, heads, scored, grads):  # type: ignore[no-untyped-def]
    """Write the sums of ``grads.partial`` over chunks, in their order; a task is a head.

    ``heads`` are the heads of the values' gradients, ``scored`` those of the keys' gradients.
    """
    width, value_width = grads.key.width, grads.value.width
    grad_key, grad_value, partial = grads.key.memory, grads.value.memory, grads.partial
    both = width + value_width
    while True:
        member = fetch_add(counter)
        if member >= len(heads):
            break
        key_at, value_at = scored[member] * grads.key.head, heads[member] * grads.value.head
        for add in (False, True):
            for number in range(len(chunks)):
                begin, own_begin, own_end = chunks[number, 2], chunks[number, 4], chunks[number, 5]
                position = (chunks[number, 6] * len(heads) + member) * both
                for j in range(begin, chunks[number, 3]):
                    if own_begin <= j < own_end:
                        continue
                    for d in range(width if grads.has_key else 0):
                        there = j * grads.key.node + key_at + d
                        grad_key[there] = grad_key[there] + partial[position + d] if add else 0
                    for d in range(value_width if grads.has_value else 0):
                        there = j * grads.value.node + value_at + d
                        grad_value[there] = grad_value[there] + partial[position + width + d] if add else 0
                    position += len(heads) * both
