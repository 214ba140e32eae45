"""The layer of MTSA against its equations with dense tensors, and its parameter counts."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graphattn import Edges, TensorizedAttention
from graphattn.builders import Complete, TextGraphBuilder
from graphattn.builders.relations import Order, Window
from graphattn.exceptions import BackendError, ConfigError, GraphError

ORDER = {"forward": 1, "backward": 1}
LENGTHS = (4, 0, 9)


@pytest.fixture(scope="module")
def graph():
    return TextGraphBuilder([Order(), Complete(), Window(5)]).text_batch([["x"] * length for length in LENGTHS])


def mask_of(graph, relation):
    edges = Edges.of(graph, relation)
    mask = torch.zeros(edges.num_destinations, edges.num_sources, dtype=torch.bool)
    mask[edges.destinations, edges.sources] = True
    return mask


def reference(layer, graph, x, dense):
    """MTSA's Eq. 5-13, head by head, and the variant for its parameter counts."""
    feats, outputs, head = layer.head_feats, [], 0
    sigma_t = {"identity": lambda s: s, "log-sigmoid": F.logsigmoid, "sigmoid": torch.sigmoid}[layer.scale_function]
    for relation, count in layer.heads.items():
        for _ in range(count):
            rows = slice(head * feats, (head + 1) * feats)
            v = x @ layer.value.weight[rows].T
            if layer.variant == "gated":
                v = F.elu(v + layer.value.bias[rows])
                q, k = v @ layer.query.weight[head], v @ layer.key.weight[head]
                base = v
            else:
                q, k = x @ layer.query.weight[rows].T, x @ layer.key.weight[rows].T
                base = k
            if layer.source_inner is not None:
                base = F.elu(base @ layer.source_inner.weight[head] + layer.source_inner.bias[head])
            scores = base @ layer.source_outer.weight[head] + layer.source_outer.bias[head]
            own = [tensor.unsqueeze(1) for tensor in (q, k, v, scores)]
            result = dense(mask_of(graph, relation), *own, function=sigma_t).squeeze(1)
            if layer.variant == "gated":
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
@pytest.mark.parametrize(("function", "source_maps"), [(None, 2), ("sigmoid", 2), (None, 1)])
def test_layer_equals_the_equations(variant, function, source_maps, graph, dense_tensorized_attention):
    layer = make_layer(variant, scale_function=function, source_maps=source_maps)
    x = torch.randn(graph.num_nodes(), 6, dtype=torch.float64, requires_grad=True)
    out, expected = layer(graph, x), reference(layer, graph, x, dense_tensorized_attention)
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


@pytest.mark.parametrize("variant", ["paper", "gated"])
def test_without_scores_weights_are_uniform(variant, graph):
    layer = make_layer(variant, {"all": 1}, token2token=False, source2token=False, gate=False)
    x = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    mask = mask_of(graph, "all").double()
    values = layer.value(x)
    means = mask @ (F.elu(values) if variant == "gated" else values) / mask.sum(1, keepdim=True)
    torch.testing.assert_close(layer(graph, x), means if variant == "gated" else layer.output(means))


@pytest.mark.parametrize("variant", ["paper", "gated"])
@pytest.mark.parametrize("without", ["token2token", "source2token"])
def test_disabled_scores_have_no_effect(variant, without, graph):
    layer, full = make_layer(variant, ORDER, **{without: False}), make_layer(variant, ORDER)
    names = ("query", "key") if without == "token2token" else ("source_outer",)
    with torch.no_grad():
        for name in names:
            for parameter in getattr(full, name).parameters():
                if variant == "gated" or name != "key":  # the source scores use the paper's keys
                    parameter.zero_()
    full.load_state_dict(layer.state_dict(), strict=False)
    x = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    torch.testing.assert_close(layer(graph, x), full(graph, x), rtol=0, atol=1e-10)
    for parameter in layer.parameters():
        assert parameter.numel()
    layer(graph, x).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize("function", ["identity", "sigmoid", "tanh"])
def test_source_functions(function, graph):
    """Each function is applied to the scores of a layer with known maps."""
    layer = make_layer("gated", {"all": 1}, token2token=False, gate=False, source_function=function, bound=2.0)
    x = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    v = F.elu(layer.value(x))
    scores = layer.source_outer(F.elu(layer.source_inner(v.unsqueeze(0)))).squeeze(0)
    scores = {"identity": scores, "sigmoid": scores.sigmoid(), "tanh": 2 * torch.tanh(scores / 2)}[function]
    for own in torch.tensor([length + 1 for length in LENGTHS]).cumsum(0).tolist()[:1]:
        expected = (scores[:own].softmax(0) * v[:own]).sum(0)
        torch.testing.assert_close(layer(graph, x)[:own], expected.expand(own, -1))


def test_weights_of_each_relation(graph):
    layer, seen = make_layer("gated"), {}
    out = layer(graph, torch.randn(graph.num_nodes(), 6, dtype=torch.float64), weights=seen)
    assert {relation: tuple(w.shape) for relation, w in seen.items()} == {
        relation: (Edges.of(graph, relation).num_edges, count) for relation, count in layer.heads.items()
    }
    assert out.shape == (graph.num_nodes(), 20)


def test_dropout_only_in_training(graph):
    layer = make_layer("gated", dropout=0.5, attn_drop=0.5)
    x = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    assert not torch.equal(layer(graph, x), layer(graph, x))
    layer.eval()
    assert torch.equal(layer(graph, x), layer(graph, x))


def test_autocast(graph):
    layer = TensorizedAttention(6, 4, ORDER, variant="gated")
    x = torch.randn(graph.num_nodes(), 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(graph, x)
    torch.testing.assert_close(out.float(), layer(graph, x), rtol=0, atol=0.05)
    out.float().sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heads", {"all": 0}),
        ("in_feats", 0),
        ("dropout", 1.0),
        ("attn_drop", -0.1),
        ("variant", "open"),
        ("activation", "gelu"),
        ("source_function", "log-sigmoid"),
        ("scale_function", "relu"),
        ("bound", 0.0),
    ],
)
def test_invalid_options(name, value):
    with pytest.raises(ConfigError) as caught:
        TensorizedAttention(**{"in_feats": 6, "head_feats": 4, "heads": {"all": 1}, name: value})
    assert caught.value.options == (name,)


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


def test_the_backend_option_is_used():
    graph = TextGraphBuilder([Complete()], cls=False).text_batch([["a", "b"]])
    with pytest.raises(BackendError, match="none"):
        TensorizedAttention(5, 4, {"all": 2}, backend="none")(graph, torch.randn(2, 5))


@pytest.mark.parametrize(("variant", "function"), [("paper", "identity"), ("gated", "log-sigmoid")])
def test_default_scale_function_of_each_variant(variant, function):
    assert TensorizedAttention(5, 4, {"all": 2}, variant=variant).scale_function == function
    assert TensorizedAttention(5, 4, {"all": 2}, variant=variant, scale_function="tanh").scale_function == "tanh"


def test_xavier_initialization_per_head():
    torch.manual_seed(0)
    layer = TensorizedAttention(96, 32, {"all": 8})
    bound = math.sqrt(6 / (96 + 32))
    for whole in (layer.value, layer.query, layer.key):
        for weight in whole.weight.chunk(8):
            assert 0.98 * bound < weight.abs().max() <= bound
