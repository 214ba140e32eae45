"""Dropout: shares, scale, gradients, and when there is none."""

import pytest
import torch

from graphattn.models.dropout import Dropout, dropout


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_share_of_zeros_and_scale_of_the_rest(probability):
    torch.manual_seed(0)
    out = dropout(torch.ones(1000, 1001), probability, True)
    assert abs(float((out == 0).double().mean()) - probability) < 0.003
    kept = out[out != 0].unique()
    torch.testing.assert_close(kept, torch.tensor([1 / (1 - probability)]), rtol=1e-4, atol=0)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 1023])
def test_any_number_of_numbers(count):
    assert dropout(torch.ones(count), 0.5, True).shape == (count,)


def test_gradient_goes_where_the_values_went():
    torch.manual_seed(0)
    inputs = torch.randn(200, requires_grad=True)
    out = dropout(inputs, 0.4, True)
    out.sum().backward()
    torch.testing.assert_close(inputs.grad, (out / inputs).detach())


def test_neighbours_are_independent():
    torch.manual_seed(0)
    kept = dropout(torch.ones(400_000), 0.5, True) > 0
    for distance in (1, 2, 3, 4):
        assert abs(float((kept[distance:] == kept[:-distance]).double().mean()) - 0.5) < 0.005


def test_nothing_in_evaluation_and_at_zero():
    inputs = torch.randn(5)
    assert dropout(inputs, 0.5, False) is inputs
    assert dropout(inputs, 0.0, True) is inputs
    assert torch.equal(Dropout(0.9).eval()(inputs), inputs)


def test_drawn_from_the_global_generator():
    torch.manual_seed(1)
    first = dropout(torch.ones(100), 0.5, True)
    torch.manual_seed(1)
    assert torch.equal(first, dropout(torch.ones(100), 0.5, True))
    assert not torch.equal(first, dropout(torch.ones(100), 0.5, True))


def test_number_format_is_kept():
    assert dropout(torch.ones(4, dtype=torch.bfloat16), 0.5, True).dtype == torch.bfloat16
    assert repr(Dropout(0.3)) == "Dropout(0.3)"
