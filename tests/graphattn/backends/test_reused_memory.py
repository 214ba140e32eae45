"""Memory that is used again never belongs to two tensors at once, and little of it is kept."""

import threading

import pytest
import torch

from graphattn.backends import reused_memory
from graphattn.backends.reused_memory import KEPT, SMALLEST, empty

LARGE = (SMALLEST // 4 + 3,)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(reused_memory, "_FREE", {})
    monkeypatch.setattr(reused_memory, "_kept", 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 3), (2, 5), (300, 3, 400)])
def test_shape_and_type(shape, dtype):
    made = empty(shape, dtype)
    assert made.shape == shape
    assert made.dtype == dtype
    assert made.is_contiguous()


def test_memory_is_lent_again_when_nobody_holds_it():
    first = empty(LARGE, torch.float32)
    place = first.data_ptr()
    part, array = first[3:5], first.numpy()
    del first
    assert empty(LARGE, torch.float32).data_ptr() != place  # a view and an array still look at it
    del part
    assert empty(LARGE, torch.float32).data_ptr() != place
    del array
    assert place in {tensor.data_ptr() for tensor in [empty(LARGE, torch.float32) for _ in range(2)]}


def test_another_size_gets_other_memory():
    place = empty(LARGE, torch.float32).data_ptr()
    assert reused_memory._kept == 4 * LARGE[0]
    assert empty((LARGE[0] + 1,), torch.float32).data_ptr() != place


def test_little_is_kept():
    tensors = [empty(LARGE, torch.float32) for _ in range(2 * KEPT // SMALLEST)]
    del tensors
    assert 0 < reused_memory._kept <= KEPT
    assert reused_memory._kept == sum(own.nbytes for free in reused_memory._FREE.values() for own in free)
    huge = empty((KEPT // 4 + 1,), torch.float32)
    del huge
    assert all(size <= KEPT for size in reused_memory._FREE)


def test_threads_do_not_share():
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
