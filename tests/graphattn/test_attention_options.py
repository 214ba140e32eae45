"""Arguments of ``attend``: graphs or edges, devices, shapes, dropout; and its errors."""

import pytest
import torch
from torch.testing import assert_close

from graphattn import Edges, attend, register_backend
from graphattn._backends import registry
from graphattn.builders import Complete, Order, TextGraphBuilder, Window
from graphattn.exceptions import BackendError, ConfigError, GraphError

BUILDER = TextGraphBuilder([Window(1), Window(5), Order("forward"), Complete()], cls=False)


@pytest.fixture(scope="module")
def graph():
    return BUILDER.text_batch([list("abcdefgh"), list("ij"), list("klmno")])


def test_graph_and_edges_give_the_same_result(graph, random_tensors, backend):
    tensors = random_tensors(15, 15)
    for relation in graph.edges:
        expected = attend(graph, *tensors, etype=relation, backend=backend)
        assert torch.equal(attend(graph, *tensors, etype=relation[1], backend=backend), expected)
        assert torch.equal(attend(Edges.of(graph, relation), *tensors, backend=backend), expected)


def test_strided_tensors(graph, random_tensors, backend):
    tensors = random_tensors(15, 15)
    for etype in ("window:5", "all"):
        expected = attend(graph, *tensors, etype=etype, backend=backend)
        strided = (tensor.permute(2, 0, 1).contiguous().permute(1, 2, 0) for tensor in tensors)
        assert_close(attend(graph, *strided, etype=etype, backend=backend), expected, rtol=0, atol=1e-12)
    spread = torch.randn(15, 1, 5, dtype=torch.float64).expand(15, 2, 5)
    expected = attend(graph, *(spread.contiguous(),) * 3, etype="window:5", backend=backend)
    assert_close(attend(graph, spread, spread, spread, etype="window:5", backend=backend), expected)


def test_inputs_do_not_change(graph, random_tensors, backend):
    tensors = random_tensors(15, 15)
    copies = [tensor.clone() for tensor in tensors]
    relation = "token", "window:5", "token"
    before = set(graph.node_features["token"]), set(graph.edge_features[relation])
    bias = torch.zeros(graph.edges[relation].num_edges, 2, dtype=torch.float64)
    attend(graph, *tensors, etype="window:5", bias=bias, backend=backend, return_weights=True)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))
    assert (set(graph.node_features["token"]), set(graph.edge_features[relation])) == before
    assert (bias == 0).all()


def test_edges_move_to_the_device_of_the_query(graph, monkeypatch):
    monkeypatch.setattr(registry, "REGISTERED", {})
    seen = []

    def return_values(call):
        for edges, _, _, value, _ in call.groups:
            seen.append((edges.indptr.device.type, edges.indices.device.type))
            yield value, None

    register_backend("devices", return_values)
    tensor = torch.zeros(15, 1, 2, device="meta")
    attend(graph, tensor, tensor, tensor, etype="window:5", backend="devices")
    assert seen == [("meta", "meta")]


def test_backend_dgl_rejects_other_devices(graph):
    tensor = torch.zeros(15, 1, 2, device="meta")
    with pytest.raises(BackendError) as caught:
        attend(graph, tensor, tensor, tensor, etype="window:5", backend="dgl")
    assert str(caught.value) == "backend 'dgl' runs on CPUs only: DGL's wheels have no CUDA. Use backend='torch'"


@pytest.mark.parametrize(
    ("error", "options", "message"),
    [
        (
            GraphError,
            {"etype": "window:7"},
            "the graph has no relation 'window:7'; it has: all, forward, window:1, window:5",
        ),
        (
            GraphError,
            {},
            "the graph has 4 relations (all, forward, window:1, window:5); give etype=, or heads by relation",
        ),
        (
            BackendError,
            {"etype": "window:5", "backend": "cuda"},
            "backend 'cuda' does not exist; choose one of: auto, dgl, fused, torch, triton",
        ),
        (ConfigError, {"etype": "all", "dropout": 1.0}, "dropout is 1.0; it must be at least 0 and below 1"),
        (ConfigError, {"etype": "all", "dropout": -0.1}, "dropout is -0.1; it must be at least 0 and below 1"),
        (ConfigError, {"etype": "all", "dropout": float("nan")}, "dropout is nan; it must be at least 0 and below 1"),
        (GraphError, {"etype": "window:1", "bias": torch.zeros(3, 1)}, "bias has shape (3, 1); expected (15, 2)"),
    ],
)
def test_invalid_arguments(graph, random_tensors, error, options, message):
    with pytest.raises(error) as caught:
        attend(graph, *random_tensors(15, 15), **options)
    assert str(caught.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("etype", ["window:1", "window:5", "forward", "all"])
def test_dropout_rate_and_scale(graph, random_tensors, backend, etype):
    """With one-hot values the outputs are the weights, which show the mask."""
    query, key, value = random_tensors(15, 15)
    one_hot = torch.eye(15, dtype=torch.float64)[:, None].expand(15, 2, 15)
    full = attend(graph, query, key, one_hot, etype=etype, backend=backend)

    def drop(seed, values):
        torch.manual_seed(seed)
        return attend(graph, query, key, values, etype=etype, dropout=0.25, backend=backend)

    kept_edges = edges = 0
    for seed in range(20):
        dropped = drop(seed, one_hot)
        kept = dropped != 0
        assert_close(dropped, torch.where(kept, full / 0.75, torch.zeros_like(full)), rtol=0, atol=1e-12)
        kept_edges, edges = kept_edges + int(kept.sum()), edges + int((full != 0).sum())
        expected = torch.einsum("ihj,jhd->ihd", dropped, value)
        assert_close(drop(seed, value), expected, rtol=0, atol=1e-12)
    assert abs(kept_edges / edges - 0.75) < 4 * (0.75 * 0.25 / edges) ** 0.5


def test_weights_are_returned_before_dropout(graph, random_tensors, backend):
    tensors = random_tensors(15, 15)
    options = {"etype": "window:5", "backend": backend, "return_weights": True}
    out, weights = attend(graph, *tensors, **options)
    torch.manual_seed(0)
    dropped, same = attend(graph, *tensors, dropout=0.5, **options)
    assert_close(same, weights)
    assert not torch.allclose(dropped, out)
