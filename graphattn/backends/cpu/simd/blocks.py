"""Blocks of numbers in vector registers: squares turned over, and the innermost part of a matrix product."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils

from graphattn.backends.cpu.compiling import kernel
from graphattn.backends.cpu.simd.llvm import (
    BYTES,
    I32,
    I64,
    call_intrinsic,
    element_pointer,
    intrinsic,
    intrinsic_suffix,
    is_float_array,
    lane_count,
    lane_mask,
    set_element_alignment,
    splat,
    splat_constant,
    vector_pointer,
    vector_type,
)
from graphattn.backends.cpu.simd.registers import simd_width

BLOCK_ROWS = BYTES // 8
"""Rows that a product of two registers' width makes at once: half of the 32 of 64 bytes, or of the 16 of 32 bytes."""
TALL_ROWS = 8
"""Rows that a product of one register's width makes at once: sums in flight that hide how long each takes."""


@intrinsic
def transpose(
    typing: Any,
    target: Any,
    place: Any,
    row: Any,
    rows: Any,
    columns: Any,
    source: Any,
    source_place: Any,
    source_row: Any,
    source_rows: Any,
    source_columns: Any,
) -> Any:
    """Write the square of one register's width at ``source_place`` transposed to ``place``; rows lie ``row`` apart.

    Of the source only so many rows and columns are read, the others count as zero; of the target only so many are
    written.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, place, row, rows, columns, source, source_place, source_row, source_rows, source_columns = arguments
        dtype = signature.args[0].dtype
        kind, count = vector_type(dtype), lane_count(dtype)
        none, align = ir.Constant(I64, 0), ir.Constant(I32, dtype.bitwidth // 8)

        def pointer(index: int, array: Any, place: Any, row: Any, number: int) -> Any:
            place = builder.add(place, builder.mul(row, ir.Constant(I64, number)))
            return vector_pointer(context, builder, signature.args[index], array, place)

        def mask(number: int, rows: Any, columns: Any) -> Any:
            taken = builder.icmp_signed(">", rows, ir.Constant(I64, number))
            return lane_mask(builder, dtype, none, builder.select(taken, columns, none))

        lines = []
        for k in range(count):
            found = pointer(5, source, source_place, source_row, k)
            given = [found, align, mask(k, source_rows, source_columns), splat_constant(kind, 0.0)]
            lines.append(call_intrinsic(builder, f"llvm.masked.load.{intrinsic_suffix(dtype)}.p0", kind, given))
        lines = _transpose_registers(builder, lines)
        for k in range(count):
            given = [lines[k], pointer(0, target, place, row, k), align, mask(k, rows, columns)]
            call_intrinsic(builder, f"llvm.masked.store.{intrinsic_suffix(dtype)}.p0", ir.VoidType(), given)
        return context.get_dummy_value()

    if not is_float_array(target):
        return None
    whole = (types.int64,) * 4
    return types.void(target, *whole, source, *whole), codegen


def _transpose_registers(builder: Any, lines: list[Any]) -> list[Any]:
    """Registers that hold the columns of those given: off-diagonal blocks of 2 x 2 swapped, then of 4 x 4, ..."""
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


def _micro_kernel(rows: int, vectors: int) -> Any:
    """The innermost part of a matrix product: (rows, K) times (K, vectors x lanes), the result held in registers.

    The result is added to what is at ``c_place``, or overwrites it when ``fresh``.
    """

    def typed(
        typing: Any,
        c: Any,
        c_place: Any,
        c_row: Any,
        a: Any,
        a_place: Any,
        a_row: Any,
        a_column: Any,
        b: Any,
        b_place: Any,
        b_row: Any,
        b_vector: Any,
        length: Any,
        fresh: Any,
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            (c, c_place, c_row, a, a_place, a_row, a_column, b, b_place, b_row, b_vector, length, fresh) = arguments
            dtype = signature.args[0].dtype
            kind = vector_type(dtype)
            count = lane_count(dtype)

            def at(index: int, array: Any, place: Any) -> Any:
                return vector_pointer(context, builder, signature.args[index], array, place)

            def scaled(number: int, apart: Any) -> Any:
                return builder.mul(ir.Constant(I64, number), apart)

            places = [
                [builder.add(start, ir.Constant(I64, v * count)) for v in range(vectors)]
                for start in (builder.add(c_place, scaled(r, c_row)) for r in range(rows))
            ]
            sums = [[cgutils.alloca_once(builder, kind) for _ in range(vectors)] for _ in range(rows)]
            with builder.if_else(fresh) as (new, old):
                with new:
                    for row in sums:
                        for cell in row:
                            builder.store(splat_constant(kind, 0.0), cell)
                with old:
                    for row, row_places in zip(sums, places, strict=True):
                        for cell, place in zip(row, row_places, strict=True):
                            builder.store(set_element_alignment(builder.load(at(0, c, place)), dtype), cell)
            a_start = element_pointer(context, builder, signature.args[3], a, a_place)
            a_rows = [builder.gep(a_start, [scaled(r, a_row)]) for r in range(rows)]
            b_start = element_pointer(context, builder, signature.args[7], b, b_place)
            with cgutils.for_range(builder, length, intp=I64) as loop:
                b_at = builder.gep(b_start, [builder.mul(loop.index, b_row)])
                loaded = []
                for v in range(vectors):
                    pointer = builder.bitcast(builder.gep(b_at, [scaled(v, b_vector)]), kind.as_pointer())
                    loaded.append(set_element_alignment(builder.load(pointer), dtype))
                a_offset = builder.mul(loop.index, a_column)
                for r in range(rows):
                    factor = splat(builder, builder.load(builder.gep(a_rows[r], [a_offset])), kind)
                    for v in range(vectors):
                        value = call_intrinsic(
                            builder,
                            f"llvm.fma.{intrinsic_suffix(dtype)}",
                            kind,
                            [factor, loaded[v], builder.load(sums[r][v])],
                        )
                        builder.store(value, sums[r][v])
            for row, row_places in zip(sums, places, strict=True):
                for cell, place in zip(row, row_places, strict=True):
                    set_element_alignment(builder.store(builder.load(cell), at(0, c, place)), dtype)
            return context.get_dummy_value()

        whole = types.int64
        signature = types.void(c, whole, whole, a, whole, whole, whole, b, whole, whole, whole, whole, types.boolean)
        return signature, codegen

    return intrinsic(typed)


multiply_pair = _micro_kernel(BLOCK_ROWS, 2)
multiply_single = _micro_kernel(BLOCK_ROWS, 1)
multiply_tall = _micro_kernel(TALL_ROWS, 1)
multiply_row = _micro_kernel(1, 1)


@kernel
def multiply_panel(  # type: ignore[no-untyped-def]
    target, place, rows, left, left_place, row, column, right, right_place, length
):
    """(rows, lanes) products of ``rows`` rows, with steps ``row`` and ``column``, and ``length`` registers."""
    count = simd_width(target)
    if rows < TALL_ROWS:
        for r in range(rows):
            multiply_row(
                target, place + r * count, 0, left, left_place + r * row, 0, column, right, right_place, count, 0,
                length, True,
            )  # fmt: skip
        return
    for start in range(0, rows, TALL_ROWS):
        r = min(start, rows - TALL_ROWS)  # the last rows may be made twice
        multiply_tall(
            target, place + r * count, count, left, left_place + r * row, row, column, right, right_place, count, 0,
            length, True,
        )  # fmt: skip
