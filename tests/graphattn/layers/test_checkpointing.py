"""Derived tensors equal plain operations, values and gradients, and save less for the backward pass."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphattn.layers._checkpointing import Derived


@pytest.fixture
def parts():
    torch.manual_seed(0)
    made = [torch.randn(5, 4, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    norm, linear = nn.LayerNorm(4).double(), nn.Linear(4, 3).double()
    for parameter in (*norm.parameters(), *linear.parameters()):
        nn.init.normal_(parameter)
    return *made, norm, linear


def derived(x, y, norm):
    sums = Derived.of(Derived.of(x)).then(lambda own, other: own + other.square(), y)
    return sums.then(lambda own, other: own * other.exp(), y).normalize(norm)


def reference(x, y, norm):
    return norm((x + y.square()) * y.exp())


def test_values_and_gradients(parts):
    x, y, norm, linear = parts
    wanted = (x, y, *norm.parameters(), *linear.parameters())
    expected = linear(reference(x, y, norm))
    actual = derived(x, y, norm).linear(linear.weight, linear.bias)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    upstream = torch.randn_like(actual)
    gradients = (torch.autograd.grad(out, wanted, upstream) for out in (actual, expected))
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    value = derived(x, y, norm).value()
    (mine,), (theirs,) = (torch.autograd.grad(out.sum(), y) for out in (value, reference(x, y, norm)))
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fixed", ["x", "weight", "everything"])
def test_frozen_tensors_get_no_gradient(parts, fixed):
    x, y, norm, linear = parts
    for tensor in {"x": [x], "weight": [linear.weight], "everything": [x, y, *norm.parameters()]}[fixed]:
        tensor.requires_grad_(False)
    derived(x, y, norm).linear(linear.weight, linear.bias).sum().backward()
    assert (x.grad is None) == (fixed != "weight")
    assert (linear.weight.grad is None) == (fixed == "weight")
    assert (norm.weight.grad is None) == (fixed == "everything")
    assert linear.bias.grad.tolist() == [5, 5, 5]


def count_saved(run):
    """Number of elements that a forward pass saves; shared memory counts once."""
    seen = {}

    def pack(tensor):
        seen[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(seen.values())


def test_layer_inputs_are_not_saved():
    x = torch.randn(1000, 8, requires_grad=True)
    norms, linears = [nn.LayerNorm(8) for _ in range(3)], [nn.Linear(8, 8) for _ in range(3)]

    def run_plain():
        return [linear(norm(2 * x)) for norm, linear in zip(norms, linears, strict=True)]

    def run_derived():
        double = Derived.of(x).then(lambda x: 2 * x)
        return [
            double.normalize(norm).linear(linear.weight, linear.bias)
            for norm, linear in zip(norms, linears, strict=True)
        ]

    for one, other in zip(run_plain(), run_derived(), strict=True):
        torch.testing.assert_close(one, other)
    assert count_saved(run_plain) > 6 * 8000  # twice x and its norm, three times
    assert 8000 <= count_saved(run_derived) < 9000  # x


def test_no_grad_records_nothing(parts):
    x, y, norm, linear = parts
    with torch.no_grad():
        made = derived(x, y, norm)
        assert not made.value().requires_grad
        assert made.value() is made.value()
        out = made.linear(linear.weight, linear.bias)
    assert not out.requires_grad
    torch.testing.assert_close(out, linear(reference(x, y, norm)), rtol=0, atol=1e-12)


def test_autocast_multiplies_in_bfloat16():
    x, linear = torch.randn(4, 8, requires_grad=True), nn.Linear(8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        out = Derived.of(x).then(lambda x: 2 * x).linear(linear.weight, linear.bias)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out, F.linear(2 * x, linear.weight, linear.bias))
    out.sum().backward()
    assert x.grad.dtype == linear.weight.grad.dtype == torch.float32


def test_second_derivatives_are_rejected(parts):
    x, y, norm, linear = parts
    out = derived(x, y, norm).linear(linear.weight, linear.bias)
    (gradient,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()
