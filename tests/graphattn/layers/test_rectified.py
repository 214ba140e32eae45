"""Rectified attention against its dense formula (UMST, Eq. 1 and 4), written from the paper, in double precision."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from graphattn import Edges
from graphattn.builders import Complete, Membership, Sentence, TextGraphBuilder
from graphattn.layers._rectified import RectifiedAttention
from graphattn.layers._upsampling import METHODS, Upsampling

FEATS, HEADS = 6, 2
texts = st.lists(st.lists(st.integers(1, 3), max_size=6), min_size=1, max_size=4)
"""Sizes of the words of each text."""


class Problem:
    """A batch of texts with random token and word vectors as inputs of the layer."""

    def __init__(self, texts, *, normalize=False, seed=0):
        torch.manual_seed(seed)
        sentences = [
            Sentence(["x"] * sum(sizes), word_ids=[word for word, size in enumerate(sizes) for _ in range(size)])
            for sizes in texts
        ]
        graph = TextGraphBuilder([Complete(), Complete("word"), Membership()], cls=False).text_batch(sentences)
        self.texts, self.normalize = texts, normalize
        self.edges, self.word_edges = Edges.of(graph, "all"), Edges.of(graph, "all:word")
        self.members = Edges.of(graph, "in")
        counts = (graph.batch_num_nodes(kind) for kind in ("token", "word"))
        self.upsampling = Upsampling.of("membership", self.members, *counts, normalize=normalize)
        self.tokens = torch.randn(graph.num_nodes("token"), FEATS, dtype=torch.float64, requires_grad=True)
        self.words = torch.randn(graph.num_nodes("word"), FEATS, dtype=torch.float64, requires_grad=True)

    def run(self, layer, **keywords):
        return layer(self.edges, self.tokens, self.word_edges, self.words, self.upsampling, **keywords)

    def expected(self, layer):
        """Outputs, token maps and word maps, by dense matrices for each text and head."""
        tokens = self.tokens.split([sum(sizes) for sizes in self.texts])
        words = self.words.split([len(sizes) for sizes in self.texts])
        parts = [self._of_text(layer, *of) for of in zip(self.texts, tokens, words, strict=True)]
        return torch.cat([out for out, _, _ in parts]), [maps for _, maps, _ in parts], [maps for _, _, maps in parts]

    def _of_text(self, layer, sizes, tokens, words):
        query, key, value = _project(layer.project, tokens, 3)
        of_words = layer.project_words or layer.project
        word_query, word_key = _project(of_words, words, 2)
        membership = torch.zeros(sum(sizes), len(sizes), dtype=torch.float64)
        word_of = [word for word, size in enumerate(sizes) for _ in range(size)]
        membership[range(len(word_of)), word_of] = 1
        right = membership / membership.sum(0) if self.normalize else membership
        width, outputs, maps, word_maps = FEATS // HEADS, [], [], []
        for head in range(HEADS):
            own = slice(head * width, (head + 1) * width)
            scores = query[:, own] @ key[:, own].T
            if layer.distance_vectors is not None:
                scores = scores + _distance_products(query[:, own], layer.distance_vectors)
            one = (scores / math.sqrt(width)).softmax(1)
            word_scores = word_query[:, own] @ word_key[:, own].T
            if layer.word_distance_vectors is not None:
                word_scores = word_scores + _distance_products(word_query[:, own], layer.word_distance_vectors)
            two = (word_scores / math.sqrt(width)).softmax(1)
            outputs.append(self._fused(layer, tokens, head, one, membership @ two @ right.T) @ value[:, own])
            maps.append(one)
            word_maps.append(two)
        return torch.cat(outputs, 1) @ layer.output.weight.T + layer.output.bias, maps, word_maps

    def _fused(self, layer, tokens, head, one, two):
        """Section 3.4: the sum of the two distributions, average pooling, or a gate."""
        if layer.fusion == "gate":
            gate = torch.sigmoid(tokens @ layer.gate.weight[head] + layer.gate.bias[head]).unsqueeze(1)
            return gate * one + (1 - gate) * two
        return one + two if layer.fusion == "sum" else (one + two) / 2


def _project(linear, nodes, count):
    every = nodes @ linear.weight.T + linear.bias
    return every.split(FEATS, dim=1)[:count]


def _distance_products(query, vectors):
    """Shaw et al. 2018, Eq. 4: q_i a_ij, a_ij the vector of the clipped distance j - i."""
    clip, count = len(vectors) // 2, len(query)
    products = torch.zeros(count, count, dtype=torch.float64)
    for i in range(count):
        for j in range(count):
            products[i, j] = query[i] @ vectors[max(-clip, min(clip, j - i)) + clip]
    return products


def make_layer(**options):
    torch.manual_seed(1)
    layer = RectifiedAttention(FEATS, HEADS, **options).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return layer


OPTIONS = [
    {},
    {"shared_scores": True},
    {"relative_positions": 2},
    {"relative_positions": 2, "word_positions": 1},
    {"fusion": "sum", "word_positions": 3},
    {"fusion": "gate"},
]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=10, deadline=None)
@given(texts=texts, seed=st.integers(0, 9))
def test_outputs_maps_and_gradients(options, normalize, texts, seed):
    problem, layer = Problem(texts, normalize=normalize, seed=seed), make_layer(**options)
    expected, maps, word_maps = problem.expected(layer)
    actual = problem.run(layer)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)
    upstream, wanted = torch.randn_like(actual), (problem.tokens, problem.words, *layer.parameters())
    gradients = (torch.autograd.grad(out, wanted, upstream, materialize_grads=True) for out in (actual, expected))
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)
    seen = []
    torch.testing.assert_close(problem.run(layer, weights=seen), expected, rtol=0, atol=1e-10)
    for own, theirs in zip(seen, (maps, word_maps), strict=True):
        flat = [torch.stack([head.flatten() for head in heads], 1) for heads in theirs]
        torch.testing.assert_close(own, torch.cat(flat), rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", OPTIONS)
def test_gradients_equal_finite_differences(options):
    problem, layer = Problem([[2, 1], [1]]), make_layer(**options)
    names = [name for name, _ in layer.named_parameters()]
    fixed = (problem.edges, problem.word_edges, problem.upsampling)

    def run(tokens, words, *parameters):
        arguments = (fixed[0], tokens, fixed[1], words, fixed[2])
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), arguments)

    assert torch.autograd.gradcheck(run, (problem.tokens, problem.words, *layer.parameters()), fast_mode=True)


def test_without_words_it_equals_ordinary_attention():
    problem, layer = Problem([[1, 1, 1, 1], [1, 1]]), make_layer(words=False)
    assert layer.project_words is None
    query, key, value = _project(layer.project, problem.tokens, 3)
    rows = [tensor.view(-1, HEADS, FEATS // HEADS).transpose(0, 1) for tensor in (query, key, value)]
    texts = [
        torch.nn.functional.scaled_dot_product_attention(*(t[:, own] for t in rows)) for own in (slice(4), slice(4, 6))
    ]
    expected = layer.output(torch.cat(texts, 1).transpose(0, 1).flatten(1))
    torch.testing.assert_close(layer(problem.edges, problem.tokens), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["torch", "dgl", "fused"])
def test_backends_agree(backend):
    problem, layer = Problem([[2, 1, 3], [1, 2]]), make_layer(backend=backend)
    torch.testing.assert_close(problem.run(layer), problem.expected(layer)[0], rtol=0, atol=1e-10)


class Sizes(TorchDispatchMode):
    """Records the number of elements of the largest tensor that PyTorch creates."""

    largest = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [tensor for tensor in tree_leaves(result) if isinstance(tensor, torch.Tensor)]
        self.largest = max([self.largest, *(tensor.numel() for tensor in tensors)])
        return result


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("kind", METHODS)
def test_word_term_needs_no_pairs_of_tokens(kind, normalize):
    """Forward and backward; each token attends only to itself, so the token term has no pairs either."""
    problem, layer = Problem([[4] * 60]), make_layer()
    counts = torch.tensor([240]), torch.tensor([60])
    problem.upsampling = Upsampling.of(kind, problem.members, *counts, normalize=normalize)
    problem.edges = Edges.of_ranges(torch.arange(240), torch.arange(1, 241), 240)
    with Sizes() as sizes:
        problem.run(layer).sum().backward()
    assert 240 * 3 * FEATS <= sizes.largest < 240**2 / 4


def test_edges_are_not_materialized():
    """Complete graphs are kept as ranges."""
    problem = Problem([[2, 1] * 50])
    with Sizes() as sizes:
        problem.run(make_layer()).sum().backward()
    assert sizes.largest < problem.word_edges.num_edges


@pytest.mark.parametrize("shared", [True, False])
def test_hooks_of_projections_are_called(shared):
    problem, layer, calls = Problem([[1, 2, 3], [2]]), make_layer(shared_scores=shared), []
    expected = problem.run(layer)
    for module in (layer.project, layer.project_words, layer.output):
        if module is not None:
            module.register_forward_hook(lambda *_: calls.append(1))
    torch.testing.assert_close(problem.run(layer), expected)
    assert len(calls) == 3


@pytest.mark.parametrize("relative_positions", [None, 2])
@pytest.mark.parametrize("of_words", [True, False])
def test_dropout_on_token_and_word_maps(of_words, relative_positions):
    problem = Problem([[2, 1, 3]])
    layer = make_layer(attn_drop=0.5, words=of_words, relative_positions=relative_positions)
    if of_words:  # tokens see nothing
        problem.edges = Edges(torch.zeros(7, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 6)
    else:
        problem.words = None
    dropped = problem.run(layer)
    assert not torch.equal(problem.run(layer), dropped)
    assert not torch.allclose(problem.run(layer.eval()), dropped)
