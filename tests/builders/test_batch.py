"""A text batch and its DGL graph have the same nodes, edges and features."""

import copy
import pickle
import sys

import numpy as np
import pytest
import torch
from lightning.fabric.utilities import move_data_to_device

from graphattn import Edges, attend
from graphattn._backends.gpu.plan import plan_of
from graphattn._edges import edges_of, features_of, lengths_of
from graphattn.builders._batch import RelationArrays, TextBatch, check_edge_count, range_edges
from graphattn.exceptions import EdgeCountError, GraphError, MissingPackageError

CHAIN, MEMBERSHIP = ("token", "next", "token"), ("token", "in", "word")


@pytest.fixture
def batch():
    chain = RelationArrays(np.array([0, 1, 2, 4]), np.array([0, 0, 0, 1]))
    return TextBatch(
        {"token": torch.tensor([3, 0]), "word": torch.tensor([2, 0])},
        {CHAIN: chain.to_edges(3), MEMBERSHIP: range_edges(np.array([0, 2]), np.array([2, 3]), 3, "in")},
        {"token": {"id": torch.tensor([7, 8, 9], dtype=torch.int32)}, "word": {}},
        {CHAIN: {"far": torch.arange(4)}},
    )


@pytest.fixture
def graph(dgl, batch):
    return batch.to_dgl()


def test_arrays_are_converted_to_int32_edges(batch):
    edges = batch.edges[CHAIN]
    assert edges.indptr.dtype == edges.indices.dtype == torch.int32
    assert (edges.indptr.tolist(), edges.indices.tolist(), edges.num_sources) == ([0, 1, 2, 4], [0, 0, 0, 1], 3)


def test_ranges_are_not_materialized(batch):
    edges = batch.edges[MEMBERSHIP]
    assert edges.ranges is not None
    assert edges.indices.tolist() == [0, 1, 2]


def test_the_graph_has_the_same_nodes_edges_and_features(dgl, batch, graph):
    assert set(graph.canonical_etypes) == set(batch.edges)
    assert graph.idtype == torch.int32
    for relation, edges in batch.edges.items():
        sources, targets = graph.edges(etype=relation, order="eid")
        assert (sources.tolist(), targets.tolist()) == (edges.sources.tolist(), edges.destinations.tolist())
        assert graph.batch_num_edges(relation).tolist() == batch.batch_num_edges(relation).tolist()
    assert batch.batch_num_edges(CHAIN).tolist() == [4, 0]
    for kind in ("token", "word"):
        assert graph.num_nodes(kind) == batch.num_nodes(kind)
        assert graph.batch_num_nodes(kind).tolist() == batch.batch_num_nodes(kind).tolist()
        assert set(graph.nodes[kind].data) == set(batch.node_features[kind])
    assert torch.equal(graph.nodes["token"].data["id"], batch.node_features["token"]["id"])
    assert graph.edges[CHAIN].data["far"].tolist() == [0, 1, 2, 3]
    assert [part.num_edges(CHAIN) for part in dgl.unbatch(graph)] == [4, 0]


@pytest.fixture(params=["batch", "dgl"])
def source(request, batch):
    return batch if request.param == "batch" else batch.to_dgl()


def test_edge_functions_accept_batches_and_graphs(batch, source):
    for kind in ("token", "word"):
        assert lengths_of(source, kind).tolist() == batch.node_counts[kind].tolist()
        assert lengths_of(source, kind).dtype == torch.int64
    assert features_of(source, "token")["id"].tolist() == [7, 8, 9]
    assert edges_of(source, ["next"])["next"].num_edges == 4
    with pytest.raises(GraphError, match="no relation 'group'; it has: in, next"):
        edges_of(source, ["group"])


def test_attention_accepts_batches_and_graphs(batch, source):
    values = torch.randn(3, 2, 4)
    of_edges = attend(batch.edges[CHAIN], values, values, values)
    assert torch.equal(attend(source, values, values, values, etype="next"), of_edges)


def test_the_graph_gets_the_edges_of_the_batch(batch, graph):
    assert Edges.of(graph, MEMBERSHIP) is batch.edges[MEMBERSHIP]


def test_a_graph_needs_dgl(batch, monkeypatch):
    monkeypatch.setitem(sys.modules, "dgl", None)
    with pytest.raises(MissingPackageError) as caught:
        batch.to_dgl()
    assert str(caught.value) == (
        "DGL graphs need the package dgl, which is not installed; on Linux and macOS, install dgl 1.1.3 with Python "
        "3.11, or dgl 2.1.0 with Python 3.12. Elsewhere, use the TextBatch of TextGraphBuilder.text_batch, or its "
        "to_pyg()"
    )


def test_edges_with_ids_keep_them(dgl):
    edges = Edges(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]), 2, edge_ids=torch.tensor([2, 0, 1]))
    graph = TextBatch({"token": torch.tensor([2])}, {CHAIN: edges}).to_dgl()
    sources, targets = graph.edges(etype=CHAIN, order="eid")
    assert (sources.tolist(), targets.tolist()) == ([0, 1, 1], [1, 1, 0])


def test_copies(batch):
    for other in (copy.copy(batch), copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert other.edges[CHAIN].indices.tolist() == [0, 0, 0, 1]
        assert other.edges[MEMBERSHIP].num_edges == 3


@pytest.mark.parametrize("edge_ids", [None, [3, 1, 0, 2]])
@pytest.mark.parametrize("ids", [[], [0], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize(
    "select",
    [list, lambda ids: np.array(ids, np.int64), lambda ids: np.isin(np.arange(4), ids)],
    ids=["list", "array", "mask"],
)
def test_edges_can_be_left_out(ids, select, edge_ids, batch):
    indptr, indices = batch.edges[CHAIN].indptr, batch.edges[CHAIN].indices
    chain = Edges(indptr, indices, 3, None if edge_ids is None else torch.tensor(edge_ids))
    batch = TextBatch(batch.node_counts, {**batch.edges, CHAIN: chain}, batch.node_features, batch.edge_features)
    sources, targets = batch.edges[CHAIN].ends_by_id()
    smaller = batch.remove_edges(CHAIN, select(ids))
    kept = [edge for edge in range(4) if edge not in ids]
    kept_sources, kept_targets = smaller.edges[CHAIN].ends_by_id()
    assert (kept_sources.tolist(), kept_targets.tolist()) == (sources[kept].tolist(), targets[kept].tolist())
    assert smaller.edge_features[CHAIN]["far"].tolist() == kept
    assert smaller.batch_num_edges(CHAIN).tolist() == [len(kept), 0]
    assert smaller.edges[MEMBERSHIP] is batch.edges[MEMBERSHIP]
    assert batch.edges[CHAIN].num_edges == 4


def tensors_of(batch):
    """Those that move: of edges and features."""
    features = [*batch.node_features.values(), *batch.edge_features.values()]
    arrays = [array for edges in batch.edges.values() for array in (edges.indptr, *(edges.ranges or [edges.indices]))]
    return [*arrays, *(rows for named in features for rows in named.values())]


@pytest.mark.parametrize(
    "move", [lambda batch, device: batch.to(device), move_data_to_device], ids=["", "by Lightning"]
)
def test_a_batch_moves_to_a_device(move, batch):
    moved = move(batch, torch.device("meta"))
    assert {tensor.device.type for tensor in tensors_of(moved)} == {"meta"}
    assert len(tensors_of(moved)) == len(tensors_of(batch))
    assert moved.batch_num_nodes().tolist() == [3, 0]
    assert moved.edges[MEMBERSHIP].num_edges == 3


def test_a_batch_moves_in_one_copy_with_its_plans(batch, count_copies):
    lengths = [len(plan_of(edges).array) for edges in batch.edges.values()]
    moved = []
    assert count_copies(lambda: moved.extend(batch.to("meta") for _ in range(2))) == 2
    first, second = moved
    assert [len(plan_of(edges).array) for edges in first.edges.values()] == lengths
    assert all(plan_of(edges).array.is_meta for edges in first.edges.values())
    assert second.edges == first.edges  # while features may have changed
    assert second.node_features["token"]["id"] is not first.node_features["token"]["id"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_loader_pins_a_batch_and_a_gpu_gets_the_same_one(batch):
    loader = torch.utils.data.DataLoader([batch], batch_size=None, pin_memory=True)
    (pinned,) = loader
    assert all(tensor.is_pinned() for tensor in tensors_of(pinned))
    assert len({tensor.untyped_storage().data_ptr() for tensor in tensors_of(pinned)}) == 1
    moved = pinned.to("cuda")
    for ours, theirs in zip(tensors_of(moved), tensors_of(batch), strict=True):
        assert ours.is_cuda
        assert torch.equal(ours.cpu(), theirs)
    tokens = torch.rand(3, 1, 2)
    gpu = attend(moved, *[tokens.cuda()] * 3, etype=CHAIN)
    torch.testing.assert_close(gpu.cpu(), attend(batch, tokens, tokens, tokens, etype=CHAIN))
    assert moved.remove_edges(CHAIN, [1]).edges[CHAIN].num_edges == 3
    assert moved.batch_num_edges(CHAIN).tolist() == [4, 0]


def test_more_edges_than_int32_can_number():
    check_edge_count("all", 2**31 - 1)
    with pytest.raises(EdgeCountError, match="relation 'all' has 2,147,483,648 edges"):
        check_edge_count("all", 2**31)
    with pytest.raises(EdgeCountError, match="relation 'all' has 3,221,225,472 edges"):
        range_edges(np.zeros(3, np.int64), np.full(3, 2**30), 2**30, "all")
