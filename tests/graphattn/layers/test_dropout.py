"""Dropout: rate, scale, gradients, independence of threads and strides, evaluation mode."""

import pytest
import torch

from graphattn.exceptions import ConfigError
from graphattn.layers._dropout import Dropout, dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_rate_and_scale(probability, dtype):
    torch.manual_seed(0)
    out = dropout(torch.ones(1000, 1001, dtype=dtype), probability, True)
    assert out.dtype == dtype
    assert abs(float((out == 0).double().mean()) - probability) < 0.003
    kept, close = out[out != 0], 1e-4 if out.element_size() >= 4 else 1e-2
    assert kept.min().item() == kept.max().item() == pytest.approx(1 / (1 - probability), rel=close)


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 9, 16, 17, 1023, 2**16 - 1, 2**16, 2**16 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_number_of_elements(count, dtype):
    inputs = torch.arange(1.0, count + 1, dtype=dtype)
    out = dropout(inputs, 0.5, True)
    assert out.shape == (count,)
    assert ((out == 0) | (out == 2 * inputs)).all()
    assert torch.equal(inputs, torch.arange(1.0, count + 1, dtype=dtype))


def test_first_and_second_derivatives():
    inputs = torch.randn(40, dtype=torch.float64, requires_grad=True)

    def squared(inputs):
        torch.manual_seed(3)
        return dropout(inputs, 0.3, True) ** 2

    assert torch.autograd.gradcheck(squared, inputs)
    assert torch.autograd.gradgradcheck(squared, inputs)


def test_nothing_is_saved_for_the_backward_pass():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda saved: saved):
        dropout(torch.randn(50, requires_grad=True), 0.3, True)
    assert kept == []


@pytest.mark.parametrize("distance", [1, 2, 3, 4, 8, 16, 300, 2**16])
def test_neighbours_are_independent(distance):
    torch.manual_seed(0)
    kept = dropout(torch.ones(400_000), 0.5, True) > 0
    assert abs(float((kept[distance:] == kept[:-distance]).double().mean()) - 0.5) < 0.005


def test_calls_are_independent():
    torch.manual_seed(0)
    first, second = (dropout(torch.ones(400_000), 0.5, True) > 0 for _ in range(2))
    assert abs(float((first == second).double().mean()) - 0.5) < 0.005


def test_no_dropout_in_evaluation_or_at_zero():
    inputs = torch.randn(5)
    assert dropout(inputs, 0.5, False) is inputs
    assert dropout(inputs, 0.0, True) is inputs
    assert torch.equal(Dropout(0.9).eval()(inputs), inputs)


def test_mask_depends_on_the_global_generator():
    torch.manual_seed(1)
    first = dropout(torch.ones(100), 0.5, True)
    torch.manual_seed(1)
    assert torch.equal(first, dropout(torch.ones(100), 0.5, True))
    assert not torch.equal(first, dropout(torch.ones(100), 0.5, True))


def test_mask_does_not_depend_on_threads_or_strides():
    inputs = torch.randn(700, 400)
    count = torch.get_num_threads()
    actual = []
    try:
        for threads, given in ((1, inputs), (2, inputs), (2, inputs.t().contiguous().t())):
            torch.set_num_threads(threads)
            torch.manual_seed(2)
            actual.append(dropout(given, 0.2, True))
    finally:
        torch.set_num_threads(count)
    assert torch.equal(actual[0], actual[1])
    assert torch.equal(actual[0], actual[2])


@pytest.mark.parametrize("probability", [-0.1, 1.0, 1.5, float("nan")])
def test_invalid_probabilities(probability):
    with pytest.raises(ConfigError) as caught:
        Dropout(probability)
    assert caught.value.options == ("dropout",)


def test_representation():
    assert repr(Dropout(0.3)) == "Dropout(0.3)"
