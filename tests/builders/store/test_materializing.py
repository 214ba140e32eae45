"""Graph files that plain DGL reads, with the graphs of the sentences, closed when they are full."""

import pytest

from graphattn.builders import Complete, Sentence, TextGraphBuilder
from graphattn.builders.store import CorpusFile, Store, StoreSettings, build_store, materializing
from graphattn.builders.store.materializing import GRAPHS, materialize
from graphattn.dgl_graphs import load_graphs, save_graphs
from graphattn.exceptions import GraphError


def test_graphs_are_those_of_the_sentences(stored, trees, monkeypatch):
    monkeypatch.setattr(materializing, "MOST_GRAPHS", 7)
    sentences = trees(20)
    store = stored(sentences)
    builder = store.builder()
    for _ in range(2):
        files = materialize(store, builder)
    assert [path.name for path in files] == ["graphs-00000.dgl", "graphs-00001.dgl", "graphs-00002.dgl"]
    graphs = [graph for path in files for graph in load_graphs(str(path))]
    for graph, sentence in zip(graphs, sentences, strict=True):
        own = builder.build(sentence)
        assert {e: graph.num_edges(e) for e in graph.etypes} == {e: own.num_edges(e) for e in own.etypes}
        assert graph.nodes["token"].data["id"].tolist() == own.nodes["token"].data["id"].tolist()


def test_many_edges_close_a_file(stored, monkeypatch):
    monkeypatch.setattr(materializing, "MOST_EDGES", 20)
    builder = TextGraphBuilder([Complete()])
    store = stored([Sentence(["a", "b", "c"])] * 4, relations=builder)
    assert [len(load_graphs(str(path))) for path in materialize(store, store.builder())] == [2, 2], "16 edges each"


def test_a_full_disk_leaves_nothing(stored, trees, monkeypatch):
    def full(_graphs, path):
        raise GraphError(f"{path} cannot be written")

    monkeypatch.setattr(materializing, "save_graphs", full)
    store = stored(trees(2))
    before = sorted(store.folder.iterdir())
    with pytest.raises(OSError, match="DGL could not write"):
        materialize(store, store.builder())
    assert sorted(store.folder.iterdir()) == before


def test_files_that_are_no_graphs_are_refused(builder, tmp_path):
    path = tmp_path / "graphs.dgl"
    with pytest.raises(GraphError) as error:
        load_graphs(str(path))
    assert str(error.value) == f"{path} cannot be read as graphs. Give a file that save_graphs or build wrote"
    graph = TextGraphBuilder([Complete()]).build(["a", "b"])
    save_graphs([graph], str(path))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(GraphError):
        load_graphs(str(path))


def test_a_folder_cannot_be_written_as_a_file(tmp_path):
    graph = TextGraphBuilder([Complete()]).build(["a", "b"])
    with pytest.raises(GraphError) as error:
        save_graphs([graph], str(tmp_path))
    assert str(error.value) == f"{tmp_path} cannot be written. Check the folder and the space on the disk"


def test_graphs_go_when_the_store_changes(stored, write, trees, builder):
    store = stored(trees(20))
    materialize(store, store.builder())
    settings = StoreSettings(builder, block_bytes=2000)
    first, second = CorpusFile(store.folder.parent / "store.jsonl"), CorpusFile(write("b.jsonl", trees(5, seed=1)))
    build_store([first], store.folder, settings)
    assert (store.folder / GRAPHS).exists(), "nothing was made anew"
    build_store([second], store.folder, settings, append=True)
    assert not (store.folder / GRAPHS).exists()
    more = Store(store.folder)
    assert len(materialize(more, more.builder())) == 1
