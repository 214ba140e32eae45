"""Vector registers for Numba: 64 bytes at once (16 float32 or 8 float64), and the few operations that kernels need.

Numba vectorises plain loops where LLVM happens to; these functions say what is to be one instruction. Arrays are
one-dimensional and contiguous, places in them are counted in numbers, and nothing checks bounds. On processors
with shorter registers LLVM splits each operation.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, overload, register_model

BYTES = 64
ROWS = 8
"""Rows that :func:`multiply` makes at once."""

intrinsic: Any = extending.intrinsic  # its own type tells the compiler's view, not the callers'

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def lanes_of(dtype: Any) -> int:
    """Numbers of a type that fit in one register."""
    return BYTES // (dtype.bitwidth // 8)


class Lanes(types.Type):
    """One register full of float32 or float64."""

    def __init__(self, dtype: types.Float):
        self.dtype = dtype
        self.count = lanes_of(dtype)
        super().__init__(name=f"Lanes({dtype})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes):
        super().__init__(manager, kind, _vector(kind.dtype))


def _scalar(dtype: types.Float) -> ir.Type:
    return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()


def _vector(dtype: types.Float) -> ir.VectorType:
    return ir.VectorType(_scalar(dtype), lanes_of(dtype))


def _whole(dtype: types.Float) -> ir.VectorType:
    """The vector of integers as wide as the floats of ``dtype``."""
    return ir.VectorType(ir.IntType(dtype.bitwidth), lanes_of(dtype))


def _fill(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    """A vector whose elements all equal ``value``."""
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
    picks = ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), picks)


def _constant(kind: ir.VectorType, value: Any) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _call(builder: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call an LLVM intrinsic."""
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), arguments)


def _suffix(dtype: types.Float) -> str:
    return f"v{lanes_of(dtype)}f{dtype.bitwidth}"


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    data = context.make_array(array_type)(context, builder, value=array).data
    return builder.gep(data, [place])


def _vector_pointer(context: Any, builder: Any, array_type: Any, array: Any, place: Any) -> Any:
    data = _pointer(context, builder, array_type, array, place)
    return builder.bitcast(data, _vector(array_type.dtype).as_pointer())


def _aligned(instruction: Any, dtype: types.Float) -> Any:
    instruction.align = dtype.bitwidth // 8
    return instruction


def _between(builder: Any, dtype: types.Float, start: Any, stop: Any) -> Any:
    """(L,) bits, set for lanes from start to before stop."""
    kind = ir.VectorType(_I32, lanes_of(dtype))
    numbers = ir.Constant(kind, list(range(kind.count)))
    low = _fill(builder, builder.trunc(start, _I32), kind)
    high = _fill(builder, builder.trunc(stop, _I32), kind)
    return builder.and_(
        builder.icmp_signed(">=", numbers, low),
        builder.icmp_signed("<", numbers, high),
    )


def lanes(array: Any) -> int:
    """Numbers of the array's type in one register: a constant in compiled code."""
    return BYTES // int(array.itemsize)


@overload(lanes, inline="always")
def _compile_lanes(array):  # type: ignore[no-untyped-def]
    count = lanes_of(array.dtype)
    return lambda array: count


def _is_array(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and isinstance(array.dtype, types.Float)


@intrinsic
def load(typing: Any, array: Any, place: Any) -> Any:
    """Numbers from ``place`` on."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _vector_pointer(context, builder, signature.args[0], *arguments)
        return _aligned(builder.load(pointer), signature.args[0].dtype)

    return (Lanes(array.dtype)(array, types.int64), codegen) if _is_array(array) else None


@intrinsic
def load_part(typing: Any, array: Any, place: Any, start: Any, stop: Any) -> Any:
    """Numbers from ``place`` on, in lanes from start to before stop; the others are zero and never touched."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, place, start, stop = arguments
        dtype = signature.args[0].dtype
        pointer = _vector_pointer(context, builder, signature.args[0], data, place)
        kind = _vector(dtype)
        mask = _between(builder, dtype, start, stop)
        align = ir.Constant(_I32, dtype.bitwidth // 8)
        name = f"llvm.masked.load.{_suffix(dtype)}.p0"
        return _call(builder, name, kind, [pointer, align, mask, _constant(kind, 0.0)])

    integers = (types.int64,) * 3
    return (Lanes(array.dtype)(array, *integers), codegen) if _is_array(array) else None


@intrinsic
def store(typing: Any, array: Any, place: Any, lanes: Any) -> Any:
    """Write a register to ``place`` and the places after it."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, place, value = arguments
        pointer = _vector_pointer(context, builder, signature.args[0], data, place)
        _aligned(builder.store(value, pointer), signature.args[0].dtype)
        return context.get_dummy_value()

    return (types.void(array, types.int64, lanes), codegen) if _is_array(array) else None


@intrinsic
def store_part(typing: Any, array: Any, place: Any, lanes: Any, start: Any, stop: Any) -> Any:
    """Write the lanes from start to before stop; the places of the others are not touched."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, place, value, start, stop = arguments
        dtype = signature.args[0].dtype
        pointer = _vector_pointer(context, builder, signature.args[0], data, place)
        mask = _between(builder, dtype, start, stop)
        align = ir.Constant(_I32, dtype.bitwidth // 8)
        _call(builder, f"llvm.masked.store.{_suffix(dtype)}.p0", ir.VoidType(), [value, pointer, align, mask])
        return context.get_dummy_value()

    integers = (types.int64,) * 2
    return (types.void(array, types.int64, lanes, *integers), codegen) if _is_array(array) else None


@intrinsic
def fill(typing: Any, value: Any) -> Any:
    """A register full of one number."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fill(builder, arguments[0], _vector(signature.args[0]))

    return (Lanes(value)(value), codegen) if isinstance(value, types.Float) else None


def _pairwise(make: Any) -> Any:
    """An intrinsic of registers alone, from the function that builds its instruction."""

    def typed(typing: Any, left: Any, right: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return make(builder, signature.return_type.dtype, *arguments)

        return left(left, left), codegen

    return intrinsic(typed)


add = _pairwise(lambda builder, dtype, x, y: builder.fadd(x, y))
subtract = _pairwise(lambda builder, dtype, x, y: builder.fsub(x, y))
times = _pairwise(lambda builder, dtype, x, y: builder.fmul(x, y))
larger = _pairwise(lambda builder, dtype, x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))


@intrinsic
def multiply_add(typing: Any, left: Any, right: Any, addend: Any) -> Any:
    """The product of two registers plus a third, rounded once."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.return_type.dtype
        return _call(builder, f"llvm.fma.{_suffix(dtype)}", _vector(dtype), list(arguments))

    return left(left, left, left), codegen


@intrinsic
def keep_part(typing: Any, lanes: Any, start: Any, stop: Any, other: Any) -> Any:
    """The lanes from start to before stop, and ``other`` in the rest."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, start, stop, other = arguments
        dtype = signature.return_type.dtype
        mask = _between(builder, dtype, start, stop)
        return builder.select(mask, value, _fill(builder, other, _vector(dtype)))

    return lanes(lanes, types.int64, types.int64, lanes.dtype), codegen


def _reduction(combine: Any) -> Any:
    """An intrinsic that folds a register in halves."""

    def typed(typing: Any, lanes: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = arguments[0]
            count = signature.args[0].count
            while count > 1:
                count //= 2
                picks = [ir.Constant(ir.VectorType(_I32, count), list(range(at, at + count))) for at in (0, count)]
                halves = [builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), pick) for pick in picks]
                value = combine(builder, *halves)
            return builder.extract_element(value, ir.Constant(_I32, 0))

        return lanes.dtype(lanes), codegen

    return intrinsic(typed)


total = _reduction(lambda builder, x, y: builder.fadd(x, y))
largest = _reduction(lambda builder, x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))

# Cody and Waite's reduction to |r| <= ln(2) / 2 and a polynomial for (exp(r) - 1 - r) / r^2: minimax for float32
# (Cephes' expf), the Taylor series for float64, whose first term left out is below 1e-17.
_SINGLE = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def _taylor() -> tuple[float, ...]:
    factorial, terms = 1.0, []
    for k in range(2, 15):
        factorial *= k
        terms.append(1.0 / factorial)
    return tuple(reversed(terms))


_DOUBLE = _taylor()


@intrinsic
def exponential(typing: Any, lanes: Any) -> Any:
    """The exponential of every lane, for arguments up to 0; below the smallest normal result it is 0."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        dtype = signature.return_type.dtype
        kind, whole, suffix = _vector(dtype), _whole(dtype), _suffix(dtype)
        single = dtype.bitwidth == 32
        lowest, mantissa, bias = (-87.0, 23, 127) if single else (-708.0, 52, 1023)
        ln2 = (0.693359375, -2.12194440e-4) if single else (0.6931471803691238, 1.9082149292705877e-10)
        coefficients = _SINGLE if single else _DOUBLE

        def fma(x: Any, y: Any, z: Any) -> Any:
            return _call(builder, f"llvm.fma.{suffix}", kind, [x, y, z])

        given = arguments[0]
        low = _constant(kind, lowest)
        inside = builder.fcmp_ordered(">=", given, low)
        x = builder.select(inside, given, low)
        rounded = fma(x, _constant(kind, 1.4426950408889634), _constant(kind, 0.5))
        n = _call(builder, f"llvm.floor.{suffix}", kind, [rounded])
        r = fma(n, _constant(kind, -ln2[1]), fma(n, _constant(kind, -ln2[0]), x))
        p = _constant(kind, coefficients[0])
        for coefficient in coefficients[1:]:
            p = fma(p, r, _constant(kind, coefficient))
        p = builder.fadd(fma(builder.fmul(p, r), r, r), _constant(kind, 1.0))
        exponents = builder.add(builder.fptosi(n, whole), _constant(whole, bias))
        powers = builder.bitcast(builder.shl(exponents, _constant(whole, mantissa)), kind)
        result = builder.fmul(p, powers)
        outside = builder.select(builder.fcmp_unordered("uno", given, given), given, _constant(kind, 0.0))
        return builder.select(inside, result, outside)

    return lanes(lanes), codegen


@intrinsic
def kept(typing: Any, like: Any, counter: Any, start: Any, limit: Any, factor: Any) -> Any:
    """0 for dropped edges and ``factor`` for the others: bits from the numbers ``counter``, counter + 1, ...

    A lane is dropped when MurmurHash3's finalizer, applied twice to its number times 0x9E3779B9 exclusive-or
    ``start``, stays below ``limit``; all in unsigned 32-bit integers. ``like`` only gives the type.
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, counter, start, limit, factor = arguments
        dtype = signature.return_type.dtype
        kind = ir.VectorType(_I32, lanes_of(dtype))
        numbers = builder.add(
            _fill(builder, builder.trunc(counter, _I32), kind), ir.Constant(kind, list(range(kind.count)))
        )
        bits = builder.xor(builder.mul(numbers, _constant(kind, 0x9E3779B9)), _fill(builder, start, kind))
        for _ in range(2):
            for shift, multiplier in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
                bits = builder.xor(bits, builder.lshr(bits, _constant(kind, shift)))
                bits = builder.mul(bits, _constant(kind, multiplier))
            bits = builder.xor(bits, builder.lshr(bits, _constant(kind, 16)))
        keep = builder.icmp_unsigned(">=", bits, _fill(builder, limit, kind))
        return builder.select(keep, _fill(builder, factor, _vector(dtype)), _constant(_vector(dtype), 0.0))

    return like(like, types.int64, start, types.uint32, like.dtype), codegen


@intrinsic
def transpose(typing: Any, target: Any, place: Any, row: Any, source: Any, source_place: Any, source_row: Any) -> Any:
    """Write the square of one register's width at ``source_place`` transposed to ``place``; rows lie ``row`` apart."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, place, row, source, source_place, source_row = arguments
        array = signature.args[0]
        dtype = array.dtype
        count = lanes_of(dtype)

        def step(first: Any, apart: Any, number: int) -> Any:
            return builder.add(first, builder.mul(apart, ir.Constant(_I64, number)))

        rows = []
        for k in range(count):
            pointer = _vector_pointer(context, builder, array, source, step(source_place, source_row, k))
            rows.append(_aligned(builder.load(pointer), dtype))
        half = 1
        while half < count:  # swap the off-diagonal blocks of 2 x 2, then 4 x 4, ...
            swapped = list(rows)
            for k in range(count):
                if not k & half:
                    upper = [at if not at & half else count + at - half for at in range(count)]
                    lower = [at + half if not at & half else count + at for at in range(count)]
                    for index, picks in ((k, upper), (k + half, lower)):
                        constant = ir.Constant(ir.VectorType(_I32, count), picks)
                        swapped[index] = builder.shuffle_vector(rows[k], rows[k + half], constant)
            rows = swapped
            half *= 2
        for k in range(count):
            pointer = _vector_pointer(context, builder, array, target, step(place, row, k))
            _aligned(builder.store(rows[k], pointer), dtype)
        return context.get_dummy_value()

    if not _is_array(target):
        return None
    integers = (types.int64, types.int64)
    return types.void(target, *integers, source, *integers), codegen


@intrinsic
def fetch_early(typing: Any, array: Any, place: Any) -> Any:
    """Ask for the cache line of a place that will be read soon; it need not lie inside the array."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        flags = [ir.Constant(_I32, flag) for flag in (0, 3, 1)]  # for reading, into all caches, data
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, *flags])
        return context.get_dummy_value()

    return (types.void(array, types.int64), codegen) if _is_array(array) else None


@intrinsic
def next_number(typing: Any, counter: Any) -> Any:
    """Add one to the first element of an int64 array in one indivisible step and return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=arguments[0]).data
        return builder.atomic_rmw("add", data, ir.Constant(_I64, 1), "seq_cst")

    return types.int64(counter), codegen


def _multiply(rows: int, vectors: int) -> Any:
    """The innermost part of a matrix product: (rows, K) times (K, vectors x lanes), the result held in registers."""

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
            kind = _vector(dtype)
            count = lanes_of(dtype)

            def at(index: int, array: Any, place: Any) -> Any:
                return _vector_pointer(context, builder, signature.args[index], array, place)

            def scaled(number: int, apart: Any) -> Any:
                return builder.mul(ir.Constant(_I64, number), apart)

            places = [
                [builder.add(start, ir.Constant(_I64, v * count)) for v in range(vectors)]
                for start in (builder.add(c_place, scaled(r, c_row)) for r in range(rows))
            ]
            sums = [[cgutils.alloca_once(builder, kind) for _ in range(vectors)] for _ in range(rows)]
            with builder.if_else(fresh) as (new, old):
                with new:
                    for row in sums:
                        for cell in row:
                            builder.store(_constant(kind, 0.0), cell)
                with old:
                    for row, row_places in zip(sums, places, strict=True):
                        for cell, place in zip(row, row_places, strict=True):
                            builder.store(_aligned(builder.load(at(0, c, place)), dtype), cell)
            a_start = _pointer(context, builder, signature.args[3], a, a_place)
            a_rows = [builder.gep(a_start, [scaled(r, a_row)]) for r in range(rows)]
            b_start = _pointer(context, builder, signature.args[7], b, b_place)
            with cgutils.for_range(builder, length, intp=_I64) as loop:
                b_at = builder.gep(b_start, [builder.mul(loop.index, b_row)])
                loaded = []
                for v in range(vectors):
                    pointer = builder.bitcast(builder.gep(b_at, [scaled(v, b_vector)]), kind.as_pointer())
                    loaded.append(_aligned(builder.load(pointer), dtype))
                a_offset = builder.mul(loop.index, a_column)
                for r in range(rows):
                    factor = _fill(builder, builder.load(builder.gep(a_rows[r], [a_offset])), kind)
                    for v in range(vectors):
                        value = _call(
                            builder,
                            f"llvm.fma.{_suffix(dtype)}",
                            kind,
                            [factor, loaded[v], builder.load(sums[r][v])],
                        )
                        builder.store(value, sums[r][v])
            for row, row_places in zip(sums, places, strict=True):
                for cell, place in zip(row, row_places, strict=True):
                    _aligned(builder.store(builder.load(cell), at(0, c, place)), dtype)
            return context.get_dummy_value()

        whole = types.int64
        signature = types.void(c, whole, whole, a, whole, whole, whole, b, whole, whole, whole, whole, types.boolean)
        return signature, codegen

    return intrinsic(typed)


multiply_pair = _multiply(ROWS, 2)
multiply_single = _multiply(ROWS, 1)
