"""The number format of sums and scores."""

import torch
from torch import Tensor


def at_least_float32(tensor: Tensor) -> Tensor:
    """Float16 and bfloat16 as float32; float32 and float64 unchanged."""
    return tensor.float() if tensor.element_size() < 4 else tensor


def residual_type(tokens: Tensor) -> torch.dtype:
    """The type of sums of residual connections: that of the tokens, but under autocast at least float32."""
    has_autocast = torch.is_autocast_enabled(tokens.device.type)
    return torch.promote_types(tokens.dtype, torch.float32) if has_autocast else tokens.dtype
