"""Attention backends by name: those of the package, and those that users register."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

from graphattn._backends.base import Backend
from graphattn._backends.gpu.plan import plan_of
from graphattn._devices import OLDEST_CAPABILITY
from graphattn._edges import GPU_PLANNERS, Edges
from graphattn._optional_packages import import_optional
from graphattn.exceptions import BackendError, ConfigError, Hint, warn_caller

BACKENDS = {
    "dgl": ("graphattn._backends.dgl", "DGLBackend"),
    "fused": ("graphattn._backends.cpu.fused", "FusedBackend"),
    "torch": ("graphattn._backends.torch", "TorchBackend"),
    "triton": ("graphattn._backends.gpu.backend", "TritonBackend"),
}
"""Name -> module and class of the package's backends, imported where they run; ``auto`` chooses among them."""

REGISTERED: dict[str, Backend] = {}
"""Name -> backend that a user registered."""


def register_backend(name: str, backend: type[Backend]) -> None:
    """Add a backend: ``backend=name`` then selects it in :func:`graphattn.attend`, in layers and in encoders.

    Parameters
    ----------
    name : not ``auto``, ``blocks``, ``edges`` or the name of one of the package's backends
    backend : a subclass of :class:`~graphattn.Backend`, whose instances take no arguments

    Raises
    ------
    ConfigError
        when the package uses the name, or another class is registered under it
    """
    if name in BACKENDS or name in ("auto", "blocks", "edges"):
        raise ConfigError(f"backend {name!r} belongs to the package; choose another name")
    if name in REGISTERED and _name_class(type(REGISTERED[name])) != _name_class(backend):
        owner = _name_class(type(REGISTERED[name]))
        raise ConfigError(f"backend {name!r} is registered already, by {owner}; choose another name")
    REGISTERED[name] = backend()


def _name_class(backend: type[Backend]) -> str:
    return f"{backend.__module__}.{backend.__qualname__}"


def load_backend(name: str, rows: Tensor, others: Iterable[str] = BACKENDS) -> Backend:
    """The backend of a name: ``auto`` for these rows, a registered one, or one of ``others``."""
    if name == "auto":
        return _make_backend(choose_backend(rows), skips_identities=True)
    if name in REGISTERED:
        return REGISTERED[name]
    if name in BACKENDS and name in others:
        return _make_backend(name, skips_identities=False)
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


@cache
def _make_backend(name: str, *, skips_identities: bool) -> Backend:
    if name == "triton":
        import_optional("triton", "backend 'triton' needs", "triton")
    module, class_name = BACKENDS[name]
    backend: Backend = getattr(import_module(module), class_name)()
    backend.skips_identities = skips_identities
    return backend
