"""What benchmarks compare: contenders, which make jobs to time, and the settings that all share."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, ClassVar

import psutil
import torch
from torch import Tensor

from graphattn.experiments.benchmarks._workloads import Workload

CPU = torch.device("cpu")


class UnableError(RuntimeError):
    """A contender cannot run here; the message says why."""


@dataclass(frozen=True)
class Placement:
    """Where contenders compute, and in which number format."""

    device: torch.device = CPU
    in_bfloat16: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The type of inputs."""
        return torch.bfloat16 if self.in_bfloat16 else torch.float32

    def put(self, tensor: Tensor) -> Tensor:
        """A tensor as an input."""
        return tensor.to(self.device, self.dtype if tensor.is_floating_point() else tensor.dtype)

    def autocast(self) -> torch.autocast:
        """Products in the number format, where inputs and weights are float32."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.in_bfloat16)


class Problem:
    """The inputs of all contenders."""

    placement = Placement()
    """Set before jobs are made."""

    def __init__(self, workload: Workload):
        self.workload = workload


@dataclass(frozen=True)
class Settings:
    """Options of a benchmark."""

    lengths: tuple[str, ...]  # workloads, as ``--lengths`` names them
    repeats: int = 9  # timed runs of each contender
    peers: tuple[str, ...] | None = None  # their names; None for all
    seconds: float = 120.0  # start no further round on a workload after this much measured time
    device: str = "cpu"
    precision: str = "32"

    @property
    def placement(self) -> Placement:
        """Where contenders compute."""
        return Placement(torch.device(self.device), self.precision == "bf16")


@dataclass(frozen=True)
class Job:
    """A function to time."""

    run: Callable[[Any], object]  # gets what ``prepare`` returns
    prepare: Callable[[], Any] = lambda: None  # before every run, not timed: no run reuses what another cached

    def time(self, device: torch.device = CPU) -> float:
        """Run once and return the milliseconds, on a GPU between two of its events."""
        state = self.prepare()
        if device.type == "cpu":
            start = time.perf_counter()
            self.run(state)
            return 1000 * (time.perf_counter() - start)
        torch.cuda.synchronize(device)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.run(state)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end))

    def measure_gpu_memory(self, device: torch.device) -> dict[str, int]:
        """Run once and return what PyTorch's allocator held before, and the peak on top of it, in bytes."""
        state = self.prepare()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
        self.run(state)
        added = torch.cuda.max_memory_allocated(device) - held
        return {"added": added, "memory": held + added}


@dataclass(frozen=True)
class Contender(ABC):
    """One way to compute what a benchmark compares; its settings are fields, so that a benchmark is a table of them."""

    problem: ClassVar[type[Any]]  # makes the inputs of all contenders
    packages: ClassVar[Sequence[str]] = ()  # the packages it needs besides our dependencies
    runs_on_gpu: ClassVar[bool] = True

    name: str  # in ``--peers`` and in JSON
    title: str  # in tables
    has_backward: bool = field(default=True, kw_only=True)  # whether it has gradients on a CPU
    is_trial: bool = field(default=False, kw_only=True)  # another setting of a peer; runs if ``--peers`` names it

    def check_requirements(self) -> Contender:
        """Raise an UnableError if it cannot run on this machine; return itself."""
        for package in self.packages:
            if find_spec(package) is None:
                raise UnableError(f"{package} is not installed")
        return self

    def estimate_bytes(self, problem: Any, *, backward: bool) -> int:
        """Estimated peak memory; 0 if it grows only with the inputs."""
        return 0

    @abstractmethod
    def make_job(self, problem: Any, *, backward: bool) -> Job:
        """The job to time, after preparations that all runs share; raises an UnableError if these fail."""

    def check_problem(self, problem: Any, *, backward: bool) -> None:
        """Raise an UnableError if it cannot solve a problem."""
        device = getattr(problem, "placement", Placement()).device
        if device.type != "cpu" and not self.runs_on_gpu:
            raise UnableError("computes on a CPU only")
        if backward and not self.has_backward and device.type == "cpu":
            raise UnableError("no backward pass on a CPU")
        available = available_bytes() if device.type == "cpu" else int(0.8 * torch.cuda.mem_get_info(device)[0])
        needed = self.estimate_bytes(problem, backward=backward)
        if needed > available:
            raise UnableError(f"needs about {needed / 2**30:.1f} GiB; {available / 2**30:.1f} GiB may be used")


def available_bytes() -> int:
    """Most of the free memory."""
    return int(0.8 * psutil.virtual_memory().available)
