"""Products of many rows against float64, on both sides of the sizes at which the way of computing changes."""

import pytest
import torch
from torch.nn import functional as F

from graphattn.layers import linear as products
from graphattn.layers.linear import BLOCK, MIN_ROWS, Linear, by_head, linear

ROWS = [0, 1, MIN_ROWS - 1, MIN_ROWS, 5 * BLOCK + 1, 6 * BLOCK]


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def gradients(function, *inputs):
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    out = function(*leaves)
    weights = drawn(*out.shape, seed=9).to(out.dtype)
    return out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)


def agree(ours, reference, tolerance=1e-4):
    for own, exact in zip(ours, reference, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [True, False])
def test_linear_and_its_gradients(rows, bias):
    inputs, weight = drawn(rows, 30), drawn(20, 30)
    given = [inputs, weight, drawn(20)] if bias else [inputs, weight]
    agree(gradients(linear, *given), gradients(F.linear, *(tensor.double() for tensor in given)))


@pytest.mark.parametrize("rows", [1, *ROWS[2:]])
@pytest.mark.parametrize("bias", [True, False])
def test_maps_by_head_and_their_gradients(rows, bias):
    inputs = drawn(rows, 3, 16).transpose(0, 1)  # as heads lie in a layer
    given = [inputs, drawn(3, 16, 12), drawn(3, 1, 12)] if bias else [inputs, drawn(3, 16, 12)]

    def exact(inputs, weight, bias=0):
        return torch.einsum("hni,hio->hno", inputs, weight) + bias

    agree(gradients(by_head, *given), gradients(exact, *(tensor.double() for tensor in given)))


@pytest.mark.parametrize("rows", [3, 5 * BLOCK + 1])
def test_products_by_head_are_added_to_rows(rows):
    given = [drawn(3, rows, 16), drawn(3, 16, 12), drawn(3, rows, 12)]

    def exact(inputs, weight, added):
        return torch.einsum("hni,hio->hno", inputs, weight) + added

    agree(gradients(by_head, *given), gradients(exact, *(tensor.double() for tensor in given)))


@pytest.mark.parametrize(
    "inputs", [drawn(30, 40 * BLOCK).t(), drawn(8, 5 * BLOCK, 60)[..., :30], drawn(8 * BLOCK, 30)[::2]]
)
def test_inputs_that_lie_apart_and_have_more_dimensions(inputs):
    weight = drawn(20, 30)
    agree(gradients(linear, inputs, weight), gradients(F.linear, inputs.double(), weight.double()))


@pytest.mark.parametrize("bias", [drawn(40)[::2], drawn(1).expand(20), drawn(20).flip(0)])
def test_a_bias_that_lies_apart(bias):
    inputs, weight = drawn(2 * MIN_ROWS, 30), drawn(20, 30)
    agree(gradients(linear, inputs, weight, bias), gradients(F.linear, inputs.double(), weight.double(), bias.double()))


def test_rows_do_not_depend_on_those_before():
    inputs, weight = drawn(4 * MIN_ROWS, 30), drawn(20, 30)
    torch.testing.assert_close(linear(inputs, weight)[-5:], linear(inputs[-5:], weight), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [3, MIN_ROWS])
def test_second_derivatives(rows):
    inputs, weight = drawn(rows, 6), drawn(4, 6)

    def penalty(inputs, weight, apply=linear):
        inputs, weight = (tensor.detach().clone().requires_grad_() for tensor in (inputs, weight))
        (slope,) = torch.autograd.grad(apply(inputs, weight).pow(3).sum(), inputs, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), weight)

    reference = penalty(inputs.double(), weight.double(), F.linear)[0]
    torch.testing.assert_close(penalty(inputs, weight)[0].double(), reference, rtol=1e-3, atol=1e-2 * rows)


def test_second_derivatives_by_head():
    inputs, weight = drawn(2, MIN_ROWS, 6).requires_grad_(), drawn(2, 6, 4).requires_grad_()
    (slope,) = torch.autograd.grad(by_head(inputs, weight).square().sum(), inputs, create_graph=True)
    (ours,) = torch.autograd.grad(slope.sum(), weight)
    (slope,) = torch.autograd.grad(torch.bmm(inputs, weight).square().sum(), inputs, create_graph=True)
    torch.testing.assert_close(ours, torch.autograd.grad(slope.sum(), weight)[0], rtol=1e-3, atol=1e-1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_numbers_take_pytorchs_way(dtype):
    inputs, weight = drawn(MIN_ROWS, 30).to(dtype), drawn(20, 30).to(dtype)
    assert torch.equal(linear(inputs, weight), F.linear(inputs, weight))
    assert torch.equal(by_head(inputs[None], weight.t()[None]), torch.bmm(inputs[None], weight.t()[None]))


def test_autocast_decides():
    inputs, weight = drawn(MIN_ROWS, 30), drawn(20, 30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear(inputs, weight).dtype == torch.bfloat16
        assert by_head(inputs[None], weight.t()[None]).dtype == torch.bfloat16


def test_a_pytorch_without_onednn(monkeypatch):
    monkeypatch.setattr(products, "_HAS_ONEDNN", False)
    inputs, weight = drawn(MIN_ROWS, 30), drawn(20, 30)
    assert torch.equal(linear(inputs, weight), F.linear(inputs, weight))


def test_only_what_is_wanted_gets_a_gradient():
    inputs, weight = drawn(MIN_ROWS, 30), drawn(20, 30).requires_grad_()
    linear(inputs, weight).sum().backward()
    assert inputs.grad is None
    torch.testing.assert_close(weight.grad, inputs.sum(0).expand(20, -1), rtol=1e-3, atol=1e-3)


def test_the_layer_has_pytorchs_parameters():
    own, theirs = Linear(30, 20), torch.nn.Linear(30, 20)
    own.load_state_dict(theirs.state_dict())
    inputs = drawn(2, MIN_ROWS, 30)
    torch.testing.assert_close(own(inputs), theirs(inputs), rtol=1e-5, atol=1e-5)
    assert repr(own) == repr(theirs)


def test_results_may_be_changed_in_place():
    inputs, weight = drawn(4, MIN_ROWS // 4, 30).requires_grad_(), drawn(20, 30)
    linear(inputs, weight).relu_().sum().backward()
    reference = inputs.detach().double().requires_grad_()
    F.linear(reference, weight.double()).relu().sum().backward()
    torch.testing.assert_close(inputs.grad.double(), reference.grad, rtol=1e-4, atol=1e-4)
