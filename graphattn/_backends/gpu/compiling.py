"""Compile the kernels of backend ``triton`` for a GPU that need not be there, and read what they use of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from graphattn._backends.gpu import kernels
from graphattn._backends.gpu.backend import choose_blocks, pad_width

KERNELS = ("forward", "backward_query", "backward_key")
TYPES = {"float32": "*fp32", "bfloat16": "*bf16", "float16": "*fp16"}


class Processor(NamedTuple):
    """A compilation target, and what one multiprocessor has."""

    target: GPUTarget
    registers: int  # of 32 bits, for each warp lane of all warps
    shared: int  # bytes
    reserved: int  # bytes of shared memory that each block needs besides its own


PROCESSORS = {
    "sm80": Processor(GPUTarget("cuda", 80, 32), 65536, 164 << 10, 1024),
    "sm90": Processor(GPUTarget("cuda", 90, 32), 65536, 228 << 10, 1024),
    "gfx942": Processor(GPUTarget("hip", "gfx942", 64), 131072, 64 << 10, 0),
}
"""NVIDIA A100, NVIDIA H100 and H200, AMD MI300."""


class Usage(NamedTuple):
    """Resources of a compiled kernel."""

    registers: int  # of a thread
    spilled: int  # bytes of a thread that do not fit its registers
    shared: int  # bytes of a block
    blocks: int  # that a multiprocessor computes at once
    tile: str  # nodes of a block x nodes of a tile


def compile_kernel(name: str, processor: str, dtype: str, width: int, *, is_range: bool) -> Usage:
    """Compile a kernel for training with dropout, with heads of ``width`` features."""
    kernel, own = getattr(kernels, name), PROCESSORS[processor]
    blocks = choose_blocks(
        pad_width(width),
        is_range=is_range,
        is_exact=dtype == "float32",
        by_key=name == "backward_key",
        processor=own.target.backend,
    )
    options = {each: blocks.pop(each) for each in ("num_warps", "num_stages")}
    constants: dict[str, Any] = {
        **{"D": width, "F": width, "D_PAD": pad_width(width), "F_PAD": pad_width(width), "HEADS": 10},
        **{"IS_RANGE": is_range, "HAS_BIAS": False, "HAS_DROPOUT": True, "HAS_WEIGHTS": False, "FUNCTION": "identity"},
        **{"PRECISION": "ieee" if dtype == "float32" else "tf32", "ALIGN": min(16, width & -width), **blocks},
    }
    constants = {each: constant for each, constant in constants.items() if each in kernel.arg_names}
    signature = {each: "constexpr" if each in constants else _type_of(each, dtype) for each in kernel.arg_names}
    source = ASTSource(kernel, signature, constants, dict(_align(signature)))
    compiled = triton.compile(source, target=own.target, options=options)
    registers, spilled = _read_registers(compiled.asm)
    shared = compiled.metadata.shared
    threads = options["num_warps"] * own.target.warp_size
    fitting = min(own.registers // (-(-registers // 8) * 8 * threads), own.shared // max(1, shared + own.reserved))
    return Usage(registers, spilled, shared, fitting, f"{blocks['SIZE']} x {blocks['TILE']}")


_TYPES = {"plan": "*i32", "heads": "*i64", "seeds": "*i32", "limit": "i64", "lse": "*fp32", "LSE": "*fp32"} | {
    "delta": "*fp32", "scale": "fp32", "bound": "fp32", "gain": "fp32", "num_dst": "i32", "num_src": "i32"
}  # fmt: skip


def _type_of(name: str, dtype: str) -> Any:
    """Triton's type of an argument; pointers to rows are of the inputs' type."""
    if name in ("inputs", "saved"):
        record = kernels.Inputs if name == "inputs" else kernels.Saved
        return record(*(_type_of(field, dtype) for field in record._fields))
    return ("i32", "i32") if name.endswith("strides") else _TYPES.get(name, TYPES[dtype])


def _align(signature: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Pointers are multiples of 16 bytes, as those of whole tensors are."""
    for number, argument in enumerate(signature.values()):
        fields: list[tuple[tuple[int, ...], Any]] = [((number,), argument)]
        if isinstance(argument, tuple):
            fields = [((number, place), each) for place, each in enumerate(argument)]
        for path, each in fields:
            if isinstance(each, str) and each.startswith("*"):
                yield path, [["tt.divisibility", 16]]


def _read_registers(asm: dict[str, Any]) -> tuple[int, int]:
    """Registers and bytes of spilled ones, of a thread."""
    if "amdgcn" in asm:
        text = asm["amdgcn"]
        spilled = 4 * int(re.findall(r"\.vgpr_spill_count: *(\d+)", text)[0])
        return int(re.findall(r"\.vgpr_count: *(\d+)", text)[0]), spilled
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(asm["cubin"])
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(path)]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(re.findall(r"REG:(\d+)", usage)[0]), int(re.findall(r"STACK:(\d+)", usage)[0])
