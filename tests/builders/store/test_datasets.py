"""Batches from a store equal those of its sentences, and an epoch has every sentence once."""

from dataclasses import replace
from itertools import islice, pairwise
from unicodedata import normalize

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from graphattn._dgl_graphs import save_graphs
from graphattn.builders import (
    Complete,
    Dependency,
    Order,
    Sentence,
    TextGraphBuilder,
    Vocabulary,
    Window,
    WordGroup,
)
from graphattn.builders.readers import read_conllu
from graphattn.builders.relations import Links, SentenceNodes
from graphattn.builders.store import (
    CorpusFile,
    GraphStream,
    Store,
    StoreSettings,
    build_store,
)
from graphattn.builders.store import (
    _datasets as datasets,
)
from graphattn.builders.store._datasets import materialize
from graphattn.builders.store._layouts import table_layout
from graphattn.builders.store._manifest import GRAPH_SUMS, GRAPHS
from graphattn.builders.store._tables import to_table
from graphattn.exceptions import ConfigError, DataError, GraphError


def assert_same_batch(batch, expected):
    assert list(batch.edges) == list(expected.edges)
    for relation, edges in batch.edges.items():
        for ends, expected_ends in zip(edges.ends_by_id(), expected.edges[relation].ends_by_id(), strict=True):
            assert torch.equal(ends, expected_ends)
        for name, values in expected.edge_features[relation].items():
            assert torch.equal(batch.edge_features[relation][name], values)
    assert list(batch.node_counts) == list(expected.node_counts)
    for kind, counts in batch.node_counts.items():
        assert torch.equal(counts, expected.node_counts[kind])
        for name, values in expected.node_features[kind].items():
            assert torch.equal(batch.node_features[kind][name], values), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::graphattn.exceptions.GraphAttnWarning")
@pytest.mark.parametrize("cls", [True, False])
@pytest.mark.parametrize("level", ["word", "bpe", None])
@pytest.mark.parametrize(
    ("others", "relations"),
    [
        ([Sentence([], heads=[]), Sentence(["zebra"], heads=[0])], [Window(3), WordGroup(), Dependency(), Order()]),
        ([Sentence(["un", "known"], word_ids=[0, 0], heads=[0])], [WordGroup(), Dependency()]),
        ([Sentence(["a", "b"], sentence_ids=[0, 1])], [SentenceNodes()]),
        ([Sentence(["a", "b"], heads=[0, 1])], [Dependency()]),  # without names of relations
        ([Sentence(["a", "b"]), Sentence([])], [Dependency(required=False)]),
    ],
)
def test_layouts_equal_those_of_the_sentences(trees, others, relations, level, cls):
    sentences = [*trees(20), *others, *trees(3, seed=5), *others]
    vocabulary = None if level is None else Vocabulary.train(trees(20), level=level, size=24)
    builder = TextGraphBuilder(relations, cls=cls, vocabulary=vocabulary)
    layout, expected = table_layout(to_table(sentences), builder), builder.layout(sentences)
    for name in ("lengths", "word_counts", "word_ids", "heads", "deprels", "sentence_ids"):
        assert np.array_equal(getattr(layout, name), getattr(expected, name)), name
    assert layout.features.keys() == expected.features.keys()
    for name, values in expected.features.items():
        assert np.array_equal(layout.features[name], values)
    assert_same_batch(builder.text_batch(layout), builder.text_batch(expected))


def test_stored_links():
    texts, builder = [Sentence(["a", "b"], links=[(0, 1)]), Sentence(["a"], links=[])], TextGraphBuilder([Links()])
    assert_same_batch(builder.text_batch(table_layout(to_table(texts), builder)), builder.text_batch(texts))


def test_a_stored_sentence_without_heads():
    with pytest.raises(DataError, match=r"^field 'heads': sentence 1 \('a b' \.\.\.\) has no heads, but the relation"):
        table_layout(to_table([Sentence(["a"], heads=[0]), Sentence(["a", "b"])]), TextGraphBuilder([Dependency()]))


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", "a"],
        [("a", "b"), ("c",), (), None, ("b", "c", "a")],
        ["café", "cafe\u0301", "tea"],  # names have one Unicode form
    ],
)
def test_labels_and_tags_are_indices_into_those_of_the_store(stored, builder, labels):
    tags = [["T", "U", "T"][:number] for number in range(len(labels))]
    rows = zip(labels, tags, strict=True)
    sentences = [Sentence(["w"] * len(t), heads=[0] * len(t), label=label, tags=t) for label, t in rows]
    store = stored(sentences)
    names, tag_names = list(store.manifest.labels), list(store.manifest.tags)
    seen = []
    for batch in GraphStream(store, builder, max_tokens=2, pool=2):
        chosen = batch.numbers.tolist()
        sets = [{normalize("NFC", name) for name in as_tuple(labels[n])} for n in chosen]
        single = [
            names.index(*names_of) if isinstance(labels[n], str) else -1
            for n, names_of in zip(chosen, sets, strict=True)
        ]
        assert batch.labels.tolist() == single
        assert batch.label_matrix.tolist() == [[name in names_of for name in names] for names_of in sets]
        assert [tag_names[tag] for tag in batch.tags.tolist()] == [tag for n in chosen for tag in tags[n]]
        seen += chosen
    assert sorted(seen) == list(range(len(labels)))
    assert [sentence.label for sentence in store] == labels


def as_tuple(label):
    return (label,) if isinstance(label, str) else label or ()


@pytest.mark.slow
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("processes", "workers"), [(1, 0), (3, 0), (2, 2)])
def test_a_stream_yields_each_sentence_once(stored, trees, builder, shuffle, processes, workers):
    sentences = trees(80)
    store = stored(sentences)
    seen = []
    for rank in range(processes):
        stream = GraphStream(store, builder, max_tokens=60, shuffle=shuffle, pool=2, rank=rank, processes=processes)
        for batch in DataLoader(stream, batch_size=None, num_workers=workers):
            numbers = batch.numbers.tolist()
            assert_same_batch(batch.batch, builder.text_batch([sentences[n] for n in numbers]))
            assert batch.batch.num_nodes() <= 60 or len(numbers) == 1
            seen += numbers
    assert sorted(seen) == list(range(80))


def test_small_chunks_are_shuffled_together(stored, trees, builder):
    """A pool has as many sentences as full chunks would have."""
    store = stored(trees(80))
    assert store.num_chunks > 4
    (batch,) = GraphStream(store, builder, max_sentences=100, pool=1)
    assert sorted(batch.numbers.tolist()) == list(range(80))
    ordered = list(GraphStream(store, builder, max_sentences=100, shuffle=False))
    assert [sorted(batch.numbers.tolist()) for batch in ordered] == [
        list(range(start, stop)) for start, stop in pairwise(store.chunk_starts.tolist())
    ]


def test_epochs_differ_and_repeat(stored, trees, builder):
    stream = GraphStream(stored(trees(80)), builder, max_sentences=8, max_edges=10_000, pool=2)

    def order(epoch):
        stream.set_epoch(epoch)
        return [batch.numbers.tolist() for batch in stream]

    first, second = order(0), order(1)
    assert first != second
    assert order(0) == first


def test_invalid_stream_arguments_are_rejected(stored, trees, builder):
    store = stored(trees(3))
    with pytest.raises(ConfigError) as caught:
        GraphStream(store, builder)
    assert str(caught.value) == "a batch needs a limit: give max_sentences, max_tokens or max_edges"
    with pytest.raises(ConfigError) as caught:
        GraphStream(store, builder, max_sentences=1, rank=2, processes=2)
    assert str(caught.value) == "rank is 2 of 2 processes; ranks count from 0"


def test_treebank_from_the_store_equals_treebank_from_the_file(corpora, tmp_path):
    path = corpora / "ud_english_ewt" / "en_ewt-ud-dev.conllu"
    settings = StoreSettings(TextGraphBuilder([Dependency()]), block_bytes=300_000)
    build_store([CorpusFile(path)], tmp_path / "s", settings)
    sentences, store = list(read_conllu(path)), Store(tmp_path / "s")
    assert list(store) == sentences
    builder = TextGraphBuilder([Window(3), Window("N/4"), Dependency()], vocabulary=store.vocabulary)
    assert store.vocabulary == Vocabulary.train(sentences)
    for batch in islice(GraphStream(store, builder, max_sentences=100), 5):
        assert_same_batch(batch.batch, builder.text_batch([sentences[n] for n in batch.numbers]))


@pytest.mark.slow
def test_graphs_equal_those_of_the_sentences(dgl, stored, trees, monkeypatch):
    monkeypatch.setattr(datasets, "GRAPHS_PER_FILE", 7)
    sentences = trees(20)
    store = stored(sentences)
    builder = store.builder()
    for _ in range(2):
        files = materialize(store, builder)
    assert [path.name for path in files] == ["graphs-00000.dgl", "graphs-00001.dgl", "graphs-00002.dgl"]
    graphs = [graph for path in files for graph in dgl.load_graphs(str(path))[0]]
    for graph, sentence in zip(graphs, sentences, strict=True):
        single = builder.build(sentence)
        assert {e: graph.num_edges(e) for e in graph.etypes} == {e: single.num_edges(e) for e in single.etypes}
        assert graph.nodes["token"].data["id"].tolist() == single.nodes["token"].data["id"].tolist()


def test_graph_files_have_a_limited_number_of_edges(dgl, stored, monkeypatch):
    monkeypatch.setattr(datasets, "EDGES_PER_FILE", 20)
    builder = TextGraphBuilder([Complete()])
    store = stored([Sentence(["a", "b", "c"])] * 4, relations=builder)
    assert [len(dgl.load_graphs(str(path))[0]) for path in materialize(store, store.builder())] == [2, 2], (
        "16 edges each"
    )


def test_a_full_disk_leaves_no_files(dgl, stored, trees, monkeypatch):
    def full(_graphs, path):
        raise GraphError(f"{path} cannot be written")

    monkeypatch.setattr(datasets, "save_graphs", full)
    store = stored(trees(2))
    before = sorted(store.folder.iterdir())
    with pytest.raises(DataError, match="DGL could not write"):
        materialize(store, store.builder())
    assert sorted(store.folder.iterdir()) == before


def test_a_folder_cannot_be_written_as_a_file(dgl, tmp_path):
    graph = TextGraphBuilder([Complete()]).build(["a", "b"])
    with pytest.raises(GraphError) as error:
        save_graphs([graph], str(tmp_path))
    assert str(error.value) == f"{tmp_path} cannot be written. Check the folder and the space on the disk"


def test_graphs_are_deleted_when_the_store_changes(dgl, stored, write, trees, builder):
    store = stored(trees(20))
    materialize(store, store.builder())
    settings = StoreSettings(builder, block_bytes=2000)
    first, second = CorpusFile(store.folder.parent / "store.jsonl"), CorpusFile(write("b.jsonl", trees(5, seed=1)))
    build_store([first], store.folder, settings)
    assert (store.folder / GRAPHS).exists(), "no shard was rebuilt"
    build_store([second], store.folder, settings, append=True)
    assert not (store.folder / GRAPHS).exists()
    more = Store(store.folder)
    assert len(materialize(more, more.builder())) == 1


def test_damaged_graphs_are_detected(dgl, stored, trees):
    """Also those of another store, which an interrupted copy leaves behind."""
    store = stored(trees(20))
    (graphs,) = materialize(store, store.builder())
    assert store.find_damaged() == {}
    for path in (graphs, store.folder / GRAPH_SUMS):
        whole = path.read_bytes()
        path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
        assert store.find_damaged(), path
        path.write_bytes(whole)
    replace(store.manifest, words=7).write(store.folder)
    assert store.find_damaged() == {"store.json": "store.json has another checksum than in graphs/SHA256SUMS"}
    (store.folder / GRAPH_SUMS).unlink()
    assert list(store.find_damaged()) == [f"{GRAPHS}/{graphs.name}"]
