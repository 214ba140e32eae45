"""Devices by name, and errors for those that cannot be used."""

import threading

import pytest
import torch

from graphattn._devices import (
    GPU,
    Hardware,
    check_device_name,
    copy_together,
    explain_memory_errors,
    fetch,
    find_device,
    pack,
    prefetch_map,
    remember_copies,
    to_device,
)
from graphattn.exceptions import ConfigError, DeviceMemoryError

H200, PASCAL = GPU("NVIDIA H200", (9, 0), 139 * 2**30), GPU("Tesla P100", (6, 0), 16 * 2**30)
TWO = Hardware((PASCAL, H200), has_cuda=True)


@pytest.mark.parametrize(
    ("name", "hardware", "expected"),
    [
        ("cpu", Hardware(), "cpu"),
        ("auto", Hardware(), "cpu"),
        ("auto", Hardware(has_mps=True), "cpu"),
        ("auto", Hardware((PASCAL,), has_cuda=True), "cpu"),
        ("auto", TWO, "cuda:1"),
        ("cuda", Hardware((H200, PASCAL), has_cuda=True), "cuda:0"),
        ("cuda:1", TWO, "cuda:1"),
        ("mps", Hardware(has_mps=True), "mps"),
    ],
)
def test_a_device(name, hardware, expected):
    assert str(find_device(name, hardware)) == expected


@pytest.mark.parametrize(
    ("name", "hardware", "problem"),
    [
        ("gpu", TWO, "device is 'gpu'; give auto, cpu, cuda, cuda:1 or mps"),
        (
            "cuda",
            Hardware(),
            f"device is 'cuda', but PyTorch {torch.__version__} was built without CUDA; "
            "install a CUDA build, or give cpu",
        ),
        (
            "cuda:0",
            Hardware(has_cuda=True),
            "device is 'cuda:0', but PyTorch sees no GPU here; check nvidia-smi and CUDA_VISIBLE_DEVICES, or give cpu",
        ),
        (
            "cuda:2",
            TWO,
            "device is 'cuda:2', but there is only cuda:0 (Tesla P100), cuda:1 (NVIDIA H200); "
            "give one of these, or cpu",
        ),
        (
            "cuda:0",
            TWO,
            "device is 'cuda:0', but the Tesla P100 has compute capability 6.0, below 7.5; "
            "give a newer card (Turing), or cpu",
        ),
        ("mps", TWO, "device is 'mps', but this PyTorch has no Apple GPU (Metal) here; give cpu"),
    ],
)
def test_a_device_that_cannot_be_used(name, hardware, problem):
    with pytest.raises(ConfigError) as caught:
        find_device(name, hardware)
    assert str(caught.value) == problem
    assert caught.value.options == ("device",)


def test_a_name_is_valid_on_a_machine_without_the_device():
    check_device_name("cuda:7")
    with pytest.raises(ConfigError):
        check_device_name("cuda:")


def test_an_error_of_memory_is_one_line():
    with pytest.raises(DeviceMemoryError) as caught, explain_memory_errors("a text", "Shorten {it}.", ("it",)):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has ...\nSee documentation")
    assert str(caught.value) == "the GPU's memory is too small for a text (the last tensor: 2.50 GiB). Shorten it."


def test_copies_on_a_cpu_are_the_tensors_themselves():
    tensor = torch.arange(3)
    assert to_device(tensor, torch.device("cpu")) is tensor
    assert fetch(tensor)() is tensor
    assert to_device(tensor, torch.device("meta")).is_meta


@pytest.fixture
def tensors():
    """Of several types and shapes, one of them empty, one a number, one not contiguous."""
    return [
        torch.tensor([True, False, True]),
        torch.arange(20).view(4, 5).t(),
        torch.empty(0, 3, dtype=torch.int32),
        torch.tensor(7, dtype=torch.int16),
        torch.linspace(0, 1, 33, dtype=torch.float64),
        torch.arange(16).view(4, 4).t(),
    ]


def test_packed_tensors_are_aligned_views_of_one_buffer(tensors):
    packed = pack(tensors)
    assert len({tensor.untyped_storage().data_ptr() for tensor in packed}) == 1
    assert all(tensor.storage_offset() * tensor.element_size() % 64 == 0 for tensor in packed)
    for ours, theirs in zip(packed, tensors, strict=True):
        assert ours.dtype == theirs.dtype
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("is_packed", [True, False])
def test_tensors_are_copied_together(tensors, is_packed, count_copies):
    tensors = pack(tensors) if is_packed else tensors
    places = [(each.storage_offset(), each.shape, each.dtype) for each in (tensors if is_packed else pack(tensors))]
    meta, copies = torch.device("meta"), []
    assert count_copies(lambda: copies.extend(map(copy_together(tensors, meta), tensors))) == 1
    assert all(copy.is_meta for copy in copies)
    assert [(copy.storage_offset(), copy.shape, copy.dtype) for copy in copies] == places


@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
def test_a_whole_storage_of_other_strides_is_not_a_packed_one(shape):
    tensor = torch.arange(8).view(shape).t()  # 64 bytes, as many as its place in a buffer
    assert copy_together([tensor], torch.device("meta"))(tensor).is_contiguous()


def test_gradients_pass_through_a_copy(tensors):
    values = torch.randn(3, requires_grad=True)
    copy_of = copy_together([*tensors, values], torch.device("meta"))
    assert copy_of(values).grad_fn is not None
    assert copy_of(tensors[0]).is_meta


def test_tensors_are_packed_on_the_cpu_whatever_the_default_device_is(tensors):
    with torch.device("meta"):
        packed = pack(tensors)
        assert copy_together(tensors, torch.device("meta"))(tensors[0]).is_meta
    assert all(tensor.is_cpu for tensor in packed)


def test_tensors_on_a_cpu_stay_where_they_are(tensors):
    copy_of = copy_together(tensors, torch.device("cpu"))
    assert all(copy_of(tensor) is tensor for tensor in tensors)
    assert copy_together([], torch.device("meta"))


def test_a_copy_is_remembered_for_its_device_and_its_tensor(tensors, count_copies):
    meta = torch.device("meta")
    remember_copies(tensors[:2], copy_together(tensors, meta))
    assert count_copies(lambda: [to_device(tensor, meta) for tensor in tensors[:2]]) == 0
    assert count_copies(lambda: [to_device(tensor, meta) for tensor in tensors]) == 4
    assert to_device(tensors[0], torch.device("cpu")) is tensors[0]


@pytest.mark.parametrize(("device", "is_ahead"), [("cpu", False), ("meta", True)])
def test_the_next_one_is_made_meanwhile(device, is_ahead):
    made, events = [], [threading.Event() for _ in range(4)]

    def make(number):
        made.append(number)
        events[number].set()
        return 10 * number

    results = prefetch_map(make, range(4), torch.device(device))
    assert next(results) == 0
    assert not is_ahead or events[1].wait(10)
    assert made == ([0, 1] if is_ahead else [0])
    assert list(results) == [10, 20, 30]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_error_is_raised_where_its_result_would_be(device):
    results = prefetch_map(lambda number: 1 // number, [1, 0], torch.device(device))
    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("is_packed", [True, False])
def test_copies_together_have_the_same_numbers(tensors, is_packed):
    tensors, device = pack(tensors) if is_packed else tensors, find_device("cuda")
    for copy_of in prefetch_map(lambda part: copy_together(part, device), [tensors] * 3, device):
        assert all(torch.equal(copy_of(tensor).cpu(), tensor) for tensor in tensors)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_copies_to_a_gpu_and_back_do_not_wait():
    device, tensor = find_device("cuda"), torch.arange(1000)
    torch.cuda.set_sync_debug_mode("error")
    try:
        wait = fetch(to_device(tensor, device) + 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(wait(), tensor + 1)
