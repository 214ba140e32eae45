"""Attention backends by name: those of the package, and those that users register."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from graphattn.edges import Edges
from graphattn.exceptions import BackendError, ConfigError

BACKENDS = {
    "dgl": "graphattn.backends.dgl",
    "fused": "graphattn.backends.cpu.fused",
    "torch": "graphattn.backends.torch",
}
"""Name -> module of the package's backends; ``auto`` chooses among them."""


class Attend(Protocol):
    """The function ``attend`` of a backend."""

    def __call__(
        self,
        edges: Edges,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        bias: Tensor | None,
        dropout: float,
        return_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Outputs (N_dst, H, D_v) and, on request, softmax weights (E, H) before dropout.

        Bias and weights are in CSC order; ``dropout`` is 0 outside training.
        """


_registered: dict[str, tuple[str, Attend]] = {}
"""Name -> qualified name of the function, and the function."""


def register_backend(name: str, attend: Attend) -> None:
    """Add a backend: ``backend=name`` then selects it in :func:`graphattn.attend`, in layers and in encoders.

    Parameters
    ----------
    name : not ``auto``, ``blocks``, ``edges`` or the name of one of the package's backends
    attend : computes attention along one relation and supports autograd; :class:`Attend` describes its arguments

    Raises
    ------
    ConfigError
        when the package uses the name, or another function is registered under it
    """
    if name in BACKENDS or name in ("auto", "blocks", "edges"):
        raise ConfigError(f"backend {name!r} belongs to the package; choose another name")
    origin = f"{attend.__module__}.{getattr(attend, '__qualname__', type(attend).__qualname__)}"
    if name in _registered and _registered[name][0] != origin:
        raise ConfigError(f"backend {name!r} is registered already, by {_registered[name][0]}; choose another name")
    _registered[name] = origin, attend


def choose_backend(query: Tensor) -> str:
    """The backend of ``auto``: ``fused`` on a CPU (float32, float64, bfloat16), else ``torch``."""
    return "fused" if query.device.type == "cpu" and query.dtype != torch.float16 else "torch"


def load_backend(name: str, others: Iterable[str] = BACKENDS) -> Attend:
    """The ``attend`` function of a backend.

    Parameters
    ----------
    name : a registered backend, or one of ``others`` in :data:`BACKENDS`
    others : names that the caller accepts besides ``auto`` and registered backends

    Raises
    ------
    BackendError
        for any other name
    """
    if name in _registered:
        return _registered[name][1]
    if name in BACKENDS and name in others:
        return cast(Attend, import_module(BACKENDS[name]).attend)
    known = ", ".join(("auto", *others, *_registered))
    raise BackendError(f"backend {name!r} does not exist; choose one of: {known}")
