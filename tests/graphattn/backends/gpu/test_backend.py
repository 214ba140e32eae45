"""Backend ``triton`` equals a dense float64 reference; without a GPU, in Triton's interpreter."""

import os
from random import Random

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when the kernels are first imported
pytest.importorskip("triton")

from graphattn import Edges, attend, attend_heads
from graphattn.builders import Complete, Dependency, Global, Order, TextGraphBuilder, Window, WordGroup

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RELATIONS = [
    Window(1),
    Window(5),
    Window("N/4"),
    Complete(),
    Order("forward"),
    WordGroup(),
    Dependency("token"),
    Global(),
]
NAMES = [relation.name for relation in RELATIONS]
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in exp2:RuntimeWarning")  # NumPy's, in the interpreter


@pytest.fixture(scope="module")
def graph(random_sentence):
    """Sentences of 0 to 70 words: more than one block of destinations."""
    return TextGraphBuilder(RELATIONS).text_batch([random_sentence(Random(1), size) for size in (3, 0, 70, 1)])


def list_edges(graph):
    return [Edges.of(graph, name).to(DEVICE) for name in NAMES]


def differentiate(function, inputs, dtype):
    """Outputs and gradients of ``function(*inputs)`` in a type, in float64."""
    copies = [tensor.to(DEVICE, dtype).requires_grad_() for tensor in inputs]
    outputs = function(*copies)
    upstream = [torch.linspace(-1, 1, out.numel(), device=DEVICE).view(out.shape).to(dtype) for out in outputs]
    return [tensor.double() for tensor in (*outputs, *torch.autograd.grad(outputs, copies, upstream))]


def assert_equals_reference(function, inputs, dtype=torch.float32):
    """Compare ``function(backend, *inputs)`` in Triton with PyTorch's operations in float64 on the same numbers."""
    inputs = [tensor.to(dtype).double() for tensor in inputs]
    reference = differentiate(lambda *copies: function("torch", *copies), inputs, torch.float64)
    actual = differentiate(lambda *copies: function("triton", *copies), inputs, dtype)
    for expected, result in zip(reference, actual, strict=True):
        bound = TOLERANCES[dtype] * max(1.0, expected.abs().max().item())
        torch.testing.assert_close(result, expected, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_all_heads_of_a_layer(graph, dtype):
    if DEVICE == "cpu" and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter multiplies the bits of bfloat16 as integers")
    edges = list_edges(graph)
    heads = [2, 1, 2, 1, 0, 1, 1, 1]
    rows = torch.randn(edges[0].num_sources, 3, sum(heads), 12, dtype=torch.float64)
    assert_equals_reference(lambda backend, x: [attend_heads(edges, heads, x, backend=backend)], [rows], dtype)


def test_identities_without_queries_and_keys(graph):
    edges = list_edges(graph)[:3]
    rows = torch.randn(edges[0].num_sources, 2 * 3 + 5, 7, dtype=torch.float64)
    assert_equals_reference(lambda backend, x: [attend_heads(edges, [2, 1, 2], x, backend=backend)], [rows])


@pytest.mark.parametrize("relation", NAMES)
def test_one_relation(graph, random_tensors, relation):
    edges = Edges.of(graph, relation).to(DEVICE)
    inputs = random_tensors(edges.num_destinations, edges.num_sources)
    assert_equals_reference(lambda backend, q, k, v: [attend(edges, q, k, v, backend=backend)], inputs)


@pytest.mark.parametrize("relation", ["window:5", "dependency"])
@pytest.mark.parametrize("return_weights", [False, True])
def test_biases_and_weights(graph, random_tensors, relation, return_weights):
    edges = Edges.of(graph, relation).to(DEVICE)
    bias = torch.randn(edges.num_edges, 2, dtype=torch.float64)
    bias[::3, 0] = -torch.inf
    inputs = [*random_tensors(edges.num_destinations, edges.num_sources), bias]

    def run(backend, q, k, v, b):
        out = attend(edges, q, k, v, bias=b, return_weights=return_weights, backend=backend)
        return out if return_weights else [out]

    assert_equals_reference(run, inputs)


@pytest.mark.parametrize("width", [1, 8, 30, 64, 128])
def test_widths_of_heads(graph, width):
    edges = list_edges(graph)[1:6]
    rows = torch.randn(edges[0].num_sources, 3, 5, width, dtype=torch.float64)
    assert_equals_reference(lambda backend, x: [attend_heads(edges, [1] * 5, x, backend=backend)], [rows])


def test_other_nodes_and_edges_without_order(random_tensors):
    pairs = torch.tensor([[4, 0, 1, 1, 2, 4], [1, 0, 1, 3, 0, 4]], device=DEVICE)  # node 2 has no edges
    edges = Edges.of_pairs(*pairs, num_sources=6, num_destinations=5)
    ranges = Edges.of_ranges(*torch.tensor([[3, 0, 2], [5, 1, 2]], device=DEVICE), num_sources=6)  # do not rise
    for each in (edges, ranges):
        inputs = random_tensors(each.num_destinations, 6)
        assert_equals_reference(
            lambda backend, q, k, v, own=each: attend(own, q, k, v, backend=backend, return_weights=True), inputs
        )


def keep_by_definition(numbers, seed, dropout):
    """Whether an edge is kept, in NumPy: MurmurHash3's finalizer, twice."""
    bits = (numbers.astype(np.uint64) * 0x9E3779B9 & 0xFFFFFFFF) ^ seed
    for _ in range(2):
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            bits = (bits ^ bits >> shift) * factor & 0xFFFFFFFF
        bits ^= bits >> 16
    return bits >= int(dropout * 2**32)


@pytest.mark.parametrize("relation", ["window:5", "all", "dependency"])
def test_dropout_drops_edges_by_their_number(graph, relation):
    dropout, heads, width = 0.3, 2, 4
    edges = Edges.of(graph, relation).to(DEVICE)
    inputs = torch.randn(3, edges.num_sources, heads, width, dtype=torch.float64).unbind()

    torch.manual_seed(0)
    actual = differentiate(
        lambda q, k, v: [attend(edges, q, k, v, dropout=dropout, backend="triton")], inputs, torch.float32
    )
    torch.manual_seed(0)
    seeds = torch.randint(0, 2**31 - 1, (heads,), dtype=torch.int32, device=DEVICE).tolist()
    kept = np.stack([keep_by_definition(np.arange(edges.num_edges), seed, dropout) for seed in seeds], axis=1)
    assert 0.6 < kept.mean() < 0.8
    factors = torch.from_numpy(kept / (1 - dropout)).to(DEVICE)

    def drop(query, key, value):
        scores = (query[edges.destinations] * key[edges.sources]).sum(-1) / width**0.5
        maxima = torch.zeros_like(query[..., 0]).index_reduce(0, edges.destinations, scores, "amax", include_self=False)
        exps = torch.exp(scores - maxima.detach()[edges.destinations])
        sums = torch.zeros_like(query[..., 0]).index_add(0, edges.destinations, exps)
        weights = exps / sums[edges.destinations] * factors
        return [torch.zeros_like(query).index_add(0, edges.destinations, weights[..., None] * value[edges.sources])]

    for expected, result in zip(differentiate(drop, inputs, torch.float64), actual, strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 * max(1.0, expected.abs().max().item()))


def test_float64_runs_in_torch(graph, random_tensors):
    edges = Edges.of(graph, "all").to(DEVICE)
    query, key, value = (tensor.to(DEVICE) for tensor in random_tensors(edges.num_destinations, edges.num_sources))
    torch.testing.assert_close(
        attend(edges, query, key, value, backend="triton"), attend(edges, query, key, value, backend="torch")
    )
