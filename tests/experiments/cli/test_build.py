"""``graphattn build``: a store with the corpus' sentences, counts that agree, and user errors."""

import json
import re
import socket
import subprocess
import sys
from unittest.mock import patch

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from graphattn.builders import Sentence, TextGraphBuilder, Vocabulary
from graphattn.builders.relations._names import RELATION_NAMES
from graphattn.builders.store import Store
from graphattn.builders.store import _datasets as datasets
from graphattn.experiments._cli import user_modules


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_store_is_built_and_rebuilt(graphattn, corpora_folder, tmp_path):
    relations = "window:3, window:N/4, group, dependency"
    out = tmp_path / "store"
    for _ in range(2):
        answer = graphattn("build", corpora_folder / "trees.conllu", "--relations", relations, "--out", out)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == (
            f"10 sentences, 20 tokens in 1 shard: {out}\n"
            "window:3: 70 edges\nwindow:N/4: 30 edges\ngroup: 30 edges\ndependency: 50 edges\nin: 30 edges\n"
        )
    expected = Sentence(["Dogs", "bark"], heads=[2, 0], deprels=["nsubj", "root"], tags=["NOUN", "VERB"])
    assert list(Store(out)) == [expected] * 10


def test_a_store_keeps_its_rule_for_words(graphattn, tmp_path):
    corpus, out = tmp_path / "a.txt", tmp_path / "store"
    corpus.write_text("good :-)\n")
    assert graphattn("build", corpus, "--columns", "text", "--split", "words", "--out", out).code == 0
    assert graphattn("build", corpus, "--columns", "text", "--out", out).code == 0
    assert Store(out)[0].words == ("good", ":", "-", ")")
    assert graphattn("build", corpus, "--columns", "text", "--out", tmp_path / "new").code == 0
    assert Store(tmp_path / "new")[0].words == ("good", ":-)")


def test_labels_and_empty_texts_are_kept(graphattn, corpora_folder, tmp_path):
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "s")
    store = Store(tmp_path / "s")
    assert answer.out.startswith(f"40 sentences, {store.manifest.tokens} tokens in 1 shard: {tmp_path / 's'}\nwindow:1")
    assert store.manifest.labels == {"neg": 20, "pos": 20}
    assert store[4] == Sentence([], label="neg")


def test_sub_words_and_no_cls(graphattn, corpora_folder, tmp_path):
    flags = "--level bpe --vocabulary-size 30 --no-cls --relations group,dependency:token".split()
    graphattn("build", corpora_folder / "trees.conllu", "--out", tmp_path / "s", *flags)
    store = Store(tmp_path / "s")
    assert store.manifest.tokens >= store.manifest.words
    builder = store.builder()
    assert (builder.cls, [r.canonical for r in builder.relations]) == (
        False, [("token", "group", "token"), ("token", "dependency", "token")],
    )  # fmt: skip
    assert sum(builder.text_batch([s]).num_nodes() for s in store) == store.manifest.tokens


def test_both_texts_of_a_pair_are_kept(graphattn, tmp_path):
    (tmp_path / "pairs.csv").write_text("text,other,label\na b,c,yes\n")
    graphattn("build", tmp_path / "pairs.csv", "--second-column", "other", "--out", tmp_path / "s")
    assert list(Store(tmp_path / "s")) == [Sentence(["a", "b"], label="yes"), Sentence(["c"], label="yes")]
    (tmp_path / "pairs.txt").write_text("yes\ta b\tc c\nno\tc\td d\n")
    answer = graphattn("build", tmp_path / "pairs.txt", "--pairs", "--out", tmp_path / "t")
    assert (answer.code, Store(tmp_path / "t").manifest.pairs) == (0, 2)
    assert [sentence.tokens for sentence in Store(tmp_path / "t").pairs()[1]] == [("c", "c"), ("d", "d")]
    answer = graphattn("build", tmp_path / "pairs.csv", "--pairs", "--out", tmp_path / "u")
    assert answer.error == (
        f"{tmp_path / 'pairs.csv'}, line 1: there is no column 'second'; the columns are 'text', 'other', "
        "'label'. Set --second-column to one of them; if the first line is no header, set --columns."
    )


def test_lines_with_several_labels(graphattn, tmp_path):
    corpus = tmp_path / "a.txt"
    corpus.write_text("__label__x __label__y a film\n__label__x a play\n")
    out = tmp_path / "store"
    assert "line 1: 2 labels where one is expected. Use --multilabel." in graphattn("build", corpus, "--out", out).err
    assert graphattn("build", corpus, "--out", out, "--multilabel").code == 0
    assert [sentence.label for sentence in Store(out)] == [("x", "y"), ("x",)]
    (tmp_path / "b.conll").write_text("Ada\tB-PER\nsaw\tO\n")
    assert graphattn("build", tmp_path / "b.conll", "--out", tmp_path / "t", "--multilabel").code == 0


def test_a_custom_relation_reads_ids(graphattn, corpora_folder, tmp_path, monkeypatch):
    """A short version of the example in docs/extend.md."""
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(user_modules, "IMPORTED", {})  # or worker processes of other tests import it, too
    (tmp_path / "same_words.py").write_text(
        "from graphattn.builders.relations import Window, register_relation\n\n\n"
        "class Known(Window):\n"
        "    def __init__(self):\n"
        "        super().__init__(3)\n"
        "        self.name = 'known'\n\n"
        "    def num_edges(self, layout):\n"
        "        assert len(layout.features['id'])\n"
        "        return super().num_edges(layout)\n\n\n"
        "register_relation('known', Known)\n"
    )
    corpus, out = corpora_folder / "reviews.tsv", tmp_path / "store"
    build = ("build", corpus, "--relations", "known|window:5,known", "--out", out)
    with patch.dict(RELATION_NAMES):
        for command in (build, ("show", corpus, "--relations", "known")):
            answer = graphattn("--import", "same_words", *command)
            assert (answer.code, answer.err) == (0, "")


def test_an_invalid_vocabulary_is_reported_before_building(graphattn, corpora_folder, tmp_path):
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--vocabulary-size", "2", "--out", tmp_path / "s")
    assert answer.error.startswith("vocabulary size is 2;")
    assert not (tmp_path / "s").exists()


def test_a_given_tokenizer_is_used(graphattn, corpora_folder, tmp_path):
    Vocabulary.train(["a film"]).save(tmp_path / "tokenizer.json")
    flags = ["--tokenizer", tmp_path / "tokenizer.json"]
    graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "s", *flags)
    assert (tmp_path / "s" / "tokenizer.json").read_text() == (tmp_path / "tokenizer.json").read_text()
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "t", *flags, "--level", "bpe")
    assert answer.err.startswith("error: --tokenizer has its own vocabulary and rule; leave out --level, --split,")


def test_corpora_are_appended_by_several_processes(graphattn, corpora_folder, tmp_path):
    trees = corpora_folder / "trees.conllu"
    flags = ["--out", tmp_path / "s", "--shard-size", "0.001"]
    graphattn("build", trees, trees, *flags)
    answer = graphattn("build", trees, *flags, "--append", "--jobs", "2")
    assert (answer.code, answer.err) == (0, "")
    assert len(Store(tmp_path / "s")) == 30
    assert Store(tmp_path / "s").manifest.corpora == ["trees.conllu"] * 3


def test_complete_graphs_for_plain_dgl(dgl, graphattn, corpora_folder, tmp_path):
    out = tmp_path / "s"
    answer = graphattn("build", corpora_folder / "trees.conllu", "--relations", "all", "--out", out, "--materialize")
    assert answer.out.endswith(f"all: 90 edges\ngraphs: {out / 'graphs'}\n")
    graphs, _ = dgl.load_graphs(str(out / "graphs" / "graphs-00000.dgl"))
    assert [graph.num_edges("all") for graph in graphs] == [9] * 10


def test_graphs_need_dgl(graphattn, corpora_folder, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "dgl", None)
    answer = graphattn("build", corpora_folder / "trees.conllu", "--out", tmp_path / "s", "--materialize")
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(r"error: DGL graphs need the package dgl, which is not installed; .*\n", answer.err)
    assert not (tmp_path / "s").exists()


def test_invalid_sentences_are_errors_or_skipped(graphattn, corpora_folder, tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text((corpora_folder / "trees.conllu").read_text() + "1\ta\t_\t_\t_\t_\t1\tx\t_\t_\n\n")
    answer = graphattn("build", path, "--out", tmp_path / "s")
    assert (answer.code, answer.out) == (1, "")
    line = path.read_text().count("\n") - 1
    assert answer.err == (
        f"error: {path}, line {line}, field 'heads': heads form a cycle through word 1 ('a'). "
        "Each word must lead to a root. Or skip and list such lines with --skip-bad.\n"
    )
    assert not (tmp_path / "s").exists()
    answer = graphattn("build", path, "--out", tmp_path / "t", "--skip-bad", "--relations", "all")
    assert answer.out == (
        f"10 sentences, 20 tokens in 1 shard: {tmp_path / 't'} (1 left out, see {tmp_path / 't' / 'skipped.jsonl'})\n"
        "all: 90 edges\n"
    )
    assert json.loads((tmp_path / "t" / "skipped.jsonl").read_text())["place"] == f"line {line}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corpus", "flags", "message"),
    [
        (
            "tags.conll",
            ["--relations", "dependency"],
            "{corpus}, field 'heads': sentence 1 ({start!r} ...) has no heads, but the relation 'dependency' needs "
            "them. Give parsed sentences (CoNLL-U, Sentence(heads=...), a store that graphattn build --parser stanza "
            "wrote), or leave the relation out. Or parse the texts with --parser stanza.",
        ),
        ("tags.conll", ["--relations", "window:3|nearest:2"],
         "relation 'window:3|nearest:2' compares word vectors, which a store does not have; leave it out of "
         "--relations, and give it to graphattn train with --heads and --vectors"),
        ("tags.conll", ["--relations", "window:3,window:3"],
         "relation 'window:3' is given twice; each needs a name of its own"),
        ("-", [], "standard input: is empty. Give a file with at least one line."),
        ("tags.conll", ["--parser", "stanza", "--parser-model", "nowhere", "--parse-cache", "none"],
         "there is no Stanza model 'default' for 'en' in nowhere. Download it where there is a network: python -c "
         "\"import stanza; stanza.download('en', model_dir='nowhere')\""),
    ],
)  # fmt: skip
def test_invalid_builds_are_rejected(graphattn, corpora_folder, tmp_path, corpus, flags, message):
    if "stanza" in flags:
        pytest.importorskip("stanza", reason="the extra graphattn[stanza] is not installed")
    path = corpus if corpus == "-" else corpora_folder / corpus
    answer = graphattn("build", path, "--out", tmp_path / "s", *flags)
    start = (corpora_folder / "tags.conll").read_text().split("\n\n")[0]
    start = " ".join(line.split()[0] for line in start.splitlines()[:5])
    assert (answer.code, answer.err) == (1, f"error: {message.format(corpus=path, start=start)}\n")


def test_a_parser_that_is_not_installed(graphattn, corpora_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stanza", None)
    answer = graphattn("build", corpora_folder / "tags.conll", "--out", tmp_path / "s", "--parser", "stanza")
    assert (answer.code, answer.err) == (
        2, "error: the parser needs stanza, which is not installed: pip install 'graphattn[stanza]'\n",
    )  # fmt: skip


def test_an_engine_that_is_not_installed(graphattn, corpora_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = graphattn("build", corpora_folder / "tags.conll", "--out", tmp_path / "s", "--engine", "ray")
    message = "error: the engine needs ray, which is not installed: pip install 'graphattn[ray]'\n"
    assert (answer.code, answer.err) == (2, message)
    answer = graphattn("build", corpora_folder / "tags.conll", "--out", tmp_path / "s", "--address", "auto")
    assert answer.error == "--address is for --engine ray; give both, or neither"
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_a_running_cluster_builds_the_same_store(graphattn, corpora_folder, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="the extra graphattn[ray] is not installed")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # by default actors wait for all other tests of this machine
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert graphattn("build", corpora_folder / "trees.conllu", "--out", tmp_path / "local").code == 0
    settings = ["--tokenizer", tmp_path / "local" / "tokenizer.json"]
    build = ["build", corpora_folder / "trees.conllu", *settings, "--out"]
    assert graphattn(*build, tmp_path / "expected").code == 0
    flags = ["--head", "--block", "--port", str(port), "--num-cpus", "1", "--include-dashboard", "false"]
    head = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", *flags, "--disable-usage-stats"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        assert any("Ray runtime started" in line for line in head.stdout)
        answer = graphattn(*build, tmp_path / "ray", "--engine", "ray", "--address", f"127.0.0.1:{port}")
        assert answer.code == 0, answer.err
    finally:
        head.terminate()
        head.communicate(timeout=300)
    assert content(tmp_path / "expected") == content(tmp_path / "ray")


def test_an_existing_folder_does_not_change(graphattn, corpora_folder, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").write_text("mine")
    answer = graphattn("build", corpora_folder / "reviews.tsv", "--out", tmp_path / "s")
    message = f"error: {tmp_path / 's'}: exists already. Choose another --out, or remove it.\n"
    assert (answer.code, answer.err) == (1, message)
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["notes.txt"]


def test_a_full_disk_is_reported(dgl, graphattn, corpora_folder, tmp_path, monkeypatch):
    def full(_graphs, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(datasets, "save_graphs", full)
    answer = graphattn("build", corpora_folder / "trees.conllu", "--out", tmp_path / "s", "--materialize")
    assert answer.error == (
        f"{tmp_path / 's' / 'graphs'}: cannot be written (No space left on device). "
        "Check the folder and the space on the disk."
    )


def test_a_store_keeps_the_pieces_of_a_byte_level_tokenizer(graphattn, tmp_path):
    """Its words have no pieces that begin with a blank if they are cut out of the text."""
    texts = ["the quick fox isn't here, it's a dog", "a dog and  the quick fox", "don't"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(texts * 5, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "texts.tsv").write_text("".join(f"x\t{text}\n" for text in texts))
    store = tmp_path / "store"
    build = ("build", tmp_path / "texts.tsv", "--out", store, "--tokenizer", tmp_path / "tokenizer.json", "--no-cls")
    assert graphattn(*build).code == 0
    assert json.loads((store / "store.json").read_text())["format_version"] == 2
    stored = Store(store)
    layout = TextGraphBuilder([], cls=False, vocabulary=stored.vocabulary).layout(list(stored))
    expected = [token for text in texts for token in tokenizer.encode(text).tokens]
    assert [stored.vocabulary.words[index] for index in layout.features["id"]] == expected
    (from_store,) = stored.texts().layouts(TextGraphBuilder([], cls=False, vocabulary=stored.vocabulary))
    assert from_store.features["id"].tolist() == layout.features["id"].tolist()
    assert graphattn(*build).code == 0
