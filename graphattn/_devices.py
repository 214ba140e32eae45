"""Devices by name, with an error for one that cannot be used; copies to them that nothing waits for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphattn.exceptions import ConfigError, DeviceMemoryError

OLDEST_CAPABILITY = 7, 5
"""Turing; PyTorch's and Triton's kernels of older cards are not tested any more."""


class GPU(NamedTuple):
    """A card of this machine."""

    name: str
    capability: tuple[int, int]
    memory: int  # bytes

    @property
    def is_usable(self) -> bool:
        """Whether it is new enough."""
        return self.capability >= OLDEST_CAPABILITY

    @property
    def has_bf16(self) -> bool:
        """Whether it has instructions for bfloat16 products: Ampere cards and newer ones, and AMD's."""
        return self.capability >= (8, 0)


@dataclass(frozen=True)
class Hardware:
    """What PyTorch can use here."""

    gpus: tuple[GPU, ...] = ()
    has_cuda: bool = False  # PyTorch was built for CUDA or ROCm
    has_mps: bool = False  # there is an Apple GPU, and PyTorch was built for it

    @classmethod
    def detect(cls) -> Hardware:
        """The hardware of this machine."""
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        properties = [torch.cuda.get_device_properties(number) for number in range(count)]
        gpus = tuple(GPU(card.name, (card.major, card.minor), card.total_memory) for card in properties)
        return cls(gpus, torch.backends.cuda.is_built(), torch.backends.mps.is_available())


def check_device_name(name: str) -> None:
    """Raise a ConfigError unless it names a device, be it of this machine or not."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", name):
        raise ConfigError(f"{{device}} is {name!r}; give auto, cpu, cuda, cuda:1 or mps", options=("device",))


def find_device(name: str = "auto", hardware: Hardware | None = None) -> torch.device:
    """The device of a name, which can be used here.

    Parameters
    ----------
    name : ``cpu``, ``cuda`` (the first card), ``cuda:1`` (the second one), ``mps``, or ``auto``: the first card that is
        new enough, else the CPU. ``auto`` does not choose an Apple GPU, on which nothing was tested
    hardware : that of this machine by default

    Raises
    ------
    ConfigError
        when there is no such device
    """
    check_device_name(name)
    if name == "cpu":
        return torch.device(name)
    hardware = Hardware.detect() if hardware is None else hardware
    if name == "auto":
        usable = [number for number, gpu in enumerate(hardware.gpus) if gpu.is_usable]
        return torch.device("cuda", usable[0]) if usable else torch.device("cpu")
    if name == "mps":
        if not hardware.has_mps:
            raise _error(name, "this PyTorch has no Apple GPU (Metal) here", "give cpu")
        return torch.device(name)
    if not hardware.has_cuda:
        raise _error(name, f"PyTorch {torch.__version__} was built without CUDA", "install a CUDA build, or give cpu")
    if not hardware.gpus:
        raise _error(name, "PyTorch sees no GPU here", "check nvidia-smi and CUDA_VISIBLE_DEVICES, or give cpu")
    number = int(name.partition(":")[2] or 0)
    if number >= len(hardware.gpus):
        known = ", ".join(f"cuda:{number} ({gpu.name})" for number, gpu in enumerate(hardware.gpus))
        raise _error(name, f"there is only {known}", "give one of these, or cpu")
    gpu = hardware.gpus[number]
    if not gpu.is_usable:
        least, own = (".".join(map(str, version)) for version in (OLDEST_CAPABILITY, gpu.capability))
        raise _error(
            name, f"the {gpu.name} has compute capability {own}, below {least}", "give a newer card (Turing), or cpu"
        )
    return torch.device("cuda", number)


def _error(name: str, problem: str, fix: str) -> ConfigError:
    return ConfigError(f"{{device}} is {name!r}, but {problem}; {fix}", options=("device",))


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device; neither this process nor the work before on a GPU waits for the copy."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def fetch(tensor: Tensor) -> Callable[[], Tensor]:
    """Begin to copy a tensor to the CPU; the function that is returned waits for the copy, and only for it."""
    if not tensor.is_cuda:
        return tensor.cpu
    copy = tensor.to("cpu", non_blocking=True)  # into pinned memory
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(tensor.device))

    def wait() -> Tensor:
        copied.synchronize()
        return copy

    return wait


@contextmanager
def explain_memory_errors(what: str, fix: str, options: tuple[str, ...] = ()) -> Iterator[None]:
    """Raise a DeviceMemoryError in place of PyTorch's error of several lines.

    ``what`` does not fit; ``fix`` is a sentence with ``options`` in braces.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        needed = re.search(r"Tried to allocate ([\d.]+ \w+)", str(error))
        missing = f" (the last tensor: {needed[1]})" if needed else ""
        raise DeviceMemoryError(f"the GPU's memory is too small for {what}{missing}. {fix}", options=options) from None
