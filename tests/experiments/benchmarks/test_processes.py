"""Peak memory in this process and in a fresh one."""

import numpy as np
import pytest

from graphattn.experiments.benchmarks import processes
from graphattn.experiments.benchmarks.attention import AttentionProblem, DenseAttention, DGLOperators, Ours
from graphattn.experiments.benchmarks.encoder import OursEncoder
from graphattn.experiments.benchmarks.mtsa import MultiHead
from graphattn.experiments.benchmarks.processes import (
    UnableError,
    measure_peak_memory,
    peak_bytes,
    reset_peak,
    resident_bytes,
    run_once,
)
from graphattn.experiments.benchmarks.workloads import Workload, uniform

SIZE = 200 * 2**20


def test_the_peak_remains_until_it_is_reset():
    if not processes._CLEAR.exists():
        pytest.skip("this system cannot reset the peak")
    reset_peak()
    before = resident_bytes()
    np.ones(SIZE, dtype=np.int8)  # freed at once
    assert peak_bytes() - before > 0.9 * SIZE
    assert resident_bytes() - before < 0.5 * SIZE
    reset_peak()
    assert peak_bytes() - before < 0.5 * SIZE


def test_a_fresh_process_measures_a_training_step():
    tokens = 8 * 512  # so many that free memory in the heap does not matter
    memory = measure_peak_memory(OursEncoder, uniform(8, 512))
    # what three layers keep of each token for the backward pass: at least queries, keys and values
    assert memory.added > tokens * 300 * 4 * 9
    assert memory.whole > memory.added + 200 * 2**20  # libraries
    assert memory.run_ms > 0


def test_arrays_per_edge_are_measured():
    """Weights of DGL's operators: at least one number for each pair."""
    workload = uniform(1, 2048)
    pairs = AttentionProblem(workload).heads.pairs
    assert measure_peak_memory(DGLOperators, workload, keep_freed=False).added > 4 * pairs


def test_an_error_in_the_process_is_reported():
    with pytest.raises(UnableError, match="give batches of one length"):
        measure_peak_memory(MultiHead, Workload("mr", ((3, 4),)))


def test_a_killed_process_is_reported(monkeypatch):
    monkeypatch.setattr(processes.sys, "executable", "/bin/sh")
    monkeypatch.setattr(processes, "__name__", "x; kill -9 $$ #")
    with pytest.raises(UnableError, match="ended by signal 9; the memory may have been too small"):
        measure_peak_memory(Ours, uniform(1, 2))


def test_measuring_in_this_process():
    assert run_once(DenseAttention(), uniform(1, 64)).run_ms > 0


def test_systems_without_proc_have_a_peak(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(processes, "_CLEAR", tmp_path / "none" / "either")
    reset_peak()
    assert peak_bytes() > 50 * 2**20
