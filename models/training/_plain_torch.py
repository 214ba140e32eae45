"""PyTorch's own defaults, with which models are built, loaded and trained whatever the caller has set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def plain_torch() -> Iterator[None]:
    """Compute in float32 with gradients, also under ``torch.set_default_dtype`` and in inference mode.

    Examples
    --------
    >>> with torch.inference_mode(), plain_torch():
    ...     torch.zeros(1, requires_grad=True).sum().requires_grad
    True
    """
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.set_default_dtype(dtype)
