"""Linear layers in bfloat16 on a CPU.

For each new number of rows, oneDNN compiles a kernel in about 5 ms, and batches of texts have many. So the number of
rows is rounded up to one of 16 values for each power of two. Weights are converted at each call: a kept copy could not
notice every change, such as ``weight.data[0, 0] = 1``. That costs a few per cent for thousands of rows; a model whose
weights are bfloat16 does without.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether this build of PyTorch has oneDNN's linear operator, which ``torch.compile`` uses."""


def multiplies_in_bfloat16(inputs: Tensor) -> bool:
    """Whether autocast computes products with these inputs in bfloat16, and the processor supports it."""
    return (
        inputs.device.type == "cpu"
        and inputs.dtype in (torch.float32, torch.bfloat16)
        and torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and HAS_ONEDNN
        and _has_bfloat16()
    )


def pad_rows(rows: Tensor) -> Tensor:
    """(N, I) or (N,), followed by zeros: less than N / 16 rows of them for large N."""
    count = len(rows)
    step = 1 << max(4, count.bit_length() - 5)
    missing = -count % step
    return F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, missing)) if missing else rows  # padding always copies


def predict_bfloat16(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """:func:`torch.nn.functional.linear` of float32 weights under autocast, without gradients; (N, O) in bfloat16."""
    return onednn(pad_rows(rows.bfloat16()), weight.bfloat16(), bias)[: len(rows)]


@cache
def _has_bfloat16() -> bool:
    """Whether oneDNN has products in bfloat16 on this processor."""
    supported: bool = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return supported


def onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """:func:`torch.nn.functional.linear` by PyTorch's oneDNN operator, without gradients."""
    bias = None if bias is None else bias.contiguous()  # oneDNN ignores its strides
    out: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return out
