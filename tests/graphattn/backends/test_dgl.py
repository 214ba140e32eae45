"""The reference backend equals DGL's operators, except for the softmax of masked edges, which DGL computes as NaN."""

import pytest
import torch
from torch.testing import assert_close

from graphattn import attend


@pytest.fixture
def graph(dgl):
    return dgl.graph(([2, 0, 1, 1, 4, 3, 2], [3, 1, 2, 1, 1, 3, 1]), num_nodes=5)


@pytest.mark.slow
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_backend_equals_the_three_operators(dgl, graph, random_tensors, idtype):
    """The operators on a graph whose edge ids are not in CSC order."""
    graph = graph.astype(idtype)
    query, key, value = random_tensors(5, 5)
    bias = torch.linspace(-1, 1, 14, dtype=torch.float64).view(7, 2)
    scores = dgl.ops.u_dot_v(graph, key, query)[..., 0] * 0.3 + bias
    weights = dgl.ops.edge_softmax(graph, scores)
    out = dgl.ops.u_mul_e_sum(graph, value, weights[..., None])
    actual = attend(graph, query, key, value, scale=0.3, bias=bias, backend="dgl", return_weights=True)
    assert_close(actual, (out, weights), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "dgl"])
@pytest.mark.parametrize("idtype", [torch.int32, torch.int64])
def test_a_dgl_graph_gives_dense_attention(graph, dense_attention, random_tensors, idtype, backend):
    graph = graph.astype(idtype)
    mask = torch.zeros(5, 5, dtype=torch.bool)
    mask[graph.edges()[1].long(), graph.edges()[0].long()] = True
    tensors = random_tensors(5, 5)
    assert_close(attend(graph, *tensors, backend=backend), dense_attention(mask, *tensors), rtol=0, atol=1e-12)


def test_dgl_softmax_still_gives_nan_when_all_edges_are_masked(dgl, graph):
    """When this fails, `_softmax_with_mask` can go."""
    scores = torch.full((7, 1), float("-inf"))
    assert dgl.ops.edge_softmax(graph, scores).isnan().all()


def test_libxsmm_is_off(dgl):
    assert not dgl.is_libxsmm_enabled()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(graph, random_tensors, dtype):
    narrow = random_tensors(5, 5, dtype=dtype)
    bias = torch.zeros(7, 2, dtype=dtype)
    out, weights = attend(graph, *narrow, bias=bias, backend="dgl", return_weights=True)
    wide = attend(graph, *(t.float() for t in narrow), bias=bias.float(), backend="dgl", return_weights=True)
    assert torch.equal(out, wide[0].to(dtype))
    assert torch.equal(weights, wide[1].to(dtype))
