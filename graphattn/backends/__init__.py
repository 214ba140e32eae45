"""Ways to compute attention over the edges of one relation; each file is one backend with one function, ``attend``.

A backend gets :class:`~graphattn.edges.Edges` and plain tensors and knows nothing of DGL graphs, layers or text.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from torch import Tensor

from graphattn.edges import Edges
from graphattn.exceptions import BackendError

BACKENDS = {
    "dgl": "graphattn.backends.dgl_operators",
    "fused": "graphattn.backends.fused",
    "torch": "graphattn.backends.torch_segments",
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


def choose_backend(edges: Edges, query: Tensor, *, plain: bool = True) -> str:
    """The backend that ``auto`` takes.

    ``torch`` for complete graphs, which it computes densely, and off the CPU; on a CPU ``fused`` for float32 and
    float64, unless the call is not ``plain``: with a bias, dropout on the weights, or asked for the weights. Such
    calls go to ``dgl``, whose operators are faster than ``torch``'s but hold all scores at once; so a relation with
    more than a hundred million of them goes to ``torch`` after all, which works in chunks.
    """
    fits_cpu_kernels = query.device.type == "cpu" and query.element_size() >= 4
    if edges.blocks is not None or not fits_cpu_kernels:
        return "torch"
    if plain:
        return "fused"
    return "dgl" if edges.num_edges * query.shape[1] <= 100_000_000 else "torch"


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
