"""Kernels of backend ``fused`` for destinations whose keys lie side by side: windows, complete graphs, order.

A task is one head and one chunk of destinations with the strip of keys that they see. Blocks of destinations meet their
part of the strip as matrix products: scores in tiles, softmax over each row's own range as the tiles come, products
with the values. No index is read and nothing of the edges' size is made.

Arrays are one-dimensional; query, key, value and the like come with the distances between nodes and between heads in
``steps``, features lie side by side. ``work`` is scratch memory. Bias and weights are (H, E), head after head.

Several relations between the same nodes may share a call: ``which`` (H,) is the relation of each head, or -1 where a
head only looks at its own node; ``lows`` and ``highs`` (R, N) are the ends of the ranges, ``slots`` (R, N + 1) the
first slot of each destination, ``blocks`` (R,) how many destinations meet the keys at once.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from graphattn.backends.lanes import (
    ROWS,
    add,
    exponential,
    fetch_early,
    fill,
    keep_part,
    kept,
    lanes,
    larger,
    largest,
    load,
    load_part,
    multiply_add,
    multiply_pair,
    multiply_single,
    next_number,
    store,
    store_part,
    subtract,
    times,
    total,
    transpose,
)

TILE = 256
"""Keys of one tile of scores."""
AHEAD = 16
"""Rows that are asked for before they are read: those of one head may lie a page apart, which no processor guesses."""

# NaN and infinity keep their meaning: a score of -inf hides an edge.
COMPILE: Any = {"nogil": True, "cache": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}


@numba.njit(**COMPILE)
def forward(  # type: ignore[no-untyped-def]
    counter, chunks, which, blocks, lows, highs, slots, query, key, value, bias, out, tops, sums, weights, steps, scale,
    dropout, seeds, group, work,
):  # fmt: skip
    """Fill ``out``, the rows' largest scores ``tops`` and inverse sums ``sums`` (H, N), and ``weights`` if it has room.

    Takes tasks (chunk, group of heads) from ``counter`` until none is left.
    """
    heads = len(tops)
    groups = (heads + group - 1) // group
    block = blocks.max()
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps
    count = lanes(work)
    wide, value_wide = _padded(width, count), _padded(value_width, count)
    while True:
        task = next_number(counter)
        if task >= len(chunks) * groups:
            break
        first_head = task % groups * group
        taken = min(group, heads - first_head)
        chunk = chunks[task // groups]
        first, stop, begin, end = chunk[0], chunk[1], chunk[2], chunk[3]
        strip, lines = _padded(end - begin, count), _padded(stop - first, count)
        staging = (-(work.ctypes.data // work.itemsize)) % count  # registers do not cross cache lines
        sums_at = staging + count * taken * wide
        scores = sums_at + block * value_wide
        panels = scores + block * TILE
        values = panels + taken * strip * wide
        queries = values + taken * strip * value_wide
        place = begin * k_node + first_head * k_head
        clean = _pack_panels(key, place, k_node, k_head, end - begin, taken, width, work, staging, panels)
        place = begin * v_node + first_head * v_head
        one = work.dtype.type(1)
        clean &= _pack(value, place, v_node, v_head, end - begin, taken, value_width, one, work, values, strip)
        place = first * q_node + first_head * q_head
        _pack(query, place, q_node, q_head, stop - first, taken, width, scale, work, queries, lines)
        for member in range(taken):
            head = first_head + member
            relation = which[head]
            own_values = values + member * strip * value_wide
            if relation < 0:
                place = first * o_node + head * o_head
                _pass_on(work, own_values + (first - begin) * value_wide, out, place, o_node, stop - first, value_width,
                         first, dropout, seeds[head])  # fmt: skip
                continue
            low, high, starts = lows[relation], highs[relation], slots[relation]
            bias_at = head * starts[-1]
            own_panels = panels + member * strip * wide
            step = blocks[relation] if clean else 1  # what is not finite must not reach rows that do not see it
            row = first
            while row < stop:
                rows = min(step, stop - row)
                lo, hi = _union(low, high, row, rows)
                own_queries = queries + (member * lines + row - first) * wide
                if lo < hi:
                    _attend_block(
                        work, own_queries, own_panels, own_values, sums_at, scores, row, rows, lo - begin, hi - begin,
                        begin, low, high, starts, bias, bias_at, tops, sums, head, wide, width, value_wide, dropout,
                        seeds[head],
                    )  # fmt: skip
                for r in range(rows):
                    inverse = sums[head, row + r]
                    for c in range(0, value_width, count):
                        part = times(load(work, sums_at + r * value_wide + c), fill(inverse))
                        if inverse == 0:
                            part = fill(inverse)
                        place = (row + r) * o_node + head * o_head + c
                        store_part(out, place, part, 0, value_width - c)
                if len(weights) > 0 and lo < hi:
                    _weigh_block(
                        work, own_queries, own_panels, scores, row, rows, lo - begin, hi - begin, begin,
                        low, high, starts, bias, bias_at, tops, sums, head, wide, width, weights,
                    )  # fmt: skip
                row += rows


@numba.njit(**COMPILE)
def _pass_on(  # type: ignore[no-untyped-def]
    work, source, target, place, node, rows, width, first, dropout, seed
):
    """Give each row of values to its own node: a softmax over one edge is one, whatever the score."""
    count = lanes(work)
    wide = _padded(width, count)
    limit, gain = draw_lots(dropout, work)
    for r in range(rows):
        factor = fill(work.dtype.type(1))
        if dropout > 0:
            factor = fill(largest(keep_part(kept(factor, first + r, seed, limit, gain), 0, 1, work.dtype.type(0))))
        for c in range(0, width, count):
            part = times(load(work, source + r * wide + c), factor)
            store_part(target, place + r * node + c, part, 0, width - c)


@numba.njit(**COMPILE)
def _padded(number, step):  # type: ignore[no-untyped-def]
    """The next multiple of step."""
    return (number + step - 1) // step * step


@numba.njit(**COMPILE)
def _union(low, high, row, rows):  # type: ignore[no-untyped-def]
    """The range of keys that some of the rows see."""
    lo, hi = high[row], low[row]
    empty = True
    for i in range(row, row + rows):
        if high[i] > low[i]:
            lo = low[i] if empty else min(lo, low[i])
            hi = high[i] if empty else max(hi, high[i])
            empty = False
    return (0, 0) if empty else (lo, hi)


@numba.njit(**COMPILE)
def _pack(  # type: ignore[no-untyped-def]
    source, place, node, head, rows, heads, width, factor, work, target, lines
):
    """Copy rows of features times a factor, head after head of ``lines`` rows each; whether all are finite.

    Features are padded with zeros to whole registers, rows to a multiple of a register's numbers. Rows are read as they
    lie in memory, all heads of one after the other, so that memory is read in order.
    """
    count = lanes(work)
    wide = _padded(width, count)
    zero, scale = fill(work.dtype.type(0)), fill(factor)
    odd = zero
    for r in range(_padded(rows, count)):
        for h in range(heads):
            for c in range(0, wide, count):
                part = zero
                if r < rows:
                    fetch_early(source, place + (r + AHEAD) * node + h * head + c)
                    part = times(load_part(source, place + r * node + h * head + c, 0, width - c), scale)
                store(work, target + (h * lines + r) * wide + c, part)
                odd = multiply_add(part, zero, odd)
    return total(odd) == 0


@numba.njit(**COMPILE)
def _pack_panels(  # type: ignore[no-untyped-def]
    source, place, node, head, rows, heads, width, work, staging, target
):
    """Rows transposed, a register's numbers of rows at a time: feature after feature, a register of rows each."""
    count = lanes(work)
    wide, lines = _padded(width, count), _padded(rows, count)
    clean = True
    for r in range(0, rows, count):
        here = min(count, rows - r)
        one = work.dtype.type(1)
        clean &= _pack(source, place + r * node, node, head, here, heads, width, one, work, staging, count)
        for h in range(heads):
            _turn(work, staging + h * count * wide, target + (h * lines + r) * wide, count, wide)
    return clean


@numba.njit(**COMPILE)
def _turn(work, source, target, rows, wide):  # type: ignore[no-untyped-def]
    """Panels of one register's width of rows, transposed."""
    count = lanes(work)
    for r in range(0, rows, count):
        for c in range(0, wide, count):
            transpose(work, target + r * wide + c * count, count, work, source + r * wide + c, wide)


@numba.njit(**COMPILE)
def _against_panels(work, target, rows, left, wide, panels, columns, length):  # type: ignore[no-untyped-def]
    """(rows, TILE) products of rows with ``columns`` transposed rows."""
    count = lanes(work)
    for c in range(0, columns, 2 * count):
        panel = panels + c * wide
        for r in range(0, rows, ROWS):
            place = target + r * TILE + c
            if c + count < columns:
                multiply_pair(
                    work, place, TILE, work, left + r * wide, wide, 1, work, panel, count, count * wide, length, True
                )
            else:
                multiply_single(
                    work, place, TILE, work, left + r * wide, wide, 1, work, panel, count, count * wide, length, True
                )


@numba.njit(**COMPILE)
def _against_rows(  # type: ignore[no-untyped-def]
    work, target, rows, left, row, column, right, wide, length, fresh
):
    """(rows, wide) products of rows of scores, ``row`` and ``column`` apart, with ``length`` rows of features."""
    count = lanes(work)
    for r in range(0, rows, ROWS):
        for c in range(0, wide, 2 * count):
            place = target + r * wide + c
            if c + count < wide:
                multiply_pair(
                    work, place, wide, work, left + r * row, row, column, work, right + c, wide, count, length, fresh
                )
            else:
                multiply_single(
                    work, place, wide, work, left + r * row, row, column, work, right + c, wide, count, length, fresh
                )


@numba.njit(**COMPILE)
def _clear(work, start, stop):  # type: ignore[no-untyped-def]
    zero = fill(work.dtype.type(0))
    for c in range(start, stop, lanes(work)):
        store(work, c, zero)


@numba.njit(**COMPILE)
def _attend_block(  # type: ignore[no-untyped-def]
    work, queries, panels, values, sums_at, scores, row, rows, lo, hi, begin, low, high, starts, bias, bias_at, tops,
    sums, head, wide, width, value_wide, dropout, seed,
):  # fmt: skip
    """Attention of a block of rows over the keys from lo to hi of the strip, tile by tile (online softmax)."""
    count = lanes(work)
    base = lo // count * count
    columns = _padded(hi - base, count)
    hidden = work.dtype.type(-np.inf)
    limit, gain = draw_lots(dropout, work)
    for tile in range(0, columns, TILE):
        here = min(TILE, columns - tile)
        at = base + tile
        _against_panels(work, scores, rows, queries, wide, panels + at * wide, here, width)
        for r in range(rows):
            i = row + r
            left, right = low[i] - begin - at, high[i] - begin - at
            first, last = max(left, 0) // count * count, _padded(min(right, here), count)
            line = scores + r * TILE
            before = hidden if tile == 0 else tops[head, i]
            top = before
            if first < last:
                slot = bias_at + starts[i] - left
                top = max(top, _score_line(work, line, first, last, left, right, bias, slot))
                if top == hidden and _any_nan(work, line, max(left, 0), min(right, here)):
                    top = work.dtype.type(np.nan)
            if first >= last or top == hidden:
                first = last = 0
            _clear(work, line, line + first)
            _clear(work, line + last, line + here)
            if tile == 0:
                sums[head, i] = 0
            tops[head, i] = top
            if first >= last:
                continue
            if top > before and before > hidden:
                shrink = work.dtype.type(np.exp(before - top))
                sums[head, i] *= shrink
                for c in range(0, value_wide, count):
                    place = sums_at + r * value_wide + c
                    store(work, place, times(load(work, place), fill(shrink)))
            shift, collected = fill(top), fill(work.dtype.type(0))
            for c in range(first, last, count):
                share = exponential(subtract(load(work, line + c), shift))
                collected = add(collected, share)
                if dropout > 0:
                    share = times(share, kept(share, starts[i] + c - left, seed, limit, gain))
                store(work, line + c, share)
            sums[head, i] += total(collected)
        start, stop = max(lo - at, 0), min(hi - at, here)
        _against_rows(
            work, sums_at, rows, scores + start, TILE, 1, values + (at + start) * value_wide, value_wide,
            stop - start, tile == 0,
        )  # fmt: skip
    for i in range(row, row + rows):
        if sums[head, i] != 0:
            sums[head, i] = work.dtype.type(1) / sums[head, i]


@numba.njit(**COMPILE)
def _score_line(work, line, first, last, left, right, bias, slot):  # type: ignore[no-untyped-def]
    """Add the bias to a line of scores, hide what the row does not see, return the largest."""
    count = lanes(work)
    hidden = work.dtype.type(-np.inf)
    top = fill(hidden)
    for c in range(first, last, count):
        score = load(work, line + c)
        if len(bias) > 0:
            score = add(score, load_part(bias, slot + c, left - c, right - c))
        if c < left or c + count > right:
            score = keep_part(score, left - c, right - c, hidden)
        store(work, line + c, score)
        top = larger(score, top)
    return largest(top)


@numba.njit(**COMPILE)
def _any_nan(work, line, start, stop):  # type: ignore[no-untyped-def]
    return np.isnan(work[line + start : line + stop]).any()


@numba.njit(**COMPILE)
def draw_lots(dropout, work):  # type: ignore[no-untyped-def]
    """What :func:`kept` needs: the bits below which an edge is dropped, and the gain of the others."""
    limit = np.uint32(min(dropout * 4294967296.0, 4294967295.0))
    return limit, work.dtype.type(1.0 / (1.0 - dropout))


@numba.njit(**COMPILE)
def _share_tile(  # type: ignore[no-untyped-def]
    work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops, sums, head, wide,
    width,
):  # fmt: skip
    """The weights of a tile, before dropout, from the known sums; zero where a row does not see."""
    count = lanes(work)
    _against_panels(work, scores, rows, queries, wide, panels + at * wide, here, width)
    for r in range(rows):
        i = row + r
        left, right = low[i] - begin - at, high[i] - begin - at
        first, last = max(left, 0) // count * count, _padded(min(right, here), count)
        line = scores + r * TILE
        if first >= last or sums[head, i] == 0:
            first = last = 0
        _clear(work, line, line + first)
        _clear(work, line + last, line + here)
        if first < last:
            _score_line(work, line, first, last, left, right, bias, bias_at + starts[i] - left)
        shift, inverse = fill(tops[head, i]), fill(sums[head, i])
        for c in range(first, last, count):
            store(work, line + c, times(exponential(subtract(load(work, line + c), shift)), inverse))


@numba.njit(**COMPILE)
def _weigh_block(  # type: ignore[no-untyped-def]
    work, queries, panels, scores, row, rows, lo, hi, begin, low, high, starts, bias, bias_at, tops, sums, head, wide,
    width, weights,
):  # fmt: skip
    """Write the weights of a block of rows."""
    count = lanes(work)
    base = lo // count * count
    columns = _padded(hi - base, count)
    for tile in range(0, columns, TILE):
        at, here = base + tile, min(TILE, columns - tile)
        _share_tile(
            work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops, sums,
            head, wide, width,
        )  # fmt: skip
        for r in range(rows):
            left, right = low[row + r] - begin - at, high[row + r] - begin - at
            for c in range(max(left, 0) // count * count, min(right, here), count):
                place = bias_at + starts[row + r] - left + c
                store_part(weights, place, load(work, scores + r * TILE + c), left - c, right - c)


@numba.njit(**COMPILE)
def backward(  # type: ignore[no-untyped-def]
    counter, chunks, which, blocks, lows, highs, slots, query, key, value, bias, out, tops, sums, grad_out,
    grad_weights, grad_query, grad_key, grad_value, grad_bias, partial, steps, scale, dropout, seeds, group, work,
):  # fmt: skip
    """Fill the gradients; those of keys that several chunks see go to ``partial``, for :func:`merge`."""
    heads = len(tops)
    groups = (heads + group - 1) // group
    block = blocks.max()
    width, value_width, q_node, q_head, k_node, k_head, v_node, v_head, o_node, o_head = steps[:10]
    g_node, g_head, gq_node, gq_head, gk_node, gk_head, gv_node, gv_head = steps[10:]
    count = lanes(work)
    wide, value_wide = _padded(width, count), _padded(value_width, count)
    one = work.dtype.type(1)
    while True:
        task = next_number(counter)
        if task >= len(chunks) * groups:
            break
        first_head = task % groups * group
        taken = min(group, heads - first_head)
        chunk = chunks[task // groups]
        first, stop, begin, end, shared = chunk[0], chunk[1], chunk[2], chunk[3], chunk[4]
        strip, lines = _padded(end - begin, count), _padded(stop - first, count)
        staging = (-(work.ctypes.data // work.itemsize)) % count
        scores = staging + count * taken * value_wide
        slopes = scores + block * TILE
        keys = slopes + block * TILE
        panels = keys + taken * strip * wide
        value_panels = panels + taken * strip * wide
        grad_keys = value_panels + taken * strip * value_wide
        grad_values = grad_keys + taken * strip * wide
        queries = grad_values + taken * strip * value_wide
        grads = queries + taken * lines * wide
        grad_queries = grads + taken * lines * value_wide
        inner = grad_queries + taken * lines * wide
        place = begin * k_node + first_head * k_head
        clean = _pack(key, place, k_node, k_head, end - begin, taken, width, one, work, keys, strip)
        place = begin * v_node + first_head * v_head
        clean &= _pack_panels(
            value, place, v_node, v_head, end - begin, taken, value_width, work, staging, value_panels
        )
        place = first * q_node + first_head * q_head
        _pack(query, place, q_node, q_head, stop - first, taken, width, scale, work, queries, lines)
        place = first * g_node + first_head * g_head
        _pack(grad_out, place, g_node, g_head, stop - first, taken, value_width, one, work, grads, lines)
        _turn(work, keys, panels, taken * strip, wide)
        _clear(work, grad_keys, queries)
        _clear(work, grad_queries, inner)
        for r in range(stop - first):
            for member in range(taken):
                product = fill(work.dtype.type(0))
                for c in range(0, value_width, count):
                    place = (first + r) * o_node + (first_head + member) * o_head + c
                    part = load_part(out, place, 0, value_width - c)
                    product = multiply_add(load(work, grads + (member * lines + r) * value_wide + c), part, product)
                work[inner + member * lines + r] = total(product)
        for member in range(taken):
            head, own = first_head + member, member * strip
            relation = which[head]
            if relation < 0:
                line = own + first - begin
                _pass_on(work, grads + member * lines * value_wide, work, grad_values + line * value_wide, value_wide,
                         stop - first, value_wide, first, dropout, seeds[head])  # fmt: skip
                continue
            low, high, starts = lows[relation], highs[relation], slots[relation]
            step = blocks[relation] if clean else 1
            row = first
            while row < stop:
                rows = min(step, stop - row)
                lo, hi = _union(low, high, row, rows)
                line = member * lines + row - first
                if lo < hi:
                    _differentiate_block(
                        work, queries + line * wide, keys + own * wide, panels + own * wide,
                        value_panels + own * value_wide, grads + line * value_wide, grad_queries + line * wide,
                        grad_keys + own * wide, grad_values + own * value_wide, inner + line, scores, slopes, row, rows,
                        lo - begin, hi - begin, begin, low, high, starts, bias, head * starts[-1], tops, sums, head,
                        wide, width, value_wide, value_width, grad_weights, grad_bias, dropout, seeds[head],
                    )  # fmt: skip
                row += rows
        place = first * gq_node + first_head * gq_head
        _give(work, grad_queries, grad_query, place, gq_node, gq_head, stop - first, taken, width, scale, lines)
        if shared < 0:
            place = begin * gk_node + first_head * gk_head
            _give(work, grad_keys, grad_key, place, gk_node, gk_head, end - begin, taken, width, one, strip)
            place = begin * gv_node + first_head * gv_head
            _give(work, grad_values, grad_value, place, gv_node, gv_head, end - begin, taken, value_width, one, strip)
        else:
            both = (end - begin) * (width + value_width)
            place = shared * heads * (width + value_width) + first_head * both
            _give(work, grad_keys, partial, place, width, both, end - begin, taken, width, one, strip)
            place += (end - begin) * width
            _give(work, grad_values, partial, place, value_width, both, end - begin, taken, value_width, one, strip)


@numba.njit(**COMPILE)
def _give(  # type: ignore[no-untyped-def]
    work, source, target, place, node, head, rows, heads, width, factor, lines
):
    """Copy padded rows times a factor to where they belong, in the order in which they lie there."""
    count = lanes(work)
    wide = _padded(width, count)
    scale = fill(factor)
    for r in range(rows):
        for h in range(heads):
            for c in range(0, width, count):
                part = times(load(work, source + (h * lines + r) * wide + c), scale)
                store_part(target, place + r * node + h * head + c, part, 0, width - c)


@numba.njit(**COMPILE)
def _differentiate_block(  # type: ignore[no-untyped-def]
    work, queries, keys, panels, value_panels, grads, grad_queries, grad_keys, grad_values, inner, scores, slopes, row,
    rows, lo, hi, begin, low, high, starts, bias, bias_at, tops, sums, head, wide, width, value_wide, value_width,
    grad_weights, grad_bias, dropout, seed,
):  # fmt: skip
    """Gradients of a block of rows: of its queries, and added to those of the strip's keys and values."""
    count = lanes(work)
    base = lo // count * count
    columns = _padded(hi - base, count)
    limit, gain = draw_lots(dropout, work)
    if len(grad_weights) > 0:  # the softmax's gradient needs the whole row's sum first
        for tile in range(0, columns, TILE):
            at, here = base + tile, min(TILE, columns - tile)
            _share_tile(
                work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops,
                sums, head, wide, width,
            )  # fmt: skip
            for r in range(rows):
                left, right = low[row + r] - begin - at, high[row + r] - begin - at
                product = fill(work.dtype.type(0))
                for c in range(max(left, 0) // count * count, min(right, here), count):
                    place = bias_at + starts[row + r] - left + c
                    part = load_part(grad_weights, place, left - c, right - c)
                    product = multiply_add(load(work, scores + r * TILE + c), part, product)
                work[inner + r] += total(product)
    for tile in range(0, columns, TILE):
        at, here = base + tile, min(TILE, columns - tile)
        _share_tile(
            work, queries, panels, scores, row, rows, at, here, begin, low, high, starts, bias, bias_at, tops, sums,
            head, wide, width,
        )  # fmt: skip
        _against_panels(work, slopes, rows, grads, value_wide, value_panels + at * value_wide, here, value_width)
        for r in range(rows):
            i = row + r
            left, right = low[i] - begin - at, high[i] - begin - at
            first, last = max(left, 0) // count * count, _padded(min(right, here), count)
            if first >= last:
                first = last = 0
            line, slope_line = scores + r * TILE, slopes + r * TILE
            _clear(work, slope_line, slope_line + first)
            _clear(work, slope_line + last, slope_line + here)
            mean = fill(work[inner + r])
            for c in range(first, last, count):
                share, slope = load(work, line + c), load(work, slope_line + c)
                if dropout > 0:
                    factor = kept(share, starts[i] + c - left, seed, limit, gain)
                    slope = times(slope, factor)
                    store(work, line + c, times(share, factor))
                if len(grad_weights) > 0:
                    slope = add(slope, load_part(grad_weights, bias_at + starts[i] - left + c, left - c, right - c))
                slope = times(share, subtract(slope, mean))
                store(work, slope_line + c, slope)
                if len(grad_bias) > 0:
                    store_part(grad_bias, bias_at + starts[i] - left + c, slope, left - c, right - c)
        start, stop = max(lo - at, 0), min(hi - at, here)
        _against_rows(
            work, grad_queries, rows, slopes + start, TILE, 1, keys + (at + start) * wide, wide, stop - start, tile == 0
        )
        start = start // ROWS * ROWS
        _against_rows(
            work, grad_keys + (at + start) * wide, stop - start, slopes + start, 1, TILE, queries, wide, rows, False
        )
        _against_rows(
            work, grad_values + (at + start) * value_wide, stop - start, scores + start, 1, TILE, grads, value_wide,
            rows, False,
        )  # fmt: skip


@numba.njit(**COMPILE)
def merge(counter, chunks, partial, grad_key, grad_value, heads, steps):  # type: ignore[no-untyped-def]
    """Add up the gradients of keys that several chunks see, in the chunks' order; a task is a head."""
    width, value_width = steps[:2]
    gk_node, gk_head, gv_node, gv_head = steps[14:]
    while True:
        head = next_number(counter)
        if head >= heads:
            break
        for number in range(len(chunks)):
            begin, end, shared = chunks[number, 2], chunks[number, 3], chunks[number, 4]
            if shared >= 0:
                place = (shared * heads + head * (end - begin)) * (width + value_width)
                for j in range(begin, end):
                    for d in range(width):
                        grad_key[j * gk_node + head * gk_head + d] += partial[place]
                        place += 1
                for j in range(begin, end):
                    for d in range(value_width):
                        grad_value[j * gv_node + head * gv_head + d] += partial[place]
                        place += 1


def work_size(strip: int, lines: int, block: int, group: int, width: int, value_width: int, count: int) -> int:
    """Numbers of scratch memory that a task of either kernel needs at most, for chunks of ``lines`` destinations."""
    wide, value_wide = (-(-number // count) * count for number in (width, value_width))
    strip, lines = -(-strip // count) * count, -(-lines // count) * count
    both = wide + value_wide
    own = 3 * strip * both + lines * (both + wide + 1)
    return count + 2 * block * (TILE + value_wide) + group * (count * both + own)
