"""One contract for the layers on graphs: options, dropout, initialization and number types."""

import math

import pytest
import torch

from graphattn import Edges, MultiScaleAttention, TensorizedAttention
from graphattn.builders import Complete, Membership, Order, Sentence, TextGraphBuilder, Window
from graphattn.exceptions import BackendError, ConfigError
from graphattn.layers._graph_convolution import GraphAttention, GraphConvolution
from graphattn.layers._rectified import RectifiedAttention
from graphattn.layers._upsampling import Upsampling

SENTENCES = [
    Sentence(["the", "film", "was", "un", "watch", "able"], word_ids=[0, 1, 2, 3, 3, 3]),
    Sentence(["go"]),
    Sentence(["time", "fli", "es"], word_ids=[0, 1, 1]),
]
RELATIONS = [Window(1), Window(3), Order("forward"), Complete(), Complete("word"), Membership()]
GRAPH = TextGraphBuilder(RELATIONS, cls=False).text_batch(SENTENCES)
EDGES = {name: Edges.of(GRAPH, name) for name in ("window:3", "all", "all:word", "in")}
UPSAMPLING = Upsampling.of("membership", EDGES["in"], *map(GRAPH.batch_num_nodes, ("token", "word")))


def on_graph(layer, inputs, **options):
    return layer(GRAPH, inputs, **options)


def on_edges(layer, inputs, **options):
    return layer(EDGES["all"], inputs, **options)


def on_window(layer, inputs, **options):
    return layer(EDGES["window:3"], inputs, **options)


def with_words(layer, inputs, **options):
    words = inputs[: GRAPH.num_nodes("word")]
    return layer(EDGES["all"], inputs, EDGES["all:word"], words, UPSAMPLING, **options)


def make_multi_scale(**options):
    return MultiScaleAttention(8, 4, {"window:1": 1, "window:3": 1, "all": 2}, **options)


def make_tensorized(**options):
    return TensorizedAttention(8, 4, {"forward": 1, "all": 1}, **options)


def make_rectified(**options):
    return RectifiedAttention(8, 2, **options)


ATTENTION = {
    "multi-scale": (on_graph, make_multi_scale, {}),
    "multi-scale, distances": (on_graph, make_multi_scale, {"distances": {"all": 3, "window:3": 2}}),
    "tensorized, paper": (on_graph, make_tensorized, {}),
    "tensorized, gated": (on_graph, make_tensorized, {"variant": "gated"}),
    "rectified": (with_words, make_rectified, {}),
    "rectified, shared": (with_words, make_rectified, {"shared_scores": True, "relative_positions": 2}),
    "rectified, gate": (with_words, make_rectified, {"fusion": "gate", "word_positions": 1}),
    "rectified, no words": (on_edges, make_rectified, {"words": False}),
    "rectified, no words, distances": (on_edges, make_rectified, {"words": False, "relative_positions": 2}),
}
LAYERS = {
    **ATTENTION,
    "graph attention": (on_window, lambda: GraphAttention(8, 2), {}),
    "convolution": (on_window, lambda: GraphConvolution(8), {}),
    "convolution of blocks": (on_edges, lambda: GraphConvolution(8), {}),
}


@pytest.fixture
def inputs():
    return torch.randn(GRAPH.num_nodes(), 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("run", "make", "options"), ATTENTION.values(), ids=ATTENTION)
def test_dropout_only_in_training(inputs, run, make, options):
    torch.manual_seed(1)
    layer, plain = make(**options, attn_drop=0.5), make(**options)
    plain.load_state_dict(layer.state_dict())
    expected = run(plain, inputs)
    torch.manual_seed(2)
    first, second = run(layer, inputs), run(layer, inputs)
    assert not torch.allclose(first, second)
    assert not torch.allclose(first, expected)
    torch.manual_seed(2)
    assert torch.equal(run(layer, inputs), first)
    assert torch.equal(run(layer.eval(), inputs), expected)


@pytest.mark.parametrize(("run", "make", "options"), ATTENTION.values(), ids=ATTENTION)
def test_the_backend_option_is_used(inputs, run, make, options):
    with pytest.raises(BackendError, match="none"):
        run(make(**options, backend="none"), inputs)


@pytest.mark.parametrize(("run", "make", "options"), LAYERS.values(), ids=LAYERS)
def test_bfloat16(inputs, run, make, options):
    torch.manual_seed(0)
    layer = make(**options)
    exact = run(layer, inputs)
    for records in (True, False):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(records):
            mixed = run(layer, inputs)
        torch.testing.assert_close(mixed.float(), exact, rtol=0.05, atol=0.05)
        if records:
            mixed.float().sum().backward()
            assert all(parameter.grad is not None for parameter in layer.parameters())
    pure = run(layer.bfloat16(), inputs.bfloat16())
    assert pure.dtype == torch.bfloat16
    torch.testing.assert_close(pure.float(), exact, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("name", [name for name in LAYERS if not name.startswith(("tensorized", "convolution"))])
def test_weights_are_in_float32_under_autocast(inputs, name):
    run, make, options = LAYERS[name]
    weights = {} if run is on_graph else []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(make(**options), inputs, weights=weights)
    weights = list(weights.values()) if run is on_graph else weights
    assert {each.dtype for each in weights} == {torch.float32}


@pytest.mark.parametrize(
    ("make", "arguments", "invalid"),
    [
        (MultiScaleAttention, {"in_feats": 6, "head_feats": 4, "heads": {"all": 1}, **wrong}, wrong)
        for wrong in (
            {"heads": {}},
            {"heads": {"all": 0}},
            {"heads": {"all": 2, "in": -1}},
            {"in_feats": 0},
            {"head_feats": -1},
            {"out_feats": 0},
            {"attn_drop": 1.0},
            {"distances": {"all": 0}},
        )
    ]
    + [
        (TensorizedAttention, {"in_feats": 6, "head_feats": 4, "heads": {"all": 1}, **wrong}, wrong)
        for wrong in (
            {"heads": {"all": 0}},
            {"in_feats": 0},
            {"dropout": 1.0},
            {"attn_drop": -0.1},
            {"variant": "open"},
            {"activation": "gelu"},
            {"source_function": "log-sigmoid"},
            {"scale_function": "relu"},
            {"bound": 0.0},
        )
    ]
    + [
        (RectifiedAttention, {"feats": 6, "heads": 2, **wrong}, wrong)
        for wrong in ({"feats": 0}, {"heads": 0}, {"relative_positions": 0}, {"attn_drop": 1.0}, {"fusion": "product"})
    ]
    + [
        (RectifiedAttention, {"feats": 6, "heads": 4}, ("feats", "heads")),
        (GraphAttention, {"feats": 6, "heads": 4}, ("feats", "heads")),
        (GraphAttention, {"feats": 6, "heads": 0}, ("heads",)),
        (GraphAttention, {"feats": 0, "heads": 1}, ("feats",)),
        (GraphConvolution, {"feats": 0}, ("feats",)),
    ],
)
def test_errors_name_the_options(make, arguments, invalid):
    with pytest.raises(ConfigError) as caught:
        make(**arguments)
    assert caught.value.options == tuple(invalid)


@pytest.mark.parametrize(
    ("make", "weights_of", "width"),
    [
        (
            lambda: MultiScaleAttention(300, 30, {"all": 10}),
            lambda layer: [*layer.project.weight.chunk(3), layer.output.weight],
            600,
        ),
        (
            lambda: RectifiedAttention(64, 4),
            lambda layer: [*layer.project.weight.chunk(3), *layer.project_words.weight.chunk(2), layer.output.weight],
            128,
        ),
        (lambda: RectifiedAttention(64, 4, relative_positions=31), lambda layer: [layer.distance_vectors], 63 + 16),
        (
            lambda: TensorizedAttention(96, 32, {"all": 8}),
            lambda layer: [weight for map in (layer.value, layer.query, layer.key) for weight in map.weight.chunk(8)],
            128,
        ),
        (lambda: GraphAttention(64, 4), lambda layer: [layer.linear.weight], 128),
        (lambda: GraphAttention(64, 4), lambda layer: [layer.target, layer.source], 20),
        (lambda: GraphConvolution(64), lambda layer: [layer.linear.weight], 128),
    ],
)
def test_xavier_initialization_of_each_matrix(make, weights_of, width):
    torch.manual_seed(0)
    layer, bound = make(), math.sqrt(6 / width)
    assert all(0.9 * bound < weight.abs().max() <= bound for weight in weights_of(layer))
    assert all((bias == 0).all() for name, bias in layer.named_parameters() if name.endswith("bias"))
