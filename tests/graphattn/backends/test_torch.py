"""Results do not depend on chunks of edges and blocks of sentences."""

import pytest
import torch
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


@pytest.fixture
def paddings(monkeypatch):
    """The padded batches, (blocks, longest), that dense attention computes."""
    seen = []
    dense = torch_segments.F.scaled_dot_product_attention

    def watch(query, *others, **options):
        seen.append((query.shape[0], query.shape[2]))
        return dense(query, *others, **options)

    monkeypatch.setattr(torch_segments.F, "scaled_dot_product_attention", watch)
    return seen


@pytest.mark.parametrize(
    ("lengths", "padded"),
    [
        ((4, 4, 4), [(3, 4)]),
        ((5, 3, 4), [(3, 5)]),
        ((1, 1), [(2, 1)]),
        ((64, 2, 3, 1, 3), [(1, 1), (3, 3), (1, 64)]),  # one batch would have 320 rows instead of 74
    ],
)
def test_complete_graphs_use_dense_attention_with_little_padding(random_tensors, paddings, lengths, padded):
    edges = edges_of(Complete(), *lengths)
    count = sum(lengths)
    inputs = [tensor.requires_grad_() for tensor in random_tensors(count, count)]
    dense = attend(edges, *inputs, backend="torch")
    assert paddings == padded
    sparse, _ = attend(edges, *inputs, backend="torch", return_weights=True)  # weights: edge by edge
    assert paddings == padded
    assert_close(dense, sparse, **EXACT)
    upstream = torch.randn_like(dense)
    for actual, expected in zip(
        torch.autograd.grad(dense, inputs, upstream), torch.autograd.grad(sparse, inputs, upstream), strict=True
    ):
        assert_close(actual, expected, **EXACT)


def test_other_relations_do_not_use_dense_attention(random_tensors, paddings):
    attend(edges_of(Window(3), 4, 5), *random_tensors(9, 9), backend="torch")
    assert paddings == []


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
