"""Compilation: the message on a terminal, and the cache of kernels on disk."""

import io
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

import graphattn
from graphattn._backends.cpu import compiling
from graphattn._backends.cpu.compiling import MESSAGE, announce_compilation, kernel


class Stream(io.StringIO):
    """An error stream, which may be a terminal."""

    def __init__(self, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "kernels", "message"),  # kernels and the delay of the message
    [
        (True, [("forward", 0.01), ("backward", 0.01)], MESSAGE + "\n"),
        (True, [("quick", 60), ("quick", 0.01)], ""),  # the second time it is compiled
        (False, [("forward", 0.01)], ""),
    ],
)
def test_message_about_slow_compilation(monkeypatch, is_terminal, kernels, message):
    stream = Stream(is_terminal)
    monkeypatch.setattr(compiling, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(compiling, "READY", set())
    for kernel_name, delay in kernels:
        monkeypatch.setattr(compiling, "MESSAGE_DELAY", delay)
        with announce_compilation(kernel_name):
            time.sleep(0.1)
    assert stream.getvalue() == message


@pytest.mark.slow
def test_kernels_without_a_cache_folder():
    """Numba finds no cache folder with this locator, which serves notebooks only."""
    program = (
        "import numpy, torch, graphattn\n"
        "from graphattn._backends.cpu.edges import kernels\n"
        "from graphattn._backends.cpu.records import Strided\n"
        "from graphattn._backends.cpu.windows.narrow_rows import prefetch_rows\n"
        # before any function that may allocate: array methods compile only after those
        "prefetch_rows(Strided(numpy.zeros(60), 6, 3, 3), 1, 4, numpy.array([0, 1]))\n"
        "edges = graphattn.Edges(torch.tensor([0, 2, 4]), torch.tensor([0, 1, 1, 0]), 2)\n"
        "inputs = [torch.ones(2, 1, 4) for _ in range(3)]\n"
        "print(graphattn.attend(edges, *inputs, backend='fused').sum().item(), kernels.forward.stats.cache_path)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator", "NUMBA_OPT": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["8.0", "None"], done.stderr


@pytest.mark.slow
def test_without_compilation_kernels_are_an_error():
    program = """
import torch
from graphattn import Edges, attend
from graphattn.exceptions import BackendError
edges, rows = Edges.of_ranges(torch.tensor([0, 0]), torch.tensor([2, 2]), 2), torch.ones(2, 1, 4)
print(attend(edges, rows, rows, rows, backend="torch").sum().item())
try:
    attend(edges, rows, rows, rows)
except BackendError as error:
    print(error)
"""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    total, error = done.stdout.splitlines()
    assert total == "8.0"
    assert "NUMBA_DISABLE_JIT=1" in error


def test_kernels_handle_infinity():
    @kernel
    def difference(one, other):
        return one - other == 0

    assert not difference(float("inf"), float("inf"))


STORED = """
import sys
from pathlib import Path
from graphattn._backends.cpu import compiling

@compiling.kernel
def tripled(value):
    return value * 3

assert tripled(2) == 6
print(sum(tripled.stats.cache_hits.values()))
"""


@pytest.mark.slow
def test_a_kernel_is_recompiled_when_another_kernel_file_changes(tmp_path):
    folder = tmp_path / "site" / "graphattn"
    shutil.copytree(Path(graphattn.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "stored.py").write_text(STORED)
    paths = {"PYTHONPATH": str(tmp_path / "site"), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def hits() -> int:
        command = [sys.executable, "stored.py"]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    assert [hits(), hits()] == [0, 1]
    with open(folder / "_backends" / "cpu" / "simd" / "registers.py", "a", encoding="utf-8") as file:
        file.write("# changed\n")
    assert hits() == 0


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_kernel_whose_cache_is_damaged_is_compiled_again(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def double(value):
        return value + value

    def hits() -> int:
        compiled = kernel(double)
        assert compiled(2) == 4
        return sum(compiled.stats.cache_hits.values())

    assert [hits(), hits()] == [0, 1]
    (file,) = tmp_path.rglob(f"*.{suffix}")
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:-1], bytes(len(whole)), whole[:-9] + bytes(9)):
        file.write_bytes(damaged)
        assert [hits(), hits()] == [0, 1]


DOUBLED = """
import sys, time
from pathlib import Path
import numpy as np
from numba.core.caching import IndexDataCacheFile as File
from graphattn._backends.cpu.compiling import plan_kernel

def wait_for(name, seconds):
    until = time.monotonic() + seconds
    while not Path(name).exists() and time.monotonic() < until:
        time.sleep(0.01)

def in_order(step, *before):
    def run(self, *given, function=getattr(File, step)):
        for name in before:
            wait_for(name, 0.7)
        result = function(self, *given)
        Path(f"{step}-{own}").touch()
        return result
    setattr(File, step, run)

def save(self, key, data, function=File.save):
    in_order("_load_index")
    function(self, key, data)

if len(sys.argv) == 2:
    own, other = sys.argv[1], {"float32": "float64", "float64": "float32"}[sys.argv[1]]
    Path(own).touch()
    wait_for(other, 30)
    File.save = save
    in_order("_save_index", f"_load_index-{other}", *(["_save_index-float32"] if own == "float64" else []))
    in_order("_save_data", *(["_save_data-float64"] if own == "float32" else []))

@plan_kernel
def doubled(values):
    return values + values

print([doubled(np.ones(1, name)).dtype.name for name in sys.argv[1:]])
"""


@pytest.mark.slow
def test_concurrent_processes_do_not_mix_up_types(tmp_path):
    """Without a lock, one process writes its index first and its code last."""
    (tmp_path / "doubled.py").write_text(DOUBLED)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def start(*types):
        command = [sys.executable, "doubled.py", *types]
        return subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE)

    both = [start(name) for name in ("float32", "float64")]
    assert [process.communicate()[0] for process in both] == ["['float32']\n", "['float64']\n"]
    assert start("float32", "float64").communicate()[0] == "['float32', 'float64']\n"
    assert len(list((tmp_path / "cache").rglob("*.nbc"))) == 2
