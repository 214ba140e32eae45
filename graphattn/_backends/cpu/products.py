"""Products of rows with a weight that is stored in panels, in float32, and attention among all tokens of a text.

A panel has the weights of two registers of outputs, input after input, so that the innermost loop reads it from one end
to the other. The sums of up to six rows with one panel stay in registers. Each output is one sum in the order of the
inputs, so a row's result does not depend on the other rows, nor that of a text on the other texts.

References
----------
Goto, van de Geijn: Anatomy of high-performance matrix multiplication. ACM TOMS 34 (3), 2008.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from graphattn._backends.cpu.activations import add_norm, gelu
from graphattn._backends.cpu.buffer_pool import empty, empty_array
from graphattn._backends.cpu.compiling import announce_compilation, kernel
from graphattn._backends.cpu.simd.blocks import Matrix, make_micro_kernel
from graphattn._backends.cpu.simd.llvm import BYTES
from graphattn._backends.cpu.simd.registers import (
    add,
    broadcast,
    exp,
    load,
    load_masked,
    mask_lanes,
    maximum,
    mul,
    reduce_add,
    reduce_max,
    simd_width,
    store,
    sub,
)
from graphattn._backends.cpu.threads import run_in_threads

Floats = npt.NDArray[np.float32]
PANEL = 2 * BYTES // 4
"""Outputs of a panel."""
ROWS = 256
"""Rows that stay in the second-level cache while all panels are multiplied with them."""
MIN_ROWS = 6 if BYTES < 64 else 24
"""Rows for which a thread of its own saves more than it costs: more where wider registers compute them faster."""

_NO_TAIL = np.empty(0, np.float32)

AHEAD = 4096
"""Numbers between those that are multiplied and those that are prefetched."""

_one, _two, _three, _four, _five, _six = (make_micro_kernel(rows, 2, ahead=AHEAD) for rows in range(1, 7))


class Link(Protocol):
    """A part of a chain: (N, I) rows -> (N, O) rows, each of which depends on the same row alone."""

    @property
    def outputs(self) -> int:
        """O."""

    def run(self, rows: Floats, residual: Floats | None, out: Floats) -> Floats | None:
        """Write to ``out``, and return the next residual: after a layer norm its output."""


class Product(NamedTuple):
    """A product with a weight, and what follows: nothing, GELU, or the sum with a residual and a layer norm."""

    panels: Floats  # (P, I, PANEL) as one row, with zeros behind the last output
    bias: Floats  # (O,)
    gelu: bool = False
    norm: tuple[Floats, Floats, np.float32] | None = None  # (O,) gain, (O,) shift, epsilon

    @property
    def outputs(self) -> int:
        """O."""
        return len(self.bias)

    def run(self, rows: Floats, residual: Floats | None, out: Floats) -> Floats | None:
        """See :meth:`Link.run`."""
        _multiply(rows, self, out)
        if self.gelu:
            gelu(out.reshape(-1))
        if self.norm is None:
            return residual
        assert residual is not None
        add_norm(out, residual, *self.norm)
        return out


class Attention(NamedTuple):
    """Attention among all rows of a text: of queries, keys and values (N, 3 H D), head by head, come (N, H D)."""

    heads: int
    scale: float


def make_panels(weight: Tensor, allocate: Callable[..., Tensor] = torch.empty) -> Tensor:
    """(O, I) -> (P, I, PANEL), with zeros behind the last output; ``allocate`` gives memory for a shape."""
    outputs, inputs = weight.shape
    count = -(-outputs // PANEL)
    padded = F.pad(weight.detach(), (0, 0, 0, count * PANEL - outputs)).view(count, PANEL, inputs)
    return allocate(count, inputs, PANEL).copy_(padded.transpose(1, 2))


def make_product(
    panels: Tensor,
    bias: Tensor | None,
    outputs: int,
    *,
    gelu: bool = False,
    norm: tuple[Floats, Floats, np.float32] | None = None,
) -> Product:
    """A product with (P, I, PANEL) panels of a weight with so many outputs."""
    added = np.zeros(outputs, np.float32) if bias is None else bias.detach().contiguous().numpy()
    return Product(panels.view(-1).numpy(), added, gelu, norm)


def multiply(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(N, I), (O, I), (O,) -> (N, O), without gradients: brings the weight into panels first."""
    out = empty((len(rows), len(weight)), torch.float32)
    product = make_product(make_panels(weight), bias, len(weight))
    run_chain(rows.detach().contiguous().numpy(), [product], None, out.numpy())
    return out


def can_attend(size: int) -> bool:
    """Whether :class:`Attention` takes heads of this size."""
    return size % PANEL == 0


def run_chain(
    rows: Floats,
    links: Sequence[Link | Attention],
    residual: Floats | None,
    out: Floats,
    texts: npt.NDArray[np.int64] | None = None,
) -> None:
    """(N, I) -> (N, O) through links, of which the last is no attention, in PyTorch's threads.

    The first norm adds ``residual``, each other one the output of the norm before. ``texts`` are (S + 1,): where the
    texts begin, and N; None for one text.
    """
    if not (count := len(rows)):
        return
    texts = np.array([0, count]) if texts is None else texts
    parts = max(1, -(-count // ROWS), min(torch.get_num_threads(), count // MIN_ROWS))
    spans = [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]
    residuals = [None if residual is None else residual[span] for span in spans]
    with announce_compilation(_multiply_block):
        for section in _split_at_attention(links):
            is_last = section[-1] is links[-1]
            target = out if is_last else empty_array((count, cast(Link, section[-1]).outputs), np.float32)
            _run_section(rows, section, texts, spans, residuals, target)
            rows = target


def _split_at_attention(links: Sequence[Link | Attention]) -> list[Sequence[Link | Attention]]:
    """Sections that begin with attention, which reads the outputs of all rows of the section before."""
    starts = [0, *(number for number, link in enumerate(links) if number and isinstance(link, Attention))]
    return [links[start:end] for start, end in zip(starts, [*starts[1:], len(links)], strict=True)]


def _run_section(
    rows: Floats,
    links: Sequence[Link | Attention],
    texts: npt.NDArray[np.int64],
    spans: Sequence[slice],
    residuals: list[Floats | None],
    out: Floats,
) -> None:
    """Run links in PyTorch's threads, which share the spans of rows, and replace the residuals."""
    tasks = itertools.count()  # next() is atomic

    def work(_: int) -> None:
        while (task := next(tasks)) < len(spans):
            residuals[task] = _run_links(rows, spans[task], links, texts, residuals[task], out[spans[task]])

    run_in_threads(work, alone=len(spans) == 1)


def _run_links(
    rows: Floats,
    span: slice,
    links: Sequence[Link | Attention],
    texts: npt.NDArray[np.int64],
    residual: Floats | None,
    out: Floats,
) -> Floats | None:
    """Run links for a span of rows, and return the next residual."""
    states = rows[span]
    for link in links:
        if isinstance(link, Attention):
            states = _attend(rows, span, texts, link)
            continue
        target = out if link is links[-1] else empty_array((len(states), link.outputs), np.float32)
        residual = link.run(states, residual, target)
        states = target
    return residual


def _attend(rows: Floats, span: slice, texts: npt.NDArray[np.int64], attention: Attention) -> Floats:
    """(N, 3 H D) -> (M, H D) for a span of M rows."""
    first = int(np.searchsorted(texts, span.start, "right")) - 1
    texts = texts[first : int(np.searchsorted(texts, span.stop)) + 1]
    count, width, heads = span.stop - span.start, rows.shape[1] // 3, attention.heads
    keys = -(-int(np.diff(texts).max()) // PANEL) * PANEL
    out = empty_array((count, width), np.float32)
    work = empty_array((keys * (width // heads + count),), np.float32)
    flat = out.reshape(-1), rows.reshape(-1), work
    _attend_texts(*flat, texts, span.start, count, heads, np.float32(attention.scale))
    return out


def _multiply(rows: Floats, product: Product, out: Floats) -> None:
    (count, inputs), outputs = rows.shape, product.outputs
    tail = np.empty(count * PANEL, np.float32) if outputs % PANEL else _NO_TAIL
    _multiply_block(out.reshape(-1), rows.reshape(-1), product.panels, product.bias, tail, count, inputs)


@kernel
def _multiply_block(out, rows, panels, bias, tail, length, inputs):  # type: ignore[no-untyped-def]
    """Multiply ``length`` rows with all panels.

    ``tail`` has room for the products with a panel that has fewer outputs than others.
    """
    outputs, width = len(bias), 2 * simd_width(rows)
    for column in range(0, outputs, width):
        right = Matrix(panels, column * inputs, width, width // 2)
        if column + width <= outputs:
            _multiply_panel(out, column, outputs, rows, length, right, inputs, bias, column)
            continue
        _multiply_panel(tail, 0, width, rows, length, right, inputs, bias, column)
        for row in range(length):
            for k in range(outputs - column):
                out[row * outputs + column + k] = tail[row * width + k]


@kernel
def _multiply_panel(target, position, stride, rows, length, right, inputs, bias, column):  # type: ignore[no-untyped-def]
    """Write the products of rows with one panel to ``target``, from a position on and ``stride`` apart."""
    count, left = simd_width(rows), len(bias) - column
    low, high = load_masked(bias, column, 0, left), load_masked(bias, column + count, 0, left - count)
    for row in range(length):
        store(target, position + row * stride, low)
        store(target, position + row * stride + count, high)
    multiply_tile(target, position, stride, rows, 0, inputs, length, right, inputs, False)


@kernel
def multiply_tile(target, position, stride, left, start, row_size, length, right, inner, fresh):  # type: ignore[no-untyped-def]
    """Write, or add unless ``fresh``, ``length`` rows of (``inner``,) numbers times a matrix two registers wide.

    Rows are ``row_size`` apart from ``start`` on; those of the result ``stride`` from ``position`` on.
    """
    row = 0
    while row < length:
        sums = Matrix(target, position + row * stride, stride, 1)
        factors, left_rows = Matrix(left, start + row * row_size, row_size, 1), length - row
        if left_rows >= 10 or left_rows == 6:  # below, no block is much smaller than the others
            _six(sums, factors, right, inner, fresh)
            row += 6
        elif left_rows == 9 or left_rows == 5:
            _five(sums, factors, right, inner, fresh)
            row += 5
        elif left_rows >= 4:
            _four(sums, factors, right, inner, fresh)
            row += 4
        elif left_rows == 3:
            _three(sums, factors, right, inner, fresh)
            row += 3
        elif left_rows == 2:
            _two(sums, factors, right, inner, fresh)
            row += 2
        else:
            _one(sums, factors, right, inner, fresh)
            row += 1


@kernel
def _attend_texts(out, rows, work, texts, first, length, heads, scale):  # type: ignore[no-untyped-def]
    """Attention of ``length`` rows from the first on, see :class:`Attention`.

    ``texts`` are those to which the rows belong: where each begins, and where the last ends.
    """
    for text in range(len(texts) - 1):
        start, stop = texts[text], texts[text + 1]
        low, high = max(start, first), min(stop, first + length)
        size = len(out) // (length * heads)
        target = (low - first) * heads * size
        _attend_text(out, target, rows, work, start, stop - start, low, high - low, heads, size, scale)


@kernel
def _attend_text(out, target, rows, work, start, length, first, queries, heads, size, scale):  # type: ignore[no-untyped-def]
    """Attention of ``queries`` rows from the first on to the ``length`` rows of their text, which begins at ``start``.

    Results are written to ``out`` from ``target`` on. ``work`` has room for the keys of a head, transposed, and for
    its scores.
    """
    count = simd_width(rows)
    width, stride = 2 * count, 3 * heads * size
    keys = (length + width - 1) // width * width
    scores = size * keys
    for head in range(heads):
        query, key, value = head * size, (heads + head) * size, (2 * heads + head) * size
        for k in range(length):
            for feature in range(size):
                work[feature * keys + k] = scale * rows[(start + k) * stride + key + feature]
        for k in range(length, keys):  # the memory may hold denormal numbers, which are slow
            for feature in range(size):
                work[feature * keys + k] = 0
        for column in range(0, keys, width):
            right = Matrix(work, column, keys, count)
            begin = query + first * stride
            multiply_tile(work, scores + column, keys, rows, begin, stride, queries, right, size, True)
        for row in range(queries):
            _softmax(work, scores + row * keys, length, keys)
        for column in range(0, size, width):
            right = Matrix(rows, start * stride + value + column, stride, count)
            position = target + query + column
            multiply_tile(out, position, heads * size, work, scores, keys, queries, right, length, True)


@kernel
def _softmax(work, start, length, keys):  # type: ignore[no-untyped-def]
    """Replace ``length`` scores by their softmax, and those behind up to ``keys`` by zeros."""
    count = simd_width(work)
    lowest = work.dtype.type(-np.inf)
    top, total = broadcast(lowest), broadcast(work.dtype.type(0))
    for k in range(0, keys, count):
        top = maximum(top, mask_lanes(load(work, start + k), 0, length - k, lowest))
    top = broadcast(reduce_max(top))
    for k in range(0, keys, count):
        weight = exp(sub(mask_lanes(load(work, start + k), 0, length - k, lowest), top))
        total = add(total, weight)
        store(work, start + k, weight)
    inverse = broadcast(work.dtype.type(1) / reduce_add(total))
    for k in range(0, keys, count):
        store(work, start + k, mul(load(work, start + k), inverse))
