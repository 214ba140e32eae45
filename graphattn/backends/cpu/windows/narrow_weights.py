"""What the kernel for narrow ranges does when weights are wanted: they are written as the slots of their edges lie."""

from __future__ import annotations

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.blocks import transpose
from graphattn.backends.cpu.simd.registers import broadcast, load, masked_store, mul, simd_width
from graphattn.backends.cpu.windows.wide_tiles import round_up


@kernel
def write_weights(  # type: ignore[no-untyped-def]
    work, width, value_width, rows, starts, row, here, begin, end, inverses, weights, place
):
    """Write the weights of the rows from ``row`` on, whose shares of each key lie in ``work``, a lane each.

    The scratch memory is laid out as in :mod:`graphattn.backends.cpu.windows.narrow_forward`: queries, results, shares.
    The results have been given away, so the shares are turned over there: a row of them for each destination.
    """
    count = simd_width(work)
    turned = (-(work.ctypes.data // work.itemsize)) % count + round_up(width, count) * count
    shares = turned + round_up(value_width, count) * count
    for j in range(begin, end, count):
        transpose(
            work, turned, count, count, count, work, shares + (j - begin) * count, count, min(count, end - j), count
        )
        for r in range(here):
            low, high = rows[r], rows[count + r]
            part = mul(load(work, turned + r * count), broadcast(inverses[row + r]))
            masked_store(weights, place + starts[row + r] + j - low, part, low - j, high - j)
