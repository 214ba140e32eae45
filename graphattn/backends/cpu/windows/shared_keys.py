"""Gradients of a chunk's keys on their way out; those of keys that several chunks see are added up afterwards."""

from __future__ import annotations

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.registers import fetch_add, simd_width
from graphattn.backends.cpu.windows.wide_tiles import round_up, unpack_rows


@kernel
def accumulate_partial(  # type: ignore[no-untyped-def]
    work, source, chunk, lines, place, target, node, head, width, partial, both, at
):
    """Copy a chunk's padded gradients of keys or values, ``lines`` rows for each head, to where they belong.

    Those that no other chunk sees go to ``target``, the others to ``partial`` (shared keys, all heads, ``both`` numbers
    of which the first to write is ``at``). ``place`` tells the heads, how many there are in all, and which is first.
    """
    heads, all_heads, member = place
    begin, end, own_begin, own_end, shared = chunk[2], chunk[3], chunk[4], chunk[5], chunk[6]
    wide, one = round_up(width, simd_width(work)), work.dtype.type(1)
    inner = source + (own_begin - begin) * wide
    unpack_rows(work, inner, target, own_begin * node, node, head, own_end - own_begin, heads, width, one, lines)
    row = all_heads * both
    members = heads.copy()
    for number in range(len(heads)):
        members[number] = member + number
    out = shared * row + at
    unpack_rows(work, source, partial, out, row, both, own_begin - begin, members, width, one, lines)
    out += (own_begin - begin) * row
    source += (own_end - begin) * wide
    unpack_rows(work, source, partial, out, row, both, end - own_end, members, width, one, lines)


@kernel
def merge_partial(counter, chunks, heads, lines, partial, grad_key, grad_value, steps, wanted):  # type: ignore[no-untyped-def]
    """Write the sums of what :func:`accumulate_partial` left in ``partial``, in the chunks' order; a task is a head.

    Its values' gradients go to the head in ``heads``, its keys' to that in ``lines``, or nowhere when it is -1.
    ``wanted`` tells whether keys and whether values have any.
    """
    width, value_width = steps[:2]
    gk_node, gk_head, gv_node, gv_head = steps[-4:]
    both = width + value_width
    while True:
        member = fetch_add(counter)
        if member >= len(heads):
            break
        has_keys, has_values = lines[member] >= 0 and wanted[0], wanted[1]
        key_at, value_at = lines[member] * gk_head, heads[member] * gv_head
        for add in (False, True):
            for number in range(len(chunks)):
                begin, own_begin, own_end = chunks[number, 2], chunks[number, 4], chunks[number, 5]
                place = (chunks[number, 6] * len(heads) + member) * both
                for j in range(begin, chunks[number, 3]):
                    if own_begin <= j < own_end:
                        continue
                    for d in range(width if has_keys else 0):
                        there = j * gk_node + key_at + d
                        grad_key[there] = grad_key[there] + partial[place + d] if add else 0
                    for d in range(value_width if has_values else 0):
                        there = j * gv_node + value_at + d
                        grad_value[there] = grad_value[there] + partial[place + width + d] if add else 0
                    place += len(heads) * both
