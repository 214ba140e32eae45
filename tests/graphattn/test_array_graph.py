"""A graph of arrays answers as the DGL graph of the same arrays, which it makes only when it must."""

import copy
import pickle

import numpy as np
import pytest
import torch

from graphattn import Edges, attend
from graphattn.array_graph import ArrayGraph
from graphattn.dgl_graphs import RelationArrays, lengths_of, make_graph
from graphattn.exceptions import GraphError
from graphattn.layers.multi_scale import edges_of

CHAIN, MEMBERSHIP = ("token", "next", "token"), ("token", "in", "word")
RELATIONS = {
    CHAIN: RelationArrays(np.array([0, 1, 2, 4]), np.array([0, 0, 0, 1]), np.array([4, 0]), {"far": np.arange(4)}),
    MEMBERSHIP: RelationArrays(np.array([0, 2, 3]), np.array([0, 1, 2]), np.array([3, 0])),
}
COUNTS = {"token": np.array([3, 0]), "word": np.array([2, 0])}
FEATURES = {"token": {"id": np.array([7, 8, 9], np.int32)}}


@pytest.fixture
def graph():
    return ArrayGraph(RELATIONS, COUNTS, FEATURES)


@pytest.fixture(scope="module")
def made():
    return make_graph(RELATIONS, COUNTS, FEATURES)


def is_made(graph):
    return "dgl" in vars(graph)


def test_what_models_ask_needs_no_dgl_graph(graph, made):
    for relation in (CHAIN, MEMBERSHIP):
        ours, theirs = Edges.of(graph, relation), Edges.of(made, relation)
        assert ours.indptr.dtype == theirs.indptr.dtype == torch.int32
        assert ours.indptr.tolist() == theirs.indptr.tolist()
        assert ours.indices.tolist() == theirs.indices.tolist()
        assert (ours.num_sources, ours.edge_ids) == (theirs.num_sources, theirs.edge_ids)
    assert edges_of(graph, ["next"])["next"].num_edges == 4
    for kind in ("token", "word"):
        assert graph.num_nodes(kind) == made.num_nodes(kind)
        assert torch.equal(lengths_of(graph, kind), lengths_of(made, kind))
        assert dict(graph.nodes[kind].data).keys() == dict(made.nodes[kind].data).keys()
    assert graph.num_nodes() == made.num_nodes()
    assert torch.equal(graph.nodes["token"].data["id"], made.nodes["token"].data["id"])
    assert len(graph.nodes["token"].data) == 1
    assert set(graph.canonical_etypes) == set(made.canonical_etypes)
    with pytest.raises(GraphError, match="no relation 'group'; it has: in, next"):
        edges_of(graph, ["group"])
    assert not is_made(graph)


def test_attention_takes_it(graph, made):
    values = torch.randn(3, 2, 4)
    assert torch.equal(*(attend(own, values, values, values, etype="next") for own in (graph, made)))
    assert not is_made(graph)


@pytest.mark.parametrize(
    "ask",
    [
        lambda graph: [ends.tolist() for ends in graph.edges(etype="next", order="eid")],
        lambda graph: graph.edges["next"].data["far"].tolist(),
        lambda graph: graph.batch_num_edges("next").tolist(),
        lambda graph: graph.nodes("token").tolist(),
        lambda graph: [part.tolist() for part in graph.adj_tensors("coo", etype="next")],
        lambda graph: [part.tolist() for part in graph.adj_tensors("csc", etype="next")],
        lambda graph: graph.formats("coo").formats()["created"],
        lambda graph: graph.in_degrees(etype="in").tolist(),
        lambda graph: (graph.ntypes, graph.batch_size),
    ],
)
def test_everything_else_is_asked_of_the_dgl_graph(graph, made, ask):
    assert ask(graph) == ask(made)
    assert is_made(graph)
    assert graph.nodes["token"].data["id"].tolist() == [7, 8, 9]


def test_new_features_and_message_passing(graph):
    graph.nodes["token"].data["h"] = torch.ones(3)
    assert graph.nodes["token"].data["h"].tolist() == [1, 1, 1]
    with graph.local_scope():
        graph.nodes["token"].data["h"] = torch.zeros(3)
    assert graph.nodes["token"].data["h"].tolist() == [1, 1, 1]


def test_copies(graph):
    for other in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert Edges.of(other, "next").indices.tolist() == [0, 0, 0, 1]
        assert other.num_edges("in") == 3


def test_what_it_lacks_it_says_as_dgl_does(graph):
    with pytest.raises(AttributeError, match="no attribute 'num_edgs'"):
        graph.num_edgs  # noqa: B018
    with pytest.raises(AttributeError, match="'ArrayGraph' object has no attribute '_private'"):
        graph._private  # noqa: B018


def test_bad_arrays_are_refused_at_once():
    bad = RelationArrays(np.array([0, 1, 2, 3]), np.array([0, 1, 3]), np.array([3, 0]))
    with pytest.raises(GraphError, match=r"^relation 'next': indices must be from 0 to 2, the source nodes$"):
        ArrayGraph({CHAIN: bad}, COUNTS, FEATURES)


@pytest.mark.parametrize("ids", [[], [0], [1, 3], [0, 1, 2, 3]])
def test_edges_can_be_left_out(ids, graph, made):
    smaller = graph.without_edges(CHAIN, np.array(ids, dtype=np.int64))
    sources, targets = made.edges(etype=CHAIN, order="eid")
    kept = [edge for edge in range(4) if edge not in ids]
    edges = smaller.take_edges(CHAIN)
    assert edges.sources.tolist() == sources[kept].tolist()
    assert edges.destinations.tolist() == targets[kept].tolist()
    assert smaller.dgl.edges[CHAIN].data["far"].tolist() == kept
    assert smaller.dgl.batch_num_edges(CHAIN).tolist() == [len(kept), 0]
    assert torch.equal(smaller.take_edges(MEMBERSHIP).indices, graph.take_edges(MEMBERSHIP).indices)
    assert graph.take_edges(CHAIN).num_edges == 4
