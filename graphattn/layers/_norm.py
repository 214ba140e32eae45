"""Layer norm with precise gradients of float16 and bfloat16 parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override


class LayerNorm(nn.LayerNorm):
    """:class:`torch.nn.LayerNorm` in the precision of its parameters.

    PyTorch's gradients of float16 and bfloat16 parameters on a CPU are sums in that type, which stop growing: 10,000
    times 0.01 is 4.0 in bfloat16. Here they are summed in float32.
    """

    if TYPE_CHECKING:

        @override
        def __call__(self, inputs: Tensor) -> Tensor: ...

    @override
    def forward(self, inputs: Tensor) -> Tensor:
        if not self.elementwise_affine:
            return super().forward(inputs)
        return layer_norm(inputs, self.weight, self.bias, self.eps)


def layer_norm(inputs: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float) -> Tensor:
    """:func:`torch.nn.functional.layer_norm` over the last dimension, for :class:`LayerNorm`."""
    if weight.element_size() >= 4:
        return F.layer_norm(inputs, weight.shape, weight, bias, epsilon)
    if weight.device.type != "cpu":
        return F.layer_norm(inputs.to(weight.dtype), weight.shape, weight, bias, epsilon)
    bias = None if bias is None else bias.float()
    return F.layer_norm(inputs.float(), weight.shape, weight.float(), bias, epsilon).to(weight.dtype)
