"""Blocks of vector registers: transposed squares, and micro-kernels of matrix products."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.simd.llvm import (
    BYTES,
    I32,
    I64,
    call_intrinsic,
    element_pointer,
    intrinsic,
    intrinsic_suffix,
    lane_count,
    lane_mask,
    multiply_add,
    prefetch_line,
    set_element_alignment,
    splat,
    splat_constant,
    vector_pointer,
    vector_type,
)
from graphattn._backends.cpu.simd.registers import simd_width

BLOCK_ROWS = BYTES // 8
"""Rows of the micro-kernel two registers wide: its sums fill half of the 32 registers of 64 bytes, or 16 of 32."""
TALL_ROWS = 8
"""Rows of the micro-kernel one register wide: that many independent sums hide the latency of an FMA."""


class Matrix(NamedTuple):
    """A matrix inside a flat array: number (r, c) is at ``start + r * row + c * column``."""

    memory: np.ndarray
    start: int
    row: int
    column: int


def _unpack(builder: Any, matrix: Any) -> list[Any]:
    return [builder.extract_value(matrix, number) for number in range(len(Matrix._fields))]


@intrinsic
def transpose(
    typing: Any, target: Any, rows: Any, columns: Any, source: Any, source_rows: Any, source_columns: Any
) -> Any:
    """Transpose a square with sides of one register from one :class:`Matrix` into another, both with ``column`` 1.

    Only ``source_rows`` and ``source_columns`` are read, others are zero; only ``rows`` and ``columns`` of the target
    are written.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, rows, columns, source, source_rows, source_columns = arguments
        array_type = signature.args[0].types[0]
        dtype = array_type.dtype
        kind, count = vector_type(dtype), lane_count(dtype)
        none, align = ir.Constant(I64, 0), ir.Constant(I32, dtype.bitwidth // 8)

        def pointer(matrix: Any, number: int) -> Any:
            memory, start, row, _ = _unpack(builder, matrix)
            index = builder.add(start, builder.mul(row, ir.Constant(I64, number)))
            return vector_pointer(context, builder, array_type, memory, index)

        def mask(number: int, rows: Any, columns: Any) -> Any:
            inside = builder.icmp_signed(">", rows, ir.Constant(I64, number))
            return lane_mask(builder, dtype, none, builder.select(inside, columns, none))

        registers = []
        for k in range(count):
            masked = [pointer(source, k), align, mask(k, source_rows, source_columns), splat_constant(kind, 0.0)]
            registers.append(call_intrinsic(builder, f"llvm.masked.load.{intrinsic_suffix(dtype)}.p0", kind, masked))
        registers = _transpose_registers(builder, registers)
        for k in range(count):
            masked = [registers[k], pointer(target, k), align, mask(k, rows, columns)]
            call_intrinsic(builder, f"llvm.masked.store.{intrinsic_suffix(dtype)}.p0", ir.VoidType(), masked)
        return context.get_dummy_value()

    sides = (types.int64,) * 2
    return types.void(target, *sides, source, *sides), codegen


def _transpose_registers(builder: Any, lines: list[Any]) -> list[Any]:
    """Transpose registers: swap off-diagonal blocks of 2 x 2, then of 4 x 4, ..."""
    count, half = len(lines), 1
    while half < count:
        swapped = list(lines)
        for k in range(count):
            if not k & half:
                upper = [at if not at & half else count + at - half for at in range(count)]
                lower = [at + half if not at & half else count + at for at in range(count)]
                for index, picks in ((k, upper), (k + half, lower)):
                    constant = ir.Constant(ir.VectorType(I32, count), picks)
                    swapped[index] = builder.shuffle_vector(lines[k], lines[k + half], constant)
        lines = swapped
        half *= 2
    return lines


def make_micro_kernel(rows: int, vectors: int, *, ahead: int = 0) -> Any:
    """The innermost part of a matrix product: (rows, K) times (K, vectors x lanes), with the result in registers.

    In matrices of int32, ``a`` and ``b`` have four bytes in each number, see :func:`multiply_add`.

    Its arguments are the matrices ``c``, ``a`` and ``b``, the ``length`` K, and ``fresh``: whether to overwrite ``c``
    instead of adding to it. The ``column`` of ``b`` is the distance between its registers. Of ``b``, so many numbers
    ``ahead`` are prefetched: a processor itself reads ahead within a page of 4 KiB only.
    """

    def define(typing: Any, c: Any, a: Any, b: Any, length: Any, fresh: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            *matrices, length, fresh = arguments
            array_type = signature.args[0].types[0]
            dtype = array_type.dtype
            kind, count = vector_type(dtype), lane_count(dtype)
            (c, c_start, c_row, _), (a, a_start, a_row, a_column), (b, b_start, b_row, b_vector) = (
                _unpack(builder, matrix) for matrix in matrices
            )

            def multiple(number: int, distance: Any) -> Any:
                return builder.mul(ir.Constant(I64, number), distance)

            positions = [
                [builder.add(start, ir.Constant(I64, v * count)) for v in range(vectors)]
                for start in (builder.add(c_start, multiple(r, c_row)) for r in range(rows))
            ]
            sums = [[cgutils.alloca_once(builder, kind) for _ in range(vectors)] for _ in range(rows)]
            with builder.if_else(fresh) as (new, old):
                with new:
                    for row in sums:
                        for cell in row:
                            builder.store(ir.Constant(kind, None), cell)
                with old:
                    for row, row_positions in zip(sums, positions, strict=True):
                        for cell, position in zip(row, row_positions, strict=True):
                            pointer = vector_pointer(context, builder, array_type, c, position)
                            builder.store(set_element_alignment(builder.load(pointer), dtype), cell)
            a_pointer = element_pointer(context, builder, array_type, a, a_start)
            a_rows = [builder.gep(a_pointer, [multiple(r, a_row)]) for r in range(rows)]
            b_pointer = element_pointer(context, builder, array_type, b, b_start)
            with cgutils.for_range(builder, length, intp=I64) as loop:
                b_row_pointer = builder.gep(b_pointer, [builder.mul(loop.index, b_row)])
                loaded = []
                for v in range(vectors):
                    pointer = builder.bitcast(builder.gep(b_row_pointer, [multiple(v, b_vector)]), kind.as_pointer())
                    loaded.append(set_element_alignment(builder.load(pointer), dtype))
                    if ahead:
                        prefetch_line(builder, builder.gep(b_row_pointer, [ir.Constant(I64, ahead + v * count)]))
                a_offset = builder.mul(loop.index, a_column)
                for r in range(rows):
                    factor = splat(builder, builder.load(builder.gep(a_rows[r], [a_offset])), kind)
                    for v in range(vectors):
                        total = multiply_add(builder, dtype, factor, loaded[v], builder.load(sums[r][v]))
                        builder.store(total, sums[r][v])
            for row, row_positions in zip(sums, positions, strict=True):
                for cell, position in zip(row, row_positions, strict=True):
                    pointer = vector_pointer(context, builder, array_type, c, position)
                    set_element_alignment(builder.store(builder.load(cell), pointer), dtype)
            return context.get_dummy_value()

        return types.void(c, a, b, types.int64, types.boolean), codegen

    return intrinsic(define)


multiply_pair = make_micro_kernel(BLOCK_ROWS, 2)
multiply_single = make_micro_kernel(BLOCK_ROWS, 1)
multiply_tall = make_micro_kernel(TALL_ROWS, 1)
multiply_row = make_micro_kernel(1, 1)


@kernel
def multiply_panel(work, start, rows, left, position, row, column, panel, length):  # type: ignore[no-untyped-def]
    """Write (rows, lanes) products of a matrix ``left`` and ``length`` registers from ``panel`` on, both to ``work``.

    ``row`` and ``column`` are positional, not a record: Numba compiles a version for each constant that callers pass.
    """
    count = simd_width(work)
    right = Matrix(work, panel, count, 0)
    if rows < TALL_ROWS:
        for r in range(rows):
            multiply_row(
                Matrix(work, start + r * count, 0, 1), Matrix(left, position + r * row, 0, column), right, length, True
            )
        return
    for first in range(0, rows, TALL_ROWS):
        r = min(first, rows - TALL_ROWS)  # the last rows may be computed twice
        target = Matrix(work, start + r * count, count, 1)
        multiply_tall(target, Matrix(left, position + r * row, row, column), right, length, True)
