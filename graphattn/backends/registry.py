"""Ways to compute attention over the edges of one relation; each file is one backend with one function, ``attend``.

A backend gets :class:`~graphattn.edges.Edges` and plain tensors. What knows of DGL graphs, layers or text does not
belong here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from graphattn.edges import Edges
from graphattn.exceptions import BackendError

BACKENDS = {
    "dgl": "graphattn.backends.dgl",
    "fused": "graphattn.backends.cpu.fused",
    "torch": "graphattn.backends.torch",
}
"""Backend name -> module; ``auto`` chooses among them."""


class Attend(Protocol):
    """What every backend module offers under the name ``attend``."""

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
        """Outputs (N_dst, H, D_v) and, when asked, weights (E, H); bias and weights stand in slot order."""


def choose_backend(query: Tensor) -> str:
    """The backend that ``auto`` takes: ``fused`` on a CPU (float32, float64, bfloat16), else ``torch``."""
    return "fused" if query.device.type == "cpu" and query.dtype != torch.float16 else "torch"


def load_backend(name: str) -> Attend:
    """The ``attend`` function of a backend.

    Raises
    ------
    BackendError
        for a name that is not in :data:`BACKENDS`
    """
    if name not in BACKENDS:
        raise BackendError(f"backend {name!r} does not exist; choose one of: auto, {', '.join(BACKENDS)}")
    return cast(Attend, import_module(BACKENDS[name]).attend)
