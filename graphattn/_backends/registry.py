"""Attention backends by name: those of the package, and those that users register."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module

import torch
from torch import Tensor

from graphattn._backends.base import Backend
from graphattn.exceptions import BackendError, ConfigError

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
        is_fused = rows.device.type == "cpu" and rows.dtype != torch.float16
        return _make_backend("fused" if is_fused else "torch", skips_identities=True)
    if name in REGISTERED:
        return REGISTERED[name]
    if name in BACKENDS and name in others:
        return _make_backend(name, skips_identities=False)
    known = ", ".join(("auto", *others, *REGISTERED))
    raise BackendError(f"backend {name!r} does not exist; choose one of: {known}")


@cache
def _make_backend(name: str, *, skips_identities: bool) -> Backend:
    module, class_name = BACKENDS[name]
    backend: Backend = getattr(import_module(module), class_name)()
    backend.skips_identities = skips_identities
    return backend
