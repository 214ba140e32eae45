"""Vector registers as a Numba type, and LLVM code that their operations share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import extending, types
from numba.core import cgutils
from numba.extending import models, register_model


def _detect_features() -> Mapping[str, bool]:
    """The processor's features by LLVM's names; none if LLVM cannot tell."""
    try:
        features: Mapping[str, bool] = binding.get_host_cpu_features()
    except RuntimeError:
        return {}
    return features


_FEATURES = _detect_features()
BYTES = 64 if _FEATURES.get("avx512f") else 32
"""Size of a register: 64 bytes with AVX-512, else 32: one register of AVX2, or two of NEON, which LLVM uses as one."""
MULTIPLIES_BYTES = bool(_FEATURES.get("avx512vnni" if BYTES == 64 else "avxvnni"))
"""Whether the processor adds products of four bytes to an int32 at once (VNNI), see :func:`multiply_add`."""

intrinsic: Any = extending.intrinsic  # its annotation describes the compiler's signature, not the callers'

I32, I64 = ir.IntType(32), ir.IntType(64)


def lane_count(dtype: Any) -> int:
    """Number of lanes of a type in one register."""
    return BYTES // (int(dtype.bitwidth) // 8)


class Vector(types.Type):
    """One register full of float32 or float64."""

    def __init__(self, dtype: types.Float):
        self.dtype = dtype
        self.count = lane_count(dtype)
        super().__init__(name=f"Lanes({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Vector):
        super().__init__(manager, kind, vector_type(kind.dtype))


def scalar_type(dtype: Any) -> ir.Type:
    """LLVM's type of one number; integers have 32 bits."""
    if isinstance(dtype, types.Integer):
        return I32
    return ir.FloatType() if dtype.bitwidth == 32 else ir.DoubleType()


def vector_type(dtype: Any) -> ir.VectorType:
    """LLVM's type of a register."""
    return ir.VectorType(scalar_type(dtype), lane_count(dtype))


def integer_vector_type(dtype: types.Float) -> ir.VectorType:
    """The vector of integers as wide as the floats of ``dtype``."""
    return ir.VectorType(ir.IntType(dtype.bitwidth), lane_count(dtype))


def splat(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    """A vector whose elements all equal ``value``."""
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    picks = ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), picks)


def splat_constant(kind: ir.VectorType, value: Any) -> Any:
    """A vector whose elements all equal a known value."""
    return ir.Constant(kind, [value] * kind.count)


def call_intrinsic(builder: Any, name: str, result: ir.Type, arguments: list[Any]) -> Any:
    """Call an LLVM intrinsic."""
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), arguments)


def multiply_add(builder: Any, dtype: Any, left: Any, right: Any, total: Any) -> Any:
    """``total + left * right`` of registers; int32 stand for four bytes, whose products are added.

    The bytes of ``left`` are unsigned, those of ``right`` signed.
    """
    if isinstance(dtype, types.Integer):
        name, operands = f"llvm.x86.avx512.vpdpbusd.{8 * BYTES}", [total, left, right]
    else:
        name, operands = f"llvm.fma.{intrinsic_suffix(dtype)}", [left, right, total]
    return call_intrinsic(builder, name, vector_type(dtype), operands)


def intrinsic_suffix(dtype: types.Float) -> str:
    """The suffix of LLVM's vector functions, such as ``v16f32``."""
    return f"v{lane_count(dtype)}f{dtype.bitwidth}"


def element_pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    """Pointer to a number of an array."""
    data = context.make_array(array_type)(context, builder, value=array).data
    return builder.gep(data, [position])


def vector_pointer(context: Any, builder: Any, array_type: Any, array: Any, position: Any) -> Any:
    """Pointer to a register of an array's numbers."""
    data = element_pointer(context, builder, array_type, array, position)
    return builder.bitcast(data, vector_type(array_type.dtype).as_pointer())


def prefetch_line(builder: Any, pointer: Any) -> None:
    """Prefetch the cache line of an address into the second-level cache; there may be no memory at the address."""
    flags = [ir.Constant(I32, flag) for flag in (0, 2, 1)]  # for reading, not into the first level, data
    line = builder.bitcast(pointer, ir.IntType(8).as_pointer())
    call_intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), [line, *flags])


def set_element_alignment(instruction: Any, dtype: types.Float) -> Any:
    """Allow addresses that are aligned to one number instead of a register."""
    instruction.align = dtype.bitwidth // 8
    return instruction


def lane_mask(builder: Any, dtype: types.Float, start: Any, stop: Any) -> Any:
    """(L,) bits, set for lanes from start to before stop."""
    kind = ir.VectorType(I32, lane_count(dtype))
    numbers = ir.Constant(kind, list(range(kind.count)))
    low = splat(builder, builder.trunc(start, I32), kind)
    high = splat(builder, builder.trunc(stop, I32), kind)
    return builder.and_(
        builder.icmp_signed(">=", numbers, low),
        builder.icmp_signed("<", numbers, high),
    )


def is_float_array(array: Any) -> bool:
    """Whether a kernel's argument is a one-dimensional array of floats."""
    return isinstance(array, types.Array) and array.ndim == 1 and isinstance(array.dtype, types.Float)
