"""Multi-scale attention equals the paper's equations; each head sees only its relation."""

import math
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import prune
from torch.testing import assert_close

from graphattn import Edges, MultiScaleAttention
from graphattn._backends.registry import BACKENDS
from graphattn._edges import edges_of
from graphattn.builders import Complete, Dependency, Order, TextGraphBuilder, Window, WordGroup
from graphattn.exceptions import BackendError, ConfigError, GraphError
from graphattn.layers import _multi_scale as layers
from graphattn.layers._linear import Linear

HEADS = {"window:1": 2, "dependency": 2, "window:N/4": 1, "all": 1, "forward": 3, "group": 1}
BUILDER = TextGraphBuilder([Window(1), Window("N/4"), WordGroup(), Dependency("token"), Order(), Complete()])
EXACT = {"rtol": 0.0, "atol": 1e-10}


def make_layer(heads=HEADS, *, dtype=torch.float64, **options):
    torch.manual_seed(0)
    return MultiScaleAttention(6, 4, heads, **options).to(dtype).eval()


def equations(layer, masks, inputs):
    """Eq. 6, 8 and 9 with dense matrices; the mask of a relation is its context function C (Eq. 7)."""
    query, key, value = (
        inputs @ w.T + b for w, b in zip(layer.project.weight.chunk(3), layer.project.bias.chunk(3), strict=True)
    )
    heads, width = [], layer.head_feats
    for number, relation in enumerate(name for name, count in layer.heads.items() for _ in range(count)):
        own = slice(number * width, (number + 1) * width)
        scores = (query[:, own] @ key[:, own].T / math.sqrt(width)).masked_fill(~masks[relation], float("-inf"))
        weights = scores.softmax(-1).nan_to_num(0.0)  # a row that sees nothing
        heads.append(weights @ value[:, own])
    return torch.cat(heads, dim=1) @ layer.output.weight.T + layer.output.bias


@pytest.fixture(scope="module")
def masks_of(edge_table):
    """For one sentence, relation -> (N, N) mask of its edges."""

    def compute(sentence):
        count = len(sentence) + 1
        actual = {}
        for relation in HEADS:
            actual[relation] = torch.zeros(count, count, dtype=torch.bool)
            for here, there, *_ in edge_table(("token", relation, "token"), sentence, True):
                actual[relation][here, there] = True
        return actual

    return compute


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("backend", "dtype", "tolerance"),
    [(name, torch.float64, 1e-10) for name in ("auto", *BACKENDS)] + [("auto", torch.float32, 1e-5)],
)
def test_long_sentences_agree_with_the_equations(random_sentence, masks_of, seed, backend, dtype, tolerance):
    random = Random(seed)
    sentence = random_sentence(random, random.choice([1, 5, 40, 118]))
    layer = make_layer(dtype=dtype, backend=backend)
    inputs = torch.randn(len(sentence) + 1, 6, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    exact = equations(make_layer(), masks_of(sentence), inputs.double())
    assert_close(layer(BUILDER.text_batch([sentence]), inputs).double(), exact, rtol=tolerance, atol=tolerance)


@settings(max_examples=30)
@given(random=st.randoms(use_true_random=False), sizes=st.lists(st.integers(0, 8), min_size=1, max_size=4))
def test_batches_agree_with_the_equations_sentence_by_sentence(random_sentence, masks_of, random, sizes):
    sentences = [random_sentence(random, size) for size in sizes]
    layer = make_layer()
    inputs = torch.randn(sum(map(len, sentences)) + len(sentences), 6, dtype=torch.float64)
    together = layer(BUILDER.text_batch(sentences), inputs)
    parts = inputs.split([len(sentence) + 1 for sentence in sentences])
    expected = [equations(layer, masks_of(s), part) for s, part in zip(sentences, parts, strict=True)]
    assert_close(together, torch.cat(expected), **EXACT)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_outputs_do_not_depend_on_the_rest_of_the_batch(random_sentence, dtype, tolerance):
    sentences = [random_sentence(Random(seed), 5 + 7 * seed) for seed in range(6)]
    layer = make_layer(dtype=dtype)
    inputs = [torch.randn(len(sentence) + 1, 6, dtype=dtype) for sentence in sentences]
    alone = [layer(BUILDER.text_batch([s]), x) for s, x in zip(sentences, inputs, strict=True)]
    for order in ([0, 1, 2, 3, 4, 5], [5, 3, 1], [2, 2, 0]):
        together = layer(BUILDER.text_batch([sentences[i] for i in order]), torch.cat([inputs[i] for i in order]))
        assert_close(together, torch.cat([alone[i] for i in order]), rtol=0, atol=tolerance)


def test_unneeded_queries_and_keys_are_not_projected(monkeypatch, random_sentence):
    layer = make_layer({"window:N/4": 1, "window:1": 2, "dependency": 1})
    graph = BUILDER.text_batch([random_sentence(Random(3), 40)])
    inputs = torch.randn(graph.num_nodes("token"), 6, dtype=torch.float64)
    upstream = torch.randn_like(inputs)

    def run():
        own = inputs.clone().requires_grad_()
        out = layer(graph, own)
        return [out, *torch.autograd.grad((out * upstream).sum(), [own, *layer.parameters()])]

    monkeypatch.setattr(layers, "MIN_NODES", 10**9)
    in_full = run()
    monkeypatch.setattr(layers, "MIN_NODES", 0)
    whole = Linear.forward

    def forward(module, given):
        assert module is not layer.project, "the module is not called"
        return whole(module, given)

    monkeypatch.setattr(Linear, "forward", forward)
    for one, two in zip(in_full, run(), strict=True):
        assert_close(one, two, **EXACT)


def test_a_head_sees_its_relation_only(random_sentence, masks_of):
    """Without W_O, which mixes heads, a changed token changes exactly the tokens to which it has edges."""
    sentence = random_sentence(Random(3), 9)
    masks, graph = masks_of(sentence), BUILDER.text_batch([sentence])
    layer = make_layer(out_feats=40)
    with torch.no_grad():
        layer.output.weight.copy_(torch.eye(40))
    inputs = torch.randn(len(sentence) + 1, 6, dtype=torch.float64)
    before = layer(graph, inputs)
    names = [name for name, count in layer.heads.items() for _ in range(count)]
    for token in range(len(inputs)):
        changed = inputs.clone()
        changed[token] += 1.0
        moved = (layer(graph, changed) - before).view(len(inputs), len(names), 4).abs().amax(-1) > 1e-9
        for head, name in enumerate(names):
            reached = masks[name][:, token].clone()
            reached[token] |= name not in ("window:1",) and bool(masks[name][token].sum() > 1)
            assert moved[:, head].tolist() == reached.tolist(), name


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_weights_of_each_relation_and_head(random_sentence, backend):
    graph = BUILDER.text_batch([random_sentence(Random(seed), 12) for seed in range(3)])
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    layer, weights = make_layer(backend=backend), {}
    out = layer(graph, inputs, weights=weights)
    assert_close(out, layer(graph, inputs), **EXACT)
    assert list(weights) == list(HEADS)
    for relation, each in weights.items():
        edges = Edges.of(graph, relation)
        assert each.shape == (edges.num_edges, HEADS[relation])
        totals = torch.zeros(len(inputs), HEADS[relation], dtype=torch.float64)
        totals.index_add_(0, edges.ends_by_id()[1], each)
        assert_close(totals, (edges.indptr.diff() > 0).double()[:, None].expand_as(totals), **EXACT)


def test_order_of_relations_permutes_heads(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    layer = make_layer()
    other = make_layer(dict(reversed(HEADS.items())))
    names = [(name, i) for name, count in layer.heads.items() for i in range(count)]
    places = [names.index((name, i)) for name, count in other.heads.items() for i in range(count)]
    with torch.no_grad():
        for mine, its in ((layer.project.weight, other.project.weight), (layer.project.bias, other.project.bias)):
            its.copy_(mine.view(3, 10, 4, -1)[:, places].reshape(its.shape))
        other.output.weight.copy_(layer.output.weight.view(6, 10, 4)[:, places].reshape(6, 40))
        other.output.bias.copy_(layer.output.bias)
    assert_close(other(graph, inputs), layer(graph, inputs), **EXACT)


def test_scale_multiplies_scores(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    usual, other = make_layer(), make_layer(scale=1.5)
    with torch.no_grad():
        for queries in (usual.project.weight[:40], usual.project.bias[:40]):
            queries.mul_(1.5 * math.sqrt(4))
    assert_close(other(graph, inputs), usual(graph, inputs), **EXACT)


def test_layers_accept_edges(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    edges = edges_of(graph, [*HEADS, "backward"])
    assert all(isinstance(each, Edges) for each in edges.values())
    assert torch.equal(make_layer()(edges, inputs), make_layer()(graph, inputs))


def test_dropout_only_in_training(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    layer = make_layer(attn_drop=0.5)
    assert torch.equal(layer(graph, inputs), make_layer()(graph, inputs))
    layer.train()
    torch.manual_seed(1)
    first = layer(graph, inputs)
    assert not torch.equal(first, layer(graph, inputs))
    torch.manual_seed(1)
    assert torch.equal(first, layer(graph, inputs))


def test_bfloat16(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 30)])
    inputs = torch.randn(graph.num_nodes(), 6)
    exact = make_layer(dtype=torch.float32)(graph, inputs)
    pure = make_layer(dtype=torch.bfloat16)
    assert pure(graph, inputs.bfloat16()).dtype == torch.bfloat16
    assert_close(pure(graph, inputs.bfloat16()).float(), exact, rtol=0.05, atol=0.05)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = make_layer(dtype=torch.float32)(graph, inputs)
    assert_close(mixed.float(), exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("grad", [True, False])
def test_distances_under_autocast(random_sentence, grad):
    graph = BUILDER.text_batch([random_sentence(Random(0), 30)])
    layer = make_layer(dtype=torch.float32, distances={"all": 3, "window:N/4": 2})
    inputs = torch.randn(graph.num_nodes(), 6)
    exact = layer(graph, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(grad):
        mixed = layer(graph, inputs)
    assert_close(mixed.float(), exact, rtol=0.05, atol=0.05)
    if grad:
        mixed.float().sum().backward()
        assert all(parameter.grad is not None for parameter in layer.distance_vectors)


@pytest.mark.parametrize("count", [20, 300])
def test_hooks_and_pruning_of_projections(random_sentence, count):
    graph = BUILDER.text_batch([random_sentence(Random(0), count)])
    inputs = torch.randn(graph.num_nodes(), 6)
    layer = make_layer(dtype=torch.float32)
    plain, seen = layer(graph, inputs), []
    hook = layer.project.register_forward_hook(lambda *_: seen.append(1))
    assert_close(layer(graph, inputs), plain)
    assert seen == [1]
    hook.remove()
    hook = layer.project.register_full_backward_hook(lambda *_: seen.append(2))
    layer(graph, inputs.requires_grad_()).sum().backward()
    assert seen == [1, 2]
    hook.remove()
    layer.project.forward = lambda tokens: seen.append(3) or type(layer.project).forward(layer.project, tokens)
    assert_close(layer(graph, inputs), plain)
    assert seen == [1, 2, 3]
    del layer.project.forward
    layer.zero_grad()
    prune.l1_unstructured(layer.project, "weight", 0.5)
    for _ in range(2):
        layer(graph, inputs).sum().backward()
    assert layer.project.weight_orig.grad.count_nonzero() <= layer.project.weight_mask.count_nonzero()


def test_all_parameters_get_gradients(random_sentence):
    layer = make_layer().train()
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    layer(graph, torch.randn(graph.num_nodes(), 6, dtype=torch.float64)).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())


def test_xavier_initialization_per_matrix():
    torch.manual_seed(0)
    layer = MultiScaleAttention(300, 30, {"all": 10})
    bound = math.sqrt(6 / 600)
    for weight in (*layer.project.weight.chunk(3), layer.output.weight):
        assert weight.shape == (300, 300)
        assert 0.95 * bound < weight.abs().max() <= bound
    assert all((linear.bias == 0).all() for linear in (layer.project, layer.output))
    before = layer.output.weight.clone()
    layer.reset_parameters()
    assert not torch.equal(before, layer.output.weight)


def test_options():
    layer = MultiScaleAttention(6, 4, {"all": 2, "in": 0}, out_feats=5, scale=0.5, bias=False)
    assert list(dict(layer.named_parameters())) == ["project.weight", "output.weight"]
    assert (layer.output.out_features, layer.scale, layer.heads) == (5, 0.5, {"all": 2})
    assert MultiScaleAttention(6, 4, {"all": 1}).scale == 0.5
    assert repr(layer) == "MultiScaleAttention(6 -> 5, heads of 4: all x2)"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("heads", {}),
        ("heads", {"all": 0}),
        ("heads", {"all": 2, "in": -1}),
        ("in_feats", 0),
        ("head_feats", -1),
        ("out_feats", 0),
        ("attn_drop", 1.0),
        ("distances", {"all": 0}),
    ],
)
def test_invalid_options(name, value):
    with pytest.raises(ConfigError) as caught:
        MultiScaleAttention(**{"in_feats": 6, "head_feats": 4, "heads": {"all": 1}, name: value})
    assert caught.value.options == (name,)


WORD = TextGraphBuilder([Window(3)]).text_batch([["a"]])


@pytest.mark.parametrize(
    ("heads", "graph", "shape", "message"),
    [
        ({"group": 1}, WORD, (2, 6), "the graph has no relation 'group'; it has: window:3"),
        (
            {"window:3": 1, "group": 1},
            edges_of(WORD, ["window:3"]),
            (2, 6),
            "the edges of relation 'group' are missing; read them with edges_of(graph, heads)",
        ),
        ({"window:3": 1}, WORD, (2, 5), "inputs has shape (2, 5); expected (nodes, 6)"),
        ({"window:3": 1}, WORD, (1, 2, 6), "inputs has shape (1, 2, 6); expected (nodes, 6)"),
    ],
)
def test_graphs_and_inputs_that_do_not_fit(heads, graph, shape, message):
    with pytest.raises(GraphError) as caught:
        MultiScaleAttention(6, 4, heads)(graph, torch.zeros(shape))
    assert str(caught.value) == message


def test_dropout_with_distances_only_in_training(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    layer = make_layer({"all": 2}, attn_drop=0.5, distances={"all": 2})
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    plain = layer(graph, inputs)
    assert torch.equal(layer(graph, inputs), plain)
    assert not torch.allclose(layer.train()(graph, inputs), plain)


def test_scale_multiplies_scores_with_distances(random_sentence):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    inputs = torch.randn(graph.num_nodes(), 6, dtype=torch.float64)
    layer, doubled = (make_layer({"all": 2}, scale=scale, distances={"all": 2}) for scale in (0.3, 0.6))
    assert not torch.allclose(doubled(graph, inputs), layer(graph, inputs))
    with torch.no_grad():
        for own in (layer, doubled):
            own.distance_vectors[0].normal_(generator=torch.Generator().manual_seed(1))
        layer.project.weight[:8] *= 2  # the queries
    assert_close(doubled(graph, inputs), layer(graph, inputs))


@pytest.mark.parametrize("distances", [None, {"all": 2}])
def test_the_backend_option_is_used(random_sentence, distances):
    graph = BUILDER.text_batch([random_sentence(Random(0), 5)])
    layer = make_layer({"all": 2}, backend="none", distances=distances)
    with pytest.raises(BackendError, match="none"):
        layer(graph, torch.randn(graph.num_nodes(), 6, dtype=torch.float64))


def test_distances_follow_edge_ids():
    indptr, indices, ids = (
        torch.tensor([0, 3, 5, 6]),
        torch.tensor([0, 1, 2, 0, 1, 1]),
        torch.tensor([4, 0, 5, 2, 1, 3]),
    )
    inputs = torch.randn(3, 6, dtype=torch.float64)
    layer = make_layer({"any": 2}, distances={"any": 2})
    plain, named = (layer({"any": Edges(indptr, indices, 3, own)}, inputs) for own in (None, ids))
    assert_close(named, plain)


def test_distances_of_relations_without_heads_are_ignored():
    layer = make_layer({"all": 2, "group": 0}, distances={"all": 1, "group": 2, "window:3": 3})
    assert layer.distances == {"all": 1}
    assert [tuple(vectors.shape) for vectors in layer.distance_vectors] == [(3, 4)]


@pytest.mark.parametrize("distances", [None, {"all": 2}])
def test_weights_are_in_float32_under_autocast(random_sentence, distances):
    graph = BUILDER.text_batch([random_sentence(Random(0), 12)])
    layer, weights = make_layer({"all": 2}, dtype=torch.float32, distances=distances), {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(graph, torch.randn(graph.num_nodes(), 6), weights=weights)
    assert weights["all"].dtype == torch.float32


def test_edges_of_moves_edges_to_the_device():
    graph = TextGraphBuilder([Window(3)]).text_batch([["a"]])
    assert edges_of(graph, ["window:3"], "meta")["window:3"].indptr.device.type == "meta"


def test_heads_on_the_only_relation_of_a_graph():
    batch = TextGraphBuilder([Window(3)]).text_batch([["a", "b"], ["c"]])
    layer, named, inputs, weights = make_layer(2), make_layer({"window:3": 2}), torch.randn(5, 6).double(), {}
    expected = named(batch, inputs)
    assert_close(layer(batch, inputs, weights=weights), expected)
    assert_close(layer(edges_of(batch, ["window:3"]), inputs), expected)
    assert weights["only"].shape == (batch.edges["token", "window:3", "token"].num_edges, 2)
    several = TextGraphBuilder([Window(1), Window(3)]).text_batch([["a", "b"], ["c"]])
    with pytest.raises(GraphError, match="window:1, window:3"):
        layer(several, inputs)


def test_relations_between_other_nodes():
    """They equal a relation among the nodes of both sides."""
    sources, destinations = torch.tensor([3, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
    between = Edges.of_pairs(sources, destinations, 4, 3)
    among = Edges.of_pairs(sources, destinations + 4, 7, 7)
    layer, inputs, weights = make_layer({"a": 1, "b": 2}), torch.randn(7, 6).double(), {}
    out = layer({"a": between, "b": between}, (inputs[:4], inputs[4:]), weights=weights)
    assert_close(out, layer({"a": among, "b": among}, inputs)[4:])
    assert [tuple(part.shape) for part in weights.values()] == [(4, 1), (4, 2)]
    for pair in (inputs[:4], (inputs[4:], inputs[:4]), (inputs[:4, :5], inputs[4:, :5])):
        with pytest.raises(GraphError):
            layer({"a": between, "b": between}, pair)
    with pytest.raises(GraphError, match="same nodes"):
        make_layer({"a": 1}, distances={"a": 2})({"a": between}, (inputs[:4], inputs[4:]))


def test_plain_graphs_and_blocks_of_dgl(dgl):
    layer, inputs = make_layer(2), torch.randn(3, 6).double()
    graph = dgl.graph(([0, 1, 2, 2], [2, 2, 1, 0]), num_nodes=3)
    expected = layer(graph, inputs)
    assert_close(make_layer({"_E": 2})(graph, inputs), expected)
    block = dgl.to_block(dgl.in_subgraph(graph, [2, 1]), torch.tensor([2, 1]))
    pair = inputs[block.srcdata[dgl.NID]], inputs[block.dstdata[dgl.NID]]
    assert_close(layer(block, pair), expected[[2, 1]])
