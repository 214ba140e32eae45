"""One contract for graphs of all libraries: the converted batch has the same nodes, edges and features, and results."""

import pytest
import torch

from graphattn import MultiScaleAttention, attend, from_networkx, tensorized_attend, to_networkx
from graphattn._edges import Edges, as_batch, edges_of, features_of, lengths_of
from graphattn.builders import Complete, Dependency, Sentence, TextGraphBuilder, Window, WordGroup

SENTENCES = [
    Sentence(["the", "film", "was", "un", "watchable"], word_ids=[0, 1, 2, 3, 3], heads=[2, 4, 4, 0]),
    Sentence(["go"], heads=[0]),
    Sentence(["time", "flies"], heads=[2, 0]),
]
CONVERSIONS = {
    "DGL": ("dgl", lambda batch: batch.to_dgl()),
    "networkx": ("dgl", lambda batch: from_networkx(to_networkx(batch))),
    "PyTorch Geometric": ("torch_geometric", lambda batch: batch.to_pyg()),
}


@pytest.fixture
def batch():
    return TextGraphBuilder([Window(3), Complete(), WordGroup(), Dependency()]).text_batch(SENTENCES)


@pytest.fixture(params=CONVERSIONS)
def convert(request):
    package, function = CONVERSIONS[request.param]
    if package == "dgl":
        request.getfixturevalue("dgl")
    pytest.importorskip(package)
    return function


def assert_same_features(features, expected):
    assert features.keys() == expected.keys()
    assert all(torch.equal(features[name], values) for name, values in expected.items())


def test_nodes_edges_and_features(batch, convert):
    graph = convert(batch)
    read = as_batch(graph)
    assert set(read.edges) == set(batch.edges)
    for relation, edges in batch.edges.items():
        for ends, expected in zip(read.edges[relation].ends_by_id(), edges.ends_by_id(), strict=True):
            assert ends.tolist() == expected.tolist()
        assert read.edges[relation].indptr.tolist() == edges.indptr.tolist()
        assert_same_features(read.edge_features[relation], batch.edge_features.get(relation, {}))
    for node_type in ("token", "word"):
        assert lengths_of(graph, node_type).tolist() == batch.batch_num_nodes(node_type).tolist()
        assert_same_features(features_of(graph, node_type), batch.node_features[node_type])


def test_operators_and_layers_take_the_graph(batch, convert):
    graph, rows = convert(batch), torch.randn(4, batch.num_nodes(), 1, 4)
    assert torch.equal(attend(graph, *rows[:3], etype="all"), attend(batch, *rows[:3], etype="all"))
    assert torch.equal(tensorized_attend(graph, *rows, etype="all"), tensorized_attend(batch, *rows, etype="all"))
    tokens, layer = rows.transpose(0, 1).flatten(1), MultiScaleAttention(16, 4, {"window:3": 2, "all": 2})
    assert torch.equal(layer(graph, tokens), layer(batch, tokens))
    assert torch.equal(layer(edges_of(graph, layer.heads), tokens), layer(batch, tokens))


def test_edges_are_read_once(batch, convert):
    graph = convert(batch)
    assert Edges.of(graph, "all") is Edges.of(graph, "all")
