"""Peak memory in this process and in a fresh one."""

import numpy as np
import pytest

from graphattn.experiments.benchmarks import _fresh_processes as processes
from graphattn.experiments.benchmarks._attention import OURS_ATTENTION, TORCH, AttentionProblem
from graphattn.experiments.benchmarks._contenders import UnableError
from graphattn.experiments.benchmarks._fresh_processes import (
    measure_peak_memory,
    peak_bytes,
    reset_peak,
    resident_bytes,
)
from graphattn.experiments.benchmarks._workloads import uniform

SIZE = 200 * 2**20


def test_the_peak_remains_until_it_is_reset():
    if not processes.CLEAR_FILE.exists():
        pytest.skip("this system cannot reset the peak")
    reset_peak()
    before = resident_bytes()
    np.ones(SIZE, dtype=np.int8)  # freed at once
    assert peak_bytes() - before > 0.9 * SIZE
    assert resident_bytes() - before < 0.5 * SIZE
    reset_peak()
    assert peak_bytes() - before < 0.5 * SIZE


@pytest.mark.slow
def test_a_fresh_process_measures_arrays_per_edge():
    """Weights: at least one number for each pair."""
    workload = uniform(1, 512)
    memory = measure_peak_memory(TORCH, workload, keep_freed=False)
    assert memory.added > 4 * AttentionProblem(workload).heads.pairs
    assert memory.whole > memory.added + 200 * 2**20  # libraries
    assert memory.run_ms > 0


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -9 $$", "ended by signal 9; the memory may have been too small"),
        ("echo Traceback >&2; echo 'too long' >&2; exit 1", "too long"),
    ],
)
def test_a_failed_process_is_reported(monkeypatch, script, message):
    monkeypatch.setattr(processes.sys, "executable", "/bin/sh")
    monkeypatch.setattr(processes, "__name__", f"x; {script} #")
    with pytest.raises(UnableError) as caught:
        measure_peak_memory(OURS_ATTENTION, uniform(1, 2))
    assert str(caught.value) == message


def test_systems_without_proc_have_a_peak(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "STATUS_FILE", tmp_path / "none")
    monkeypatch.setattr(processes, "CLEAR_FILE", tmp_path / "none" / "either")
    reset_peak()
    assert peak_bytes() > 50 * 2**20
