"""Devices by name, with an error for one that cannot be used; copies to them that nothing waits for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from graphattn.exceptions import ConfigError, DeviceMemoryError

S = TypeVar("S")
T = TypeVar("T")

OLDEST_CAPABILITY = 7, 5
"""Turing; PyTorch's and Triton's kernels of older cards are not tested any more."""
ASYNCHRONOUS = ("cuda", "meta")
"""Devices that compute while the CPU goes on; ``meta`` takes a GPU's place in tests."""
_ALIGNMENT = 64
"""Bytes at whose multiples arrays of a buffer begin: kernels are compiled for addresses that are multiples of 16."""
_COPIES: MutableMapping[Tensor, Tensor] = WeakTensorKeyDictionary()
"""Tensor on the CPU -> its copy on another device; see :func:`remember_copies`."""


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
    if device.type == "cpu" or not tensor.is_cpu:
        return tensor.to(device)
    copy = _COPIES.get(tensor)
    if copy is not None and copy.device == device:
        return copy
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def remember_copies(tensors: Iterable[Tensor], copy_of: Callable[[Tensor], Tensor]) -> None:
    """Let :func:`to_device` return these copies, while the tensors live; they must not change."""
    for tensor in tensors:
        _COPIES[tensor] = copy_of(tensor)


def forget_copies(tensors: Iterable[Tensor]) -> None:
    """Free what :func:`remember_copies` keeps."""
    for tensor in tensors:
        _COPIES.pop(tensor, None)


def copy_together(tensors: Sequence[Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Copy tensors to a GPU in one piece, from pinned memory; the function that is returned has the copy of each.

    The copy is in the current stream: it is as short as a kernel, and whatever reads it comes later in this stream.
    """
    if device.type not in ASYNCHRONOUS or not all(tensor.is_cpu and not tensor.requires_grad for tensor in tensors):
        return lambda tensor: tensor.to(device)  # which gradients pass through
    packed = list(tensors) if _are_packed(tensors) else pack(tensors)
    buffer = torch.empty(0, dtype=torch.uint8, device="cpu")
    if packed:
        buffer = buffer.set_(packed[0].untyped_storage()).to(device, non_blocking=True)
    views = {
        id(tensor): _view(buffer, int(own.storage_offset()) * own.element_size(), own)
        for tensor, own in zip(tensors, packed, strict=True)
    }
    return lambda tensor: views[id(tensor)]


def pack(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of tensors on the CPU as views of one buffer, which is in pinned memory if there is a GPU."""
    *starts, total = accumulate(map(_padded_bytes, tensors), initial=0)
    buffer = torch.empty(total, dtype=torch.uint8, device="cpu", pin_memory=torch.cuda.is_available())
    return [_view(buffer, start, tensor).copy_(tensor) for start, tensor in zip(starts, tensors, strict=True)]


def _are_packed(tensors: Sequence[Tensor]) -> bool:
    """Whether they are all that one buffer of :func:`pack` holds."""
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    if list(storages.values()) != [sum(map(_padded_bytes, tensors))]:
        return False
    return tensors[0].is_pinned() == torch.cuda.is_available() and all(tensor.is_contiguous() for tensor in tensors)


def _padded_bytes(tensor: Tensor) -> int:
    return -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT


def _view(buffer: Tensor, start: int, like: Tensor) -> Tensor:
    """The part of a buffer of bytes that has the type and shape of a tensor."""
    return buffer[start : start + like.nbytes].view(like.dtype).view(like.shape)


def prefetch_map(make: Callable[[S], T], items: Iterable[S], device: torch.device) -> Iterator[T]:
    """``map(make, items)``; for a GPU, a thread makes the next one while the caller has the one before.

    What ``make`` copies to the GPU is in the caller's stream.
    """
    if device.type not in ASYNCHRONOUS:
        yield from map(make, items)
        return

    def make_in_stream(item: S, stream: torch.cuda.Stream | None) -> T:
        with nullcontext() if stream is None else torch.cuda.stream(stream):  # a thread begins in the default one
            return make(item)

    with ThreadPoolExecutor(1, "graphattn-batches") as thread:
        ahead: Future[T] | None = None
        for item in items:
            stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
            job = thread.submit(copy_context().run, make_in_stream, item, stream)
            if ahead is not None:
                yield ahead.result()
            ahead = job
        if ahead is not None:
            yield ahead.result()


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
