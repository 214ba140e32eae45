"""Quantized layers against the same arithmetic in float64, row by row, and the bounds of int32."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from graphattn._backends.cpu import int8_kernels as kernels
from graphattn.exceptions import ConfigError
from graphattn.layers._int8 import MAX_INPUTS, Int8Linear, Step, multiplies_int8, quantize, run_chain
from graphattn.layers._linear import Linear
from graphattn.layers._norm import LayerNorm

pytestmark = pytest.mark.skipif(not multiplies_int8(), reason="this processor has no exact products of int8")


def quantize_rows(rows):
    """(R, I) -> integers and the (R, 1) factors that restore them, with the roundings of float32."""
    rows = rows.astype(np.float32)
    low, high = rows.min(1, keepdims=True).clip(max=0), rows.max(1, keepdims=True).clip(min=0)
    inverse = np.divide(np.float32(255), high - low, out=np.zeros_like(low), where=high - low > 1e-30)
    zeros = np.rint(-low * inverse)
    levels = (np.rint(rows * inverse) + zeros).clip(0, 255)
    return (levels - zeros).astype(np.int64), (high - low).astype(np.float64) / 255


def reference(rows, layer):
    """The linear layer in integers and float64."""
    inputs, scales = quantize_rows(rows)
    weight = layer.weight.detach().numpy()
    weight_scales = np.abs(weight).max(1, keepdims=True) / np.float32(127)
    weights = np.rint(weight / weight_scales).astype(np.int64)
    bias = 0 if layer.bias is None else layer.bias.detach().double().numpy()
    return inputs @ weights.T * scales * weight_scales.T + bias


def multiply(rows, weight):
    """The sums of :func:`int8_kernels.multiply`: (N, I) uint8 times (O, I) int8; what follows a row is any number."""
    panels = kernels.make_panels(weight)
    padded = np.full((len(rows), panels.shape[1] * kernels.GROUP), 255, np.uint8)
    padded[:, : rows.shape[1]] = rows
    sums = np.empty(len(rows) * panels.shape[0] * panels.shape[2], np.int32)
    kernels.multiply(padded.ravel().view(np.int32), panels.ravel().view(np.int32), len(rows), sums)
    return sums.reshape(len(rows), -1)[:, : len(weight)]


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def normalize(x, norm):
    x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + norm.eps)
    bias = 0 if norm.bias is None else norm.bias.detach().double().numpy()
    return x * norm.weight.detach().double().numpy() + bias


def draw_norm(width, *, bias=True):
    norm = LayerNorm(width, 1e-5, bias=bias)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


@pytest.mark.parametrize("count", [0, 1, 17, 300])
@pytest.mark.parametrize(
    ("width", "outputs", "bias"),
    [(384, 24, True), (7, 130, False), (40, 1, True), (1, 1, True), (1, 5, True), (1, 130, False)],
)
def test_a_layer_is_the_quantized_product(count, width, outputs, bias):
    torch.manual_seed(count)
    layer, rows = Linear(width, outputs, bias=bias), torch.randn(count, width) * torch.rand(count, 1) * 100
    expected = reference(rows.numpy(), layer) if count else np.empty((0, outputs))
    actual = Int8Linear(layer)(rows)
    assert actual.dtype == torch.float32
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(initial=1))
    if count:
        torch.testing.assert_close(actual, layer(rows).detach(), rtol=0, atol=0.02 * float(rows.abs().max()))


@pytest.mark.parametrize(("count", "inputs", "outputs"), [(1, 512, 64), (7, 1, 3), (4, 6, 1), (23, 9, 70)])
def test_products_are_exact(count, inputs, outputs):
    rng = np.random.default_rng(inputs)
    rows = rng.integers(0, 256, (count, inputs), np.uint8)
    weight = rng.integers(-127, 128, (outputs, inputs), np.int8)
    assert np.array_equal(multiply(rows, weight), rows.astype(int) @ weight.T.astype(int))


@pytest.mark.parametrize("bias", [True, False])
def test_a_chain_is_its_layers_one_after_the_other(bias):
    torch.manual_seed(1)
    layers = Linear(12, 16, bias=bias), Linear(16, 24, bias=bias), Linear(24, 16, bias=bias)
    norms = draw_norm(16, bias=bias), draw_norm(16, bias=bias)
    rows, residual = torch.randn(5, 12), torch.randn(5, 16)
    first, widen, narrow = map(Int8Linear, layers)
    steps = [Step(first, norm=norms[0]), Step(widen, gelu=True), Step(narrow, norm=norms[1])]
    middle = normalize(residual.double().numpy() + reference(rows.numpy(), layers[0]), norms[0])
    wide = gelu(reference(middle, layers[1]))
    expected = normalize(middle + reference(wide, layers[2]), norms[1])
    np.testing.assert_allclose(run_chain(rows, steps, residual).numpy(), expected, rtol=1e-5, atol=1e-5)


def test_rows_do_not_depend_on_each_other():
    torch.manual_seed(2)
    first, widen, narrow = Int8Linear(Linear(64, 64)), Int8Linear(Linear(64, 256)), Int8Linear(Linear(256, 64))
    steps = [Step(first, norm=draw_norm(64)), Step(widen, gelu=True), Step(narrow, norm=draw_norm(64))]
    rows, residual = torch.randn(333, 64), torch.randn(333, 64)
    expected = run_chain(rows, steps, residual)
    rows[-1] *= 1e6
    together = run_chain(rows, steps, residual)
    assert together[:-1].equal(expected[:-1])
    for start, stop in ((0, 1), (5, 24), (100, 300)):
        assert run_chain(rows[start:stop], steps, residual[start:stop]).equal(together[start:stop])


@pytest.mark.parametrize("value", [0.0, 1e-38, 1e30])
def test_rows_of_extreme_numbers(value):
    layer, rows = Linear(3, 2), torch.tensor([[value, 0.0, -value]])
    np.testing.assert_allclose(Int8Linear(layer)(rows).numpy(), reference(rows.numpy(), layer), rtol=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_rows_that_are_not_finite_stay_so(value):
    out = Int8Linear(Linear(3, 2))(torch.tensor([[1.0, value, 0.0], [1.0, 1.0, 1.0]]))
    assert not out[0].isfinite().any()
    assert out[1].isfinite().all()


def test_products_are_exact_up_to_the_widest_layer():
    sums = multiply(np.full((1, MAX_INPUTS), 255, np.uint8), np.full((1, MAX_INPUTS), 127, np.int8))
    assert sums.item() == 255 * 127 * MAX_INPUTS < 2**31 <= 255 * 127 * (MAX_INPUTS + 1)
    layers = nn.Sequential(nn.Linear(MAX_INPUTS, 1), nn.Linear(MAX_INPUTS + 1, 1))
    quantize(layers)
    assert list(map(type, layers)) == [Int8Linear, nn.Linear]


def test_a_shared_layer_stays_shared_and_is_small():
    layer = Linear(100, 50)
    model = nn.ModuleList([layer, nn.Sequential(layer, nn.ReLU())])
    quantize(model)
    assert model[0] is model[1][0]
    outputs = math.ceil(50 / kernels.PANEL) * kernels.PANEL
    assert sum(buffer.nbytes for buffer in model.buffers()) == 100 * outputs + 3 * 4 * 50
    assert not list(model.parameters())


def test_gradients_saving_and_other_types_and_devices_are_errors():
    layer = Int8Linear(Linear(4, 4))
    converted = [Int8Linear(Linear(4, 4)).to(target) for target in (torch.float16, torch.float64, "meta")]
    uses = [partial(each, torch.ones(1, 4, device=each.scales.device)) for each in converted]
    for use in (lambda: layer(torch.ones(1, 4, requires_grad=True)), layer.state_dict, *uses):
        with pytest.raises(ConfigError) as caught:
            use()
        assert caught.value.options == ("precision",)
