"""Graphs from arrays: DGL gets what it can hold, everything else is refused by the relation's name."""

import numpy as np
import pytest
import torch

from graphattn.dgl_graphs import RelationArrays, check_edge_count, lengths_of, load_graphs, make_graph, save_graphs
from graphattn.dgl_import import dgl
from graphattn.exceptions import GraphError

CHAIN = ("token", "next", "token")
MEMBERSHIP = ("token", "in", "word")


def arrays(indptr=(0, 1, 2, 3), indices=(0, 0, 1), per_sentence=(3, 0), **data):
    return RelationArrays(np.array(indptr), np.array(indices, dtype=np.int64), np.array(per_sentence), data)


def two_sentences(relation=CHAIN, edges=None, token_data=None):
    counts = {"token": np.array([3, 0]), "word": np.array([2, 0])}
    return make_graph({relation: edges or arrays()}, counts, {"token": token_data or {}})


def test_a_graph_holds_what_the_arrays_say():
    graph = two_sentences(
        edges=arrays(weight=np.array([0.5, 1.5, 2.5])), token_data={"id": np.array([[1, 2], [3, 4], [5, 6]], np.int16)}
    )
    sources, targets, ids = graph.edges(form="all", etype="next")
    assert (sources.tolist(), targets.tolist(), ids.tolist()) == ([0, 0, 1], [0, 1, 2], [0, 1, 2])
    assert graph.idtype == torch.int32
    assert graph.edges["next"].data["weight"].tolist() == [0.5, 1.5, 2.5]
    assert graph.nodes["token"].data["id"].dtype == torch.int16
    assert (graph.num_nodes("token"), graph.num_nodes("word")) == (3, 2)
    assert graph.batch_num_nodes("token").tolist() == [3, 0]
    assert graph.batch_num_edges("next").tolist() == [3, 0]
    assert [part.num_edges() for part in dgl.unbatch(graph)] == [3, 0]


def test_lengths_are_counted_in_64_bits():
    lengths = lengths_of(two_sentences(), "word")
    assert (lengths.tolist(), lengths.dtype) == ([2, 0], torch.int64)


def test_features_are_copied_in():
    column = np.array([1, 2, 3])
    graph = two_sentences(token_data={"id": column})
    graph.nodes["token"].data["id"].zero_()
    assert column.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (arrays(indptr=(0, 1, 3)), "relation 'next': indptr has shape (3,); expected (4,)"),
        (arrays(indptr=(0, 1, 2, 5)), "relation 'next': indptr must rise from 0 to the number of edges, 3"),
        (arrays(indptr=(1, 1, 2, 3)), "relation 'next': indptr must rise from 0 to the number of edges, 3"),
        (arrays(indptr=(0, 2, 1, 3)), "relation 'next': indptr must rise from 0 to the number of edges, 3"),
        (arrays(indices=(0, 1, 3)), "relation 'next': indices must be from 0 to 2, the source nodes"),
        (arrays(indices=(0, -1, 1)), "relation 'next': indices must be from 0 to 2, the source nodes"),
        (arrays(per_sentence=(1, 1)), "relation 'next': per_sentence adds up to 2, not to 3 edges"),
        (arrays(label=np.zeros(2)), "relation 'next': 'label' has shape (2,); expected one row per edge, 3"),
    ],
)
def test_arrays_that_are_no_edges_are_refused(edges, message):
    with pytest.raises(GraphError) as caught:
        two_sentences(edges=edges)
    assert str(caught.value) == message


def test_source_and_destination_nodes_are_told_apart():
    graph = two_sentences(MEMBERSHIP, arrays(indptr=(0, 2, 3), indices=(0, 1, 2)))
    assert graph.num_edges("in") == 3
    with pytest.raises(GraphError, match=r"relation 'in': indptr has shape \(4,\); expected \(3,\)"):
        two_sentences(MEMBERSHIP, arrays())


def test_more_edges_than_32_bits_count_are_refused():
    check_edge_count("all", 2**31 - 1)
    with pytest.raises(GraphError) as caught:
        check_edge_count("all", 2**31)
    assert str(caught.value) == (
        "relation 'all' has 2,147,483,648 edges; one graph holds up to 2,147,483,647. "
        "Use smaller batches or narrower relations"
    )


def test_an_overfull_relation_of_ones_own_is_refused():
    indices = np.broadcast_to(np.zeros(1, np.int32), (2**31,))  # takes no memory
    with pytest.raises(GraphError, match="relation 'next' has 2,147,483,648 edges"):
        two_sentences(edges=RelationArrays(np.array([0, 0, 0, 2**31]), indices, np.array([2**31, 0])))


def test_saved_graphs_come_back(tmp_path):
    path = str(tmp_path / "graphs.bin")
    saved = [
        two_sentences(token_data={"id": np.array([7, 8, 9])}),
        two_sentences(MEMBERSHIP, arrays((0, 2, 3), (0, 1, 2))),
    ]
    save_graphs(saved, path)
    loaded = load_graphs(path)
    assert [graph.canonical_etypes for graph in loaded] == [[CHAIN], [MEMBERSHIP]]
    assert loaded[0].nodes["token"].data["id"].tolist() == [7, 8, 9]
    assert loaded[1].edges(etype="in")[0].tolist() == [0, 1, 2]
    assert {graph.idtype for graph in loaded} == {torch.int32}


@pytest.mark.parametrize("content", [None, b"", b"no graphs at all"])
def test_a_file_without_graphs_is_named(tmp_path, content):
    path = tmp_path / "graphs.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraphError) as caught:
        load_graphs(str(path))
    assert str(caught.value) == f"{path} cannot be read as graphs. Give a file that save_graphs or build wrote"
