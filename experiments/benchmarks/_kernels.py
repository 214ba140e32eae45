"""``bench kernels``: what the GPU kernels of backend ``triton`` use of a multiprocessor, compiled without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from graphattn._optional_packages import import_optional
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._harness import column
from graphattn.experiments.benchmarks._report import BenchmarkReport, Record

DESCRIPTION = """\
The kernels of backend `triton`, compiled for an NVIDIA A100 (sm80), an NVIDIA H100 (sm90) and an AMD MI300 (gfx942)
without running on one: for training with dropout, by type and width of a head. `ranges` are windows, complete graphs,
order; `tiles` are other edges. Three values in a cell are of the forward pass, gradients of queries, and gradients
of keys and values. `block x tile` are the nodes that a program computes and those it reads at once; `registers` and
`spilled` are of a thread, `shared` of a block, and `blocks` is how many a multiprocessor computes at once. Products of
float32 are exact, without matrix units."""
LENGTHS = tuple(
    f"{processor} {dtype} {width}"
    for processor in ("sm80", "sm90", "gfx942")
    for dtype in ("bfloat16", "float32")
    for width in (30, 32, 64, 128)
)
QUICK = ("sm80 bfloat16 30",)
_COLUMNS: dict[str, Callable[[Record], str]] = {
    name: column(name)
    for name in ("processor", "type", "width", "edges", "block x tile", "registers", "spilled, bytes", "shared, KiB")
} | {"blocks": column("blocks")}


def measure(settings: Settings) -> BenchmarkReport:
    """Compile the kernels for each processor, type and width that the settings name."""
    import_optional("triton", "graphattn bench kernels needs", "triton")
    from graphattn._backends.gpu.compiling import KERNELS, compile_kernel

    report = BenchmarkReport("kernels", DESCRIPTION, _COLUMNS, settings)
    for case in settings.lengths:
        processor, dtype, width = case.split()
        for edges in ("ranges", "tiles"):
            usages = [
                compile_kernel(each, processor, dtype, int(width), is_range=edges == "ranges") for each in KERNELS
            ]
            report.rows.append(
                {
                    **{"processor": processor, "type": dtype, "width": width, "edges": edges},
                    "block x tile": _join(usage.tile for usage in usages),
                    "registers": _join(usage.registers for usage in usages),
                    "spilled, bytes": _join(usage.spilled for usage in usages),
                    "shared, KiB": _join(round(usage.shared / 1024) for usage in usages),
                    "blocks": _join(usage.blocks for usage in usages),
                }
            )
    return report


def _join(values: Iterable[object]) -> str:
    """The values of the three kernels, or one for all."""
    texts = [str(value) for value in values]
    return texts[0] if len(set(texts)) == 1 else " / ".join(texts)
