"""Work runs in PyTorch's or Python's threads, and errors are raised in the caller."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graphattn._backends.cpu import threads
from graphattn._backends.cpu.threads import run_in_threads


@pytest.fixture(params=["PyTorch's", "Python's"])
def count(request, monkeypatch):
    """Three threads of either kind."""
    if request.param == "Python's":
        monkeypatch.setattr(threads, "find_openmp", lambda: None)
    elif threads.find_openmp() is None:
        pytest.skip("this PyTorch does not use GNU's OpenMP")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def test_threads_run_concurrently(count):
    meeting, seen = threading.Barrier(count, timeout=120), []

    def work(number):
        meeting.wait()
        seen.append((number, threading.get_ident()))

    run_in_threads(work)
    assert sorted(number for number, _ in seen) == [0, 1, 2]
    assert len({thread for _, thread in seen}) == count
    assert threading.get_ident() in {thread for _, thread in seen}


def test_a_single_task(count):
    seen = []
    run_in_threads(lambda number: seen.append((number, threading.get_ident())), alone=True)
    assert seen == [(0, threading.get_ident())]


@pytest.mark.parametrize("fails", [0, 2])
def test_errors_are_raised(count, fails):
    def work(number):
        if number == fails:
            raise ValueError(f"number {number}")

    with pytest.raises(ValueError, match=f"number {fails}"):
        run_in_threads(work)


def test_concurrent_callers(count):
    done = []

    def call(caller):
        for _ in range(20):
            run_in_threads(lambda number: done.append((caller, number)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(4)))
    assert sorted(done) == sorted((caller, number) for caller in range(4) for number in range(count) for _ in range(20))
