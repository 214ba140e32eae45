"""Heads by relation: any relation of the package, against a dense softmax over all nodes in double precision."""

import json

import pytest
import torch

from graphattn.builders import TextGraphBuilder
from graphattn.builders.relations import parse_relation
from graphattn.exceptions import ConfigError
from graphattn.models._encoders import MSTransOptions, encoder_options
from graphattn.models._encoders.relation_heads import parse_heads, parse_relation_heads

from .dense import MSTrans, count_parameters

WIDTH = 12
CASES = [
    "window:3=1,star=2",
    "binary=2,window:1=1",
    "binary:3=1",
    "sentence=2",
    "document=1,sentence=1",
    "star=1,binary:2=1,document=1,global:2|random:2=1",
    "dilated:5:2=1,random:3=2,reverse(forward)=1",
    "within-words(window:5)=1,dependency|window:1=1",
    "relative:2(window:7)=2,relative:1(global|dependency)=1,window:3=1",
    "relative:2(all)=1,star=1",
]


@pytest.mark.slow
@pytest.mark.parametrize("heads", CASES)
def test_heads_equal_the_dense_reference(heads, sentences, double_encoder, encode):
    encoder = double_encoder(MSTransOptions(hidden=WIDTH, layers=3, heads=heads, head_feats=4))
    for sentence, tokens, output in zip(sentences, *encode(encoder, WIDTH)[1:], strict=True):
        expected = MSTrans(encoder, sentence)(tokens, [parse_heads(heads)] * 3)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("heads", [CASES[0], CASES[1], CASES[8], "window:1=1,window:N/4=1,dependency=1"])
def test_gradients_equal_those_of_the_dense_reference(heads, sentences, double_encoder):
    encoder = double_encoder(MSTransOptions(hidden=WIDTH, layers=2, heads=heads, head_feats=4))
    graph = TextGraphBuilder(encoder.relations()).text_batch(sentences)
    torch.manual_seed(5)
    tokens = torch.randn(graph.num_nodes("token"), WIDTH, dtype=torch.float64, requires_grad=True)
    names, variables = zip(("tokens", tokens), *encoder.named_parameters(), strict=True)
    texts = zip(sentences, tokens.split([len(sentence) + 1 for sentence in sentences]), strict=True)
    dense = torch.cat([MSTrans(encoder, sentence)(own, [parse_heads(heads)] * 2) for sentence, own in texts])
    ours, theirs = (torch.autograd.grad((states**3).sum(), variables) for states in (encoder(graph, tokens), dense))
    for name, own, expected in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-9, atol=1e-9, msg=name)


def test_the_star_is_one_softmax_over_neighbours_and_relay(double_encoder, encode):
    encoder = double_encoder(MSTransOptions(hidden=4, layers=2, heads="star=2", head_feats=3))
    layers = []
    graph, _, _ = encode(encoder, 4, weights=layers)
    assert [set(layer) for layer in layers] == [{"star"}] * 2
    kinds = [part.canonical for relation in encoder.relations() for part in relation.parts()]
    weights_of_parts = layers[0]["star"].split([graph.edges[kind].num_edges for kind in kinds])
    by_kind = dict(zip(kinds, weights_of_parts, strict=True))
    sums = {kind: torch.zeros(graph.num_nodes(kind), 2, dtype=torch.float64) for kind in graph.node_counts}
    for kind, weights in by_kind.items():
        sums[kind[2]].index_add_(0, graph.edges[kind].ends_by_id()[1], weights)
    for own in sums.values():
        torch.testing.assert_close(own, torch.ones_like(own))
    assert (by_kind["relay", "star", "token"] > 0).all()


def test_relays_and_spans_connect_distant_tokens(double_encoder):
    """Windows of width 1 connect no tokens; each of these relations connects the first token to the last."""
    words = [["x"] * 30]
    for heads in ("star=1", "binary=1", "sentence=1", "document=1"):
        encoder = double_encoder(MSTransOptions(hidden=WIDTH, layers=4, heads=f"window:1=1,{heads}", head_feats=4))
        graph = TextGraphBuilder(encoder.relations(), cls=False).text_batch(words)
        tokens = torch.randn(30, WIDTH, dtype=torch.float64, requires_grad=True)
        encoder(graph, tokens)[29].sum().backward()
        assert tokens.grad[0].abs().max() > 0, heads


@pytest.mark.parametrize(
    ("heads", "counts"),
    [
        ("window:3=4,dependency=2,star=2,binary=2", {"window:3": 4, "dependency": 2, "star": 2, "binary:1": 2}),
        (" window:n/16 = 1 , random:3=2", {"window:N/16": 1, "random:3": 2}),
        ({"window:3|global": 2, "links": 1}, {"window:3|global:1": 2, "links": 1}),
    ],
)
def test_numbers_of_heads_are_parsed(heads, counts):
    assert parse_heads(heads) == counts
    assert MSTransOptions(hidden=20, heads=heads, head_feats=4).layer_heads() == [counts] * 3


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ("", "heads: '' is not RELATION=HEADS; write window:3=4,dependency=2 for example, or one number"),
        (
            "window:3",
            "heads: 'window:3' is not RELATION=HEADS; write window:3=4,dependency=2 for example, or one number",
        ),
        ("window:3=x", "heads: window:3 has 'x' heads; it must be a whole number of at least 1"),
        ("window:3=0", "heads: window:3 has '0' heads; it must be a whole number of at least 1"),
        ({"star": True}, "heads is {'star': True}; it must be a whole number, or relations with their numbers"),
        ({"star": 1.5}, "heads is {'star': 1.5}; it must be a whole number, or relations with their numbers"),
        ({}, "heads is empty; give relations with their heads, window:3=4 for example"),
        ("binary=1,binary:1=2", "heads repeats binary:1; give it once, with all its heads"),
        ("window:4=1", "heads: relation 'window:4': scale 4 is even; a window has the same reach on both sides: use 5"),
        ("dilated:5=1", "heads: relation 'dilated:5' is written as dilated:SCALE:GAP"),
        ("in=1", "heads: relation 'in' has no edges to tokens"),
        ("dependency:word=1", "heads: relation 'dependency:word' has no edges to tokens"),
        ("reverse(in)=1", "heads: relation 'reverse(in)' starts from word nodes, to which it has no edges"),
    ],
)
def test_invalid_heads(heads, message):
    with pytest.raises(ConfigError) as caught:
        MSTransOptions(heads=heads).validate()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("heads", [10, "window:3=4,star=2", {"window:3": 4, "binary:2": 1}])
def test_options_round_trip_through_json(heads):
    options = MSTransOptions(hidden=20, heads=heads, head_feats=4)
    again = encoder_options(json.loads(json.dumps(options.to_dict())))
    assert again == options
    assert again.layer_heads() == options.layer_heads()
    copied = options.copy()
    assert copied == options
    if isinstance(heads, dict):
        assert copied.heads is not heads


def test_parameters_do_not_depend_on_the_nodes():
    def count(heads):
        return count_parameters(MSTransOptions(hidden=20, heads=heads, head_feats=5, layers=1))

    assert count("window:3=4") == count("star=2,binary=2") == count("document=4")
    assert count("relative:3(window:5)=2,window:3=2") == count("window:3=4") + (2 * 3 + 1) * 5


@pytest.mark.parametrize(
    "relations",
    [("binary:1=2", "star=3", "window:9|global=1"), "binary=2, star=3,window:9|global=1",
     {"binary": 2, "star": 3, "window:9|global": 1}, ("binary:1:2", "star:3", "window:9|global:1:1"),
     ("binary=2", "star:3", "window:9|global=1")],
)  # fmt: skip
def test_every_notation_of_heads_on_more_relations_is_the_same_model(relations):
    heads = {"binary:1": 2, "star": 3, "window:9|global:1": 1}
    assert parse_relation_heads(relations) == heads
    layers = MSTransOptions(scales=("1",), layers=2, relations=relations).layer_heads()
    assert layers == [{"window:1": 10, **heads}] * 2


def test_relation_heads_after_a_colon():
    assert parse_relation_heads(("dependency:2", "group:10")) == {"dependency": 2, "group": 10}
    assert parse_relation_heads(("random:2:7:1", "binary:1:3")) == {"random:2:7": 1, "binary:1": 3}
    assert parse_relation_heads(("star:2", "all:token:1")) == {"star": 2, "all": 1}


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("global:2", "global:2=2 for two heads on it, global=2 for 2 on global:1"),
        ("binary:4", "binary:4=2 for two heads on it, binary=4 for 4 on binary:1"),
        ("random:3:7", "random:3:7=2 for two heads on it, random:3=7 for 7 on random:3"),
        ("dependency:token", "dependency:token=2 for two heads on it"),
        ("window:5", "window:5=2 for two heads on it"),
        ("window:3|global:2", "window:3|global:2=2 for two heads on it, window:3|global=2 for 2 on window:3|global:1"),
    ],
)
def test_a_relation_without_a_number_of_heads_is_an_error(spec, meant):
    with pytest.raises(ConfigError) as caught:
        parse_relation_heads((spec,))
    assert str(caught.value) == f"relations: {spec!r} names a relation and no heads; write {meant}"
    for complete in (f"{spec}=2", f"{spec}:2"):
        assert parse_relation_heads((complete,)) == {parse_relation(spec, on="token").name: 2}
