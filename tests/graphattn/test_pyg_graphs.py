"""Graphs of PyTorch Geometric: conversion, reading edges and features, the cache, and a comparison with its softmax."""

import gc
import weakref

import pytest
import torch

from graphattn import attend, tensorized_attend
from graphattn.builders import Complete, Dependency, Sentence, TextGraphBuilder, Window, WordGroup
from graphattn.edges import Edges, as_batch, features_of, lengths_of
from graphattn.exceptions import GraphError
from graphattn.layers import MultiScaleAttention

pyg = pytest.importorskip("torch_geometric", reason="the extra graphattn[pyg] is not installed")
from torch_geometric.data import HeteroData  # noqa: E402
from torch_geometric.utils import scatter, softmax  # noqa: E402

SENTENCES = [
    Sentence(["the", "film", "was", "un", "watchable"], word_ids=[0, 1, 2, 3, 3], heads=[2, 4, 4, 0]),
    Sentence(["go"], heads=[0]),
    Sentence(["time", "flies"], heads=[2, 0]),
]


@pytest.fixture
def batch():
    return TextGraphBuilder([Window(3), Complete(), WordGroup(), Dependency()]).text_batch(SENTENCES)


def make_graph(edge_index, num_nodes):
    graph = HeteroData()
    graph["word"].num_nodes = num_nodes
    graph["word", "before", "word"].edge_index = torch.tensor(edge_index)
    return graph


def test_a_graph_made_in_inference_mode(batch):
    states = torch.randn(batch.num_nodes(), 2, 4)
    with torch.inference_mode():
        graph = batch.to_pyg()
        expected = attend(batch, states, states, states, etype="all")
        torch.testing.assert_close(attend(graph, states, states, states, etype="all"), expected)
        graph["token", "all", "token"].edge_index = graph["token", "all", "token"].edge_index[:, :]
        torch.testing.assert_close(attend(graph, states, states, states, etype="all"), expected)


def test_a_converted_batch_has_the_same_nodes_edges_and_features(batch):
    graph = batch.to_pyg()
    graph.validate()
    assert graph["token"].batch.tolist() == [0] * 6 + [1] * 2 + [2] * 3
    read = as_batch(graph)
    assert set(read.edges) == set(batch.edges)
    for relation, edges in batch.edges.items():
        for mine, theirs in zip(edges.ends_by_id(), read.edges[relation].ends_by_id(), strict=True):
            assert mine.tolist() == theirs.tolist()
        assert read.edges[relation].indptr.tolist() == edges.indptr.tolist()
        features = batch.edge_features.get(relation, {})
        assert read.edge_features[relation].keys() == features.keys()
        assert all(torch.equal(read.edge_features[relation][name], values) for name, values in features.items())
    for kind in ("token", "word"):
        assert lengths_of(graph, kind).tolist() == batch.batch_num_nodes(kind).tolist()
        assert features_of(graph, kind).keys() == batch.node_features[kind].keys()
        assert all(torch.equal(features_of(graph, kind)[name], v) for name, v in batch.node_features[kind].items())


def test_attention_equals_the_softmax_of_pytorch_geometric():
    torch.manual_seed(0)
    edge_index = [[3, 0, 2, 1, 0, 3], [1, 1, 0, 3, 3, 3]]  # unsorted; node 2 has no incoming edge
    graph = make_graph(edge_index, 4)
    query, key, value = (torch.randn(4, 2, 5, dtype=torch.float64) for _ in range(3))
    out, weights = attend(graph, query, key, value, return_weights=True)
    sources, destinations = torch.tensor(edge_index)
    scores = (query[destinations] * key[sources]).sum(-1) / 5**0.5
    expected = softmax(scores, destinations, num_nodes=4)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(out, scatter(expected.unsqueeze(-1) * value[sources], destinations, dim_size=4))


def test_layers_take_a_graph(batch):
    graph = batch.to_pyg()
    tokens = torch.randn(batch.num_nodes(), 16)
    layer = MultiScaleAttention(16, 4, {"window:3": 2, "all": 2})
    torch.testing.assert_close(layer(graph, tokens), layer(batch, tokens))
    heads = torch.randn(batch.num_nodes(), 1, 4)
    feature_scores = torch.randn(batch.num_nodes(), 1, 4)
    arguments = (heads, heads, heads, feature_scores)
    torch.testing.assert_close(
        tensorized_attend(graph, *arguments, etype="all"), tensorized_attend(batch, *arguments, etype="all")
    )


def test_a_graph_without_ptr_is_one_text():
    assert lengths_of(make_graph([[0], [1]], 3), "word").tolist() == [3]


def test_edges_are_cached_until_the_edge_index_changes():
    graph = make_graph([[0, 1], [2, 2]], 3)
    relation = "word", "before", "word"
    first = Edges.of(graph)
    assert Edges.of(graph) is first
    graph[relation].edge_index[0, 0] = 2
    assert Edges.of(graph).sources.tolist() == [2, 1]
    graph[relation].edge_index = torch.tensor([[0], [1]])
    assert Edges.of(graph).indptr.tolist() == [0, 0, 1, 1]
    graph["word"].num_nodes = 4
    assert Edges.of(graph).num_destinations == 4
    reference = weakref.ref(Edges.of(graph))
    del graph, first
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        ([[0], [3]], "destinations must be from 0 to 2"),
        ([[3], [0]], "indices must be from 0 to 2"),
        (None, "relation 'before' have no edge_index"),
    ],
)
def test_invalid_edges(edge_index, message):
    graph = make_graph([[0], [1]], 3)
    if edge_index is None:
        del graph["word", "before", "word"].edge_index
        graph["word", "before", "word"].distance = torch.ones(1)
    else:
        graph["word", "before", "word"].edge_index = torch.tensor(edge_index)
    with pytest.raises(GraphError, match=message):
        Edges.of(graph)
