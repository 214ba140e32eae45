"""``graphattn build``: shards that DGL reads, the sentences beside them, counts that agree."""

import json

import pytest
import torch

from graphattn.builders import Dependency, Sentence, TextGraphBuilder, Vocabulary, Window, WordGroup
from graphattn.graphs import load_graphs


def read(folder):
    """All graphs of a folder, its sentences and its counts."""
    counts = json.loads((folder / "corpus.json").read_text())
    graphs = [graph for name in counts["shards"] for graph in load_graphs(str(folder / name))]
    lines = (folder / "sentences.jsonl").read_text().splitlines()
    return graphs, [Sentence(**json.loads(line)) for line in lines], counts


def test_graphs_are_those_of_the_builder(graphattn, corpora_folder, tmp_path):
    relations = "window:3, window:N/4, group, dependency"
    out = tmp_path / "graphs"
    answer = graphattn("build", corpora_folder / "trees.conllu", "--relations", relations, "--shard", "4", "--out", out)
    assert (answer.code, answer.err) == (0, "")
    graphs, sentences, counts = read(out)
    assert counts["shards"] == {"graphs-00000.dgl": 4, "graphs-00001.dgl": 4, "graphs-00002.dgl": 2}
    vocabulary = Vocabulary.load(out / "tokenizer.json")
    builder = TextGraphBuilder([Window(3), Window("N/4"), WordGroup(), Dependency()], vocabulary=vocabulary)
    for graph, sentence in zip(graphs, sentences, strict=True):
        own = builder.build(sentence)
        assert sorted(graph.canonical_etypes) == sorted(own.canonical_etypes)
        for relation in own.canonical_etypes:
            for ends, own_ends in zip(graph.edges(etype=relation), own.edges(etype=relation), strict=True):
                assert torch.equal(ends, own_ends)
        for name, values in own.nodes["token"].data.items():
            assert torch.equal(graph.nodes["token"].data[name], values)


def test_counts_are_those_of_the_graphs(graphattn, corpora_folder, tmp_path):
    graphattn("build", corpora_folder / "trees.conllu", "--relations", "window:3,dependency", "--out", tmp_path / "g")
    graphs, sentences, counts = read(tmp_path / "g")
    assert (counts["sentences"], counts["words"], counts["tokens"]) == (10, 20, 20)
    assert counts["tags"] == {"NOUN": 10, "VERB": 10}
    assert counts["edges"] == {
        relation: sum(graph.num_edges(relation) for graph in graphs) for relation in ("window:3", "dependency", "in")
    }
    assert sentences[0] == Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"], tags=["NOUN", "VERB"])


def test_labels_and_empty_texts_are_kept(graphattn, corpora_folder, tmp_path):
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "g")
    graphs, sentences, counts = read(tmp_path / "g")
    assert counts["labels"] == {"neg": 20, "pos": 20}
    assert sentences[4] == Sentence([], label="neg")
    assert graphs[4].num_nodes() == 1, "[CLS] alone"
    assert answer.out.startswith(f"40 graphs, {counts['tokens']} tokens in 1 file: {tmp_path / 'g'}\nwindow:1: ")


def test_sub_words_and_no_cls(graphattn, corpora_folder, tmp_path):
    flags = "--level bpe --vocabulary-size 30 --no-cls --relations group".split()
    graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "g", *flags)
    graphs, sentences, counts = read(tmp_path / "g")
    assert counts["tokens"] > counts["words"]
    assert counts["cls"] is False
    assert graphs[0].num_nodes() == len(sentences[0])


def test_both_texts_of_a_pair_have_a_graph(graphattn, corpora_folder, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("text,other,label\na b,c,yes\n")
    graphattn("build", path, "--second-column", "other", "--out", tmp_path / "g")
    _, sentences, _ = read(tmp_path / "g")
    assert [(sentence.tokens, sentence.label) for sentence in sentences] == [(("a", "b"), "yes"), (("c",), "yes")]


def test_a_given_tokenizer_is_used(graphattn, corpora_folder, tmp_path):
    Vocabulary.train(["a film"]).save(tmp_path / "tokenizer.json")
    flags = ["--tokenizer", tmp_path / "tokenizer.json"]
    graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "g", *flags)
    assert (tmp_path / "g" / "tokenizer.json").read_text() == (tmp_path / "tokenizer.json").read_text()


@pytest.mark.parametrize(
    ("corpus", "flags", "message"),
    [
        (
            "tags.conll",
            ["--relations", "dependency"],
            "sentence 1 has no heads, which the relation 'dependency' needs. Give a parsed corpus (CoNLL-U), "
            "or leave dependency out of --relations.",
        ),
        (
            "tags.conll",
            ["--relations", "windows:3"],
            "there is no relation 'windows:3'; choose from: window:SCALE, radius:SCALE, group, dependency, "
            "dependency:token, in, forward, backward, all",
        ),
        (
            "tags.conll",
            ["--relations", "window:3,window:3"],
            "relation 'window:3' is given twice; each needs a name of its own",
        ),
        ("-", [], "standard input can be read only once; name a file, or give --tokenizer"),
    ],
)
def test_what_cannot_be_built_is_refused(graphattn, corpora_folder, tmp_path, corpus, flags, message):
    path = corpus if corpus == "-" else corpora_folder / corpus
    answer = graphattn("build", path, "--out", tmp_path / "g", *flags)
    assert (answer.code, answer.err) == (1, f"error: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_stays_as_it_is(graphattn, corpora_folder, tmp_path):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "notes.txt").write_text("mine")
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "g")
    assert (answer.code, answer.err) == (
        1,
        f"error: {tmp_path / 'g'}: is there already. Choose another --out, or remove it.\n",
    )
    assert [path.name for path in (tmp_path / "g").iterdir()] == ["notes.txt"]


def test_a_disk_that_is_full_leaves_nothing(graphattn, corpora_folder, tmp_path, monkeypatch):
    from graphattn.exceptions import GraphError
    from graphattn.experiments import graph_corpus

    def full(_graphs, path):
        raise GraphError(f"{path} cannot be written")

    monkeypatch.setattr(graph_corpus, "save_graphs", full)
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "g")
    assert (answer.code, answer.err) == (
        1,
        f"error: {tmp_path / 'g'}: cannot be written (DGL could not write graphs-00000.dgl). "
        "Check the folder and the space on the disk.\n",
    )
    assert list(tmp_path.iterdir()) == []
