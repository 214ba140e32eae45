"""Parts of decoders with so many rows that linear layers use another algorithm."""

import torch

from graphattn.layers._linear import MIN_ROWS
from graphattn.models._decoders.attention import FeedForward


def test_gradients_of_many_rows():
    torch.manual_seed(0)
    part = FeedForward(6, 10, 0.0)
    inputs = torch.randn(4, MIN_ROWS // 4, 6, requires_grad=True)
    part(inputs).sin().sum().backward()
    exact = inputs.detach().double().requires_grad_()
    widen, _, _, narrow = part
    inner = (exact @ widen.weight.double().T + widen.bias.double()).clamp(min=0)
    (inner @ narrow.weight.double().T + narrow.bias.double()).sin().sum().backward()
    torch.testing.assert_close(inputs.grad.double(), exact.grad, rtol=1e-4, atol=1e-5)
