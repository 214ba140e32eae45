"""The number format of sums and scores."""

from torch import Tensor


def at_least_float32(tensor: Tensor) -> Tensor:
    """Float16 and bfloat16 as float32; float32 and float64 unchanged."""
    return tensor.float() if tensor.element_size() < 4 else tensor
