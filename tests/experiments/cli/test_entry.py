"""Settings of the process: memory that glibc keeps for the next tensor, and how long threads spin."""

import os
import sys

import pytest

from graphattn.experiments._cli.entry import keep_freed_memory, let_threads_sleep

NAMES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these thresholds")
@pytest.mark.parametrize("chosen", [None, "4096"])
def test_a_threshold_of_the_user_is_kept(monkeypatch, chosen):
    calls = []
    monkeypatch.setattr(
        "ctypes.CDLL", lambda name: type("C", (), {"mallopt": lambda self, *pair: calls.append(pair)})()
    )
    for name in NAMES:
        monkeypatch.setenv(name, "")  # so that the test's end removes what is set
        monkeypatch.delenv(name)
    if chosen is not None:
        monkeypatch.setenv(NAMES[1], chosen)
    keep_freed_memory()
    assert os.environ.get(NAMES[1]) == (chosen or str(2**30))
    assert calls == ([] if chosen else [(-1, 2**30), (-3, 2**30)])


@pytest.mark.parametrize(
    ("name", "chosen", "spins"),
    [("GOMP_SPINCOUNT", None, "1000"), ("GOMP_SPINCOUNT", "5", "5"), ("OMP_WAIT_POLICY", "active", None)],
)
def test_a_way_of_waiting_of_the_user_is_kept(monkeypatch, name, chosen, spins):
    for variable in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    if chosen is not None:
        monkeypatch.setenv(name, chosen)
    let_threads_sleep()
    assert os.environ.get("GOMP_SPINCOUNT") == spins
