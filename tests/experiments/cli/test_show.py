"""``graphattn show``: one text of a corpus or a store, as pictures and files."""

import json
from collections import Counter

import networkx as nx
import pytest
from typer.testing import CliRunner

from graphattn.builders import Star, TextGraphBuilder, Vocabulary, Window
from graphattn.builders.store import CorpusFile, StoreSettings, build_store
from graphattn.experiments._cli.main import app


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Run the command in an empty folder; return its exit code, output and error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.tsv").write_text("good\ta lovely film . we laughed !\nbad\tdull\n")

    def run(*words):
        answer = CliRunner().invoke(app, ["show", *map(str, words)])
        return answer.exit_code, answer.stdout, answer.stderr

    return run


def test_without_a_format_it_prints_tokens_and_edges(show):
    code, out, err = show("reviews.tsv", "--relations", "window:3, star,dilated:3:2|global", "--no-cls")
    assert (code, err) == (0, "")
    assert out == "a lovely film . we laughed !\nwindow:3: 19 edges\nstar: 36 edges\ndilated:3:2|global:1: 27 edges\n"


def test_every_format_is_written_and_named(show, tmp_path):
    code, out, _ = show("reviews.tsv", "--index", 1, "--png", "--svg", "--dot", "--graphml", "--relations", "star")
    names = [f"text-1.{kind}" for kind in ("png", "svg", "dot", "graphml")]
    assert (code, out.split()) == (0, names)
    assert {path.name for path in tmp_path.iterdir()} == {"reviews.tsv", *names}
    assert (tmp_path / "text-1.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "text-1.svg").read_text()
    assert '"relay_0" -> "token_1"' in (tmp_path / "text-1.dot").read_text()
    read = nx.read_graphml(tmp_path / "text-1.graphml")
    assert [data["text"] for _, data in read.nodes(data=True) if data["type"] == "token"] == ["[CLS]", "dull"]
    expected = TextGraphBuilder([Star()]).text_batch([["dull"]])
    kind_of = nx.get_node_attributes(read, "type")
    counts = Counter((kind_of[source], name, kind_of[target]) for source, target, name in read.edges(data="relation"))
    assert counts == {relation: edges.num_edges for relation, edges in expected.edges.items()}


def test_a_text_of_a_store(show, tmp_path):
    build_store(
        [CorpusFile(tmp_path / "reviews.tsv")], tmp_path / "store", StoreSettings(TextGraphBuilder([Window(3)]))
    )
    assert show("store", "--index", 1) == (0, "dull\nwindow:3: 4 edges\n", "")
    assert show("store", "--index", 1, "--no-cls") == (0, "dull\nwindow:3: 1 edge\n", "")
    code, _, err = show("store", "--format", "csv")
    assert (code, err) == (1, "error: store is a store, whose texts are read already; leave --format out\n")
    assert show("store", "--relations", "star") == show("reviews.tsv", "--relations", "star")
    code, _, err = show("store", "--index", 2)
    assert (code, err) == (1, "error: store: holds 2 texts; there is none with index 2. They count from 0.\n")


def test_links_and_sentences_of_the_corpus(show, tmp_path):
    row = {"tokens": ["Ada", "left", "She", "errs"], "links": [[0, 2], [2, 0]], "sentence_ids": [0, 0, 1, 1]}
    (tmp_path / "linked.jsonl").write_text(json.dumps(row) + "\n")
    code, out, err = show("linked.jsonl", "--relations", "links,sentence", "--no-cls")
    assert (code, err) == (0, "")
    assert out == "Ada left She errs\nlinks: 2 edges\nsentence: 20 edges\n"
    row["links"] = [[0, 4]]
    (tmp_path / "linked.jsonl").write_text(json.dumps(row) + "\n")
    code, _, err = show("linked.jsonl", "--relations", "links")
    assert code == 1
    assert err.startswith("error: linked.jsonl, line 1, field 'links': the link [0, 4] does not join two words; ")


def test_tokens_of_the_corpus_without_a_tokenizer(show, tmp_path):
    row = {"tokens": ["un", "known", "word"], "word_ids": [0, 0, 1]}
    (tmp_path / "pieces.jsonl").write_text(json.dumps(row) + "\n")
    assert show("pieces.jsonl", "--relations", "group", "--no-cls")[1] == "un known word\ngroup: 5 edges\n"
    Vocabulary.train(["unknown word"]).save(tmp_path / "tokenizer.json")
    result = show("pieces.jsonl", "--relations", "group", "--no-cls", "--tokenizer", "tokenizer.json")
    assert result[1] == "unknown word\ngroup: 2 edges\n"


def test_an_index_counts_each_text_of_a_pair(show, tmp_path):
    (tmp_path / "pairs.csv").write_text("text,other,label\na b,c,1\nd,e f g,0\n")
    texts = [show("pairs.csv", "--second-column", "other", "--index", index)[1] for index in range(4)]
    assert [text.split("\n")[0] for text in texts] == ["a b", "c", "d", "e f g"]


def test_nearest_words_by_given_vectors(show, tmp_path):
    (tmp_path / "vectors.txt").write_text("a 1 0\nlovely 0 1\nfilm 0.1 1\n. 1 0.1\nwe 1 1\nlaughed 0 2\n! 1 0\n")
    code, out, _ = show("reviews.tsv", "--relations", "nearest:2", "--vectors", "vectors.txt", "--no-cls")
    assert (code, out.splitlines()[1]) == (0, "nearest:2: 14 edges")


def test_a_parser_is_advised_as_the_flag_of_another_command(show):
    """`graphattn show` has none."""
    _, _, err = show("reviews.tsv", "--relations", "dependency")
    assert "a store that graphattn build --parser stanza wrote" in err
    assert err.count("--parser") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--index", 2), "reviews.tsv: holds 2 texts; there is none with index 2. They count from 0."),
        (("--relations", "nearest:2"), "relation 'nearest:2' compares words by their vectors; give --vectors"),
        (("--relations", "window:3,window:4"), "relation 'window:4': scale 4 is even; a window has the same reach on "),
        (("--relations", "dependency"), "sentence 0 ('a lovely film . we' ...) has no heads, but the relation "),
        (
            ("--out", "reviews.tsv/x", "--dot"),
            "reviews.tsv/x.dot: cannot be written (No such file or directory). ",
        ),
    ],
)
def test_invalid_arguments(show, words, message):
    code, _, err = show("reviews.tsv", *words)
    assert code == 1
    assert err.startswith(f"error: {message}") or f"error: field 'heads': {message}" in err


def test_a_text_too_long_for_a_picture(show, tmp_path):
    (tmp_path / "long.tsv").write_text("x\t" + "word " * 120 + "\n")
    code, _, err = show("long.tsv", "--png")
    assert (code, err) == (
        1,
        "error: 121 tokens do not fit into a picture; it shows up to 100; --out graph.graphml takes any number\n",
    )
    assert show("long.tsv", "--dot")[0] == 0


def test_a_text_is_shown_as_it_is(show, tmp_path):
    code, out, _ = show("a lovely film", "--picture", "film.png", "--out", "film.dot", "--relations", "star")
    assert (code, out) == (0, "film.dot\nfilm.png\n")
    assert (tmp_path / "film.png").read_bytes().startswith(b"\x89PNG")
    assert "lovely" in (tmp_path / "film.dot").read_text()
    assert show("a lovely film", "--relations", "star")[1].startswith("a lovely film\nstar: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "film.png"), "--out is 'film.png'; the name must end in .dot or .graphml, and --picture draws the"),
        (("--picture", "film.txt"), "cannot draw to 'film.txt'"),
        (("--out", "none/film.dot"), "none/film.dot: cannot be written"),
    ],
)
def test_files_are_checked_first(show, words, message):
    code, out, err = show("reviews.tsv", *words)
    assert (code, out) == (1, "")
    assert message in err


def test_from_the_shell(graphattn, corpora_folder, tmp_path):
    answer = graphattn(
        "show", corpora_folder / "trees.conllu", "--relations", "dependency", "--svg", "--out", tmp_path / "tree"
    )
    assert (answer.code, answer.out, answer.err) == (0, f"{tmp_path / 'tree.svg'}\n", "")
    assert "nsubj" in (tmp_path / "tree.svg").read_text()
