"""The identity whose second derivative raises an error."""

import pytest
import torch

from graphattn._gradients import forbid_double_backward
from graphattn.exceptions import DoubleBackwardError


def test_first_derivative():
    tensor = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(forbid_double_backward(tensor).square().sum(), tensor)
    assert torch.equal(gradient, 2 * tensor)


def test_second_derivative_is_rejected():
    tensor = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(forbid_double_backward(tensor).square().sum(), tensor, create_graph=True)
    with pytest.raises(DoubleBackwardError) as caught:
        gradient.sum().backward()
    assert str(caught.value) == ("attention has first-order gradients only; do not differentiate its gradients again")


def test_no_node_without_autograd():
    tensor = torch.randn(3)
    assert forbid_double_backward(tensor) is tensor
    with torch.no_grad():
        own = tensor.requires_grad_()
        assert forbid_double_backward(own) is own
