"""Layers with packed weights: equal to plain ones up to rounding, with one copy of the weight, which is never stale."""

import copy
import pickle

import pytest
import torch
from torch import nn

from graphattn._edges import Edges
from graphattn.exceptions import ConfigError
from graphattn.layers import MultiScaleAttention
from graphattn.layers._linear import Linear, has_bfloat16
from graphattn.layers._packed import CAN_PACK, PackedLinear, pack
from graphattn.layers._tensorized import TensorizedAttention

pytestmark = pytest.mark.skipif(not CAN_PACK, reason="this PyTorch has no packed weights")
WIDTHS = 96, 70


def make_layer(bias=True):
    torch.manual_seed(0)
    return Linear(*WIDTHS, bias=bias)


@pytest.mark.parametrize("count", [0, 1, 24, 65, 300, 1100])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_the_plain_product(count, bias):
    layer, rows = make_layer(bias), torch.randn(count, WIDTHS[0])
    packed = PackedLinear(layer)
    with torch.inference_mode():
        torch.testing.assert_close(packed(rows), layer(rows), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(packed(rows[:, None]), layer(rows[:, None]), rtol=1e-5, atol=1e-5)
    assert packed.weight.equal(layer.weight)
    assert not list(packed.parameters())


def test_gradients_of_inputs_are_those_of_the_plain_layer():
    layer, rows = make_layer(), torch.randn(5, WIDTHS[0])
    gradients = []
    for each in (layer, PackedLinear(layer)):
        inputs = rows.clone().requires_grad_()
        each(inputs).square().sum().backward()
        gradients.append(inputs.grad)
    torch.testing.assert_close(*gradients)


def test_changes_reach_predictions_or_are_errors():
    layer, other, rows = make_layer(), Linear(*WIDTHS), torch.randn(5, WIDTHS[0])
    packed = PackedLinear(layer)
    packed.select([slice(0, 8)])(rows)
    packed.load_state_dict(other.state_dict())
    torch.testing.assert_close(packed(rows), other(rows))
    torch.testing.assert_close(packed.select([slice(0, 8)])(rows), other(rows)[:, :8])
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        packed.to(dtype), other.to(dtype)
        torch.testing.assert_close(packed(rows.to(dtype)), other(rows.to(dtype)))
    packed.bias.add_(1)
    torch.testing.assert_close(packed(rows), other(rows) + 1)
    with pytest.raises(RuntimeError, match="inference tensor"):
        packed.weight[0, 0] = 1
    with pytest.raises(ConfigError, match="for predictions alone"):
        packed.weight = nn.Parameter(torch.zeros(WIDTHS[::-1]))
    with pytest.raises(RuntimeError, match="shape"):
        packed.load_state_dict({**other.state_dict(), "weight": torch.zeros(3, 3)})
    with pytest.raises(RuntimeError, match="Missing"):
        packed.load_state_dict({"bias": other.bias})


def test_an_optimizer_step_on_the_other_parameters_is_seen():
    torch.manual_seed(0)
    model = nn.Sequential(nn.LayerNorm(WIDTHS[0]), make_layer())
    rows = torch.randn(5, WIDTHS[0])
    pack(model)
    before = model(rows)
    model[0].requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(rows).square().sum().backward()
    optimizer.step()
    after = model(rows)
    assert not after.equal(before)
    plain = nn.Sequential(nn.LayerNorm(WIDTHS[0]), Linear(*WIDTHS))
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(plain(rows), after)


def test_copies_and_pickles_have_the_weight():
    packed, rows = PackedLinear(make_layer()), torch.randn(5, WIDTHS[0])
    for copied in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert copied(rows).equal(packed(rows))


def test_which_layers_of_a_model_are_packed():
    shared = Linear(64, 64)
    model = nn.ModuleDict(
        {
            "shared": nn.ModuleList([shared, shared]),
            "small": Linear(4, 4),
            "precise": Linear(64, 64).double(),
            "parts": TensorizedAttention(64, 16, {"window:1": 2, "window:3": 2}),
        }
    )
    pack(model)
    assert isinstance(model["shared"][0], PackedLinear)
    assert model["shared"][0] is model["shared"][1]
    assert type(model["small"]) is type(model["precise"]) is Linear
    assert not any(isinstance(module, PackedLinear) for module in model["parts"].modules())


def test_heads_on_an_identity_need_no_queries():
    torch.manual_seed(0)
    count = 300
    ids = torch.arange(count, dtype=torch.int32)
    edges = {
        "self": Edges.of_ranges(ids, ids + 1, count),
        "near": Edges.of_ranges((ids - 1).clamp(min=0), (ids + 2).clamp(max=count), count),
    }
    layer = MultiScaleAttention(64, 16, {"self": 2, "near": 2})
    rows = torch.randn(count, 64)
    with torch.inference_mode():
        expected = layer(edges, rows)
        pack(layer)
        assert isinstance(layer.project, PackedLinear)
        torch.testing.assert_close(layer(edges, rows), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not has_bfloat16(), reason="this processor has no products in bfloat16")
def test_bfloat16_rounds_weights():
    layer, rows = make_layer(), torch.randn(24, WIDTHS[0])
    model = nn.Sequential(layer)
    pack(model, "bf16")
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(model(rows), layer(rows), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(model(rows), layer(rows), rtol=1e-2, atol=2e-2)
    with pytest.raises(ConfigError) as caught:
        model.state_dict()
    assert caught.value.options == ("precision",)
