"""Vector registers for Numba: 64 or 32 bytes (16 or 8 float32), and the operations that kernels need.

LLVM vectorises plain loops only when its heuristics succeed; each of these functions is one or a few instructions.
Arrays are one-dimensional and contiguous, a ``position`` is an index, and bounds are not checked. On processors with
registers shorter than 32 bytes LLVM splits each operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import overload

from graphattn._backends.cpu.compiling import kernel
from graphattn._backends.cpu.simd.llvm import (
    BYTES,
    I32,
    I64,
    Vector,
    call_intrinsic,
    element_pointer,
    integer_vector_type,
    intrinsic,
    intrinsic_suffix,
    is_float_array,
    lane_count,
    lane_mask,
    prefetch_line,
    set_element_alignment,
    splat,
    splat_constant,
    vector_pointer,
    vector_type,
)


def simd_width(array: Any) -> int:
    """Number of lanes of the array's type in one register: a constant in compiled code."""
    return BYTES // int(array.itemsize)


@overload(simd_width, inline="always")
def _compile_simd_width(array):  # type: ignore[no-untyped-def]
    count = lane_count(array.dtype)
    return lambda array: count


@intrinsic
def load(typing: Any, array: Any, position: Any) -> Any:
    """Numbers from ``position`` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = vector_pointer(context, builder, signature.args[0], *arguments)
        return set_element_alignment(builder.load(pointer), signature.args[0].dtype)

    return (Vector(array.dtype)(array, types.int64), codegen) if is_float_array(array) else None


@intrinsic
def load_masked(typing: Any, array: Any, position: Any, start: Any, stop: Any) -> Any:
    """Numbers from ``position`` on, in lanes from start to before stop; other lanes are zero and not read."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, position, start, stop = arguments
        dtype = signature.args[0].dtype
        pointer = vector_pointer(context, builder, signature.args[0], data, position)
        kind = vector_type(dtype)
        mask = lane_mask(builder, dtype, start, stop)
        align = ir.Constant(I32, dtype.bitwidth // 8)
        name = f"llvm.masked.load.{intrinsic_suffix(dtype)}.p0"
        return call_intrinsic(builder, name, kind, [pointer, align, mask, splat_constant(kind, 0.0)])

    integers = (types.int64,) * 3
    return (Vector(array.dtype)(array, *integers), codegen) if is_float_array(array) else None


@intrinsic
def store(typing: Any, array: Any, position: Any, lanes: Any) -> Any:
    """Write a register to memory, from ``position`` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, position, value = arguments
        pointer = vector_pointer(context, builder, signature.args[0], data, position)
        set_element_alignment(builder.store(value, pointer), signature.args[0].dtype)
        return context.get_dummy_value()

    return (types.void(array, types.int64, lanes), codegen) if is_float_array(array) else None


@intrinsic
def store_masked(typing: Any, array: Any, position: Any, lanes: Any, start: Any, stop: Any) -> Any:
    """Write the lanes from start to before stop; the memory of the others stays unchanged."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, position, value, start, stop = arguments
        dtype = signature.args[0].dtype
        pointer = vector_pointer(context, builder, signature.args[0], data, position)
        mask = lane_mask(builder, dtype, start, stop)
        align = ir.Constant(I32, dtype.bitwidth // 8)
        call_intrinsic(
            builder, f"llvm.masked.store.{intrinsic_suffix(dtype)}.p0", ir.VoidType(), [value, pointer, align, mask]
        )
        return context.get_dummy_value()

    integers = (types.int64,) * 2
    return (types.void(array, types.int64, lanes, *integers), codegen) if is_float_array(array) else None


@intrinsic
def broadcast(typing: Any, value: Any) -> Any:
    """A register whose lanes all hold one number."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return splat(builder, arguments[0], vector_type(signature.args[0]))

    return (Vector(value)(value), codegen) if isinstance(value, types.Float) else None


def _elementwise(make: Any) -> Any:
    """An intrinsic on two registers; ``make`` builds its instruction."""

    def define(typing: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return make(builder, signature.return_type.dtype, *arguments)

        return left(left, left), codegen

    return intrinsic(define)


add = _elementwise(lambda builder, dtype, x, y: builder.fadd(x, y))
sub = _elementwise(lambda builder, dtype, x, y: builder.fsub(x, y))
mul = _elementwise(lambda builder, dtype, x, y: builder.fmul(x, y))
maximum = _elementwise(lambda builder, dtype, x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))


@intrinsic
def fma(typing: Any, left: Any, right: Any, addend: Any) -> Any:
    """The product of two registers plus a third, rounded once."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.return_type.dtype
        return call_intrinsic(builder, f"llvm.fma.{intrinsic_suffix(dtype)}", vector_type(dtype), list(arguments))

    return left(left, left, left), codegen


@intrinsic
def mask_lanes(typing: Any, lanes: Any, start: Any, stop: Any, other: Any) -> Any:
    """The lanes from start to before stop, and ``other`` in the rest."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, start, stop, other = arguments
        dtype = signature.return_type.dtype
        mask = lane_mask(builder, dtype, start, stop)
        return builder.select(mask, value, splat(builder, other, vector_type(dtype)))

    return lanes(lanes, types.int64, types.int64, lanes.dtype), codegen


def _reduction(combine: Any) -> Any:
    """An intrinsic that reduces a register to one number by combining halves."""

    def define(typing: Any, lanes: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = arguments[0]
            count = signature.args[0].count
            while count > 1:
                count //= 2
                picks = [ir.Constant(ir.VectorType(I32, count), list(range(at, at + count))) for at in (0, count)]
                halves = [builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), pick) for pick in picks]
                value = combine(builder, *halves)
            return builder.extract_element(value, ir.Constant(I32, 0))

        return lanes.dtype(lanes), codegen

    return intrinsic(define)


reduce_add = _reduction(lambda builder, x, y: builder.fadd(x, y))
reduce_max = _reduction(lambda builder, x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))

# Cody and Waite's reduction to |r| <= ln(2) / 2 and a polynomial for (exp(r) - 1 - r) / r^2: minimax for float32
# (Cephes' expf), Taylor series for float64, whose first omitted term is below 1e-17.
_SINGLE = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _taylor() -> tuple[float, ...]:
    factorial, terms = 1.0, []
    for k in range(2, 15):
        factorial *= k
        terms.append(1.0 / factorial)
    return tuple(reversed(terms))


_DOUBLE = _taylor()


@intrinsic
def exp(typing: Any, lanes: Any) -> Any:
    """The exponential of every lane, for arguments up to 0; below the smallest normal result it is 0."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.return_type.dtype
        kind, whole, suffix = vector_type(dtype), integer_vector_type(dtype), intrinsic_suffix(dtype)
        single = dtype.bitwidth == 32
        lowest, mantissa, bias = (-87.0, 23, 127) if single else (-708.0, 52, 1023)
        ln2 = (0.693359375, -2.12194440e-4) if single else (0.6931471803691238, 1.9082149292705877e-10)
        coefficients = _SINGLE if single else _DOUBLE

        def fma(x: Any, y: Any, z: Any) -> Any:
            return call_intrinsic(builder, f"llvm.fma.{suffix}", kind, [x, y, z])

        value = arguments[0]
        low = splat_constant(kind, lowest)
        inside = builder.fcmp_ordered(">=", value, low)
        x = builder.select(inside, value, low)
        rounded = fma(x, splat_constant(kind, 1.4426950408889634), splat_constant(kind, 0.5))
        n = call_intrinsic(builder, f"llvm.floor.{suffix}", kind, [rounded])
        r = fma(n, splat_constant(kind, -ln2[1]), fma(n, splat_constant(kind, -ln2[0]), x))
        p = splat_constant(kind, coefficients[0])
        for coefficient in coefficients[1:]:
            p = fma(p, r, splat_constant(kind, coefficient))
        p = builder.fadd(fma(builder.fmul(p, r), r, r), splat_constant(kind, 1.0))
        exponents = builder.add(builder.fptosi(n, whole), splat_constant(whole, bias))
        powers = builder.bitcast(builder.shl(exponents, splat_constant(whole, mantissa)), kind)
        result = builder.fmul(p, powers)
        outside = builder.select(builder.fcmp_unordered("uno", value, value), value, splat_constant(kind, 0.0))
        return builder.select(inside, result, outside)

    return lanes(lanes), codegen


def _dropout_factors(builder: Any, dtype: types.Float, numbers: Any, start: Any, limit: Any, factor: Any) -> Any:
    """0 for dropped (L,) edge numbers and ``factor`` for others."""
    kind = numbers.type
    bits = builder.xor(builder.mul(numbers, splat_constant(kind, 0x9E3779B9)), splat(builder, start, kind))
    for _ in range(2):
        for shift, multiplier in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            bits = builder.xor(bits, builder.lshr(bits, splat_constant(kind, shift)))
            bits = builder.mul(bits, splat_constant(kind, multiplier))
        bits = builder.xor(bits, builder.lshr(bits, splat_constant(kind, 16)))
    keep = builder.icmp_unsigned(">=", bits, splat(builder, limit, kind))
    return builder.select(keep, splat(builder, factor, vector_type(dtype)), splat_constant(vector_type(dtype), 0.0))


@intrinsic
def dropout_factors(typing: Any, like: Any, counter: Any, start: Any, limit: Any, factor: Any) -> Any:
    """0 for dropped edges and ``factor`` for the others: bits from the numbers ``counter``, counter + 1, ...

    A lane is dropped when MurmurHash3's finalizer, applied twice to (number times 0x9E3779B9) XOR ``start``, is below
    ``limit``, in unsigned 32-bit integers. ``like`` only sets the type.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, counter, start, limit, factor = arguments
        dtype = signature.return_type.dtype
        kind = ir.VectorType(I32, lane_count(dtype))
        numbers = builder.add(
            splat(builder, builder.trunc(counter, I32), kind), ir.Constant(kind, list(range(kind.count)))
        )
        return _dropout_factors(builder, dtype, numbers, start, limit, factor)

    return like(like, types.int64, start, types.uint32, like.dtype), codegen


def _load_int32(context: Any, builder: Any, array_type: Any, array: Any, position: int, count: int) -> Any:
    """(count,) 32-bit integers of an array, from a constant position on."""
    data = context.make_array(array_type)(context, builder, value=array).data
    kind = ir.VectorType(I32, count)
    pointer = builder.bitcast(builder.gep(data, [ir.Constant(I64, position)]), kind.as_pointer())
    loaded = builder.load(pointer)
    loaded.align = 4
    return loaded


@intrinsic
def mask_key(typing: Any, lanes: Any, rows: Any, number: Any, other: Any) -> Any:
    """The lanes whose rows see key ``number``, and ``other`` in the rest.

    ``rows`` is an int32 array: the first key of each lane, then the one after the last of each.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, rows, number, other = arguments
        dtype = signature.return_type.dtype
        count = lane_count(dtype)
        here = splat(builder, builder.trunc(number, I32), ir.VectorType(I32, count))
        low, high = (_load_int32(context, builder, signature.args[1], rows, position, count) for position in (0, count))
        mask = builder.and_(builder.icmp_signed("<=", low, here), builder.icmp_signed(">", high, here))
        return builder.select(mask, value, splat(builder, other, vector_type(dtype)))

    return lanes(lanes, rows, types.int64, lanes.dtype), codegen


@intrinsic
def dropout_factors_of_key(typing: Any, like: Any, rows: Any, number: Any, start: Any, limit: Any, factor: Any) -> Any:
    """Like :func:`dropout_factors`, for the edges from key ``number`` to each lane's row.

    The third part of ``rows`` (see :func:`mask_key`) is the difference between the numbers of an edge and its key.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, rows, number, start, limit, factor = arguments
        dtype = signature.return_type.dtype
        count = lane_count(dtype)
        shifts = _load_int32(context, builder, signature.args[1], rows, 2 * count, count)
        numbers = builder.add(shifts, splat(builder, builder.trunc(number, I32), shifts.type))
        return _dropout_factors(builder, dtype, numbers, start, limit, factor)

    return like(like, rows, types.int64, start, types.uint32, like.dtype), codegen


@kernel
def dropout_threshold(dropout, work):  # type: ignore[no-untyped-def]
    """The limit and the factor for :func:`dropout_factors`: bits below the limit drop an edge."""
    limit = np.uint32(min(dropout * 4294967296.0, 4294967295.0))
    return limit, work.dtype.type(1.0 / (1.0 - dropout))


@intrinsic
def reciprocal(typing: Any, lanes: Any) -> Any:
    """One divided by each lane; zeros stay zero."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = vector_type(signature.return_type.dtype)
        value = arguments[0]
        is_zero = builder.fcmp_ordered("==", value, splat_constant(kind, 0.0))
        return builder.select(is_zero, value, builder.fdiv(splat_constant(kind, 1.0), value))

    return lanes(lanes), codegen


@intrinsic
def prefetch(typing: Any, array: Any, position: Any) -> Any:
    """Prefetch the cache line of a position into the second-level cache; the position may be outside the array.

    Prefetch in the order of memory: consecutive lines arrive several times as fast.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        prefetch_line(builder, element_pointer(context, builder, signature.args[0], *arguments))
        return context.get_dummy_value()

    return (types.void(array, types.int64), codegen) if is_float_array(array) else None


@intrinsic
def fetch_add(typing: Any, counter: Any) -> Any:
    """Atomically add one to the first element of an int64 array; return its previous value."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(I64, 1), "seq_cst")

    return types.int64(counter), codegen
