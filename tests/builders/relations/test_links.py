"""Edges that the user provides."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphattn.builders import Links, Sentence, TextGraphBuilder, Window
from graphattn.builders._layout import warn_of_missing_links
from graphattn.exceptions import GraphAttnWarning


@st.composite
def linked_texts(draw):
    sizes = draw(st.lists(st.integers(1, 3), max_size=5))
    word_ids = [word for word, size in enumerate(sizes) for _ in range(size)]
    words = st.integers(0, max(len(sizes) - 1, 0))
    links = draw(st.lists(st.tuples(words, words), max_size=6)) if sizes else []
    return Sentence(["x"] * len(word_ids), word_ids=word_ids, links=links)


@pytest.mark.parametrize("on", ["word", "token"])
@settings(max_examples=30)
@given(texts=st.lists(linked_texts(), max_size=4), cls=st.booleans())
def test_links_equal_the_pairs(pairs, on, texts, cls):
    relation = Links(on)
    builder = TextGraphBuilder([relation, Window(1)], cls=cls)
    for text in texts:
        expected = {(target + cls, source + cls) for source, target in text.links}
        if on == "token":
            words = list(enumerate([0] * cls + [word + cls for word in text.word_ids]))
            expected = {(i, j) for i, word in words for j, other in words if (word, other) in expected}
        assert pairs(builder.text_batch([text]), relation.canonical) == sorted(expected)


def test_selected_texts_keep_their_links(pairs):
    texts = [Sentence(["x"] * n, links=[(n - 1, 0), (0, n - 1)]) for n in (4, 2, 3)]
    builder = TextGraphBuilder([Links()])
    graph = builder.text_batch(builder.layout(texts).take([2, 0]))
    assert pairs(graph, ("token", "links", "token")) == [(1, 3), (3, 1), (5, 8), (8, 5)]


def test_texts_may_lack_links(pairs, recwarn):
    warn_of_missing_links.cache_clear()
    builder = TextGraphBuilder([Links() | Window(1)], cls=False)
    graph = builder.text_batch([Sentence(["a", "b"], links=[(0, 1)]), Sentence(["so", "it"]), Sentence([])])
    assert set(pairs(graph, ("token", "links|window:1", "token"))) == {(0, 0), (1, 0), (1, 1), (2, 2), (3, 3)}
    without = Sentence(["so", "it"])
    layouts = builder.layout([without]), builder.layout([replace(without, links=[])])
    assert [layout.links.counts.tolist() for layout in layouts] == [[0], [0]]
    builder.text_batch([["more"]])
    (warning,) = recwarn.list
    assert warning.category is GraphAttnWarning
    assert warning.filename == __file__
    assert str(warning.message) == (
        "none of these texts has links, so the relation 'links' has no edges. Read a corpus with a field of links, or "
        "give Sentence(links=...); [] says that a text has none"
    )


def test_the_warning_points_at_the_line_that_makes_the_batch(recwarn):
    warn_of_missing_links.cache_clear()
    TextGraphBuilder([Links()]).text_batch([["more"]])
    assert [warning.filename for warning in recwarn.list] == [__file__]


@pytest.mark.parametrize(
    "texts", [[], [Sentence([])], [Sentence(["a"], links=[]), Sentence(["b"])], [Sentence(["a"], links=[])]]
)
def test_texts_where_some_or_none_need_links_give_no_warning(texts, recwarn):
    warn_of_missing_links.cache_clear()
    TextGraphBuilder([Links()]).text_batch(texts)
    assert not recwarn.list
