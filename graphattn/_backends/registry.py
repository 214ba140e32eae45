"""Attention backends by name: those of the package, and those that users register."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

from graphattn._backends.call import AttentionCall, Backend, GroupBackend, join_groups
from graphattn._backends.gpu.plan import plan_of
from graphattn._devices import OLDEST_CAPABILITY
from graphattn._edges import GPU_PLANNERS, Edges
from graphattn._optional_packages import import_optional
from graphattn.exceptions import BackendError, ConfigError, Hint, warn_caller

BACKENDS = {
    "dgl": "graphattn._backends.dgl",
    "fused": "graphattn._backends.cpu.fused",
    "torch": "graphattn._backends.torch",
    "triton": "graphattn._backends.gpu.backend",
}
"""Name -> module of the package's backends, whose ``attend`` is imported where it runs; ``auto`` chooses among them."""

REGISTERED: dict[str, GroupBackend] = {}
"""Name -> backend that a user registered."""


def register_backend(name: str, backend: GroupBackend) -> None:
    """Add a backend: ``backend=name`` then selects it in :func:`graphattn.attend`, in layers and in encoders.

    Parameters
    ----------
    name : not ``auto``, ``blocks``, ``edges`` or the name of one of the package's backends
    backend : a function that takes an :class:`~graphattn.AttentionCall` and yields outputs and weights of each of
        its groups

    Raises
    ------
    ConfigError
        when the package uses the name, another function is registered under it, or the backend is a class
    """
    if name in BACKENDS or name in ("auto", "blocks", "edges"):
        raise ConfigError(f"backend {name!r} belongs to the package; choose another name")
    if isinstance(backend, type):
        raise ConfigError(f"backend {name!r} is a class; give a function that takes a graphattn.AttentionCall")
    if name in REGISTERED and _name_function(REGISTERED[name]) != _name_function(backend):
        owner = _name_function(REGISTERED[name])
        raise ConfigError(f"backend {name!r} is registered already, by {owner}; choose another name")
    REGISTERED[name] = backend


def _name_function(backend: GroupBackend) -> str:
    return f"{backend.__module__}.{backend.__qualname__}"


def load_backend(name: str, rows: Tensor, others: Iterable[str] = BACKENDS) -> Backend:
    """The backend of a name: ``auto`` for these rows, a registered one, or one of ``others``."""
    if name == "auto":
        return _import_backend(choose_backend(rows))
    if name in REGISTERED:
        return partial(_attend_groups, REGISTERED[name])
    if name in BACKENDS and name in others:
        return _import_backend(name)
    known = ", ".join(("auto", *others, *REGISTERED))
    raise BackendError(f"backend {name!r} does not exist; choose one of: {known}")


def choose_backend(rows: Tensor) -> str:
    """The name of the fastest backend for these rows."""
    if rows.device.type == "cpu":
        return "torch" if rows.dtype == torch.float16 else "fused"
    return _choose_on_gpu(rows.device) if rows.device.type == "cuda" and rows.dtype != torch.float64 else "torch"


@cache
def _choose_on_gpu(device: torch.device) -> str:
    problem = _problem_of(device)
    if problem is not None:
        warn_caller(Hint(f"{problem}; attention runs in PyTorch's operations, which are slower"))
    return "triton" if problem is None else "torch"


@cache
def _problem_of(device: torch.device) -> str | None:
    return find_gpu_problem(torch.cuda.get_device_capability(device), has_triton=find_spec("triton") is not None)


def _plan_for_gpu(edges: Edges, device: torch.device) -> None:
    if _problem_of(device) is None:
        plan_of(edges)


GPU_PLANNERS.append(_plan_for_gpu)


def find_gpu_problem(capability: tuple[int, int], *, has_triton: bool) -> str | None:
    """Why the kernels in Triton cannot run on a GPU of this compute capability; None if they can."""
    if capability < OLDEST_CAPABILITY:
        return "the GPU has compute capability {}.{}, and Triton needs {}.{}".format(*capability, *OLDEST_CAPABILITY)
    return None if has_triton else "the package triton is not installed (pip install 'graphattn[triton]')"


def _attend_groups(backend: GroupBackend, call: AttentionCall) -> tuple[Tensor, list[Tensor]]:
    return join_groups(call, backend(call))


@cache
def _import_backend(name: str) -> Backend:
    if name == "triton":
        import_optional("triton", "backend 'triton' needs", "triton")
    backend: Backend = import_module(BACKENDS[name]).attend
    return backend
