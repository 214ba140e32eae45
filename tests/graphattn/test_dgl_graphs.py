"""DGL's file format."""

import pytest
import torch

from graphattn.dgl_graphs import load_graphs, make_graph_in_edge_order, save_graphs
from graphattn.exceptions import GraphError

pytest.importorskip("dgl", reason="DGL has wheels for Python 3.11 on Linux and macOS only")

CHAIN = ("token", "next", "token")
MEMBERSHIP = ("token", "in", "word")


def test_edge_ids_follow_the_order_of_the_given_edges():
    graph = make_graph_in_edge_order({CHAIN: ([0, 1, 0], [2, 0, 1])}, {"token": 3}, torch.int64)
    sources, targets = graph.edges(order="eid")
    assert (sources.tolist(), targets.tolist(), graph.idtype) == ([0, 1, 0], [2, 0, 1], torch.int64)


def test_saved_graphs_are_loaded(tmp_path):
    path = str(tmp_path / "graphs.bin")
    saved = [
        make_graph_in_edge_order({CHAIN: ([0, 0, 1], [0, 1, 2])}, {"token": 3}, torch.int32),
        make_graph_in_edge_order({MEMBERSHIP: ([0, 1, 2], [0, 0, 1])}, {"token": 3, "word": 2}, torch.int32),
    ]
    saved[0].nodes["token"].data["id"] = torch.tensor([7, 8, 9])
    save_graphs(saved, path)
    loaded = load_graphs(path)
    assert [graph.canonical_etypes for graph in loaded] == [[CHAIN], [MEMBERSHIP]]
    assert loaded[0].nodes["token"].data["id"].tolist() == [7, 8, 9]
    assert loaded[1].edges(etype="in")[0].tolist() == [0, 1, 2]
    assert {graph.idtype for graph in loaded} == {torch.int32}


@pytest.mark.parametrize("content", [None, b"", b"no graphs at all"])
def test_invalid_graph_files(tmp_path, content):
    path = tmp_path / "graphs.bin"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(GraphError) as caught:
        load_graphs(str(path))
    assert str(caught.value) == f"{path} cannot be read as graphs. Give a file that save_graphs or build wrote"
