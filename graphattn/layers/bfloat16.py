"""Linear layers in bfloat16 on a CPU.

For each new number of rows, oneDNN compiles a kernel in about 5 ms, and batches of texts have many numbers of rows. So
rows are padded to one of 16 numbers between two powers of two. Predictions keep weights in oneDNN's order.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakIdKeyDictionary

HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
"""Whether this build of PyTorch has oneDNN's linear operator, which ``torch.compile`` uses."""


def multiplies_in_bfloat16(inputs: Tensor) -> bool:
    """Whether autocast makes products with the inputs bfloat16, and the processor has such products."""
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
    return F.pad(rows, (0, 0) * (rows.dim() - 1) + (0, -count % step))


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
    """Whether it is a parameter, whose changes are counted."""
    return isinstance(weight, nn.Parameter) and not weight.is_inference()


def _reordered(weight: Tensor) -> Tensor:
    """A parameter in bfloat16, in the order that oneDNN reads; kept until the parameter changes."""
    state = (weight._version, weight.data_ptr())
    kept = _reordered_weights.get(weight)
    if kept is None or kept[0] != state:
        kept = _reordered_weights[weight] = state, torch.ops.mkldnn._reorder_linear_weight(weight.detach().bfloat16())
    reordered: Tensor = kept[1]
    return reordered


_reordered_weights = WeakIdKeyDictionary()
"""Parameter -> its version and address, and its reordered copy."""
# fused optimizers do not count their changes as versions
register_optimizer_step_post_hook(lambda *_: _reordered_weights.clear())


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
