"""Pictures of sentences: regular relations are matrices, others arcs, and any text can be drawn."""

from __future__ import annotations

import warnings
from html import unescape
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from graphattn.exceptions import ConfigError, DataError
from graphattn.experiments.drawing._sentence_picture import DrawnRelation, arrange_arcs, draw_sentence

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


@pytest.fixture
def read_pixels(tmp_path):
    def read(tokens: list[str], edges: dict, **options) -> np.ndarray:
        draw_sentence(tokens, edges, tmp_path / "graph.png", **options)
        return imread(tmp_path / "graph.png")[..., :3]

    return read


@pytest.mark.slow
def test_png_has_ink_in_the_colours_of_the_relations(read_pixels):
    image = read_pixels(WORDS, EDGES, word_ids=IDS, title="A soup")
    pixels = {tuple(colour) for colour in np.unique((image * 255).astype(int).reshape(-1, 3), axis=0)}
    assert {(0x00, 0x72, 0xB2), (0xC0, 0x4A, 0x00), (0x00, 0x7A, 0x5A), (255, 255, 255)} <= pixels


def test_a_failure_leaves_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "graph.png"
    draw_sentence(WORDS, EDGES, path)
    before = path.read_bytes()

    def full_disk(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("graphattn.builders._atomic.os.replace", full_disk)
    with pytest.raises(DataError) as caught:
        draw_sentence(["other"], {}, path)
    assert str(caught.value) == (
        f"{path}: cannot write the picture: No space left on device. Name a file in a folder that can be written to."
    )
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["graph.png"]


def test_too_many_tokens_are_errors():
    with pytest.raises(ConfigError) as caught:
        draw_sentence(["w"] * 101, {})
    assert str(caught.value) == "101 tokens do not fit into a picture; it shows up to 100"


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"r": []}, "field 'weights': 0 weights for 1 edges of 'r'. Give one for each edge."),
        (
            {"r": [float("nan")]},
            "field 'weights': relation 'r' has a negative or infinite weight. Give attention weights.",
        ),
        ({"r": [-0.1]}, "field 'weights': relation 'r' has a negative or infinite weight. Give attention weights."),
        ({"s": [1.0]}, "there are no edges of relation 's'. There are: r."),
    ],
)
def test_impossible_weights_are_errors(weights, message):
    with pytest.raises(DataError) as caught:
        draw_sentence(WORDS, {"r": [(0, 1)]}, weights=weights)
    assert str(caught.value) == message


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_markup_and_control_characters_are_drawn_literally(tmp_path, read_texts, suffix):
    edges = {"<b>$x$</b>": [(0, 3), (3, 0), (5, 5)], "--> &": [(i, i) for i in range(len(HOSTILE))]}
    path = tmp_path / f"x.{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no installed font has characters of")
        figure = draw_sentence(HOSTILE, edges, path, title="$<i>\n", edge_labels={"<b>$x$</b>": ["$_$", "<", ""]})
    if suffix == "svg":
        ElementTree.parse(path)
        assert "<script" not in path.read_text(encoding="utf-8").replace("<!-- <script", "")
        shown = {"$\\frac{a}{$", "<script>x</script>", "\\x00", "\\ud800", "<b>$x$</b>", "$<i>\\n", "$_$"}
        assert shown <= set(map(unescape, read_texts(figure)))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(data=st.data(), tokens=st.lists(st.text(max_size=8), max_size=6))
def test_any_tokens_and_edges_can_be_drawn(to_svg, data, tokens):
    ends = st.integers(0, max(len(tokens) - 1, 0))
    pairs = st.lists(st.tuples(ends, ends), max_size=12 if tokens else 0)
    edges = data.draw(st.dictionaries(st.text(max_size=4), pairs, max_size=3))
    ElementTree.fromstring(to_svg(draw_sentence(tokens, edges)))


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_pictures_grow_with_the_sentence(read_pixels, count):
    edges = {"none": [], "window:3": [(i, i) for i in range(count)]}
    height, width, _ = read_pixels(["word"] * count, edges).shape
    assert height > 100
    assert (width > 3000) == (count == 40)


def test_an_empty_sentence(read_texts):
    assert read_texts(draw_sentence([], {})) == ["(no tokens)"]


def test_strong_edges_are_darker(read_pixels):
    edges = {"window:3": EDGES["window:3"]}
    darkness = []
    for weak in (1.0, 0.5, 0.0):
        weights = {"window:3": [1.0] + [weak] * (len(edges["window:3"]) - 1)}
        darkness.append(1 - read_pixels(WORDS, edges, weights=weights).mean())
    assert darkness == sorted(darkness, reverse=True)
    assert darkness[0] > darkness[2] * 1.2


def test_weights_of_zero(read_pixels):
    assert read_pixels(WORDS, EDGES, weights={name: [0.0] * len(edges) for name, edges in EDGES.items()}).min() < 0.2


def test_the_note_explains_the_parts(read_texts):
    def draw(edges, **options):
        return read_texts(draw_sentence(WORDS, edges, **options))

    squares = "Squares: the token of the row attends to the tokens of its coloured columns."
    assert draw({"window:3": EDGES["window:3"]})[-1] == squares
    arcs = draw({"group": EDGES["group"]})
    assert arcs[-1] == "Arcs: an arrow points to the token that attends; a ring: a token attends to itself."
    assert "8 edges" in arcs
    weighted = draw({"r": [(0, 1)]}, weights={"r": [0.5]})
    assert weighted[-1] == "The larger an edge's weight, the darker; the largest of each relation is full."
    assert "1 edge" in weighted


def test_a_relation_with_other_nodes_is_a_matrix(read_texts):
    edges, others = {"star": [(0, 2), (2, 1)]}, {"star": ["relay"]}
    texts = read_texts(draw_sentence(["a", "b"], edges, other_nodes=others))
    assert texts.count("relay") == 2
    assert texts[-1] == "Squares: the node of the row attends to the nodes of its coloured columns."


def make_relation(count: int, edges: list[tuple[int, int]], **options) -> DrawnRelation:
    return DrawnRelation("r", "#000000", ["x"] * count, [float(centre) for centre in range(count)], edges, **options)


def window(count: int, radius: int) -> list[tuple[int, int]]:
    return [(i, j) for j in range(count) for i in range(count) if abs(i - j) <= radius]


REGULAR = {
    "window of one": window(8, 0),
    "window of three": window(8, 1),
    "order": [(i, j) for j in range(8) for i in range(j)],
    "complete": window(8, 8),
}
IRREGULAR = {
    "tree": [(0, 2), (1, 2), (2, 5), (3, 5), (4, 5), (5, 6), (6, 7)],
    "one split word": [*window(8, 0), (3, 4), (4, 3)],
    "nothing": [],
}


@pytest.mark.parametrize("name", REGULAR)
def test_regular_relations_become_matrices(name):
    assert make_relation(8, REGULAR[name]).is_regular


@pytest.mark.parametrize("name", IRREGULAR)
def test_irregular_relations_become_arcs(name):
    assert not make_relation(8, IRREGULAR[name]).is_regular


def test_labelled_relations_become_arcs_unless_there_are_too_many():
    assert not make_relation(8, window(8, 1), labels=["x"] * 22).is_regular
    assert make_relation(8, window(8, 8), labels=["x"] * 64).is_regular


EDGE_LISTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25, unique=True)


@given(EDGE_LISTS, st.booleans())
def test_arcs_never_overlap(pairs, weighted):
    arcs = arrange_arcs(make_relation(10, pairs, strengths=[1.0] * len(pairs) if weighted else None))
    drawn = [edge for arc in arcs for edge in ([arc.edge, arc.edge[::-1]] if arc.both_ways else [arc.edge])]
    assert sorted(drawn) == sorted(edge for edge in pairs if edge[0] != edge[1])
    for arc, other in combinations(arcs, 2):
        if max(min(arc.edge), min(other.edge)) < min(max(arc.edge), max(other.edge)):
            assert arc.level != other.level
    feet = [foot for arc in arcs for foot in arc.feet]
    assert len(set(feet)) == len(feet)
    assert all(abs(foot - end) <= 0.15 for arc in arcs for foot, end in zip(arc.feet, arc.edge, strict=True))


def test_an_arc_is_above_those_it_spans():
    arcs = arrange_arcs(make_relation(5, [(0, 4), (1, 3), (2, 3)]))
    assert {arc.edge: arc.level for arc in arcs} == {(2, 3): 1, (1, 3): 2, (0, 4): 3}


def test_arcs_that_meet_do_not_cross():
    """At node 2 the short arcs are outside, the long ones in the middle."""
    arcs = {arc.edge: arc for arc in arrange_arcs(make_relation(5, [(0, 2), (1, 2), (2, 3), (2, 4)]))}
    feet = [arcs[1, 2].feet[1], arcs[0, 2].feet[1], arcs[2, 4].feet[0], arcs[2, 3].feet[0]]
    assert feet == sorted(feet)


def test_a_sentence_from_right_to_left(read_places):
    words, edges = (
        ["הכלב", "רץ", "א", "בג"],
        {"dependency": [(0, 1), (1, 2), (0, 3)], "window:1": [(0, 0), (1, 1), (2, 2)]},
    )
    figure = draw_sentence(words, edges, word_ids=[0, 1, 2, 2], title="x")
    places = {}
    for content, x, y in read_places(figure):
        places.setdefault(content, (x, y))
    assert [places[word][0] for word in words] == sorted((places[word][0] for word in words), reverse=True)
    backwards = DrawnRelation("dependency", "black", words, [4.0, 3.0, 2.0, 1.0], edges["dependency"])
    first, second = sorted(arrange_arcs(backwards), key=lambda arc: arc.edge[1])[:2]
    assert first.feet[1] > second.feet[0], "arcs that meet at a word do not cross"


def test_both_directions_are_one_arc_unless_weights_or_labels_differ():
    pair = [(0, 1), (1, 0)]
    assert [arc.both_ways for arc in arrange_arcs(make_relation(2, pair))] == [True]
    assert [arc.both_ways for arc in arrange_arcs(make_relation(2, pair, strengths=[1.0, 0.5]))] == [False, False]
    labelled = arrange_arcs(make_relation(2, pair, labels=["to", "fro"]))
    assert [(arc.edge, arc.label) for arc in labelled] == [((0, 1), "to"), ((1, 0), "fro")]


def test_a_weighted_pair_shows_a_common_label_once():
    arcs = arrange_arcs(make_relation(2, [(0, 1), (1, 0)], strengths=[1.0, 0.5], labels=["nsubj", "nsubj"]))
    assert sorted((arc.level, arc.label) for arc in arcs) == [(1, ""), (2, "nsubj")]
