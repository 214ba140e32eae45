"""Graph convolution, graph attention and means against dense matrices in double precision, written from the papers."""

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from graphattn import Edges
from graphattn.builders import Dependency, RandomPairs, Sentence, ShuffledGroup, TextGraphBuilder, WordGroup
from graphattn.layers._graph_convolution import GraphAttention, GraphConvolution, NeighbourMean, block_members

RELATIONS = {relation.name: relation for relation in (WordGroup(), ShuffledGroup(2), RandomPairs(), Dependency())}


def sentence_of(random, num_words):
    word_ids = [word for word in range(num_words) for _ in range(random.choice([1, 1, 2, 4]))]
    return Sentence(
        ["x"] * len(word_ids), word_ids=word_ids, heads=[random.randint(0, word) for word in range(num_words)]
    )


def edges_and_adjacency(name, random):
    sentences = [sentence_of(random, count) for count in (0, 5, 1, random.randint(1, 9))]
    relation = RELATIONS[name]
    graph = TextGraphBuilder([relation], cls=random.random() < 0.5).text_batch(sentences)
    sources, targets = Edges.of(graph, name).ends_by_id()
    adjacency = torch.zeros(graph.num_nodes(relation.target), graph.num_nodes(relation.source), dtype=torch.float64)
    adjacency[targets.long(), sources.long()] = 1
    return Edges.of(graph, name), adjacency


def normalized(adjacency):
    roots = torch.diag(adjacency.sum(1) ** -0.5)
    return roots @ adjacency @ roots


@pytest.mark.parametrize("name", RELATIONS)
@settings(max_examples=15, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_convolution(name, random):
    """UMST, Eq. 2, with a second product by the normalised matrix."""
    edges, adjacency = edges_and_adjacency(name, random)
    layer, inputs = (
        GraphConvolution(3).double(),
        torch.randn(len(adjacency), 3, dtype=torch.float64, requires_grad=True),
    )
    matrix = normalized(adjacency)
    expected = matrix @ F.relu(matrix @ inputs @ layer.linear.weight.T)
    actual = layer(edges, inputs)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)
    upstream = torch.randn_like(actual)
    wanted = (inputs, layer.linear.weight)
    mine, theirs = (torch.autograd.grad(out, wanted, upstream) for out in (actual, expected))
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RELATIONS)
@settings(max_examples=15, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_attention(name, random):
    """Velickovic et al. 2018, Eq. 1-5, one head after the other, for all pairs of nodes."""
    edges, adjacency = edges_and_adjacency(name, random)
    layer, inputs = GraphAttention(6, 2).double(), torch.randn(len(adjacency), 6, dtype=torch.float64)
    seen, heads = [], []
    for head in range(2):
        values = inputs @ layer.linear.weight[3 * head : 3 * head + 3].T
        count = len(values)
        pairs = torch.cat([values.unsqueeze(1).expand(-1, count, -1), values.expand(count, -1, -1)], dim=2)
        scores = F.leaky_relu(pairs @ torch.cat([layer.target[head], layer.source[head]]), 0.2)
        weights = scores.masked_fill(adjacency == 0, float("-inf")).softmax(1)
        seen.append(weights[adjacency > 0])
        heads.append(F.elu(weights @ values))
    actual = []
    torch.testing.assert_close(layer(edges, inputs, actual), torch.cat(heads, 1), rtol=0, atol=1e-12)
    torch.testing.assert_close(actual[0], torch.stack(seen, 1), rtol=0, atol=1e-12)
    torch.testing.assert_close(layer(edges, inputs), torch.cat(heads, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", RELATIONS)
def test_mean(name):
    edges, adjacency = edges_and_adjacency(name, Random(3))
    inputs = torch.randn(len(adjacency), 2, dtype=torch.float64)
    expected = adjacency @ inputs / adjacency.sum(1, keepdim=True)
    torch.testing.assert_close(NeighbourMean()(edges, inputs), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layer", [GraphConvolution(4), GraphAttention(4, 2), NeighbourMean()])
@pytest.mark.parametrize("name", ["group", "dependency"])
def test_gradients(layer, name):
    edges, adjacency = edges_and_adjacency(name, Random(5))
    torch.manual_seed(1)
    inputs = torch.randn(len(adjacency), 4, dtype=torch.float64, requires_grad=True)
    layer = layer.double()
    names = [name for name, _ in layer.named_parameters()]

    def run(inputs, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (edges, inputs))

    assert torch.autograd.gradcheck(run, (inputs, *layer.parameters()), fast_mode=True)


def test_block_members():
    edges, _ = edges_and_adjacency("dependency", Random(3))
    assert block_members(edges) is None
    graph = TextGraphBuilder([WordGroup()]).text_batch([Sentence(["a", "b", "c"], word_ids=[0, 0, 1])])
    members = block_members(Edges.of(graph, "group"))
    assert block_members(Edges.of(graph, "group")) is members
    assert members.indptr.tolist() == [0, 1, 3, 4]
    assert members.indices.tolist() == [0, 1, 2, 3]


def test_weights_are_ordered_by_edge_id():
    indptr, indices, ids = (
        torch.tensor([0, 3, 5, 6]),
        torch.tensor([0, 1, 2, 0, 1, 1]),
        torch.tensor([4, 0, 5, 2, 1, 3]),
    )
    plain, named = Edges(indptr, indices, 3), Edges(indptr, indices, 3, ids)
    layer, inputs = GraphAttention(6, 2).double(), torch.randn(3, 6, dtype=torch.float64)
    seen, by_id = [], []
    torch.testing.assert_close(layer(named, inputs, by_id), layer(plain, inputs, seen), rtol=0, atol=1e-12)
    torch.testing.assert_close(by_id[0][ids], seen[0], rtol=0, atol=1e-12)
