"""Linear layers in bfloat16 on a CPU.

For each new number of rows, oneDNN compiles a kernel in about 5 ms, and batches of texts have many. So the number of
rows is rounded up to one of 16 values for each power of two. Predictions keep weights in oneDNN's order.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakIdKeyDictionary

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
    """:func:`torch.nn.functional.linear` under autocast, without gradients.

    Parameters
    ----------
    rows : (N, I) in float32 or bfloat16
    weight, bias : (O, I) and (O,) in float32

    Returns
    -------
    (N, O) in bfloat16
    """
    padded = pad_rows(rows.bfloat16())
    if _can_reorder(weight):
        out = onednn(padded, _reordered(weight), bias)
    else:
        out = F.linear(padded, weight.bfloat16(), None if bias is None else bias.bfloat16())
    return out[: len(rows)]


def _can_reorder(weight: Tensor) -> bool:
    """Whether it is a parameter with a version, which tensors of the inference mode lack."""
    return isinstance(weight, nn.Parameter) and not weight.is_inference()


def _reordered(weight: Tensor) -> Tensor:
    """A parameter in bfloat16, in the order that oneDNN reads; kept until the parameter changes."""
    version, numbers = weight._version, weight.detach().flatten()
    sample = numbers[:: 1 + len(numbers) // _SAMPLE]  # fused optimizers and ``.data`` change no version
    kept = _reordered_weights.get(weight)
    if kept is None or kept[0] != version or not torch.equal(kept[1], sample):
        reordered = torch.ops.mkldnn._reorder_linear_weight(weight.detach().bfloat16())
        kept = _reordered_weights[weight] = version, sample.clone(), reordered
    result: Tensor = kept[2]
    return result


_SAMPLE = 64
"""About how many numbers of a weight are compared."""
_reordered_weights = WeakIdKeyDictionary()
"""Parameter -> its version, a sample of its numbers, and its reordered copy."""


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
