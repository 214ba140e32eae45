"""The layer of MTSA against its equations with dense tensors, and its parameter counts."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphattn import Edges, TensorizedAttention
from graphattn.builders import Complete, TextGraphBuilder
from graphattn.builders.relations import Order, Window
from graphattn.exceptions import GraphError

ORDER = {"forward": 1, "backward": 1}
LENGTHS = (4, 0, 9)


@pytest.fixture(scope="module")
def graph():
    return TextGraphBuilder([Order(), Complete(), Window(5)]).text_batch([["x"] * length for length in LENGTHS])


def reference(layer, graph, x, mask_of, dense):
    """MTSA's Eq. 5-13, head by head, and the variant for its parameter counts."""
    feats, outputs, head = layer.head_feats, [], 0
    sigma_t = {"identity": lambda s: s, "log-sigmoid": F.logsigmoid, "sigmoid": torch.sigmoid}[layer.scale_function]
    sigma_s = {"identity": lambda s: s, "sigmoid": torch.sigmoid, "tanh": lambda s: 2 * torch.tanh(s / 2)}
    for relation, count in layer.heads.items():
        for _ in range(count):
            rows = slice(head * feats, (head + 1) * feats)
            v = x @ layer.value.weight[rows].T
            if layer.variant == "gated":
                base = v = F.elu(v + layer.value.bias[rows])
            elif layer.key is not None:
                base = x @ layer.key.weight[rows].T
            q = k = scores = torch.zeros_like(v)
            if layer.token2token and layer.variant == "gated":
                q, k = v @ layer.query.weight[head], v @ layer.key.weight[head]
            elif layer.token2token:
                q, k = x @ layer.query.weight[rows].T, base
            if layer.source_inner is not None:
                base = F.elu(base @ layer.source_inner.weight[head] + layer.source_inner.bias[head])
            if layer.source2token:
                scores = base @ layer.source_outer.weight[head] + layer.source_outer.bias[head]
                scores = sigma_s[layer.source_function](scores)
            own = [tensor.unsqueeze(1) for tensor in (q, k, v, scores)]
            result = dense(mask_of(Edges.of(graph, relation)), *own, function=sigma_t)[0].squeeze(1)
            if layer.gate is not None:
                gate = torch.sigmoid(torch.cat([v, result], 1) @ layer.gate.weight[head] + layer.gate.bias[head])
                result = gate * v + (1 - gate) * result
            outputs.append(result)
            head += 1
    out = torch.cat(outputs, 1)
    return out @ layer.output.weight.T if layer.variant == "paper" else out


def make_layer(variant, heads=None, **options):
    torch.manual_seed(3)
    layer = TensorizedAttention(6, 4, heads or {"forward": 2, "window:5": 1, "backward": 2}, variant=variant, **options)
    layer = layer.double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("variant", ["paper", "gated"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale_function": "sigmoid"},
        {"source_maps": 1},
        {"source_function": "sigmoid"},
        {"source_function": "tanh", "bound": 2.0},
        {"token2token": False},
        {"source2token": False},
        {"token2token": False, "source2token": False, "gate": False},  # weights are uniform
    ],
)
def test_layer_equals_the_equations(variant, options, graph, mask_of, dense_tensorized_attention):
    layer = make_layer(variant, **options)
    x = torch.randn(graph.num_nodes(), 6, dtype=torch.float64, requires_grad=True)
    out, expected = layer(graph, x), reference(layer, graph, x, mask_of, dense_tensorized_attention)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-10)
    parameters = [x, *layer.parameters()]
    for one, other in zip(
        torch.autograd.grad(out.square().sum(), parameters),
        torch.autograd.grad(expected.square().sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("switches", "parameters"),
    [
        ({}, 2_885_403),
        ({"token2token": False}, 2_525_403),
        ({"source2token": False}, 2_524_203),
        ({"token2token": False, "source2token": False, "gate": False}, 1_803_603),
    ],
)
def test_parameter_count_of_the_snli_model(switches, parameters):
    """Table 3 (2.9m, 2.5m, 2.5m, 1.8m): layer, source2token pooling, hidden layer, highway layer and logits."""
    layer = TensorizedAttention(300, 300, ORDER, variant="gated", **switches)
    pooling = [nn.Linear(600, 600), nn.Linear(600, 600)]
    highway = [nn.Linear(300, 300), nn.Linear(300, 300)]
    whole = nn.ModuleList([layer, *pooling, nn.Linear(4 * 600, 300), *highway, nn.Linear(300, 3)])
    assert sum(parameter.numel() for parameter in whole.parameters()) == parameters


def test_parameter_count_of_the_paper_variant():
    layer = TensorizedAttention(300, 30, {"forward": 5, "backward": 5})
    of_a_head = 3 * 300 * 30 + 2 * (30 * 30 + 30)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 10 * of_a_head + 300 * 300


def test_weights_of_each_relation(graph):
    layer, seen = make_layer("gated"), {}
    out = layer(graph, torch.randn(graph.num_nodes(), 6, dtype=torch.float64), weights=seen)
    assert {relation: tuple(w.shape) for relation, w in seen.items()} == {
        relation: (Edges.of(graph, relation).num_edges, count) for relation, count in layer.heads.items()
    }
    assert out.shape == (graph.num_nodes(), 20)


def test_missing_relation(graph):
    layer = TensorizedAttention(6, 4, {"forward": 1, "backward": 1})
    with pytest.raises(GraphError) as caught:
        layer({"forward": Edges.of(graph, "forward")}, torch.zeros(graph.num_nodes(), 6))
    assert str(caught.value) == ("the edges of relation 'backward' are missing; read them with edges_of(graph, heads)")


class RecordedIdentity(torch.nn.Module):
    """The identity, which records the widths of its inputs."""

    def __init__(self):
        super().__init__()
        self.widths = []

    def forward(self, inputs):
        self.widths.append(inputs.shape[-1])
        return inputs


@pytest.mark.parametrize(
    ("variant", "widths"),
    [("paper", [5, 5, 5, 4, 4, 8]), ("gated", [5, 4, 4, 4, 4, 4, 4])],  # inputs, then those of a head, last all heads
)
def test_dropout_on_the_input_of_each_projection(variant, widths):
    graph = TextGraphBuilder([Complete()], cls=False).text_batch([["a", "b"]])
    layer = TensorizedAttention(5, 4, {"all": 2}, variant=variant)
    layer.dropout, layer.attn_drop = RecordedIdentity(), RecordedIdentity()
    layer(graph, torch.randn(2, 5))
    assert sorted(layer.dropout.widths) == sorted(widths)
    assert layer.attn_drop.widths == [4]


@pytest.mark.parametrize(("variant", "function"), [("paper", "identity"), ("gated", "log-sigmoid")])
def test_default_scale_function_of_each_variant(variant, function):
    assert TensorizedAttention(5, 4, {"all": 2}, variant=variant).scale_function == function
    assert TensorizedAttention(5, 4, {"all": 2}, variant=variant, scale_function="tanh").scale_function == "tanh"
