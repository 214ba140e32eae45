"""Graphs of PyTorch Geometric: conversion, reading edges and features, the cache, and a comparison with its softmax."""

import gc
import pickle
import weakref

import pytest
import torch

from graphattn import attend
from graphattn._edges import Edges, as_batch, features_of, lengths_of
from graphattn.builders import (
    BinaryPartition,
    Complete,
    Dependency,
    Membership,
    Sentence,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.exceptions import GraphError
from graphattn.layers import MultiScaleAttention

pyg = pytest.importorskip("torch_geometric", reason="the extra graphattn[pyg] is not installed")
from torch_geometric import EdgeIndex  # noqa: E402
from torch_geometric.data import Batch, Data, HeteroData  # noqa: E402
from torch_geometric.loader import DataLoader  # noqa: E402
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


def tensors_of(graph):
    return {(store._key, name): value for store in graph.stores for name, value in store.items()}


def assert_equal_graphs(graph, expected):
    mine, theirs = tensors_of(graph), tensors_of(expected)
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        assert torch.equal(torch.as_tensor(mine[name]), torch.as_tensor(value)), name


def test_a_converted_batch_is_the_batch_of_its_texts(batch):
    builder = TextGraphBuilder([Window(3), Complete(), WordGroup(), Dependency(), Membership()])
    graph = builder.text_batch(SENTENCES).to_pyg()
    assert (isinstance(graph, Batch), graph.num_graphs) == (True, 3)
    texts = [builder.text_batch([sentence]).to_pyg()[0] for sentence in SENTENCES]
    assert_equal_graphs(graph, Batch.from_data_list(texts))
    for copy in (graph, pickle.loads(pickle.dumps(graph))):
        for single, text in zip(copy.to_data_list(), texts, strict=True):
            assert type(single) is HeteroData
            assert_equal_graphs(single, text)
        assert_equal_graphs(copy.get_example(2), texts[2])


def test_batches_that_are_batched_again_keep_their_texts():
    builder = TextGraphBuilder([BinaryPartition(), Window(3)], cls=False)
    # a text of one word has no spans
    texts = [["time", "flies", "fast"], ["go"], ["the", "end"], ["a", "b", "c", "d"], ["so"], ["it", "is"]]
    whole = builder.text_batch(texts)
    parts = [builder.text_batch(texts[begin:end]).to_pyg() for begin, end in ((0, 2), (2, 5), (5, 6))]
    (graph,) = DataLoader(parts, batch_size=3)
    for kind in ("token", "span"):
        assert lengths_of(graph, kind).tolist() == whole.batch_num_nodes(kind).tolist()
    for relation, edges in whole.edges.items():
        assert Edges.of(graph, relation).indices.tolist() == edges.indices.tolist()


def test_texts_without_a_node_type_are_an_error():
    def make(words, sentences, *, complete):
        text = HeteroData()
        text["word"].x = torch.ones(words, 1)
        if sentences or complete:
            text["sentence"].x = torch.ones(sentences, 1)
        return text

    sizes = ((2, 1), (3, 0), (2, 1))
    graph = Batch.from_data_list([make(*size, complete=True) for size in sizes])
    assert lengths_of(graph, "sentence").tolist() == [1, 0, 1]
    graph = Batch.from_data_list([make(*size, complete=False) for size in sizes])
    with pytest.raises(GraphError, match="3 of type 'word', 2 of type 'sentence' texts"):
        lengths_of(graph, "sentence")


def test_a_graph_without_batch_and_ptr_is_one_text():
    assert lengths_of(make_graph([[0], [1]], 3), "word").tolist() == [3]


def test_texts_are_counted_from_batch():
    graph = make_graph([[0], [1]], 6)
    graph["word"].batch = torch.tensor([0, 0, 0, 2, 2, 3])
    assert lengths_of(graph, "word").tolist() == [3, 0, 2, 1]
    graph["word"].batch = torch.tensor([0, 1, 0, 2, 2, 3])
    with pytest.raises(GraphError, match="sort the nodes by batch"):
        lengths_of(graph, "word")
    del graph["word"].batch
    graph["word"].ptr = torch.tensor([0, 4, 6])
    assert lengths_of(graph, "word").tolist() == [4, 2]
    graph["word"].num_nodes = 7
    with pytest.raises(GraphError, match="does not count the 7 nodes"):
        lengths_of(graph, "word")


def test_the_texts_of_a_subgraph(batch):
    graph = batch.to_pyg()
    kept = torch.tensor([1, 2, 6, 7])  # none of the third text; 11 nodes are in ptr
    part = graph.subgraph({"token": kept})
    assert lengths_of(part, "token").tolist() == [2, 2, 0]
    assert Edges.of(part, "all").indices.tolist() == [0, 1, 0, 1, 2, 3, 2, 3]


@pytest.mark.parametrize("kind", [torch.as_tensor, EdgeIndex])
def test_edges_are_cached_until_the_edge_index_changes(kind):
    graph = make_graph([[0, 1], [2, 2]], 3)
    relation = "word", "before", "word"
    graph[relation].edge_index = kind(graph[relation].edge_index)
    first = Edges.of(graph)
    assert Edges.of(graph) is first
    graph[relation].edge_index = torch.tensor([[0], [1]])
    assert Edges.of(graph).indptr.tolist() == [0, 0, 1, 1]
    graph["word"].num_nodes = 4
    assert Edges.of(graph).num_destinations == 4
    reference = weakref.ref(Edges.of(graph))
    del graph, first
    gc.collect()
    assert reference() is None


def test_an_edge_index_made_outside_of_inference_mode_is_read_inside():
    graph = make_graph([[0, 1], [2, 2]], 3)
    edge_index = graph["word", "before", "word"].edge_index
    graph["word", "before", "word"].edge_index = EdgeIndex(edge_index, sparse_size=(3, 3), sort_order="col")
    with torch.inference_mode():
        assert Edges.of(graph).indices.tolist() == [0, 1]


def change_by_numpy(edge_index):
    edge_index.numpy()[0, 0] = 2


@pytest.mark.parametrize(
    "change",
    [
        lambda edge_index: edge_index.__setitem__((0, 0), 2),
        torch.inference_mode()(lambda edge_index: edge_index.__setitem__((0, 0), 2)),
        change_by_numpy,
        lambda edge_index: edge_index.data.__setitem__((0, 0), 2),
        lambda edge_index: setattr(edge_index, "data", torch.tensor([[2, 1], [2, 2]])),
    ],
)
@pytest.mark.parametrize("inference", [False, True])
def test_any_change_of_an_edge_index_is_seen(change, inference):
    with torch.inference_mode(inference):
        graph = make_graph([[0, 1], [2, 2]], 3)
        assert Edges.of(graph).sources.tolist() == [0, 1]
        change(graph["word", "before", "word"].edge_index)
        assert Edges.of(graph).sources.tolist() == [2, 1]


def test_a_changed_edge_index_of_a_converted_batch_is_seen(batch):
    graph = batch.to_pyg()
    change_by_numpy(graph["token", "all", "token"].edge_index)
    assert Edges.of(graph, "all").sources[:3].tolist() == [2, 1, 2]


def test_a_graph_without_types(batch):
    torch.manual_seed(0)
    states, other = torch.randn(2, 6, 2, 4)
    texts = [
        Data(x=torch.ones(4, 2), edge_index=torch.tensor([[0, 1, 3], [1, 2, 2]]), edge_attr=torch.arange(3)),
        Data(x=torch.zeros(2, 2), edge_index=torch.tensor([[1], [0]]), edge_attr=torch.arange(1)),
    ]
    (graph,) = DataLoader(texts, batch_size=2)
    assert lengths_of(graph, "token").tolist() == [4, 2]
    assert features_of(graph, "token")["x"].tolist() == [[1, 1]] * 4 + [[0, 0]] * 2
    relation = "token", "to", "token"
    assert as_batch(graph).edge_features[relation]["edge_attr"].tolist() == [0, 1, 2, 0]
    edges = Edges.of_pairs(*graph.edge_index, 6, 6)
    torch.testing.assert_close(attend(graph, states, other, states), attend(edges, states, other, states))
    assert Edges.of(graph) is Edges.of(graph)
    layer = MultiScaleAttention(8, 4, {"to": 4})
    assert layer(graph, states.flatten(1)).shape == (6, 8)


@pytest.mark.parametrize(
    ("edge_index", "message"),
    [
        ([[0], [3]], "destinations must be from 0 to 2"),
        ([[3], [0]], "indices must be from 0 to 2"),
        ([[2**32 + 1], [0]], "indices must be from 0 to 2"),
        ([[0], [2**32 + 1]], "destinations must be from 0 to 2"),
        ([[-(2**32)], [0]], "indices must be from 0 to 2"),
        ([[0, 1], [1, 2], [2, 0]], r"'before' is torch.int64 of shape \(3, 2\); expected"),
        ([[0.0, 1.7], [1.0, 2.0]], r"'before' is torch.float32 of shape \(2, 2\); expected"),
        ([0, 1], r"of shape \(2,\)"),
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


@pytest.mark.filterwarnings("ignore:Unable to accurately infer")
def test_an_unknown_number_of_nodes():
    graph = HeteroData()
    graph["word", "before", "word"].edge_index = torch.tensor([[0], [1]])
    with pytest.raises(GraphError, match="type 'word' is unknown; set their num_nodes"):
        Edges.of(graph)
    assert graph.node_types == []
    graph["word"].text = ["time", "flies"]
    with pytest.raises(GraphError, match="type 'word' is unknown; set their num_nodes"):
        Edges.of(graph)
