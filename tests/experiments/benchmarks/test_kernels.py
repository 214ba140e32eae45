"""``bench kernels`` compiles for GPUs that are not there; in a process of its own, as others may interpret kernels."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

SCRIPT = """
from graphattn.experiments.benchmarks._contenders import Settings
from graphattn.experiments.benchmarks._kernels import measure
for row in measure(Settings(("sm80 bfloat16 32",))).rows:
    print(*row.values(), sep="; ")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton has wheels for Linux only")
def test_kernels_spill_nothing_and_fit_a_multiprocessor_twice():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split("; ") for line in done.stdout.splitlines()]
    assert [row[:5] for row in rows] == [
        ["sm80", "bfloat16", "32", "ranges", "64 x 64 / 64 x 64 / 64 x 32"],
        ["sm80", "bfloat16", "32", "tiles", "64 x 32"],
    ]
    for *_, registers, spilled, shared, blocks in rows:
        assert all(32 <= int(number) <= 255 for number in registers.split(" / "))
        assert all(0 < int(number) < 100 for number in shared.split(" / "))
        assert all(int(number) >= 2 for number in blocks.split(" / "))
        assert spilled == "0"
