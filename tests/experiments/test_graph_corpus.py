"""Shards of graphs: closed when they are full, whether of graphs or of edges."""

import json

import pytest

from graphattn.builders import Complete, Example, Sentence, TextGraphBuilder, Vocabulary
from graphattn.exceptions import GraphError
from graphattn.experiments import graph_corpus
from graphattn.experiments.graph_corpus import texts_of, write_graph_corpus
from graphattn.graphs import load_graphs, save_graphs


@pytest.fixture
def builder():
    return TextGraphBuilder([Complete()], vocabulary=Vocabulary.train(["a b c"]))


def test_texts_of_pairs_follow_each_other():
    sentence = Sentence(["x"])
    assert list(texts_of([Example("a", "b"), Example("c"), sentence])) == ["a", "b", "c", sentence]


def test_many_edges_close_a_shard(builder, tmp_path, monkeypatch):
    monkeypatch.setattr(graph_corpus, "MOST_EDGES", 20)
    counts = write_graph_corpus([Example("a b c")] * 4, builder, tmp_path, shard=100)
    assert counts["shards"] == {"graphs-00000.dgl": 2, "graphs-00001.dgl": 2}, "16 edges each"
    assert counts["edges"] == {"all": 64}
    assert json.loads((tmp_path / "corpus.json").read_text()) == counts


def test_an_empty_corpus_has_no_shard(builder, tmp_path):
    assert write_graph_corpus([], builder, tmp_path, shard=1)["shards"] == {}


def test_labels_are_counted_one_by_one(builder, tmp_path):
    items = [Example("a", label=("x", "y")), Example("b", label=("x",)), Example("c")]
    assert write_graph_corpus(items, builder, tmp_path, shard=9)["labels"] == {"x": 2, "y": 1}


def test_files_that_are_no_graphs_are_refused(builder, tmp_path):
    path = tmp_path / "graphs.dgl"
    with pytest.raises(GraphError) as error:
        load_graphs(str(path))
    assert str(error.value) == f"{path} cannot be read as graphs. Give a file that save_graphs or build wrote"
    save_graphs([builder.build("a b")], str(path))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(GraphError):
        load_graphs(str(path))


def test_a_folder_cannot_be_written_as_a_file(builder, tmp_path):
    with pytest.raises(GraphError) as error:
        save_graphs([builder.build("a b")], str(tmp_path))
    assert str(error.value) == f"{tmp_path} cannot be written. Check the folder and the space on the disk"
