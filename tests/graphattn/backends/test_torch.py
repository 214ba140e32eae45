"""Results do not depend on chunks of edges and blocks of sentences."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from graphattn import Edges, attend
from graphattn._backends import torch as torch_segments
from graphattn.builders import Complete, Order, TextGraphBuilder, Window

EXACT = {"rtol": 0.0, "atol": 1e-12}


def edges_of(relation, *lengths):
    return Edges.of(TextGraphBuilder([relation], cls=False).text_batch([["w"] * length for length in lengths]))


def irregular():
    random = torch.Generator().manual_seed(0)
    sources, targets = torch.randint(0, 30, (2, 200), generator=random)
    targets[:80] = 7  # more edges than fit into a small chunk
    return Edges.of_pairs(sources, targets, 40, 40)


def results(edges, tensors, **options):
    """Output, weights, and the gradients of both."""
    inputs = [tensor.clone().requires_grad_() for tensor in tensors]
    out, weights = attend(edges, *inputs, backend="torch", return_weights=True, **options)
    return out, weights, *torch.autograd.grad(out.square().sum() + weights.pow(3).sum(), inputs)


@pytest.mark.parametrize("numbers", [1, 50, 333])
@pytest.mark.parametrize(
    "edges",
    [irregular(), edges_of(Window(5), 9, 0, 30), edges_of(Order("backward"), 1, 12)],
    ids=["irregular", "window", "backward"],
)
def test_results_do_not_depend_on_the_chunk_size(monkeypatch, random_tensors, edges, numbers):
    tensors = random_tensors(edges.num_destinations, edges.num_sources)
    whole = results(edges, tensors)
    assert len(list(torch_segments.iterate_segments(edges, 10))) == 1
    monkeypatch.setattr(torch_segments, "CHUNK", numbers)
    assert len(list(torch_segments.iterate_segments(edges, 10))) > 1
    for actual, expected in zip(results(edges, tensors), whole, strict=True):
        assert_close(actual, expected, **EXACT)


@pytest.mark.parametrize("numbers", [1, 70, 10_000])
def test_runs_are_complete_and_bounded(monkeypatch, numbers):
    monkeypatch.setattr(torch_segments, "CHUNK", numbers)
    edges = irregular()
    nodes, slots, targets = [], [], []
    for rows, local, sources, part in torch_segments.iterate_segments(edges, 3):
        assert len(sources) <= max(1, numbers // 3) or rows.stop - rows.start == 1
        nodes += range(rows.start, rows.stop)
        slots += range(part.start, part.stop)
        targets += (local + rows.start).tolist()
        assert torch.equal(sources, edges.sources[part])
    assert nodes == list(range(40))
    assert slots == list(range(200))
    assert targets == edges.destinations.tolist()


def test_only_complete_graphs_use_dense_attention(random_tensors, monkeypatch):
    dense, calls = F.scaled_dot_product_attention, []
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *args, **options: calls.append(1) or dense(*args, **options)
    )
    tensors = random_tensors(9, 9)
    attend(edges_of(Window(3), 4, 5), *tensors, backend="torch")
    attend(edges_of(Complete(), 4, 5), *tensors, backend="torch", return_weights=True)  # weights: edge by edge
    assert calls == []
    attend(edges_of(Complete(), 4, 5), *tensors, backend="torch")
    assert calls == [1]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    """Half precision cannot represent the sum of a thousand equal values accurately."""
    edges = Edges(torch.tensor([0, 1_000]), torch.arange(1_000), 1_000)
    query, key, value = (torch.ones(1, 1, 2), torch.zeros(1_000, 1, 2), torch.full((1_000, 1, 2), 0.75))
    inputs = [tensor.to(dtype).requires_grad_() for tensor in (query, key, value)]
    out = attend(edges, *inputs, backend="torch")
    assert out.dtype == dtype
    assert out.flatten().tolist() == [0.75, 0.75]
    gradient = torch.autograd.grad(out.sum(), inputs[2])[0]
    assert_close(gradient.float().sum(), torch.tensor(2.0), rtol=5e-3, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_through_weights_of_half_precision_are_summed_in_float32(dtype, monkeypatch):
    monkeypatch.setattr(torch_segments, "CHUNK", 30)
    from_one = Edges(torch.arange(10_001), torch.zeros(10_000, dtype=torch.long), num_sources=1)
    query, key = torch.ones(10_000, 1, 2, dtype=dtype), torch.ones(1, 1, 2, dtype=dtype)
    value = torch.ones(1, 1, 2, dtype=dtype, requires_grad=True)
    out, _ = attend(from_one, query, key, value, return_weights=True)
    (gradient,) = torch.autograd.grad(out, value, torch.full_like(out, 0.01))
    assert gradient.dtype == dtype
    assert_close(gradient.float(), torch.full((1, 1, 2), 100.0), rtol=0.01, atol=0)


def test_products_of_half_precision_do_not_overflow():
    edges = Edges(torch.tensor([0, 2]), torch.tensor([0, 1]), 2)
    query, key = torch.full((1, 1, 1), 300.0), torch.tensor([300.0, -300.0]).view(2, 1, 1)
    value = torch.tensor([1.0, 2.0]).view(2, 1, 1)
    given = (tensor.half() for tensor in (query, key, value))
    assert attend(edges, *given, backend="torch").item() == 1
