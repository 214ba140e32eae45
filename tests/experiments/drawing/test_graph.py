from __future__ import annotations

import warnings
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from graphattn.builders import (
    BinaryPartition,
    Complete,
    Dependency,
    DocumentTree,
    Membership,
    Order,
    Sentence,
    Star,
    TextGraphBuilder,
    Window,
    WordGroup,
)
from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.demo.grammar import generate
from graphattn.experiments.drawing import graph as drawing
from graphattn.experiments.drawing.canvas import Sheet
from graphattn.experiments.drawing.graph import draw_graph, draw_sentence

WORDS = ["the", "soup", "was", "not", "un", "pleasant"]
IDS = [0, 1, 2, 3, 4, 4]
EDGES = {
    "window:3": [(i, j) for j in range(6) for i in range(6) if abs(i - j) <= 1],
    "group": [*((i, i) for i in range(6)), (4, 5), (5, 4)],
    "dependency": [(0, 1), (1, 0), (1, 4), (4, 1), (2, 4), (3, 4)],
}
HOSTILE = [
    "$\\frac{a}{$",
    "_",
    "^",
    "<script>x</script>",
    "&amp;",
    "-->",
    "]]>",
    "\n",
    "\x00",
    "\ud800",
    "",
    " ",
]
HOSTILE += ["中文", "שלום", "🙂", "e\u0301\u0302", "\u202eabc", "%s{}", "\\", '"', "x" * 10_000]


def picture(path: Path) -> np.ndarray:
    return imread(path)[..., :3]


def texts_written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collects every text that is put on a page from now on."""
    written: list[str] = []
    write = Sheet._write

    def record(self, x, text, size, **options):
        written.append(text)
        write(self, x, text, size, **options)

    monkeypatch.setattr(Sheet, "_write", record)
    return written


def test_png_has_ink_in_the_colours_of_the_relations(tmp_path):
    path = draw_sentence(WORDS, EDGES, tmp_path / "graph.png", word_ids=IDS, title="A soup")
    assert path == tmp_path / "graph.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    pixels = {tuple(colour) for colour in np.unique((picture(path) * 255).astype(int).reshape(-1, 3), axis=0)}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73), (255, 255, 255)} <= pixels


def test_svg_is_well_formed_and_pdf_complete(tmp_path):
    svg = draw_sentence(WORDS, EDGES, tmp_path / "graph.svg")
    assert ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    pdf = draw_sentence(WORDS, EDGES, tmp_path / "graph.PDF").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_picture_is_the_same_file(tmp_path, suffix):
    first = draw_sentence(WORDS, EDGES, tmp_path / f"a.{suffix}").read_bytes()
    with matplotlib.rc_context({"text.usetex": True, "savefig.bbox": "tight", "font.size": 30, "lines.linewidth": 9}):
        assert draw_sentence(WORDS, EDGES, tmp_path / f"b.{suffix}").read_bytes() == first


def test_folders_are_made_and_nothing_else_is_left(tmp_path):
    path = draw_sentence(WORDS, EDGES, str(tmp_path / "new" / "folder" / "graph.png"))
    assert [file.name for file in path.parent.iterdir()] == ["graph.png"]


def test_a_failure_leaves_the_old_picture(tmp_path, monkeypatch):
    path = draw_sentence(WORDS, EDGES, tmp_path / "graph.png")
    before = path.read_bytes()

    def full_disk(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("graphattn.experiments.drawing.canvas.os.replace", full_disk)
    with pytest.raises(DataError) as caught:
        draw_sentence(["other"], {}, path)
    assert str(caught.value) == (
        f"{path}: cannot write the picture: No space left on device. Name a file in a folder that can be written to."
    )
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["graph.png"]


@pytest.mark.parametrize("name", ["graph.gif", "graph", "graph.png.txt"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ConfigError) as caught:
        draw_sentence(WORDS, EDGES, tmp_path / name)
    assert str(caught.value) == f"cannot draw to '{name}'; the name must end in .png, .svg or .pdf"
    assert not list(tmp_path.iterdir())


def test_too_many_tokens_are_refused(tmp_path):
    with pytest.raises(ConfigError) as caught:
        draw_sentence(["w"] * 101, {}, tmp_path / "graph.png")
    assert str(caught.value) == "101 tokens do not fit into a picture; draw a part of up to 100 tokens"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"edges": {"r": [(0, 6)]}},
            "field 'edges': relation 'r' has the edge (0, 6), but only 6 nodes. Both ends are 0-based positions.",
        ),
        (
            {"edges": {"r": [(-1, 0)]}},
            "field 'edges': relation 'r' has the edge (-1, 0), but only 6 nodes. Both ends are 0-based positions.",
        ),
        (
            {"edges": {"r": [(0, 5)]}, "word_relations": ["r"]},
            "field 'edges': relation 'r' has the edge (0, 5), but only 5 nodes. Both ends are 0-based positions.",
        ),
        (
            {"edges": {"r": [(0, 1)]}, "weights": {"r": []}},
            "field 'weights': 0 weights for 1 edges of 'r'. Give one for each edge.",
        ),
        (
            {"edges": {"r": [(0, 1)]}, "edge_labels": {"r": ["a", "b"]}},
            "field 'edge_labels': 2 edge_labels for 1 edges of 'r'. Give one for each edge.",
        ),
        (
            {"edges": {"r": [(0, 1)]}, "weights": {"r": [float("nan")]}},
            "field 'weights': relation 'r' has a negative or infinite weight. Give attention weights.",
        ),
        (
            {"edges": {"r": [(0, 1)]}, "weights": {"r": [-0.1]}},
            "field 'weights': relation 'r' has a negative or infinite weight. Give attention weights.",
        ),
        (
            {"edges": {}, "word_ids": [0]},
            "field 'word_ids': 1 word_ids for 6 tokens. Give one for each token.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, options, message):
    with pytest.raises(DataError) as caught:
        draw_sentence(WORDS, path=tmp_path / "graph.png", **{"word_ids": IDS, **options})
    assert str(caught.value) == message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_hostile_texts_are_drawn_as_they_are(tmp_path, monkeypatch, suffix):
    written = texts_written(monkeypatch)
    edges = {"<b>$x$</b>": [(0, 3), (3, 0), (5, 5)], "--> &": [(i, i) for i in range(len(HOSTILE))]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = draw_sentence(
            HOSTILE, edges, tmp_path / f"x.{suffix}", title="$<i>\n", edge_labels={"<b>$x$</b>": ["$_$", "<", ""]}
        )
    assert {"$\\frac{a}{$", "<script>x</script>", "\\x00", "\\ud800", "<b>$x$</b>", "$<i>\\n", "$_$"} <= set(written)
    if suffix == "svg":
        ElementTree.parse(path)
        assert "<script" not in path.read_text(encoding="utf-8")


@settings(max_examples=15, deadline=None)
@given(data=st.data(), tokens=st.lists(st.text(max_size=8), max_size=6))
def test_any_tokens_and_edges_make_a_picture(tmp_path_factory, data, tokens):
    ends = st.integers(0, max(len(tokens) - 1, 0))
    pairs = st.lists(st.tuples(ends, ends), max_size=12 if tokens else 0)
    edges = data.draw(st.dictionaries(st.text(max_size=4), pairs, max_size=3))
    path = draw_sentence(tokens, edges, tmp_path_factory.mktemp("any") / "graph.svg")
    ElementTree.parse(path)


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_pictures_grow_with_the_sentence(tmp_path, count):
    edges = {"none": [], "window:3": [(i, i) for i in range(count)]}
    height, width, _ = picture(draw_sentence(["word"] * count, edges, tmp_path / "graph.png")).shape
    assert height > 100
    assert (width > 3000) == (count == 40)


def test_an_empty_sentence_says_so(tmp_path, monkeypatch):
    written = texts_written(monkeypatch)
    draw_sentence([], {}, tmp_path / "graph.png")
    assert written == ["(no tokens)"]


def test_strong_edges_are_darker(tmp_path):
    edges = {"window:3": EDGES["window:3"]}
    darkness = []
    for weak in (1.0, 0.5, 0.0):
        weights = {"window:3": [1.0] + [weak] * (len(edges["window:3"]) - 1)}
        darkness.append(1 - picture(draw_sentence(WORDS, edges, tmp_path / "g.png", weights=weights)).mean())
    assert darkness == sorted(darkness, reverse=True)
    assert darkness[0] > darkness[2] * 1.2


def test_weights_that_are_all_zero_are_drawn(tmp_path):
    path = draw_sentence(WORDS, EDGES, tmp_path / "g.png", weights={name: [0.0] * len(e) for name, e in EDGES.items()})
    assert path.exists()


def test_the_note_explains_what_is_there(tmp_path, monkeypatch):
    written = texts_written(monkeypatch)
    draw_sentence(WORDS, {"window:3": EDGES["window:3"]}, tmp_path / "g.png")
    assert written[-1] == "Squares: the token of the row attends to the tokens of its coloured columns."
    draw_sentence(WORDS, {"group": EDGES["group"]}, tmp_path / "g.png")
    assert written[-1] == "Arcs: an arrow points to the token that attends; a ring: a token attends to itself."
    draw_sentence(WORDS, {"r": [(0, 1)]}, tmp_path / "g.png", weights={"r": [0.5]})
    assert written[-1] == "The larger an edge's weight, the darker; the largest of each relation is full."
    assert "1 edge" in written
    assert "8 edges" in written


@pytest.fixture
def handed_over(monkeypatch) -> dict:
    """What ``draw_graph`` hands to ``draw_sentence``."""
    received: dict = {}

    def record(tokens, edges, path, **options):
        received.update(tokens=tokens, edges=edges, **options)
        return Path(path)

    monkeypatch.setattr(drawing, "draw_sentence", record)
    return received


SENTENCE = Sentence(
    ("fish", "was", "un", "pleasant"), word_ids=(0, 1, 2, 2), heads=(3, 3, 0), deprels=("nsubj", "cop", "root")
)


def test_a_graph_is_read_relation_by_relation(handed_over):
    builder = TextGraphBuilder([Complete(), Window(1), WordGroup(), Dependency()])
    draw_graph(builder.build(SENTENCE), SENTENCE, "graph.png", weights={"all": [1.0]}, title="t")
    assert handed_over["tokens"] == ("[CLS]", "fish", "was", "un", "pleasant")
    assert handed_over["word_ids"] == [0, 1, 2, 3, 3]
    assert list(handed_over["edges"]) == ["window:1", "group", "dependency", "all"]
    assert handed_over["word_relations"] == ["dependency"]
    assert sorted(handed_over["edges"]["group"]) == [(0, 0), (1, 1), (2, 2), (3, 3), (3, 4), (4, 3), (4, 4)]
    named = dict(zip(handed_over["edges"]["dependency"], handed_over["edge_labels"]["dependency"], strict=True))
    loops = {(word, word): "" for word in range(4)}
    assert named == {**loops, (1, 3): "nsubj", (3, 1): "nsubj", (2, 3): "cop", (3, 2): "cop"}
    assert handed_over["weights"] == {"all": [1.0]}
    assert handed_over["title"] == "t"


def test_dependencies_between_tokens_bear_their_names_too(handed_over):
    graph = TextGraphBuilder([Dependency(on="token")], cls=False).build(SENTENCE)
    draw_graph(graph, SENTENCE, "graph.png")
    assert handed_over["tokens"] == SENTENCE.tokens
    assert handed_over["word_relations"] == []
    named = dict(zip(handed_over["edges"]["dependency"], handed_over["edge_labels"]["dependency"], strict=True))
    assert {named[0, 2], named[0, 3], named[3, 0]} == {"nsubj"}
    assert named[2, 3] == ""


def test_nodes_that_are_no_tokens_follow_them(handed_over):
    text = Sentence(("so", ".", "we", "stay"))
    draw_graph(TextGraphBuilder([Star(), BinaryPartition(), DocumentTree()], cls=False).build(text), text, "graph.png")
    assert handed_over["other_nodes"] == {
        "document": ["sentence 1", "sentence 2", "document"],
        "star": ["relay"],
        "binary:1": ["so … .", "we … stay", "so … stay"],
    }
    assert (4, 4) in handed_over["edges"]["star"]
    assert {(0, 4), (4, 0), (4, 6), (6, 5)} <= set(handed_over["edges"]["document"])
    assert {(5, 0), (3, 6)} <= set(handed_over["edges"]["binary:1"])
    assert (6, 0) not in handed_over["edges"]["binary:1"]


def test_a_relation_with_other_nodes_is_a_matrix(tmp_path, monkeypatch):
    written = texts_written(monkeypatch)
    draw_sentence(["a", "b"], {"star": [(0, 2), (2, 1)]}, tmp_path / "g.png", other_nodes={"star": ["relay"]})
    assert written.count("relay") == 2
    assert written[-1] == "Squares: the node of the row attends to the nodes of its coloured columns."


def test_edges_lead_from_source_to_destination(handed_over):
    draw_graph(TextGraphBuilder([Order("forward")], cls=False).build(SENTENCE), SENTENCE, "graph.png")
    assert all(source < destination for source, destination in handed_over["edges"]["forward"])


def test_a_sentence_without_a_parse_is_drawn(handed_over):
    plain = Sentence(("time", "flies"))
    draw_graph(TextGraphBuilder([Window(3)]).build(plain), plain, "graph.png")
    assert handed_over["edge_labels"] == {}


def test_a_graph_of_another_sentence_is_refused(tmp_path):
    graph = TextGraphBuilder([Window(3)]).build(Sentence(("time", "flies", "like", "arrows")))
    with pytest.raises(DataError) as caught:
        draw_graph(graph, Sentence(("time", "flies")), tmp_path / "graph.png")
    assert str(caught.value) == (
        "the graph has 5 tokens, the sentence 2. Draw one sentence with the graph that was built of it."
    )


def test_a_list_of_tokens_is_drawn_and_unknown_relations_are_not(tmp_path):
    graph = TextGraphBuilder([Window(3)], cls=False).build(["time", "flies"])
    draw_graph(graph, ["time", "flies"], tmp_path / "a.svg", weights={"window:3": [1, 0, 0, 1]})
    draw_graph(graph, Sentence(["time", "flies"]), tmp_path / "b.svg", weights={"window:3": [1, 0, 0, 1]})
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(DataError) as caught:
        draw_graph(graph, ["time", "flies"], tmp_path / "c.svg", weights={"window:5": [1]})
    assert str(caught.value) == "there are no edges of relation 'window:5'. There are: window:3."
    assert not (tmp_path / "c.svg").exists()


def test_weights_of_all_relations_may_be_given(tmp_path):
    """Membership is shown by brackets, not by its edges."""
    sentence = Sentence(["time", "flies"])
    graph = TextGraphBuilder([Membership(), Window(3)]).build(sentence)
    weights = {kinds[1]: [0.5] * graph.num_edges(kinds) for kinds in graph.canonical_etypes}
    assert draw_graph(graph, sentence, tmp_path / "a.svg", weights=weights).exists()


def test_sentences_of_the_grammar_are_drawn(tmp_path):
    builder = TextGraphBuilder([Window(3), Window("N/4"), WordGroup(), Dependency(), Order("forward")])
    sentences = generate(60, seed=1, subwords=True)
    for sentence in (min(sentences, key=len), max(sentences, key=len)):
        assert picture(draw_graph(builder.build(sentence), sentence, tmp_path / "graph.png")).min() < 0.2
