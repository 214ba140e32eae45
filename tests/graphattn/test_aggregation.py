"""Sums along edges against matrix products."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn import Edges
from graphattn._aggregation import aggregate, mean_coefficients, symmetric_coefficients
from graphattn.exceptions import GraphError


@st.composite
def edges_and_matrix(draw):
    """Random edges, some of them twice, and the matrix that counts them."""
    sources, destinations = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    rows = [
        draw(st.lists(st.integers(0, max(sources - 1, 0)), max_size=5 if sources else 0)) for _ in range(destinations)
    ]
    indptr = torch.tensor([0, *(sum(map(len, rows[: n + 1])) for n in range(destinations))])
    indices = torch.tensor([source for row in rows for source in row], dtype=torch.long)
    kind = draw(st.sampled_from([torch.int32, torch.int64]))
    return Edges(indptr.to(kind), indices.to(kind), sources), rows


def matrix_of(rows, num_sources, coefficients):
    matrix, slot = torch.zeros(len(rows), num_sources, dtype=torch.float64), 0
    for target, row in enumerate(rows):
        for source in row:
            matrix[target, source] += coefficients[slot]
            slot += 1
    return matrix


@settings(max_examples=60, deadline=None)
@given(made=edges_and_matrix(), width=st.integers(1, 5), seed=st.integers(0, 9))
def test_sums_and_gradients_equal_matrix_products(made, width, seed):
    edges, rows = made
    torch.manual_seed(seed)
    values = torch.randn(edges.num_sources, width, dtype=torch.float64, requires_grad=True)
    coefficients = torch.randn(edges.num_edges, dtype=torch.float64)
    for given_ones in (coefficients, None):
        ones = torch.ones_like(coefficients) if given_ones is None else given_ones
        matrix = matrix_of(rows, edges.num_sources, ones)
        out = aggregate(edges, values, given_ones)
        torch.testing.assert_close(out, matrix @ values, rtol=0, atol=1e-12)
        upstream = torch.randn_like(out)
        (gradient,) = torch.autograd.grad(out, values, upstream)
        torch.testing.assert_close(gradient, matrix.T @ upstream, rtol=0, atol=1e-12)


def test_first_and_second_derivatives():
    edges = Edges(torch.tensor([0, 2, 2, 5]), torch.tensor([0, 1, 1, 2, 0]), 3)
    values = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    coefficients = torch.rand(5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: aggregate(edges, x, coefficients), values)
    assert torch.autograd.gradgradcheck(lambda x: aggregate(edges, x.square(), coefficients), values)


def test_mean_and_symmetric_coefficients():
    edges = Edges(torch.tensor([0, 2, 5, 7]), torch.tensor([0, 1, 0, 1, 2, 1, 2]), 3)  # 0 - 1 - 2 with self-loops
    adjacency = torch.tensor([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=torch.float64)
    degrees = adjacency.sum(1)
    eye = torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(aggregate(edges, eye, mean_coefficients(edges)), adjacency / degrees.unsqueeze(1))
    roots = torch.diag(degrees**-0.5)
    torch.testing.assert_close(aggregate(edges, eye, symmetric_coefficients(edges)), roots @ adjacency @ roots)
    assert mean_coefficients(edges) is mean_coefficients(edges)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype):
    edges = Edges.of_ranges(torch.tensor([0]), torch.tensor([4096]), 4096)
    values = torch.ones(4096, 1, dtype=dtype, requires_grad=True)
    out = aggregate(edges, values)
    assert out.dtype == torch.float32
    assert out.item() == 4096
    out.sum().backward()
    assert values.grad.dtype == dtype


@pytest.mark.parametrize("shape", [(4, 2), (3, 2, 2)])
def test_invalid_inputs(shape):
    edges = Edges(torch.tensor([0, 2]), torch.tensor([0, 1]), 3)
    with pytest.raises(GraphError) as caught:
        aggregate(edges, torch.zeros(shape))
    assert str(caught.value) == f"values have shape {shape}; expected (3, features)"
