"""Kernels compiled for the registers of other processors."""

import os
import subprocess
import sys

import pytest

from graphattn._backends.cpu.simd import llvm

CHECK = """
import sys

import numba
from llvmlite import binding

numba.njit(lambda: 0)()  # Numba has read the features of the processor
features, binding.get_host_cpu_features = binding.get_host_cpu_features, lambda: {"avx512f": sys.argv[1] == "64"}

import torch

from graphattn import Edges, attend
from graphattn._backends.cpu.simd import blocks
from graphattn._backends.cpu.simd import llvm
from graphattn.builders import Complete, Sentence, TextGraphBuilder, Window
from graphattn._edges import edges_of

binding.get_host_cpu_features = features
assert (llvm.BYTES, blocks.BLOCK_ROWS) == {"64": (64, 8), "32": (32, 4)}[sys.argv[1]]


def outputs_and_gradients(edges, backend):
    torch.manual_seed(1)
    inputs = [torch.randn(edges.num_sources, 2, 21, dtype=torch.float32, requires_grad=True) for _ in range(3)]
    out = attend(edges, *inputs, backend=backend)
    return [out.detach(), *torch.autograd.grad((out * torch.arange(21.0)).sum(), inputs)]


def iterate_edges():
    for relation in (Window(3), Window(41), Complete()):
        texts = [["word"] * length for length in (1, 2, 7, 30, 75, 300)]
        graph = TextGraphBuilder([relation]).text_batch(texts)
        yield edges_of(graph, [relation.name])[relation.name]
    low = torch.arange(100)
    yield Edges.of_ranges(low, torch.where(low % 3 == 0, low, (low + 5).clamp(max=100)), 100)  # some see nothing


for edges in iterate_edges():
    for one, other in zip(outputs_and_gradients(edges, "fused"), outputs_and_gradients(edges, "torch"), strict=True):
        assert one.abs().max() > 1
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
print("compared")
"""

CROSS_COMPILE = """
import re

from graphattn._backends.cpu.windows import narrow_backward, narrow_forward, wide_backward, wide_forward

binding.initialize_all_targets()
binding.initialize_all_asmprinters()
arm = binding.Target.from_triple("aarch64-linux-gnu").create_target_machine(features="+neon", opt=3)
for module in (narrow_forward.forward, narrow_backward.backward, wide_forward.forward, wide_backward.backward):
    for code in module.inspect_llvm().values():
        code = re.sub('target triple = ".*"', f'target triple = "{arm.triple}"', code)
        code = re.sub('target datalayout = ".*"', f'target datalayout = "{arm.target_data}"', code)
        code = re.sub('"target-(cpu|features)"="[^"]*"', "", code)
        assembly = arm.emit_assembly(binding.parse_assembly(code))
        assert len(re.findall(r"\\tfmla\\tv\\d+\\.4s", assembly)) > 20, "NEON multiplies and adds four numbers at once"
        assert not re.search(r"\\tbl\\tfmaf?\\b", assembly), "none of them is a call of the C library"
print("compiled")
"""


@pytest.mark.slow
def test_kernels_with_registers_of_another_size_and_on_arm(tmp_path):
    """All other tests use registers of this processor's size. Arm's are smaller than both, so it has either's code."""
    other = {32: 64, 64: 32}[llvm.BYTES]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1", "NUMBA_OPT": "0"}
    command = [sys.executable, "-c", CHECK + CROSS_COMPILE, str(other)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert (done.returncode, done.stdout) == (0, "compared\ncompiled\n"), done.stderr
