"""Importing DGL, and its file format."""

import sys
from unittest.mock import patch

import pytest
import torch

from graphattn._dgl_graphs import import_dgl, make_graph_in_edge_order, save_graphs
from graphattn.exceptions import MissingPackageError

needs_dgl = pytest.mark.usefixtures("dgl")

CHAIN = ("token", "next", "token")
MEMBERSHIP = ("token", "in", "word")


@pytest.fixture
def package(monkeypatch, tmp_path):
    """The folder of an empty package that is imported as ``dgl``."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "dgl" / "graphbolt").mkdir(parents=True)
    with patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.partition(".")[0] == "dgl"]:
            del sys.modules[name]
        yield tmp_path / "dgl"


@pytest.mark.parametrize(("version", "is_loaded"), [(torch.__version__.partition("+")[0], True), ("2.2.1", False)])
def test_graphbolt_is_replaced_where_it_has_no_binary_for_this_pytorch(package, version, is_loaded):
    (package / "__init__.py").write_text("from . import graphbolt\nuse_libxsmm = id\n")
    (package / "graphbolt" / "__init__.py").write_text("loaded = True\n")
    (package / "graphbolt" / f"libgraphbolt_pytorch_{version}.so").touch()
    assert hasattr(import_dgl().graphbolt, "loaded") == is_loaded


def test_the_package_that_dgl_lacks_is_named(package):
    (package / "__init__.py").write_text("import no_such_package\n")
    with pytest.raises(MissingPackageError, match=r"cannot be imported \(No module named 'no_such_package'\)"):
        import_dgl()


@needs_dgl
def test_edge_ids_follow_the_order_of_the_given_edges():
    graph = make_graph_in_edge_order({CHAIN: ([0, 1, 0], [2, 0, 1])}, {"token": 3}, torch.int64)
    sources, targets = graph.edges(order="eid")
    assert (sources.tolist(), targets.tolist(), graph.idtype) == ([0, 1, 0], [2, 0, 1], torch.int64)


@needs_dgl
def test_saved_graphs_are_loaded(tmp_path):
    path = str(tmp_path / "graphs.bin")
    saved = [
        make_graph_in_edge_order({CHAIN: ([0, 0, 1], [0, 1, 2])}, {"token": 3}, torch.int32),
        make_graph_in_edge_order({MEMBERSHIP: ([0, 1, 2], [0, 0, 1])}, {"token": 3, "word": 2}, torch.int32),
    ]
    saved[0].nodes["token"].data["id"] = torch.tensor([7, 8, 9])
    save_graphs(saved, path)
    loaded, _ = import_dgl().load_graphs(path)
    assert [graph.canonical_etypes for graph in loaded] == [[CHAIN], [MEMBERSHIP]]
    assert loaded[0].nodes["token"].data["id"].tolist() == [7, 8, 9]
    assert loaded[1].edges(etype="in")[0].tolist() == [0, 1, 2]
    assert {graph.idtype for graph in loaded} == {torch.int32}
