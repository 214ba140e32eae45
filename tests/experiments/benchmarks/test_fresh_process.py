"""Peak memory: bytes that were surely used are seen, in this process and in one of its own."""

import numpy as np
import pytest

from graphattn.experiments.benchmarks import fresh_process
from graphattn.experiments.benchmarks.fresh_process import (
    ATTENTION,
    TRAINING_STEP,
    Failed,
    measured,
    measured_apart,
    peak_bytes,
    reset_peak,
    resident_bytes,
)
from graphattn.experiments.benchmarks.workloads import uniform

SIZE = 200 * 2**20


def test_the_peak_is_seen_after_it_is_over_and_forgotten_on_request():
    if not fresh_process._CLEAR.exists():
        pytest.skip("this system cannot reset the peak")
    reset_peak()
    before = resident_bytes()
    np.ones(SIZE, dtype=np.int8)  # freed at once
    assert peak_bytes() - before > 0.9 * SIZE
    assert resident_bytes() - before < 0.5 * SIZE
    reset_peak()
    assert peak_bytes() - before < 0.5 * SIZE


def test_a_process_of_its_own_tells_its_figures():
    tokens = 8 * 512  # so many that memory which the heap had left over does not count
    found = measured_apart(TRAINING_STEP, "ours", uniform(8, 512))
    assert set(found) == {"held", "added", "whole", "run_ms"}
    # what three layers keep of each token for the backward pass: at least queries, keys and values
    assert found["added"] > tokens * 300 * 4 * 9
    assert found["whole"] > found["added"] + 200 * 2**20  # libraries
    assert found["run_ms"] > 0


def test_arrays_of_the_edges_size_are_seen():
    """Weights of DGL's operators: one number for each of the pairs, at least once."""
    workload = uniform(1, 2048)
    pairs = fresh_process.AttentionProblem(workload).heads.pairs
    assert measured_apart(ATTENTION, "dgl", workload)["added"] > 4 * pairs


def test_what_goes_wrong_in_the_process_is_told():
    with pytest.raises(Failed, match="ValueError"):
        measured_apart(ATTENTION, "nobody", uniform(1, 2))


def test_a_killed_process_is_told(monkeypatch):
    monkeypatch.setattr(fresh_process.sys, "executable", "/bin/sh")
    monkeypatch.setattr(fresh_process, "__name__", "x; kill -9 $$ #")
    with pytest.raises(Failed, match="ended by signal 9; the memory may have been too small"):
        measured_apart(ATTENTION, "ours", uniform(1, 2))


def test_measuring_here_works_too():
    assert measured(ATTENTION, "dense", uniform(1, 64))["run_ms"] > 0


def test_systems_without_proc_tell_their_peak(monkeypatch, tmp_path):
    monkeypatch.setattr(fresh_process, "_STATUS", tmp_path / "none")
    monkeypatch.setattr(fresh_process, "_CLEAR", tmp_path / "none" / "either")
    reset_peak()
    assert peak_bytes() > 50 * 2**20
