"""Dropout and special values of the fused kernels; test_attention.py checks their results."""

import numpy as np
import pytest
import torch

from graphattn import Edges, attend, attend_heads
from graphattn.exceptions import BackendError


def random_edges(nodes: int, edges: int, seed: int) -> Edges:
    random = np.random.default_rng(seed)
    degrees = np.bincount(random.integers(0, nodes, edges), minlength=nodes)
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    return Edges(torch.from_numpy(indptr), torch.from_numpy(random.integers(0, nodes, edges)), nodes)


def inputs_of(edges: Edges, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(edges.num_sources, 2, 4, generator=generator) for _ in range(3)]


def test_dropout_rate_and_expectation():
    count = 300
    complete = Edges(torch.arange(0, count * count + 1, count), torch.arange(count).repeat(count), count)
    same = torch.zeros(count, 2, 4)
    which = count * torch.eye(count).unsqueeze(1).expand(-1, 2, -1).contiguous()  # column j is 1 when edge j is kept
    out = attend(complete, same, same, which, backend="fused", dropout=0.3)  # (destination, head, source)
    assert (out == 0).float().mean().item() == pytest.approx(0.3, abs=0.005)
    assert out.mean().item() == pytest.approx(1.0, abs=0.01)
    assert (out == 0).float().mean(dim=(0, 1)).std().item() < 0.03  # no source is favoured
    assert (out == 0).float().mean(dim=(1, 2)).std().item() < 0.03  # no destination either
    both = ((out[:, 0] == 0) & (out[:, 1] == 0)).float().mean().item()
    assert both == pytest.approx(0.09, abs=0.01)  # heads are independent


def test_float16_is_rejected_and_auto_avoids_it():
    edges = random_edges(4, 8, seed=6)
    half = [tensor.half() for tensor in inputs_of(edges, 1)]
    with pytest.raises(BackendError) as caught:
        attend(edges, *half, backend="fused")
    assert str(caught.value) == (
        "backend 'fused' takes float32, float64 and bfloat16 on a CPU, not torch.float16 on cpu. Use backend='torch'"
    )
    assert attend(edges, *half).dtype == torch.float16


@pytest.mark.parametrize("kind", ["edges", "ranges", "narrow"])
def test_scores_that_overflow_leave_no_weights(kind):
    low = torch.zeros(9, dtype=torch.int64)
    edges = Edges.of_ranges(low, low + 9, 9)
    if kind == "edges":
        edges = Edges(edges.indptr, edges.indices.flip(0), 9)
    query = torch.full((9, 2, 4), 1e30)
    query[3:] = 1
    key, value = torch.full_like(query, -1e30), torch.ones_like(query)
    torch.full((10_000,), -7.0)  # leave arbitrary numbers in freed memory
    options = {"return_weights": True}
    with torch.no_grad():
        if kind == "narrow":
            rows = torch.stack([query, key, value], dim=1)
            out, (weights,) = attend_heads([edges], [2], rows, backend="fused", **options)
        else:
            out, weights = attend(edges, query, key, value, backend="fused", **options)
    assert (out[:3] == 0).all()
    assert (weights.view(9, 9, 2)[:3] == 0).all()
    assert torch.allclose(weights.view(9, 9, 2)[3:].sum(1), torch.ones(6, 2))


@pytest.mark.parametrize("heads", [[2, 0], [0, 2]])
def test_relation_without_heads(heads):
    wide, other = random_edges(50, 400, seed=3), random_edges(50, 200, seed=5)
    rows = torch.randn(50, 3, 2, 4, requires_grad=True)
    relation = wide if heads[0] else other
    out = attend_heads([wide, other], heads, rows, backend="fused")
    assert torch.equal(out, attend(relation, *rows.unbind(1), backend="fused"))
    out.sum().backward()
    assert rows.grad.isfinite().all()


def test_nan_gives_no_gradient_to_rows_without_edges():
    count = 600
    low, high = torch.zeros(count, dtype=torch.int64), torch.full((count,), 400)
    low[0], high[0] = 599, 600  # the only key with NaN
    low[1:8] = high[1:8] = 0  # no edges
    low[100:], high[100:] = 0, 590
    edges = Edges.of_ranges(low, high, count)
    query, key, value = (torch.randn(count, 2, 8, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        value[599] = float("nan")
    attend(edges, query, key, value, backend="fused").nansum().backward()
    assert (query.grad[1:8] == 0).all()
    assert query.grad[8:].isfinite().all()
