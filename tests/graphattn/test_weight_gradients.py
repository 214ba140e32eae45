"""Gradients by the returned weights, the contributions of edges, against dense autograd."""

import pytest
import torch
from torch.testing import assert_close

from graphattn import Edges, MultiScaleAttention, attend, tensorized_attend
from graphattn.builders import Complete, Order, TextGraphBuilder, Window

SENTENCES = [list("abc"), ["d"], list("efg")]


def sentences(relation):
    return Edges.of(TextGraphBuilder([relation], cls=False).text_batch(SENTENCES))


EDGES = {
    "ids out of order": lambda: Edges.of_pairs(*torch.tensor([[2, 0, 1, 1, 4, 3, 2], [3, 1, 2, 1, 1, 3, 1]]), 5, 5),
    "identity": lambda: sentences(Window(1)),
    "window": lambda: sentences(Window(3)),
    "forward": lambda: sentences(Order("forward")),
    "complete": lambda: sentences(Complete()),
}


@pytest.fixture(params=EDGES)
def edges(request):
    return EDGES[request.param]()


def by_id(edges, slots):
    ids = torch.arange(edges.num_edges) if edges.edge_ids is None else edges.edge_ids
    return torch.zeros_like(slots).index_copy(0, ids, slots)


def test_weight_gradients_equal_dense_autograd(edges, backend, random_tensors):
    inputs = [t.requires_grad_() for t in random_tensors(edges.num_destinations, edges.num_sources)]
    out, weights = attend(edges, *inputs, backend=backend, return_weights=True)
    torch.manual_seed(3)
    upstream = torch.randn_like(out)
    (actual,) = torch.autograd.grad((out * upstream).sum(), weights, retain_graph=True)

    dense = torch.zeros(edges.num_destinations, edges.num_sources, out.shape[1], dtype=out.dtype)
    slots = weights.detach() if edges.edge_ids is None else weights.detach()[edges.edge_ids]
    dense[edges.destinations, edges.sources] = slots
    dense.requires_grad_()
    (torch.einsum("ijh,jhd->ihd", dense, inputs[2].detach()) * upstream).sum().backward()
    assert_close(actual, by_id(edges, dense.grad[edges.destinations, edges.sources]))

    ours = torch.autograd.grad((out * upstream).sum(), inputs)
    theirs = torch.autograd.grad((attend(edges, *inputs, backend=backend) * upstream).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other)


def test_dropped_weights_contribute_nothing(random_tensors):
    edges = EDGES["complete"]()
    inputs = [t.requires_grad_() for t in random_tensors(edges.num_destinations, edges.num_sources)]
    torch.manual_seed(2)
    out, weights = attend(edges, *inputs, dropout=0.5, return_weights=True)
    (actual,) = torch.autograd.grad(out.sum(), weights)
    totals = torch.zeros(edges.num_destinations, 2, dtype=out.dtype).index_add(0, edges.destinations, weights)
    assert_close(totals, torch.ones_like(totals), msg="weights are those before dropout")
    assert 0.2 < (actual == 0).double().mean() < 0.8


def test_half_precision_is_summed_in_float32():
    edges = Edges(torch.tensor([0, 4096]), torch.arange(4096), 4096)
    value = torch.ones(4096, 1, 1, dtype=torch.bfloat16, requires_grad=True)
    flat = torch.zeros(4096, 1, 1, dtype=torch.bfloat16)
    out, _ = attend(edges, flat[:1], flat, value, return_weights=True)
    assert abs(out.item() - 1) < 0.01


def test_gradients_of_mean_weights(edges, random_tensors):
    query, key, value = random_tensors(edges.num_destinations, edges.num_sources)
    scores = random_tensors(edges.num_destinations, edges.num_sources, seed=4)[2]
    inputs = [t.requires_grad_() for t in (query, key, value, scores)]
    out, weights = tensorized_attend(edges, *inputs, return_weights=True)
    torch.manual_seed(3)
    upstream = torch.randn_like(out)
    (actual,) = torch.autograd.grad((out * upstream).sum(), weights, retain_graph=True)
    factors = torch.ones(edges.num_edges, out.shape[1], 1, dtype=out.dtype, requires_grad=True)
    logits = ((query[edges.destinations] * key[edges.sources]).sum(-1, keepdim=True) * 5**-0.5) + scores[edges.sources]
    own = torch.zeros_like(logits)
    for node in range(edges.num_destinations):
        own[edges.destinations == node] = logits[edges.destinations == node].softmax(0)
    moved = own.detach() * factors * value.detach()[edges.sources]
    (torch.zeros_like(out).index_add(0, edges.destinations, moved) * upstream).sum().backward()
    assert_close(actual * weights.detach(), by_id(edges, factors.grad.squeeze(-1)))

    ours = torch.autograd.grad((out * upstream).sum(), inputs)
    theirs = torch.autograd.grad((tensorized_attend(edges, *inputs) * upstream).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        assert_close(one, other)


def test_gradients_by_the_weights_of_a_layer():
    graph = TextGraphBuilder([Window(3), Complete()]).text_batch([["time", "flies"]])
    layer = MultiScaleAttention(6, 3, {"window:3": 1, "all": 2})
    seen = {}
    out = layer(graph, torch.randn(3, 6), weights=seen)
    gradients = torch.autograd.grad(out.square().sum(), list(seen.values()))
    assert [gradient.shape for gradient in gradients] == [(7, 1), (9, 2)]
    assert all(gradient.abs().max() > 0 for gradient in gradients)


def test_gradients_of_mean_weights_stay_small_where_weights_underflow():
    random = torch.Generator().manual_seed(0)
    edges = Edges.of(TextGraphBuilder([Window(21)], cls=False).text_batch([["x"] * 60] * 5))
    query, key, value, scores = (torch.randn(300, 2, 4, generator=random) for _ in range(4))
    scores = scores * 50
    actual = []
    for dtype in (torch.float32, torch.float64):
        inputs = [tensor.to(dtype).requires_grad_() for tensor in (query, key, value, scores)]
        out, weights = tensorized_attend(edges, *inputs, return_weights=True)
        (gradient,) = torch.autograd.grad(out.sum(), weights)
        actual.append((gradient.double(), weights.detach().double()))
    (single, own), (double, exact) = actual
    assert single.abs().max() < 2 * double.abs().max() < 100
    assert_close(single * own, double * exact, rtol=1e-3, atol=1e-4)
