"""Devices by name, and errors for those that cannot be used."""

import pytest
import torch

from graphattn._devices import GPU, Hardware, check_device_name, explain_memory_errors, fetch, find_device, to_device
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_copies_to_a_gpu_and_back_do_not_wait():
    device, tensor = find_device("cuda"), torch.arange(1000)
    torch.cuda.set_sync_debug_mode("error")
    try:
        wait = fetch(to_device(tensor, device) + 1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(wait(), tensor + 1)
