"""Encoders by name, by plain values, by options."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from graphattn.builders import Sentence, TextGraphBuilder
from graphattn.exceptions import ConfigError
from graphattn.layers._linear import MIN_ROWS
from graphattn.models import _encoders as encoders
from graphattn.models._encoders import (
    ENCODERS,
    BiLSTMEncoder,
    BiLSTMOptions,
    DuoOptions,
    DuoTransformerOptions,
    EncoderOptions,
    MSTransOptions,
    MTSAOptions,
    MultiStageOptions,
    MUSEOptions,
    TNTOptions,
    TransformerOptions,
    UMSTOptions,
    encoder_options,
    make_encoder,
    register_encoder,
)


def test_lists_become_tuples():
    options = encoder_options({"name": "ms-trans", "scales": ["1", "N/4"], "relations": ["group:1"]})
    assert options == MSTransOptions(scales=("1", "N/4"), relations=("group:1",))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("lstm", "encoder 'lstm' does not exist; did you mean 'bilstm'? choose one of: " + ", ".join(ENCODERS)),
        (
            {"hidden": 3},
            "encoder {'hidden': 3} has no name; give a name such as 'ms-trans', options such as "
            "MSTransOptions(hidden=64), or plain values with a 'name'",
        ),
        ({"name": "bilstm", "heads": 3}, "BiLSTMOptions has no option 'heads'; it has: dropout, hidden, layers"),
    ],
)
def test_unknown_encoders(given, message):
    with pytest.raises(ConfigError) as caught:
        encoder_options(given)
    assert str(caught.value) == message


def test_registered_encoder(monkeypatch):
    class EchoOptions(EncoderOptions):
        name = "echo"

    monkeypatch.setattr(encoders, "ENCODERS", dict(ENCODERS))
    register_encoder(EchoOptions, BiLSTMEncoder)
    register_encoder(EchoOptions, BiLSTMEncoder)  # as if a module was reloaded
    assert type(encoder_options("echo")) is EchoOptions
    assert isinstance(make_encoder(EchoOptions(hidden=4, layers=1)), BiLSTMEncoder)
    with pytest.raises(ConfigError, match="encoder 'echo' exists already"):
        register_encoder(type("Other", (EncoderOptions,), {"name": "echo"}), BiLSTMEncoder)


SIZES = {"hidden": 12, "layers": 2, "heads": 3, "ffn": 8}
OPTIONS = [
    MSTransOptions(
        hidden=12, heads=5, head_feats=4, layers=3, alpha=1.0, scales=("1", "3", "N/2", "N"), relations=("star:2",)
    ),
    MSTransOptions(hidden=12, layers=2, heads="window:3=2,dependency=1"),
    MTSAOptions(hidden=12, heads=4, layers=1),
    MTSAOptions(hidden=12, heads=4, layers=2, masks=("all", "window:3")),
    DuoOptions(hidden=12, parts=("4", "8")),
    DuoOptions(hidden=12, window="3"),
    DuoOptions(hidden=12, softmax=False),
    DuoTransformerOptions(hidden=6, heads=3, layers=2, ffn=8),
    UMSTOptions(**SIZES),
    UMSTOptions(**SIZES, graph_layer="gat", groups="shuffled"),
    UMSTOptions(**SIZES, graph_layer="gat", inter_group=False),
    UMSTOptions(**SIZES, graph_layer="mean", intra_group=False, share_scores=True),
    TNTOptions(**SIZES),
    MultiStageOptions(**SIZES),
    MUSEOptions(**SIZES),
    TransformerOptions(**SIZES),
    BiLSTMOptions(hidden=12, layers=1),
]


def test_every_encoder_is_a_choice():
    assert {options.name for options in OPTIONS} == set(ENCODERS)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
def test_weights_on_request(options, double_encoder, encode):
    """One for each edge and head; the weights of a target sum to one, and the states are the same without them."""
    encoder, layers = double_encoder(options), []
    graph, _, states = encode(encoder, 12, weights=layers)
    heads = Counter()
    for relation, weights in (own for layer in layers for own in layer.items()):
        heads[relation] += weights.shape[1]
        parts = next(own.parts() for own in encoder.relations() if relation in {part.name for part in own.parts()})
        edges = [graph.edges[part.canonical] for part in parts if part.name == relation]
        assert len(weights) == sum(own.num_edges for own in edges)
        if len(edges) == 1:
            targets = edges[0].ends_by_id()[1].long()
            sums = torch.zeros(edges[0].num_destinations, weights.shape[1]).double().index_add(0, targets, weights)
            torch.testing.assert_close(sums[targets], torch.ones_like(sums[targets]))
    assert encoder.heads_along() == dict(heads)
    torch.testing.assert_close(torch.cat(states), torch.cat(encode(encoder, 12)[2]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_batch_equals_its_texts_alone(options, double_encoder, encode, sentences):
    encoder = double_encoder(options)
    builder = TextGraphBuilder(encoder.relations())
    _, inputs, outputs = encode(encoder, 12)
    for sentence, tokens, together in zip(sentences, inputs, outputs, strict=True):
        torch.testing.assert_close(encoder(builder.text_batch([sentence]), tokens), together, rtol=0, atol=1e-9)


MASKS = ("star", "binary:1", "all:word", "in", "all,all", "relative:2(forward),backward")
MASKS += ("forward,reverse(relative:2(forward))",)
HEADS = ["hidden", "heads", "head_feats"]
INVALID = [
    (BiLSTMOptions, {"hidden": 7}, ["hidden"]),
    (DuoOptions, {"layers": 2}, ["layers"]),
    (DuoOptions, {"fusion": 0}, ["fusion"]),
    (DuoOptions, {"parts": ("300",)}, ["parts"]),
    (DuoOptions, {"parts": ("a", "2")}, ["parts"]),
    (DuoOptions, {"window": "5", "softmax": False}, ["softmax", "window"]),
    (DuoTransformerOptions, {"hidden": 301}, ["hidden", "heads"]),
    (DuoTransformerOptions, {"parts": ("3",)}, ["parts"]),
    (DuoTransformerOptions, {"parts": ("3", "0")}, ["parts"]),
    (MSTransOptions, {"scales": ()}, ["scales"]),
    (MSTransOptions, {"scales": ("3", "3")}, ["scales", "alpha"]),
    (MSTransOptions, {"scales": ("4",)}, ["scales"]),
    (MSTransOptions, {"scales": ("linear_branch",)}, ["scales"]),
    (MSTransOptions, {"hidden": 301}, HEADS),
    (MSTransOptions, {"heads": 0}, ["heads"]),
    (MSTransOptions, {"head_feats": 0}, ["head_feats"]),
    (MSTransOptions, {"layers": 0}, ["layers"]),
    (MSTransOptions, {"dropout": 1.0}, ["dropout"]),
    (MSTransOptions, {"attn_drop": -0.1}, ["attn_drop"]),
    (MSTransOptions, {"scales": ("3", "1")}, ["scales", "alpha"]),
    (MSTransOptions, {"scales": ("3", "N/4", "9", "N/8")}, ["scales", "alpha"]),
    (MSTransOptions, {"score_scale": "none"}, ["score_scale"]),
    (MSTransOptions, {"relations": ("dependency",)}, ["relations"]),
    (MSTransOptions, {"relation_labels": "bias"}, ["relation_labels", "relations"]),
    (MSTransOptions, {"relations": ("random:4:syntax",)}, ["relations"]),
    (MSTransOptions, {"relations": ("window:3:1",)}, ["relations", "scales"]),
    (MSTransOptions, {"relations": ("group:1", "group:2")}, ["relations"]),
    (MSTransOptions, {"heads": "reverse(relative:2(forward))=2"}, ["heads"]),
    (MSTransOptions, {"heads": "window:3|global=2,within-words(window:9&(relative:3(all)|global))=1"}, ["heads"]),
    (MSTransOptions, {"heads": "window:3=3,star=4"}, HEADS),
    (MTSAOptions, {"heads": 0}, ["heads"]),
    (MTSAOptions, {"head_feats": 0}, ["head_feats"]),
    (MTSAOptions, {"heads": 3}, ["heads", "masks"]),
    (MTSAOptions, {"masks": ()}, ["masks"]),
    *((MTSAOptions, {"masks": tuple(masks.split(","))}, ["masks"]) for masks in MASKS),
    *((MTSAOptions, {"heads": {name: 1}}, ["heads"]) for name in MASKS[:3]),
    (MTSAOptions, {"bound": 0.0}, ["bound"]),
    (MTSAOptions, {"attn_drop": 1}, ["attn_drop"]),
    (MTSAOptions, {"variant": "open"}, ["variant"]),
    (MTSAOptions, {"layers": 2, "head_feats": 100}, ["heads", "head_feats", "layers", "hidden"]),
    (MTSAOptions, {"block": "srl", "head_feats": 100}, ["heads", "head_feats", "block", "hidden"]),
    (MTSAOptions, {"source_maps": 3}, ["source_maps"]),
    (MultiStageOptions, {"heads": 7}, ["hidden", "heads"]),
    *((MUSEOptions, {"kernels": kernels}, ["kernels"]) for kernels in (("4",), ("3", "3"), ("0",), ("a",))),
    (TNTOptions, {"heads": 7}, ["hidden", "heads"]),
    (TransformerOptions, {"hidden": 301}, ["hidden", "heads"]),
    (TransformerOptions, {"ffn": 0}, ["ffn"]),
    (TransformerOptions, {"attn_drop": 1}, ["attn_drop"]),
    (UMSTOptions, {"heads": 5}, ["hidden", "heads"]),
    (UMSTOptions, {"graph_seed": -1}, ["graph_seed"]),
    (UMSTOptions, {"relative_positions": 0}, ["relative_positions"]),
    (UMSTOptions, {"graph_layer": "cnn"}, ["graph_layer"]),
    (UMSTOptions, {"upsampling": "cubic"}, ["upsampling"]),
    (UMSTOptions, {"map_fusion": "max"}, ["map_fusion"]),
]


@pytest.mark.parametrize(("encoder", "options", "named"), INVALID)
def test_invalid_options(encoder, options, named):
    with pytest.raises(ConfigError) as caught:
        encoder(**options).validate()
    assert list(caught.value.options) == named


@pytest.mark.parametrize(
    ("parts", "widths", "of_files", "named"),
    [
        ((), [300], True, ["vectors", "combine"]),
        ((), [1], False, ["vectors"]),
        (("3", "4"), [9], False, ["parts"]),
        ((3, 4), [9], False, ["parts"]),
    ],
)
def test_sets_of_word_vectors_that_do_not_fit(parts, widths, of_files, named):
    with pytest.raises(ConfigError) as caught:
        DuoOptions(parts=parts).for_parts(widths, of_files=of_files)
    assert list(caught.value.options) == named


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", OPTIONS)
def test_states_and_gradients_in_the_precision_of_the_parameters(options, dtype):
    """Of so many tokens that linear layers use another algorithm, and sums would stop growing in bfloat16."""
    sentence, count = Sentence(["a"] * 30, word_ids=[0, 0, *range(1, 29)], heads=range(29)), 100
    torch.manual_seed(3)
    encoder = make_encoder(options).to(dtype).eval()
    tokens = torch.randn(31, 12, dtype=dtype, requires_grad=True)
    assert 31 * count > MIN_ROWS
    upper = 0.01 * torch.randn(encoder.width, dtype=torch.float64)

    def run(encoder, count, tokens):
        graph = TextGraphBuilder(encoder.relations()).text_batch([sentence] * count)
        states = encoder(graph, tokens.repeat(count, 1))
        names, variables = zip(("tokens", tokens), *encoder.named_parameters(), strict=True)
        gradients = torch.autograd.grad((states.double() * upper).sum(), variables, allow_unused=True)
        return states, {name: value for name, value in zip(names, gradients, strict=True) if value is not None}

    states, gradients = run(encoder, count, tokens)
    exact_states, exact_gradients = run(encoder.double(), 1, tokens.double())
    assert {states.dtype, *(gradient.dtype for gradient in gradients.values())} == {dtype}
    assert distance(states[:31], exact_states) < 3 * torch.finfo(dtype).eps
    largest = max(gradient.norm() for gradient in exact_gradients.values())
    exact = {name: count * gradient for name, gradient in exact_gradients.items() if gradient.norm() > largest / 100}
    for name, gradient in exact.items():
        assert distance(gradients[name], gradient) < (1e-3 if dtype == torch.float32 else 0.2), name


def distance(actual, exact):
    return (actual.double() - exact).norm() / exact.norm()


@pytest.mark.parametrize(
    "options",
    [
        UMSTOptions(graph_layer="gat"),
        UMSTOptions(upsampling="linear", normalize=True),
        UMSTOptions(map_fusion="gate", relative_positions=1),
        UMSTOptions(map_fusion="sum"),
        MUSEOptions(kernels=()),
    ],
    ids=str,
)
def test_gradients_equal_finite_differences(options, double_encoder):
    encoder = double_encoder(replace(options, hidden=4, layers=1, heads=2, ffn=4))
    sentence = Sentence(["x"] * 4, word_ids=[0, 0, 1, 2], heads=[2, 0, 2])
    graph = TextGraphBuilder(encoder.relations()).text_batch([sentence])
    names = [name for name, _ in encoder.named_parameters()]
    torch.manual_seed(2)
    tokens = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)

    def run(tokens, *parameters):
        return torch.func.functional_call(encoder, dict(zip(names, parameters, strict=True)), (graph, tokens))

    assert torch.autograd.gradcheck(run, (tokens, *encoder.parameters()), fast_mode=True)


KINDS = ("dropout", "ffn_dropout", "attn_drop")
DROPPING = [
    (name, layers, kind)
    for name in ENCODERS
    for layers in (1, 2)
    for kind in KINDS
    if hasattr(encoder_options(name), kind) and (name, layers) not in {("duo", 2), ("bilstm", 1)}
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layers", "kind"), DROPPING)
def test_each_dropout_alone_in_training_only(name, layers, kind):
    options = replace(encoder_options(name), hidden=20, layers=layers)
    options = replace(options, **{own: 0.5 * (own == kind) for own in KINDS if hasattr(options, own)})
    if name == "mtsa":
        options = replace(options, head_feats=10, block="transformer" if kind == "ffn_dropout" else "plain")
    encoder = make_encoder(options)
    graph = TextGraphBuilder(encoder.relations()).text_batch([Sentence(["x"] * 9, heads=range(9))])
    tokens = torch.randn(10, 20 * options.streams)
    assert not torch.equal(encoder.train()(graph, tokens), encoder(graph, tokens))
    assert torch.equal(encoder.eval()(graph, tokens), encoder(graph, tokens))
