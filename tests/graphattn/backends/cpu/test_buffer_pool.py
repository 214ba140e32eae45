"""Reused memory belongs to one tensor at a time, and unused memory is bounded."""

import os
import signal
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphattn._backends.cpu import buffer_pool
from graphattn._backends.cpu.buffer_pool import MAX_UNUSED_BYTES, MIN_BYTES, Pool

LARGE = (MIN_BYTES // 4 + 3,)


@pytest.fixture
def pool():
    return Pool(MAX_UNUSED_BYTES)


@pytest.fixture
def empty(pool):
    return pool.empty


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (2, 5), (300, 3, 400)])
def test_shape_and_type(empty, shape, dtype):
    made = empty(shape, dtype)
    assert made.shape == shape
    assert made.dtype == dtype
    assert made.is_contiguous()


def test_memory_is_reused_after_its_last_reference(empty):
    first = empty(LARGE, torch.float32)
    place = first.data_ptr()
    part, array = first[3:5], first.numpy()
    del first
    assert empty(LARGE, torch.float32).data_ptr() != place  # a view and an array still reference it
    del part
    assert empty(LARGE, torch.float32).data_ptr() != place
    del array
    assert place in {tensor.data_ptr() for tensor in [empty(LARGE, torch.float32) for _ in range(2)]}


def test_similar_sizes_reuse_memory(empty):
    place = empty((300, 1000), torch.float32).data_ptr()
    smaller = empty((298, 1000), torch.float32)
    assert smaller.data_ptr() == place
    smaller.fill_(1)
    assert empty((400, 1000), torch.float32).data_ptr() != place


@given(st.integers(MIN_BYTES, 1 << 40))
def test_allocation_rounds_up_by_an_eighth_at_most(size):
    assert size <= buffer_pool.round_up(size) <= 1.125 * size


def test_oldest_memory_is_freed_above_the_limit(pool, empty):
    tensors = [empty((MIN_BYTES // 4 * number,), torch.float32) for number in (64, 128, 96)]
    sizes = [4 * len(tensor) for tensor in tensors]
    assert sum(sizes) > MAX_UNUSED_BYTES > sum(sizes[1:])
    for _ in sizes:
        del tensors[0]
    assert [own.nbytes for own in pool.unused] == sizes[1:]
    huge = empty((MAX_UNUSED_BYTES // 4 + 1,), torch.float32)
    del huge
    assert pool.unused == []


def test_clear_frees_unused_memory(pool, empty):
    held, let_go = empty(LARGE, torch.float32), empty(LARGE, torch.float32)
    del let_go
    pool.clear()
    assert pool.unused == []
    del held
    assert len(pool.unused) == 1


def test_shared_pool():
    place = buffer_pool.empty(LARGE, torch.float32).data_ptr()
    assert buffer_pool.empty(LARGE, torch.float32).data_ptr() == place


def test_threads_get_separate_memory(empty):
    wrong = []

    def write(number):
        for _ in range(200):
            mine = empty(LARGE, torch.float32).fill_(number)
            if not bool((mine == number).all()):
                wrong.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_garbage_collection_inside_the_lock(pool, empty):
    tensor = empty(LARGE, torch.float32)
    with pool.lock:
        del tensor
    assert len(pool.unused) == 1


def test_a_forked_process_does_not_wait_for_the_lock(pool, empty):
    held, done = threading.Event(), threading.Event()

    def hold():
        with pool.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    if (child := os.fork()) == 0:
        signal.alarm(10)
        empty(LARGE, torch.float32)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
