from __future__ import annotations

from itertools import combinations

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphattn.experiments.drawing import canvas as sheet
from graphattn.experiments.drawing.canvas import LONGEST_TEXT, Relation, Sheet, own_settings, printable


def relation_of(count: int, edges: list[tuple[int, int]], **options) -> Relation:
    return Relation("r", "#000000", ["x"] * count, [float(place) for place in range(count)], edges, **options)


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
    assert relation_of(8, REGULAR[name]).is_regular


@pytest.mark.parametrize("name", IRREGULAR)
def test_irregular_relations_become_arcs(name):
    assert not relation_of(8, IRREGULAR[name]).is_regular


def test_labels_ask_for_arcs_unless_there_are_too_many():
    assert not relation_of(8, window(8, 1), labels=["x"] * 22).is_regular
    assert relation_of(8, window(8, 8), labels=["x"] * 64).is_regular


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("$x_1^2$", "$x_1^2$"),
        ("a\nb\tc\x00", r"a\nb\tc\x00"),
        ("\ud800", r"\ud800"),
        ("", "''"),
        (" ", "␣"),
        ("\u200b", r"\u200b"),
        ("x" * 24, "x" * 24),
        ("a" * 20 + "b" * 20, "a" * 16 + "…" + "b" * 7),
    ],
)
def test_every_text_gets_a_shape(text, shown):
    assert printable(text) == shown


@given(st.text())
def test_a_visible_text_is_one_short_line(text):
    shown = printable(text)
    assert shown.strip()
    assert shown.isprintable()
    assert len(shown) <= LONGEST_TEXT


edges = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25, unique=True)


@given(edges, st.booleans())
def test_arcs_never_lie_on_each_other(pairs, weighted):
    arcs = sheet._arcs(relation_of(10, pairs, strengths=[1.0] * len(pairs) if weighted else None))
    drawn = [edge for arc in arcs for edge in ([arc.edge, arc.edge[::-1]] if arc.both_ways else [arc.edge])]
    assert sorted(drawn) == sorted(edge for edge in pairs if edge[0] != edge[1])
    for one, other in combinations(arcs, 2):
        if max(min(one.edge), min(other.edge)) < min(max(one.edge), max(other.edge)):
            assert one.level != other.level
    feet = [foot for arc in arcs for foot in arc.feet]
    assert len(set(feet)) == len(feet)
    assert all(abs(foot - end) <= 0.15 for arc in arcs for foot, end in zip(arc.feet, arc.edge, strict=True))


def test_an_arc_lies_above_what_it_spans():
    arcs = sheet._arcs(relation_of(5, [(0, 4), (1, 3), (2, 3)]))
    assert {arc.edge: arc.level for arc in arcs} == {(2, 3): 1, (1, 3): 2, (0, 4): 3}


def test_arcs_that_meet_do_not_cross():
    """At node 2 the short arcs stand outside, the long ones in the middle."""
    arcs = {arc.edge: arc for arc in sheet._arcs(relation_of(5, [(0, 2), (1, 2), (2, 3), (2, 4)]))}
    feet = [arcs[1, 2].feet[1], arcs[0, 2].feet[1], arcs[2, 4].feet[0], arcs[2, 3].feet[0]]
    assert feet == sorted(feet)


def test_two_ways_are_one_arc_unless_weights_or_labels_differ():
    pair = [(0, 1), (1, 0)]
    assert [arc.both_ways for arc in sheet._arcs(relation_of(2, pair))] == [True]
    assert [arc.both_ways for arc in sheet._arcs(relation_of(2, pair, strengths=[1.0, 0.5]))] == [False, False]
    labelled = sheet._arcs(relation_of(2, pair, labels=["to", "fro"]))
    assert [(arc.edge, arc.label) for arc in labelled] == [((0, 1), "to"), ((1, 0), "fro")]


def test_a_weighted_pair_shows_a_common_label_once():
    arcs = sheet._arcs(relation_of(2, [(0, 1), (1, 0)], strengths=[1.0, 0.5], labels=["nsubj", "nsubj"]))
    assert sorted((arc.level, arc.label) for arc in arcs) == [(1, ""), (2, "nsubj")]


def test_tokens_of_a_word_stand_closer():
    centres = Sheet().centres_of(["un", "do", "it"], [0, 0, 1])
    assert 0 < centres[1] - centres[0] < centres[2] - centres[1]
    assert Sheet().centres_of([], []) == []


def test_wide_tokens_do_not_touch():
    texts = ["W" * 20, "i", "W" * 20]
    page = Sheet()
    centres = page.centres_of(texts, [0, 1, 2])
    half = [page._width(text, 11) / 2 for text in texts]
    assert centres[0] + half[0] < centres[1] - half[1]
    assert centres[1] + half[1] < centres[2] - half[2]


def test_settings_are_put_back():
    with matplotlib.rc_context({"text.usetex": True, "savefig.bbox": "tight"}):
        before = dict(matplotlib.rcParams)
        with own_settings():
            assert matplotlib.rcParams["text.usetex"] is False
            assert matplotlib.rcParams["savefig.bbox"] is None
        assert dict(matplotlib.rcParams) == before
