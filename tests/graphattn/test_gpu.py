"""Attention on a GPU equals attention on a CPU, gradients included."""

from random import Random

import pytest
import torch

from graphattn import Edges, attend, tensorized_attend
from graphattn._attention import attend_heads
from graphattn.builders import Complete, Dependency, Order, TextGraphBuilder, Window, WordGroup
from graphattn.exceptions import BackendError, GraphError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

RELATIONS = [Window(1), Window(5), Window("N/4"), Complete(), Order("forward"), WordGroup(), Dependency("token")]
NAMES = [relation.name for relation in RELATIONS]
TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5}


@pytest.fixture(scope="module")
def graph(random_sentence):
    """Sentences of 0 to 300 words, so that complete graphs are padded in several groups."""
    return TextGraphBuilder(RELATIONS).text_batch([random_sentence(Random(1), size) for size in (3, 0, 300, 40, 1, 9)])


def assert_same_on_gpu(function, edges, inputs):
    """Compare ``function(edges, *inputs)`` and its gradients."""
    results = []
    for device in ("cpu", "cuda"):
        copies = [tensor.detach().to(device).requires_grad_() for tensor in inputs]
        outputs = function([one.to(device) for one in edges], *copies)
        upstream = [torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape).to(device) for out in outputs]
        assert {out.device.type for out in outputs} == {device}
        results.append([*outputs, *torch.autograd.grad(outputs, copies, upstream)])
    tolerance = TOLERANCES[inputs[0].dtype]
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("relation", NAMES)
def test_attend(graph, random_tensors, relation, dtype):
    edges = Edges.of(graph, relation)
    tensors = random_tensors(edges.num_destinations, edges.num_sources, dtype=dtype)
    bias = random_tensors(edges.num_edges, 1, width=1, dtype=dtype)[0][..., 0]
    assert_same_on_gpu(lambda one, q, k, v: [attend(one[0], q, k, v)], [edges], tensors)
    assert_same_on_gpu(
        lambda one, q, k, v, b: attend(one[0], q, k, v, bias=b, return_weights=True), [edges], [*tensors, bias]
    )


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_attend_heads(graph, dtype):
    edges = [Edges.of(graph, name) for name in NAMES]
    projected = torch.randn(edges[0].num_sources, 3, len(edges), 5, dtype=torch.float64).to(dtype)
    heads = [1] * len(edges)
    assert_same_on_gpu(lambda own, rows: [attend_heads(own, heads, rows)], edges, [projected])


@pytest.mark.parametrize("relation", ["forward", "all", "window:5", "dependency"])
def test_tensorized_attend(graph, random_tensors, relation):
    edges = Edges.of(graph, relation)
    query, key, value = random_tensors(edges.num_destinations, edges.num_sources)
    scores = random_tensors(1, edges.num_sources, seed=1)[2]
    assert_same_on_gpu(lambda own, *inputs: [tensorized_attend(own[0], *inputs)], [edges], [query, key, value, scores])


def test_errors_name_the_devices(graph, random_tensors):
    edges = Edges.of(graph, "all")
    tensors = [tensor.cuda() for tensor in random_tensors(edges.num_destinations, edges.num_sources)]
    with pytest.raises(GraphError, match="on cuda:0 and the edges on cpu"):
        attend(edges, *tensors)
    with pytest.raises(BackendError, match=r"on a CPU, not .* on cuda:0"):
        attend(edges.to("cuda"), *tensors, backend="fused")
