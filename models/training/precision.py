"""Number formats of matrix products in training, and whether the hardware supports them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

PRECISIONS = ("32", "bf16", "auto")
BF16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")
"""CPU flags of instructions for bfloat16 products; the last is ARM's."""


def chosen_precision(precision: str, accelerator: str = "auto") -> str:
    """Resolve ``auto`` for this machine.

    Parameters
    ----------
    precision : one of ``PRECISIONS``
    accelerator : device kind, as Lightning names it

    Returns
    -------
    ``"32"`` or ``"bf16"``; for ``"auto"`` the latter where the device has instructions for it

    Examples
    --------
    >>> chosen_precision("32")
    '32'
    """
    if precision != "auto":
        return precision
    return "bf16" if multiplies_bf16(accelerator) else "32"


def multiplies_bf16(accelerator: str = "auto") -> bool:
    """Whether the device has instructions for bfloat16 products, which are slower than float32 without them.

    Parameters
    ----------
    accelerator : device kind, as Lightning names it
    """
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if accelerator not in ("auto", "cpu"):
        return False
    known: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # missing in older PyTorch
    return any(known.get(flag, False) for flag in BF16_FLAGS)
