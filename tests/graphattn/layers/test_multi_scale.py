"""Multi-scale attention equals the paper's equations; each head sees only its relation."""

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils import prune
from torch.testing import assert_close

from graphattn import Edges, MultiScaleAttention
from graphattn._edges import edges_of
from graphattn.builders import Complete, Dependency, Order, TextGraphBuilder, Window, WordGroup
from graphattn.exceptions import GraphError
from graphattn.layers._linear import Linear
from graphattn.layers._multi_scale import MIN_NODES

HEADS = {"window:1": 2, "dependency": 2, "window:N/4": 1, "all": 1, "forward": 3, "group": 1}
BUILDER = TextGraphBuilder([Window(1), Window("N/4"), WordGroup(), Dependency("token"), Order(), Complete()])
EXACT = {"rtol": 0.0, "atol": 1e-10}
BACKENDS = ("auto", "dgl", "fused", "torch")


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
        scores = (query[:, own] @ key[:, own].T * layer.scale).masked_fill(~masks[relation], float("-inf"))
        weights = scores.softmax(-1).nan_to_num(0.0)  # a row that sees nothing
        heads.append(weights @ value[:, own])
    return torch.cat(heads, dim=1) @ layer.output.weight.T + layer.output.bias


@pytest.fixture(scope="module")
def masks_of(mask_of_sentences):
    """The mask of each relation in one sentence."""
    return lambda sentence: {name: mask_of_sentences(("token", name, "token"), sentence) for name in HEADS}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("backend", "dtype", "tolerance"),
    [(name, torch.float64, 1e-10) for name in BACKENDS] + [("auto", torch.float32, 1e-5)],
)
def test_long_sentences_agree_with_the_equations(random_sentence, masks_of, seed, backend, dtype, tolerance):
    random = Random(seed)
    sentence = random_sentence(random, random.choice([1, 5, 40, 118]))
    layer = make_layer(dtype=dtype, backend=backend)
    inputs = torch.randn(len(sentence) + 1, 6, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    exact = equations(make_layer(), masks_of(sentence), inputs.double())
    assert_close(layer(BUILDER.text_batch([sentence]), inputs).double(), exact, rtol=tolerance, atol=tolerance)


@settings(max_examples=30)
@given(
    random=st.randoms(use_true_random=False),
    sizes=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    scale=st.sampled_from([None, 1.5]),
)
def test_batches_agree_with_the_equations_sentence_by_sentence(random_sentence, masks_of, random, sizes, scale):
    sentences = [random_sentence(random, size) for size in sizes]
    layer = make_layer(scale=scale)
    lengths = [len(sentence) + 1 for sentence in sentences]
    inputs = torch.randn(sum(lengths), 6, dtype=torch.float64, requires_grad=True)
    together = layer(BUILDER.text_batch(sentences), inputs)
    rows = zip(sentences, inputs.split(lengths), strict=True)
    expected = torch.cat([equations(layer, masks_of(sentence), part) for sentence, part in rows])
    assert_close(together, expected, **EXACT)
    upstream, leaves = torch.randn_like(expected), (inputs, *layer.parameters())
    actual, wanted = (torch.autograd.grad(out, leaves, upstream) for out in (together, expected))
    for mine, theirs in zip(actual, wanted, strict=True):
        assert_close(mine, theirs, rtol=0, atol=1e-9)


def test_unneeded_queries_and_keys_are_not_projected(monkeypatch, random_sentence):
    layer = make_layer({"window:N/4": 1, "window:1": 2, "dependency": 1})
    graph = BUILDER.text_batch([random_sentence(Random(3), MIN_NODES)])
    inputs = torch.randn(graph.num_nodes("token"), 6, dtype=torch.float64)
    upstream = torch.randn_like(inputs)

    def run():
        own = inputs.clone().requires_grad_()
        out = layer(graph, own)
        return [out, *torch.autograd.grad((out * upstream).sum(), [own, *layer.parameters()])]

    hook = layer.project.register_forward_hook(lambda *_: None)  # a module with hooks is called
    in_full = run()
    hook.remove()
    whole = Linear.forward

    def forward(module, given):
        assert module is not layer.project, "the module is not called"
        return whole(module, given)

    monkeypatch.setattr(Linear, "forward", forward)
    for one, two in zip(in_full, run(), strict=True):
        assert_close(one, two, **EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
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


def test_options():
    layer = MultiScaleAttention(6, 4, {"all": 2, "in": 0}, out_feats=5, scale=0.5, bias=False)
    assert list(dict(layer.named_parameters())) == ["project.weight", "output.weight"]
    assert (layer.output.out_features, layer.scale, layer.heads) == (5, 0.5, {"all": 2})
    assert MultiScaleAttention(6, 4, {"all": 1}).scale == 0.5
    assert repr(layer) == "MultiScaleAttention(6 -> 5, heads of 4: all x2)"


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


class TestKindsOfEdges:
    """Each head learns a bias and a vector for each kind of edge."""

    NODES, KINDS = 7, 5

    @pytest.fixture
    def graph(self):
        """Sources and destinations of edges, and their kinds."""
        torch.manual_seed(1)
        return torch.randint(0, self.NODES, (2, 20)), torch.randint(0, self.KINDS, (20,))

    @pytest.fixture
    def inputs(self):
        return torch.randn(self.NODES, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def make(self, **options):
        layer = make_layer({"only": 3}, edge_feats={"only": self.KINDS}, **options)
        with torch.no_grad():
            layer.kind_biases[0].normal_()
        return layer

    def dense(self, layer, graph, inputs, dropped=None):
        """TransformerConv's equations (Shi et al. 2021, Eq. 3 and 4) with a bias, edge by edge."""
        (sources, destinations), kinds = graph
        query, key, value = layer.project(inputs).unflatten(1, (3, 3, 4)).unbind(1)
        vectors = layer.kind_vectors[0] if layer.kind_vectors else torch.zeros(self.KINDS, 3, 4, dtype=torch.float64)
        out = torch.zeros(self.NODES, 3, 4, dtype=torch.float64)
        for node in range(self.NODES):
            edges = (destinations == node).nonzero()[:, 0]
            if len(edges):
                kind = vectors[kinds[edges]]
                scores = (query[node] * (key[sources[edges]] + kind)).sum(-1) / 2 + layer.kind_biases[0][kinds[edges]]
                weights = scores.softmax(0) if dropped is None else scores.softmax(0) * dropped[edges]
                out[node] = (weights.unsqueeze(-1) * (value[sources[edges]] + kind)).sum(0)
        return layer.output(out.flatten(1))

    @pytest.mark.parametrize("vectors", [False, True])
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_states_and_gradients_agree_with_the_equations(self, graph, inputs, backend, vectors):
        layer = self.make(edge_vectors=vectors, backend=backend)
        weights = {}
        for rows in (inputs, (inputs, inputs)):
            out = layer(graph[0], rows, edge_feats={"only": graph[1]}, weights=weights)
            assert_close(out, self.dense(layer, graph, inputs), **EXACT)
        sums = torch.zeros(self.NODES, 3, dtype=torch.float64).index_add(0, graph[0][1], weights["only"])
        assert_close(sums[graph[0][1].unique()], torch.ones_like(sums[graph[0][1].unique()]))
        parameters = list(layer.parameters())
        upstream = torch.randn(self.NODES, 6, dtype=torch.float64)
        found, expected = (
            torch.autograd.grad(states, parameters, upstream)
            for states in (
                layer(graph[0], inputs, edge_feats={"only": graph[1]}),
                self.dense(layer, graph, inputs),
            )
        )
        assert_close(found, expected, **EXACT)

    def test_it_equals_transformer_conv(self, graph, inputs):
        conv = (
            pytest.importorskip("torch_geometric.nn").TransformerConv(6, 4, 3, edge_dim=5, root_weight=False).double()
        )
        layer = self.make(edge_vectors=True, out_feats=12)
        with torch.no_grad():
            projections = (conv.lin_query, conv.lin_key, conv.lin_value)
            layer.project.weight.copy_(torch.cat([each.weight for each in projections]))
            layer.project.bias.copy_(torch.cat([each.bias for each in projections]))
            layer.output.weight.copy_(torch.eye(12))
            layer.kind_biases[0].zero_()
            layer.kind_vectors[0].copy_(conv.lin_edge.weight.T.unflatten(1, (3, 4)))
        one_hot = torch.nn.functional.one_hot(graph[1], self.KINDS).double()
        assert_close(layer(graph[0], inputs, edge_feats={"only": graph[1]}), conv(inputs, graph[0], one_hot), **EXACT)

    def test_dropout_drops_vectors_with_their_edges(self, graph, inputs):
        layer = self.make(edge_vectors=True, attn_drop=0.5).train()
        torch.manual_seed(3)
        out = layer(graph[0], inputs, edge_feats={"only": graph[1]})
        torch.manual_seed(3)
        dropped = torch.nn.functional.dropout(torch.ones(20, 3, dtype=torch.float64), 0.5)
        assert_close(out, self.dense(layer, graph, inputs, dropped), **EXACT)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda kinds: None, r"edge_feats lacks the kinds of the edges of 'only'"),
            (lambda kinds: {"only": kinds[1:]}, r"edge_feats\['only'\] is torch.int64 \(19,\); expected .* \(20,\)"),
            (lambda kinds: {"only": kinds.double()}, r"is torch.float64 \(20,\); expected whole numbers"),
            (lambda kinds: {"only": kinds + 1}, r"has kinds that are not in 0..4"),
        ],
    )
    def test_kinds_that_do_not_fit(self, graph, inputs, change, message):
        with pytest.raises(GraphError, match=message):
            self.make()(graph[0], inputs, edge_feats=change(graph[1].clamp(min=1).index_fill(0, torch.tensor([0]), 4)))
